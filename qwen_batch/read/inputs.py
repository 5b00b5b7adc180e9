"""From what the user named (files, folders, globs, standard input) to documents, one at a time."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from qwen_batch.errors import UsageError
from qwen_batch.read.hashes import hash_id, short_hash
from qwen_batch.read.items import FileItem, Item, printable
from qwen_batch.read.jsonl import iter_records
from qwen_batch.read.kinds import kind_of
from qwen_batch.records import Failure

__all__ = ["FileItem", "iter_inputs"]

logger = logging.getLogger(__name__)

STDIN = "-"
STDIN_NAME = "stdin"
GLOB_CHARACTERS = "*?["
NOT_REGULAR = "not a regular file but a pipe, socket or device, which is never opened: save what it gives as a file"


def iter_inputs(paths: Sequence[str], stdin: BinaryIO | None = None) -> Iterator[Item]:
    """Every document that the paths name, each with its own doc_id; streams, and keeps only hashes.

    A path is a file, a folder (searched through), a glob, or `-` for JSON lines on `stdin`. Whatever cannot become a
    document is a Failure, so that nothing that was named is missing from the results.
    """
    names = _Names([path for path in paths if path != STDIN])
    ids = _Ids()
    seen_files: set[int] = set()
    stdin_done = False
    for path in paths:
        if path == STDIN:
            if not stdin_done:
                yield from (
                    ids.claim(item, STDIN_NAME) for item in iter_records(_needed(stdin), STDIN_NAME, Path.cwd())
                )
            stdin_done = True
            continue
        matched = False
        for found in _iter_files(path):
            matched = True
            if isinstance(found, Failure):
                yield ids.claim(found, found.source)
                continue
            key = short_hash(os.fsencode(os.path.abspath(found)))
            if key not in seen_files:
                seen_files.add(key)
                yield from _iter_file(found, names.doc_id(found), ids)
        if not matched:
            yield from (ids.claim(failure, failure.source) for failure in _nothing_found(path, names))


class _Names:
    """The doc_ids of files: the folder that an input searches, by its name, and the path below it.

    They follow from the inputs alone, never from which files are there, so that a document keeps its doc_id when others
    come and go. Where two of the folders have the same name, as many of their parents are named as tell them apart; an
    input inside the folder of another counts as part of that.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        bases = {Path(os.path.abspath(_base(path))) for path in paths}
        self._roots = {base for base in bases if bases.isdisjoint(base.parents)}
        self._labels = {root: self._label(root) for root in self._roots}

    def doc_id(self, path: Path) -> str:
        absolute = Path(os.path.abspath(path))
        root = next(parent for parent in (absolute, *absolute.parents) if parent in self._roots)
        return printable(Path(self._labels[root], absolute.relative_to(root)).as_posix())

    def _label(self, root: Path) -> str:
        parts = root.parts[1:]
        for count in range(1, len(parts) + 1):
            if all(other == root or other.parts[1:][-count:] != parts[-count:] for other in self._roots):
                return "/".join(parts[-count:])
        return "/".join(parts)


def _base(path: str) -> Path:
    """The folder that an input searches; of a file, the folder that it is in.

    What is not there is a folder unless its name ends like a file's: were it taken for a file, the folder that it is in
    would be searched, and other inputs in there would have other doc_ids until it comes back.
    """
    here = Path(path)
    if os.path.lexists(path):
        return here if here.is_dir() else here.parent
    if _is_glob(path):
        return _fixed_base(here)
    return here.parent if here.suffix else here


def _nothing_found(path: str, names: _Names) -> Iterator[Failure]:
    """An empty folder, or a glob without a match, is a quiet night; a path that does not exist is a failed row."""
    name = printable(path)
    if os.path.isdir(path) or (_is_glob(path) and _fixed_base(Path(path)).is_dir()):
        logger.warning("%s: no files there", name)
        return
    message = f"{name}: no such file or folder; paths in a job file are relative to that file"
    yield Failure(name if _is_glob(path) else names.doc_id(Path(path)), name, "read", "not_found", message)


def _is_glob(path: str) -> bool:
    return any(char in path for char in GLOB_CHARACTERS)


def _needed(stdin: BinaryIO | None) -> BinaryIO:
    if stdin is None:
        raise UsageError("`-` among the inputs needs JSON lines on standard input")
    return stdin


def _iter_files(path: str) -> Iterator[Path | Failure]:
    """Files that one path of the user's matches, in sorted order, hidden ones left out of folders and globs."""
    here = Path(path)
    if here.is_dir():
        yield from _iter_folder(here)
    elif os.path.lexists(path):
        yield here
    elif _is_glob(path):
        base = _fixed_base(here)
        pattern = str(here.relative_to(base))
        for match in sorted(base.glob(f"{pattern}/*" if pattern.endswith("**") else pattern)):
            hidden = any(part.startswith(".") for part in match.relative_to(base).parts)
            if match.is_dir():
                if not hidden and "**" not in pattern:
                    yield from _iter_folder(match)
            elif not hidden or "/." in f"/{pattern}":
                yield match
        # Globbing passes over folders that cannot be searched in silence; what they hold is not gone.
        searched = _iter_folder(base) if "**" in pattern else _iter_errors(base)
        yield from (found for found in searched if isinstance(found, Failure))


def _iter_folder(folder: Path) -> Iterator[Path | Failure]:
    """All files below a folder. Links to folders are followed, but no folder is entered twice."""
    entered = {os.path.realpath(folder)}
    errors: list[OSError] = []
    for name, folders, files in os.walk(folder, onerror=errors.append, followlinks=True):
        visible = [inner for inner in sorted(folders) if not inner.startswith(".")]
        targets = {inner: os.path.realpath(os.path.join(name, inner)) for inner in visible}
        folders[:] = [inner for inner in visible if targets[inner] not in entered]
        entered.update(targets.values())
        for file in sorted(files):
            if not file.startswith("."):
                yield Path(name, file)
    for error in errors:
        if error.filename != str(folder) or not isinstance(error, FileNotFoundError):  # that is said elsewhere
            yield _unsearchable(error)


def _iter_errors(folder: Path) -> Iterator[Failure]:
    """A Failure when the folder itself cannot be searched."""
    try:
        os.scandir(folder).close()
    except FileNotFoundError:
        return  # said elsewhere
    except OSError as error:
        yield _unsearchable(error)


def _unsearchable(error: OSError) -> Failure:
    where = printable(str(error.filename))
    message = f"this folder cannot be searched: {error.strerror}; its files are missing from the results"
    return Failure(where, where, "read", "unsearchable", message)


def _fixed_base(pattern: Path) -> Path:
    """The part of a glob before its first wildcard."""
    fixed: list[str] = []
    for part in pattern.parts:
        if _is_glob(part):
            break
        fixed.append(part)
    return Path(*fixed)


def _iter_file(path: Path, doc_id: str, ids: _Ids) -> Iterator[Item]:
    source = printable(str(path))
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            yield ids.claim(Failure(doc_id, source, "read", "unsupported", NOT_REGULAR), source)
            return
        kind = kind_of(path)
        if kind == "jsonl":
            with path.open("rb") as stream:
                yield from (ids.claim(item, doc_id) for item in iter_records(stream, source, path.parent, doc_id))
            return
    except OSError as error:
        message = f"cannot be read: {error.strerror or error}; check that it exists and that you may read it"
        error_type = "not_found" if isinstance(error, FileNotFoundError) else "unreadable"
        yield ids.claim(Failure(doc_id, source, "read", error_type, message), source)
        return
    if kind is None:
        message = f"files of this kind are not read: {_suffix(path)}; convert it to PDF or text"
        yield ids.claim(Failure(doc_id, source, "read", "unsupported", message), source)
    else:
        yield ids.claim(FileItem(doc_id, path, source), source)


def _suffix(path: Path) -> str:
    return path.suffix.lower() if path.suffix and path.suffix.isascii() else "no kind that we know, by content"


class _Ids:
    """The doc_ids given so far. A hundred bytes each: a 64-bit hash, and where the first was."""

    def __init__(self) -> None:
        self._places: dict[int, int] = {}  # hash of a doc_id -> index into _sources << 32 | line
        self._sources: list[str] = []

    def claim(self, item: Item, within: str) -> Item:
        """The item, if its doc_id is new; else a Failure with an id of its own that says where the first is.

        within: name of the file that a record stands in.
        """
        place = self._places.get(hash_id(item.doc_id))
        if place is None:
            self._remember(item)
            return item
        line = item.source.rpartition(":")[2]
        other = f"{item.doc_id}@{within}:{line}" if line.isdecimal() else f"{item.doc_id}@{within}"
        if isinstance(item, Failure):
            renamed = item._replace(doc_id=other)
        else:
            first = self._where(place)
            message = f"the id {item.doc_id!r} is taken by {first}: ids must differ within a run"
            renamed = Failure(other, item.source, "read", "duplicate_id", message, metadata=item.metadata)
        number = 2
        while hash_id(renamed.doc_id) in self._places:
            renamed = renamed._replace(doc_id=f"{other}#{number}")
            number += 1
        self._remember(renamed)
        return renamed

    def _remember(self, item: Item) -> None:
        name, _, line = item.source.rpartition(":")
        if not (name and line.isascii() and line.isdigit() and len(line) < 10):
            name, line = item.source, "0"
        if not self._sources or self._sources[-1] != name:
            self._sources.append(name)
        self._places[hash_id(item.doc_id)] = (len(self._sources) - 1) << 32 | int(line)

    def _where(self, place: int) -> str:
        name, line = self._sources[place >> 32], place & 0xFFFFFFFF
        return f"{name}:{line}" if line else name
