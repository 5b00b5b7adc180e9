"""What a reading process does with one document: read, then clean. It loads nothing that only its parent needs."""

from __future__ import annotations

from pathlib import Path

from qwen_batch.clean import clean_document
from qwen_batch.errors import DocumentError
from qwen_batch.read.items import CHANGED, FileItem, Task, hash_file
from qwen_batch.read.kinds import kind_of
from qwen_batch.records import CleanDocument, Document, Page


def read_and_clean(task: Task) -> CleanDocument:
    """What a reading process does with one document. Raises DocumentError."""
    document = task.item if isinstance(task.item, Document) else _read_file(task.item, task)
    return clean_document(document, task.clean)


def _read_file(item: FileItem, task: Task) -> Document:
    try:
        before = _state(item.path)
        digest = hash_file(item.path)
        try:
            pages, warnings = _read_pages(item.path, task)
        except DocumentError:
            _refuse_if_changed(item.path, before)  # half a file is damaged; the whole one need not be
            raise
        _refuse_if_changed(item.path, before)
    except OSError as error:
        raise DocumentError("unreadable", f"cannot be read: {error.strerror or error}") from None
    return Document(item.doc_id, item.source, digest, pages, (), item.sampling, item.metadata, item.priority, warnings)


def _state(path: Path) -> tuple[int, int, int]:
    """What changes when a file does."""
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


def _refuse_if_changed(path: Path, before: tuple[int, int, int]) -> None:
    if _state(path) != before:
        raise DocumentError(CHANGED, "changed while it was read; the next run reads it again")


def _read_pages(path: Path, task: Task) -> tuple[tuple[Page, ...], tuple[str, ...]]:
    """The parsers are loaded here and not above: only reading processes need them, and only those of their files."""
    kind = kind_of(path)
    if kind == "pdf":
        from qwen_batch.read.pdf import read_pdf

        pdf = read_pdf(path, task.passwords, task.max_pages, task.clean.tables, task.ocr_seconds)
        return pdf.pages, pdf.warnings
    if kind in ("text", "empty"):
        from qwen_batch.read.text import read_text

        text = read_text(path)
        return text.pages, text.warnings
    if kind == "jsonl":
        raise DocumentError("unsupported", "JSON lines hold many documents: name the file as an input of `run`")
    if kind is None:
        raise DocumentError("unsupported", "files of this kind are not read: convert it to PDF or text")
    from qwen_batch.read.formats import read_other

    other = read_other(path, kind)
    return other.pages, other.warnings
