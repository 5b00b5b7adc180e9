"""JSON lines: one record a line, in one of four forms; a bad line is one failed row and nothing more.

    {"id": ..., "text": ...}            a document
    {"id": ..., "path": ...}            a file, relative to the JSONL file
    {"id": ..., "messages": [...]}      a ready conversation
    {"custom_id": ..., "body": {...}}   the same in the OpenAI batch form (see openai_batch.py)

The first three take `metadata` (an object) and `priority` (a whole number). Lines end only at \\n.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from qwen_batch.errors import DocumentError
from qwen_batch.read.hashes import hash_messages, hash_text
from qwen_batch.read.items import FileItem, Item, printable
from qwen_batch.read.kinds import kind_of
from qwen_batch.read.openai_batch import bad_record, parse_body, parse_messages
from qwen_batch.records import Document, Failure, Line, Message, Page

MAX_LINE_BYTES = 64 * 1024**2
SKIP_BYTES = 1 << 20
MAX_DEPTH = 64  # of objects and arrays in one another
MAX_PRIORITY = 2**31 - 1
BOM = b"\xef\xbb\xbf"
BODIES = ("text", "path", "messages")
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a record stands."""

    source_name: str  # path of the file as the user wrote it
    name: str  # what the doc_ids of records without an id begin with
    line_number: int  # from 1
    base_dir: Path  # what the record's path is relative to

    @property
    def source(self) -> str:
        return f"{self.source_name}:{self.line_number}"

    @property
    def doc_id(self) -> str:
        """For a record without an id of its own."""
        return f"{self.name}:{self.line_number}"


def iter_records(stream: BinaryIO, source_name: str, base_dir: Path, name: str | None = None) -> Iterator[Item]:
    """One item for each line that is not blank. Raises OSError where the stream itself cannot be read."""
    for line_number, line in _iter_lines(stream):
        place = Place(source_name, name or source_name.rpartition("/")[2], line_number, base_dir)
        if line is None:
            size = MAX_LINE_BYTES // 1024**2
            yield _failure(place, None, "bad_record", f"the line is longer than {size} MiB; put long texts in files")
        elif line.strip(b" \t\r\x0b\x0c"):
            yield parse_record(line, place)


def parse_record(line: bytes, place: Place) -> Item:
    """The item that one line holds; a Failure where it holds none."""
    doc_id: str | None = None
    try:
        record = _load(line)
        doc_id = _doc_id(record)
        mended = bool(_SURROGATE_ESCAPE.search(line)) and _has_surrogate(record)
        if mended:
            record = _mend(record)
            doc_id = _mend(doc_id)
        warnings = ("half characters (lone surrogates) were replaced by U+FFFD",) if mended else ()
        return _make_item(record, doc_id or place.doc_id, place, warnings)
    except DocumentError as error:
        return _failure(place, doc_id, error.error_type, str(error))


def _failure(place: Place, doc_id: str | None, error_type: str, message: str) -> Failure:
    error = f"line {place.line_number}: {message}"
    return Failure(_SURROGATE.sub("\ufffd", doc_id or place.doc_id), place.source, "read", error_type, error)


def _iter_lines(stream: BinaryIO) -> Iterator[tuple[int, bytes | None]]:
    """Lines by number; None stands for one that is too long, which is skipped without being kept."""
    line_number = 0
    while line := stream.readline(MAX_LINE_BYTES + 1):
        line_number += 1
        if line_number == 1:
            line = line.removeprefix(BOM)
        if len(line) > MAX_LINE_BYTES and not line.endswith(b"\n"):
            while (rest := stream.readline(SKIP_BYTES)) and not rest.endswith(b"\n"):
                pass
            yield line_number, None
        else:
            yield line_number, line.rstrip(b"\n").removesuffix(b"\r")


def _load(line: bytes) -> dict[str, Any]:
    try:
        record = json.loads(line.decode("utf-8"), parse_constant=_refuse_constant, parse_float=_finite)
    except UnicodeDecodeError as error:
        bad_record(f"not valid UTF-8 at byte {error.start + 1}; write the file as UTF-8")
    except json.JSONDecodeError as error:
        bad_record(f"not valid JSON at column {error.colno}: {error.msg}; write one object a line")
    except RecursionError:
        bad_record(f"nested more than {MAX_DEPTH} levels deep; flatten it")
    except ValueError as error:  # a number of thousands of digits, or one that is not finite
        bad_record(f"a number that JSON does not have: {str(error)[:100]}; write it as a string")
    if not isinstance(record, dict):
        bad_record('not an object; write {"id": ..., "text": ...}')
    if line.count(b"[") + line.count(b"{") > MAX_DEPTH and _depth(record) > MAX_DEPTH:
        bad_record(f"nested more than {MAX_DEPTH} levels deep; flatten it")
    return record


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(digits)
    return number


def _depth(value: object) -> int:
    """Levels of objects and arrays, counted level by level: deep nesting must not exhaust our own stack."""
    depth, level = 0, [value]
    while level := [item for item in level if isinstance(item, dict | list)]:
        depth += 1
        level = [inner for item in level for inner in (item.values() if isinstance(item, dict) else item)]
    return depth


def _has_surrogate(value: object) -> bool:
    return bool(_SURROGATE.search(json.dumps(value, ensure_ascii=False)))


def _mend(value: Any) -> Any:
    """Replace lone surrogates in all strings. Depth is bounded by MAX_DEPTH."""
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, list):
        return [_mend(item) for item in value]
    if isinstance(value, dict):
        return {_mend(key): _mend(item) for key, item in value.items()}
    return value


def _doc_id(record: Mapping[str, Any]) -> str | None:
    name = "custom_id" if "body" in record or "custom_id" in record else "id"
    value = record.get(name)
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        bad_record(f"{name} must be a string or a whole number")
    return value or bad_record(f"{name} is empty; leave it out, and the line number is used")


def _make_item(record: Mapping[str, Any], doc_id: str, place: Place, warnings: tuple[str, ...]) -> Item:
    metadata, priority = record.get("metadata"), record.get("priority")
    metadata = {} if metadata is None else metadata
    priority = 0 if priority is None else priority
    if not isinstance(metadata, dict):
        bad_record("metadata must be an object")
    if not isinstance(priority, int) or isinstance(priority, bool) or abs(priority) > MAX_PRIORITY:
        bad_record("priority must be a whole number (larger goes first)")
    if "body" in record or "custom_id" in record:
        messages, sampling = parse_body(record)
        return _conversation(doc_id, place, messages, sampling, metadata, priority, warnings)
    given = [name for name in BODIES if name in record]
    if len(given) != 1:
        what = f"has {' and '.join(given)}" if given else "has none of text, path and messages"
        bad_record(f"{what}; give exactly one of them")
    if given == ["messages"]:
        return _conversation(doc_id, place, parse_messages(record["messages"]), {}, metadata, priority, warnings)
    value = record[given[0]]
    if not isinstance(value, str):
        bad_record(f"{given[0]} must be a string")
    if not value.strip():
        raise DocumentError("empty", f"{given[0]} is empty")
    if given == ["path"]:
        return _file(doc_id, place, value, metadata, priority)
    pages = (Page(1, tuple(Line(line) for line in value.replace("\r\n", "\n").split("\n"))),)
    return Document(doc_id, place.source, hash_text(value), pages, (), {}, metadata, priority, warnings)


def _conversation(
    doc_id: str,
    place: Place,
    messages: tuple[Message, ...],
    sampling: Mapping[str, object],
    metadata: Mapping[str, object],
    priority: int,
    warnings: tuple[str, ...],
) -> Document:
    digest = hash_messages(messages, sampling)
    return Document(doc_id, place.source, digest, (), messages, sampling, metadata, priority, warnings)


def _file(doc_id: str, place: Place, name: str, metadata: Mapping[str, object], priority: int) -> FileItem:
    if "\0" in name:
        bad_record("path holds a NUL character")
    path = place.base_dir / Path(name).expanduser()
    try:
        kind = kind_of(path) if path.is_file() else "missing"
    except OSError as error:
        raise DocumentError("unreadable", f"{printable(name)} cannot be read: {error.strerror}") from None
    if kind == "missing":
        raise DocumentError("not_found", f"no such file: {printable(name)} (relative to the JSONL file)")
    if kind is None or kind == "jsonl":
        raise DocumentError(
            "unsupported", f"{printable(name)} is of a kind that is not read here: convert it to PDF or text"
        )
    return FileItem(doc_id, path, place.source, metadata, priority)
