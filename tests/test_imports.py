"""Imports point one way, and the command line stays light."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "qwen_batch"
SHARED = {"records", "errors", "job", "terminal", "patterns"}
ROOMS = {"read", "clean", "plan", "engine", "model", "answer", "write", "operate", "bench", "kernels"}
MAY_IMPORT = {  # besides itself and SHARED
    "__main__": {"cli", "extraction"},
    "extraction": {"ingest", "reports", "views"},
    "cli": {"extraction", "pipeline", "job", "read", "clean", "plan", "write", "operate", "model", "bench"},
    "pipeline": {"feed", "calls", "finish", "unattended", "writer", *ROOMS} - {"bench", "kernels"},
    "feed": {"calls", "ingest", "read", "plan", "answer"},
    "calls": {"plan", "write"},
    "writer": set(),
    "finish": {"feed", "answer", "plan", "model"},
    "unattended": {"feed", "answer", "operate", "write"},
    "reports": set(),
    "ingest": {"read", "clean", "readers", "reports"},
    "readers": {"read", "clean"},
    "views": {"ingest", "read", "reports"},
    "engine": {"model"},
    "model": {"kernels"},
    "bench": {"engine", "model", "kernels", "readers", "read"},
    "__init__": {"engine"},
}
MAY_IMPORT_TORCH_AT_TOP = {"engine", "model", "kernels", "bench"}
SHARED_AMONG_THEMSELVES = {
    "errors": set(),
    "terminal": set(),
    "patterns": set(),
    "records": {"requests"},
    "requests": {"errors", "records"},
    "job": {"errors", "records"},
}


def modules() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if "kernels" not in path.relative_to(PACKAGE).parts)


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path: Path, *, top_level_only: bool = False) -> Iterator[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = tree.body if top_level_only else list(ast.walk(tree))
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_one_way(path: Path) -> None:
    room = room_of(path)
    allowed = SHARED_AMONG_THEMSELVES.get(room, MAY_IMPORT.get(room, set()) | SHARED | {room})
    for name in imports(path):
        parts = name.split(".")
        if parts[0] == "qwen_batch" and len(parts) > 1:
            assert parts[1] in allowed, f"{room} must not import {name}"


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_torch_is_imported_only_where_it_computes(path: Path) -> None:
    if room_of(path) not in MAY_IMPORT_TORCH_AT_TOP:
        heavy = {"torch", "transformers", "safetensors", "triton"}
        assert not heavy & {name.split(".")[0] for name in imports(path, top_level_only=True)}


READING = {"page": set(), "tables": {"page"}, "ocr": {"page"}, "text": set(), "office": {"text"}}


@pytest.mark.parametrize("room", READING)
def test_rooms_of_reading_point_one_way(room: str) -> None:
    folders = [PACKAGE / "read" / room, *(PACKAGE / "read" / other for other in READING[room])]
    assert all(folder.is_dir() for folder in folders)
    named = {name for path in folders[0].glob("*.py") for name in imports(path) if name.startswith("qwen_batch.read.")}
    rooms = {name.split(".")[2] for name in named} & {*READING, "pdf", "pool", "worker", "inputs", "formats"}
    assert rooms <= {room, *READING[room]}


def test_kernels_is_a_folder_without_an_init_file() -> None:
    assert (PACKAGE / "kernels").is_symlink()
    assert not (PACKAGE / "kernels" / "__init__.py").exists()


@pytest.mark.parametrize("arguments", [["--help"], ["schema"], ["run", "--help"], ["--version"]])
def test_light_commands_import_nothing_heavy(arguments: list[str]) -> None:
    script = (
        "import sys\n"
        "from qwen_batch.cli import app\n"
        "try:\n    app(sys.argv[1:])\n"
        "except SystemExit as end:\n    assert not end.code, end.code\n"
        "heavy = {'torch', 'transformers', 'pyarrow', 'pypdfium2', 'huggingface_hub'} & set(sys.modules)\n"
        "sys.exit(f'imported: {heavy}' if heavy else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout


CONTRACT = PACKAGE.parent / "sample_data" / "contracts" / "coffee_supply.pdf"


def test_reading_processes_load_only_what_they_need() -> None:
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from qwen_batch.readers import read_and_clean\n"
        "from qwen_batch.read.items import FileItem, Task\n"
        "from qwen_batch.records import CleanSteps\n"
        "task = Task(FileItem('a', Path(sys.argv[1]), 'a'), (), 100, CleanSteps(), is_hashed=False)\n"
        "assert read_and_clean(task).text\n"
        "from qwen_batch.clean.page_numbers import _IN_CHINESE\n"
        "assert not any(pattern.cache_info().currsize for pattern in _IN_CHINESE)\n"
        "heavy = {'pydantic', 'yaml', 'typer', 'torch', 'spacy', 'lxml', 'pdfplumber', 'pypdfium2', 'numpy'}\n"
        "heavy |= {'dataclasses', 'inspect', 'hashlib', 'socket'}\n"
        "sys.exit(str(heavy & set(sys.modules) or ''))"
    )
    command = [sys.executable, "-c", script, str(CONTRACT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ""


def test_a_plain_extract_loads_neither_typer_nor_pydantic() -> None:
    script = (
        "import sys\n"
        "from qwen_batch.extraction import main, plain_extraction\n"
        "main(plain_extraction(['--json', 'no-such-file']))\n"
        "heavy = {'pydantic', 'yaml', 'typer', 'lxml', 'pypdfium2', 'dataclasses', 'hashlib', 'socket'}\n"
        "heavy |= {'qwen_batch.clean'}\n"
        "sys.exit(str(heavy & set(sys.modules) or ''))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ""
    assert '"error_type": "not_found"' in done.stdout
