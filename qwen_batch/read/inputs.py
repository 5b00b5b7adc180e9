"""From what the user named (files, folders, globs, standard input) to documents, one at a time."""

from __future__ import annotations

import dataclasses
import hashlib
import logging
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from qwen_batch.errors import UsageError
from qwen_batch.read.items import FileItem, Item, printable
from qwen_batch.read.jsonl import iter_records
from qwen_batch.read.kinds import kind_of
from qwen_batch.records import Failure

__all__ = ["FileItem", "iter_inputs"]

logger = logging.getLogger(__name__)

STDIN = "-"
GLOB_CHARACTERS = "*?["


@dataclasses.dataclass(frozen=True, slots=True)
class _Found:
    """A file that a path of the user's matches."""

    path: Path
    base: Path  # what its doc_id is relative to


def iter_inputs(paths: Sequence[str], stdin: BinaryIO | None = None) -> Iterator[Item]:
    """Every document that the paths name, each with its own doc_id; streams, and keeps only hashes.

    A path is a file, a folder (searched through), a glob, or `-` for JSON lines on `stdin`. Whatever cannot become a
    document is a Failure, so that nothing that was named is missing from the results.
    """
    ids = _Ids()
    seen_files: set[int] = set()
    stdin_done = False
    for path in paths:
        if path == STDIN:
            if not stdin_done:
                yield from (ids.claim(item) for item in iter_records(_needed(stdin), "stdin", Path.cwd()))
            stdin_done = True
            continue
        matched = False
        for found in _iter_files(path):
            matched = True
            if isinstance(found, Failure):
                yield ids.claim(found)
                continue
            key = _hash(os.path.realpath(found.path))
            if key not in seen_files:
                seen_files.add(key)
                yield from _iter_file(found, ids)
        if not matched:
            yield from (ids.claim(failure) for failure in _nothing_found(path))


def _nothing_found(path: str) -> Iterator[Failure]:
    """An empty folder, or a glob without a match, is a quiet night; a path that does not exist is a failed row."""
    name = printable(path)
    if os.path.isdir(path) or (_is_glob(path) and _fixed_base(Path(path)).is_dir()):
        logger.warning("%s: no files there", name)
        return
    message = f"{name}: no such file or folder; paths in a job file are relative to that file"
    yield Failure(name, name, "read", "not_found", message)


def _is_glob(path: str) -> bool:
    return any(char in path for char in GLOB_CHARACTERS)


def _needed(stdin: BinaryIO | None) -> BinaryIO:
    if stdin is None:
        raise UsageError("`-` among the inputs needs JSON lines on standard input")
    return stdin


def _iter_files(path: str) -> Iterator[_Found | Failure]:
    """Files that one path of the user's matches, in sorted order, hidden ones left out of folders and globs."""
    here = Path(path)
    if here.is_dir():
        yield from _iter_folder(here, here)
    elif os.path.lexists(path):
        yield _Found(here, here.parent)
    elif _is_glob(path):
        base = _fixed_base(here)
        pattern = str(here.relative_to(base))
        for match in sorted(base.glob(f"{pattern}/*" if pattern.endswith("**") else pattern)):
            hidden = any(part.startswith(".") for part in match.relative_to(base).parts)
            if match.is_file() and (not hidden or "/." in f"/{pattern}"):
                yield _Found(match, base)
            elif match.is_dir() and not hidden and "**" not in pattern:
                yield from _iter_folder(match, base)


def _iter_folder(folder: Path, base: Path) -> Iterator[_Found | Failure]:
    """All files below a folder. Links to folders are followed, but no folder is entered twice."""
    entered = {os.path.realpath(folder)}
    errors: list[OSError] = []
    for name, folders, files in os.walk(folder, onerror=errors.append, followlinks=True):
        visible = [inner for inner in sorted(folders) if not inner.startswith(".")]
        targets = {inner: os.path.realpath(os.path.join(name, inner)) for inner in visible}
        folders[:] = [inner for inner in visible if targets[inner] not in entered]
        entered.update(targets.values())
        for file in sorted(files):
            path = Path(name, file)
            if not file.startswith(".") and (path.is_file() or not path.exists()):
                yield _Found(path, base)
    for error in errors:
        where = printable(str(error.filename))
        message = f"this folder cannot be searched: {error.strerror}; its files are missing from the results"
        yield Failure(where, where, "read", "unreadable", message)


def _fixed_base(pattern: Path) -> Path:
    """The part of a glob before its first wildcard."""
    fixed: list[str] = []
    for part in pattern.parts:
        if _is_glob(part):
            break
        fixed.append(part)
    return Path(*fixed)


def _iter_file(found: _Found, ids: _Ids) -> Iterator[Item]:
    source = printable(str(found.path))
    doc_id = printable(Path(os.path.relpath(found.path, found.base)).as_posix())
    try:
        if not stat.S_ISREG(found.path.stat().st_mode):
            yield ids.claim(Failure(doc_id, source, "read", "unsupported", "not a regular file"))
            return
        kind = kind_of(found.path)
        if kind == "jsonl":
            with found.path.open("rb") as stream:
                yield from (ids.claim(item) for item in iter_records(stream, source, found.path.parent))
            return
    except OSError as error:
        message = f"cannot be read: {error.strerror or error}; check that it exists and that you may read it"
        yield ids.claim(Failure(doc_id, source, "read", "unreadable", message))
        return
    own = ids.free_name(doc_id, found.path, source)
    if kind is None:
        message = f"files of this kind are not read: {_suffix(found.path)}; convert it to PDF or text"
        yield ids.claim(Failure(own, source, "read", "unsupported", message))
    else:
        yield ids.claim(FileItem(own, found.path, source))


def _suffix(path: Path) -> str:
    return path.suffix.lower() if path.suffix and path.suffix.isascii() else "neither PDF nor text by content"


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


class _Ids:
    """The doc_ids given so far. A hundred bytes each: a 64-bit hash, and where the first was."""

    def __init__(self) -> None:
        self._places: dict[int, int] = {}  # hash of a doc_id -> index into _sources << 32 | line
        self._sources: list[str] = []

    def free_name(self, doc_id: str, path: Path, source: str) -> str:
        """The doc_id of a file, with parent folders in front until no other document has it."""
        parents = [printable(part) for part in path.absolute().parent.parts[1:]]
        extra = len(parents) - doc_id.count("/")
        while _hash(doc_id) in self._places and extra > 0:
            extra -= 1
            doc_id = f"{parents[extra]}/{doc_id}"
        return doc_id if _hash(doc_id) not in self._places else f"{doc_id}@{source}"

    def claim(self, item: Item) -> Item:
        """The item, if its doc_id is new; else a Failure with an id of its own that says where the first is."""
        place = self._places.get(_hash(item.doc_id))
        if place is None:
            self._remember(item)
            return item
        other = f"{item.doc_id}@{item.source.rpartition('/')[2]}"
        if isinstance(item, Failure):
            renamed = dataclasses.replace(item, doc_id=other)
        else:
            first = self._where(place)
            message = f"the id {item.doc_id!r} is taken by {first}: ids must differ within a run"
            renamed = Failure(other, item.source, "read", "duplicate_id", message, metadata=item.metadata)
        number = 2
        while _hash(renamed.doc_id) in self._places:
            renamed = dataclasses.replace(renamed, doc_id=f"{other}#{number}")
            number += 1
        self._remember(renamed)
        return renamed

    def _remember(self, item: Item) -> None:
        name, _, line = item.source.rpartition(":")
        if not (name and line.isascii() and line.isdigit() and len(line) < 10):
            name, line = item.source, "0"
        if not self._sources or self._sources[-1] != name:
            self._sources.append(name)
        self._places[_hash(item.doc_id)] = (len(self._sources) - 1) << 32 | int(line)

    def _where(self, place: int) -> str:
        name, line = self._sources[place >> 32], place & 0xFFFFFFFF
        return f"{name}:{line}" if line else name
