"""Old office files (.doc, .ppt, .xls): LibreOffice, where it is installed, makes newer ones of them, which are then
read."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from qwen_batch.errors import DocumentError
from qwen_batch.read.items import Content
from qwen_batch.read.office.parts import read_docx
from qwen_batch.read.office.pptx import read_pptx
from qwen_batch.read.office.xlsx import read_xlsx

Target = Literal["docx", "pptx", "xlsx"]
TARGETS: dict[str, Target] = {".doc": "docx", ".ppt": "pptx", ".xls": "xlsx"}
_READERS = {"docx": read_docx, "pptx": read_pptx, "xlsx": read_xlsx}
PROGRAMS = ("soffice", "libreoffice")
MAX_OUTPUT_BYTES = 1 << 30
PREFIX = "qwen-batch-office-"  # of temporary folders; the number of the process follows


def read_legacy(path: Path) -> Content:
    """Convert, then read. Raises DocumentError: unsupported where LibreOffice is not there, damaged, and others."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        message = f"{path.suffix} files need LibreOffice (soffice): install it, or save the file in a newer format"
        raise DocumentError("unsupported", message)
    kind = TARGETS[path.suffix.lower()]
    _remove_leftovers()
    with tempfile.TemporaryDirectory(prefix=f"{PREFIX}{os.getpid()}-") as folder:
        made = _convert(program, path, kind, Path(folder))
        return _READERS[kind](made)


def _remove_leftovers() -> None:
    """Folders of our processes that were killed, by a time limit say: a profile has some megabytes, every night."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        number = folder.name.removeprefix(PREFIX).partition("-")[0]
        with contextlib.suppress(OSError):
            if number.isdecimal() and not Path("/proc", number).exists() and folder.stat().st_uid == os.getuid():
                shutil.rmtree(folder, ignore_errors=True)


def _convert(program: str, path: Path, kind: Target, folder: Path) -> Path:
    """A profile of its own, so that a LibreOffice that is open does not get in the way; macros never run."""
    command = [program, "--headless", "--norestore", f"-env:UserInstallation={(folder / 'profile').as_uri()}"]
    command += ["--convert-to", kind, "--outdir", str(folder), str(path.absolute())]
    with _large_files():
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    made = folder / f"{path.stem}.{kind}"
    if not made.is_file():
        said = " ".join(done.stderr.decode("utf-8", "replace").split())[-200:]
        raise DocumentError(
            "damaged", f"LibreOffice cannot open it: check the file{'; it said: ' + said if said else ''}"
        )
    return made


@contextlib.contextmanager
def _large_files() -> Iterator[None]:
    """Reading processes may not write large files; what they convert is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    wanted = MAX_OUTPUT_BYTES if hard == resource.RLIM_INFINITY else min(MAX_OUTPUT_BYTES, hard)
    resource.setrlimit(resource.RLIMIT_FSIZE, (wanted, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
