"""Every operation that makes something durable, in one object, so that a test can stop the world between any two."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from qwen_batch.errors import OutputError

_FULL = (errno.ENOSPC, errno.EDQUOT)
_DENIED = (errno.EACCES, errno.EPERM, errno.EROFS)
_CANNOT_EXCHANGE = (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EXDEV)
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # linux/fcntl.h, linux/fs.h
_NO_FOLDER = (errno.ENOTDIR, errno.EEXIST)

FULL_ADVICE = "no space is left on the disk; free some and run again: what is finished is saved"
DENIED_ADVICE = "it may not be written; check its permissions, or choose another folder with --output"


class Disk:
    """The operating system's own operations. All raise OSError, `commit` sqlite3.Error."""

    def make_folder(self, folder: Path) -> None:
        """Create the folder and its parents."""
        missing = [path for path in (folder, *folder.parents) if not path.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        for path in missing:
            self.sync_folder(path.parent)

    def write(self, path: Path, chunks: Iterable[bytes | memoryview]) -> None:
        """Write a new file, or over an old one."""
        with path.open("wb") as file:
            for chunk in chunks:
                file.write(chunk)

    def append(self, path: Path, content: bytes) -> None:
        """Write at the end of a file; create it if need be."""
        with path.open("ab") as file:
            file.write(content)

    def truncate(self, path: Path, num_bytes: int) -> None:
        """Cut a file off after so many bytes."""
        os.truncate(path, num_bytes)

    def link(self, source: Path, target: Path) -> None:
        """Give a file a second name."""
        os.link(source, target)

    def exchange(self, one: Path, other: Path) -> bool:
        """Let two folders change places, at once for every reader; False where the system cannot (Linux can)."""
        renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
        if renameat2 is None:
            return False
        if renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
            return True
        number = ctypes.get_errno()
        if number in _CANNOT_EXCHANGE:
            return False
        raise OSError(number, os.strerror(number), str(one))

    def remove_folder(self, folder: Path) -> None:
        """Remove a folder and all in it, if it is there."""
        with suppress(FileNotFoundError):
            shutil.rmtree(folder)

    def sync(self, path: Path) -> None:
        """Return when the file's content is on the medium."""
        self._sync(path, os.O_RDONLY)

    def rename(self, source: Path, target: Path) -> None:
        """Put `source` in the place of `target`, at once for every reader."""
        source.replace(target)

    def sync_folder(self, folder: Path) -> None:
        """Return when the folder's names are on the medium. Some file systems cannot, and need not: EINVAL."""
        try:
            self._sync(folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise

    def remove(self, path: Path) -> None:
        """Remove a file, if it is there."""
        path.unlink(missing_ok=True)

    def commit(self, connection: sqlite3.Connection) -> None:
        """End a transaction of the journal."""
        connection.execute("COMMIT")

    @staticmethod
    def _sync(path: Path, flags: int) -> None:
        descriptor = os.open(path, flags)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def temporary_name(target: Path) -> Path:
    """The name under which `target` is written: it begins with a dot, which table readers take for no data."""
    return target.with_name(f".{target.name}.tmp")


def write_durably(disk: Disk, target: Path, chunks: Iterable[bytes | memoryview]) -> None:
    """Write a file so that a reader sees the old one or all of the new one, also after a power cut."""
    temporary = temporary_name(target)
    try:
        disk.write(temporary, chunks)
        disk.sync(temporary)
        disk.rename(temporary, target)
    except Exception:
        with suppress(OSError):
            disk.remove(temporary)
        raise
    disk.sync_folder(target.parent)


@contextmanager
def output_errors(path: Path) -> Iterator[None]:
    """Turn an OSError into an OutputError that names the path and says what to do."""
    try:
        yield
    except OSError as error:
        raise OutputError(f"{error.filename or path}: {_advice(error)}") from error


def _advice(error: OSError) -> str:
    if error.errno in _FULL:
        return FULL_ADVICE
    if error.errno in _DENIED:
        return DENIED_ADVICE
    if error.errno in _NO_FOLDER:
        return "a file stands where a folder is needed; move it away, or choose another folder with --output"
    return f"{error.strerror or error}; look at the disk and run again: what is finished is saved"
