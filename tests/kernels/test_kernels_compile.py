"""Every kernel compiles for every card without one, spills no register, and is in the built wheel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
KERNELS = {path.stem for path in (ROOT / "kernels").glob("*.py")} - {"launch", "tile", "tuning"}


def compile_table(*arguments: str) -> list[dict[str, object]]:
    """In a process of its own: this one imported the kernels for the interpreter."""
    environment = {**os.environ, "TRITON_INTERPRET": "0"}
    command = [sys.executable, "-W", "ignore", "-m", "qwen_batch.bench.kernels", "--json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_what_qwen3_needs_compiles_for_every_card_without_spills() -> None:
    rows = compile_table("--qwen3")
    assert {row["kernel"] for row in rows} == KERNELS
    assert {row["arch"] for row in rows} == {80, 89, 90, 100}
    assert all(row["spill_bytes"] == 0 and row["registers"] for row in rows)


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["80", "89", "90", "100"])
def test_everything_that_can_be_chosen_compiles_without_spills(arch: str) -> None:
    rows = compile_table("--arch", arch)
    assert {row["kernel"] for row in rows} == KERNELS
    assert all(row["spill_bytes"] == 0 for row in rows)


def test_the_wheel_holds_every_kernel(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", "kernels", "qwen_batch"):  # not build/ of earlier times
        (source / name).symlink_to(ROOT / name) if name != "qwen_batch" else _copy(ROOT / name, source / name)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-build-isolation"]
    command += ["--no-deps", "--no-index", "--wheel-dir", str(tmp_path), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    kernels = {f"qwen_batch/kernels/{path.name}" for path in (ROOT / "kernels").glob("*.py")}
    assert kernels
    assert kernels <= names
    assert not [name for name in names if name.startswith("kernels/")]


def _copy(source: Path, target: Path) -> None:
    """With symbolic links as links, without caches."""
    import shutil

    shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
