"""Where models and their checksums are kept between runs, and how two processes share that place."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def home() -> Path:
    """The cache folder: QWEN_BATCH_HOME, or ~/.cache/qwen-batch. It may not exist yet."""
    return Path(os.environ.get("QWEN_BATCH_HOME") or "~/.cache/qwen-batch").expanduser().absolute()


@contextmanager
def locked(path: Path) -> Iterator[int]:
    """Hold the lock file `path`, waiting for whoever holds it; yields its descriptor.

    A child process that inherits the descriptor keeps the lock until it ends too, even when its parent was killed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


def sync(path: Path) -> None:
    """Have the file, or the names in the folder, written to the disk itself."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
