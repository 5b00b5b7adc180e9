"""One run at a time in an output folder. The lock is the operating system's and dies with its process."""

from __future__ import annotations

import datetime
import errno
import fcntl
import json
import os
import socket
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from qwen_batch.errors import LockHeldError, OutputError

_HELD = (errno.EAGAIN, errno.EACCES)  # what a lock that another holds is reported as
SIGN_SECONDS = 0.5  # between taking the lock and signing it
_DENIED = (errno.EROFS, errno.EACCES, errno.EPERM)
_held_descriptors: set[int] = set()


def _drop_in_child() -> None:
    """A forked child must not keep its parent's lock alive."""
    for descriptor in _held_descriptors:
        os.close(descriptor)
    _held_descriptors.clear()


os.register_at_fork(after_in_child=_drop_in_child)


class OutputLock:
    """Context manager: holds OUT/.journal/lock. Raises LockHeldError (exit 75) or OutputError on entry.

    may_be_read_only: for who only reads. Where the folder cannot be written, the lock keeps runs out and is not signed.
    """

    def __init__(self, folder: Path, *, may_be_read_only: bool = False) -> None:
        self._folder = folder
        self._may_be_read_only = may_be_read_only
        self._path = folder / ".journal" / "lock"
        self._descriptor = -1

    def __enter__(self) -> Self:
        try:
            can_write = self._open()
            _held_descriptors.add(self._descriptor)
            fcntl.flock(self._descriptor, (fcntl.LOCK_EX if can_write else fcntl.LOCK_SH) | fcntl.LOCK_NB)
            if can_write:
                self._sign()
        except OSError as error:
            held = self._descriptor >= 0 and error.errno in _HELD
            holder = self._holder() if held else ""
            self._release()
            if held:
                raise LockHeldError(
                    f"{self._folder}: another run works here ({holder}); wait for it, or end it, and run again"
                ) from None
            raise OutputError(
                f"{self._path}: cannot be locked: {error.strerror}; choose a folder on a disk that can be written "
                "and has file locks, with --output"
            ) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._release()

    def _open(self) -> bool:
        """Open the file; False where it cannot be written and need not be."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            if not self._may_be_read_only or error.errno not in _DENIED:
                raise
            # The folder where there is no file: a copy of an output may lack it.
            self._descriptor = os.open(self._path if self._path.exists() else self._path.parent, os.O_RDONLY)
            return False
        return True

    def _sign(self) -> None:
        """Write who holds the lock, for the message that the next run prints."""
        started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        holder = {"pid": os.getpid(), "host": socket.gethostname(), "started_at": started}
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, json.dumps(holder).encode(), 0)

    def _holder(self) -> str:
        """Who holds it; a process that has only just taken it is given a moment to sign."""
        end = time.monotonic() + SIGN_SECONDS
        while True:
            try:
                holder = json.loads(os.pread(self._descriptor, 4096, 0))
                return f"process {holder['pid']} on {holder['host']}, since {holder['started_at']}"
            except (ValueError, KeyError, TypeError, OSError):
                if time.monotonic() > end:
                    return "it has only just begun"
                time.sleep(0.01)

    def _release(self) -> None:
        if self._descriptor >= 0:
            _held_descriptors.discard(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1
