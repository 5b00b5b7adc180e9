"""What reading yields before a document is parsed, and how texts and files are identified."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from qwen_batch.records import NOTHING, CleanSteps, Document, Failure, Message, Page, clean_id


class FileItem(NamedTuple):
    """A file still to be parsed."""

    doc_id: str
    path: Path
    source: str  # the path as the user wrote it, or path:line of the record that names the file
    metadata: Mapping[str, object] = NOTHING
    priority: int = 0  # larger goes first
    sampling: Mapping[str, object] = NOTHING


class Task(NamedTuple):
    """What a reading process needs for one document."""

    item: FileItem | Document
    passwords: tuple[str, ...]
    max_pages: int
    clean: CleanSteps
    ocr_seconds: float = 0.0  # for pages that are images; 0: they are not read
    ocr_pictures: bool = False  # for pictures of text beside text, too


class Content(NamedTuple):
    """What a file holds."""

    pages: tuple[Page, ...]
    warnings: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()


UNREAD_ATTACHMENTS = "unread_attachments"  # flag: the message came with files, which are not read
UNREAD_PAGES = "unread_pages"  # flag: some pages are damaged, and their text is missing
Item = FileItem | Document | Failure
CHANGED = "changed"  # error type of a file that was written to while it was read


def hash_file(path: Path) -> str:
    """SHA-256 of the file's bytes, in hex. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hash_id(doc_id: str) -> int:
    """64 bits of the id as its row has it, for sets of very many."""
    return short_hash(clean_id(doc_id).encode())


def short_hash(content: bytes) -> int:
    """64 bits."""
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "big")


def hash_text(text: str) -> str:
    """SHA-256 of the text's UTF-8, in hex."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def hash_messages(messages: Sequence[Message], sampling: Mapping[str, object]) -> str:
    """SHA-256 of a conversation, and of what it asks for, in one fixed JSON form."""
    content = {"messages": [[message.role, message.content] for message in messages], "sampling": dict(sampling)}
    return hash_text(json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":")))


def printable(name: str) -> str:
    """A file name that is not valid UTF-8, in ASCII escapes where it is not."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
