"""What reading yields before a document is parsed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from qwen_batch.records import NOTHING, CleanSteps, Document, Failure, Page

MAX_HIDDEN = 200  # characters of hidden text that a warning names


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
    is_hashed: bool = True  # whether anybody asks for the hash of the content


class Content(NamedTuple):
    """What a file holds."""

    pages: tuple[Page, ...]
    warnings: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()


UNREAD_ATTACHMENTS = "unread_attachments"  # flag: the message came with files, which are not read
UNREAD_PAGES = "unread_pages"  # flag: some pages are damaged, and their text is missing
Item = FileItem | Document | Failure
CHANGED = "changed"  # error type of a file that was written to while it was read


def printable(name: str) -> str:
    """A file name that is not valid UTF-8, in ASCII escapes where it is not."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def warning_of_hidden(text: str) -> str:
    """What a format's reader says of text that nobody sees, and that it left out."""
    return f"hidden text was left out: {text[:MAX_HIDDEN]}"
