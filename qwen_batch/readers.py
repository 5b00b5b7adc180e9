"""What a reading process does with one document: read, then clean. It loads nothing that only its parent needs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from qwen_batch.clean import clean_document
from qwen_batch.errors import DocumentError
from qwen_batch.read.frames import LongText
from qwen_batch.read.items import CHANGED, Content, FileItem, Task
from qwen_batch.read.kinds import Kind, kind_of
from qwen_batch.records import CleanDocument, Document, Removal

HEAD_LINES = 2  # of a table in Markdown


def read_and_clean(task: Task) -> CleanDocument:
    """A document, read and cleaned. Raises DocumentError."""
    done = read_for_parent(task)
    return done.whole() if isinstance(done, LongText) else done


def read_for_parent(task: Task) -> CleanDocument | LongText:
    """What a reading process does with one document; the parent gets a CleanDocument. Raises DocumentError."""
    if isinstance(task.item, Document):
        return clean_document(task.item, task.clean)
    item = task.item
    try:
        before = _state(item.path)
        digest = _digest(item.path, task.is_hashed)
        try:
            done = _read_and_clean(item, task, digest)
        except DocumentError:
            _refuse_if_changed(item.path, before)  # half a file is damaged; the whole one need not be
            raise
        _refuse_if_changed(item.path, before)
    except FileNotFoundError:
        message = "was there when the inputs were listed, and is gone; should it come back, the next run reads it"
        raise DocumentError("not_found", message) from None
    except OSError as error:
        raise DocumentError("unreadable", f"cannot be read: {error.strerror or error}") from None
    return done


def _digest(path: Path, is_wanted: bool) -> str:
    """Raises OSError, also where no hash is wanted: parsers say less clearly that a file cannot be opened."""
    if not is_wanted:
        path.open("rb").close()
        return ""
    from qwen_batch.read.hashes import hash_file

    return hash_file(path)


def _read_and_clean(item: FileItem, task: Task, digest: str) -> CleanDocument | LongText:
    kind = kind_of(item.path)
    if kind in ("text", "csv"):
        from qwen_batch.read.text.plain import is_long

        if is_long(item.path):
            return _read_long_table(item, task, digest) if kind == "csv" else _read_long_text(item, task, digest)
    return clean_document(_document(item, digest, _read_pages(item.path, kind, task)), task.clean)


def _read_long_text(item: FileItem, task: Task, digest: str) -> LongText:
    """Section by section, so that memory does not grow with the lines of the file."""
    from qwen_batch.read.text.plain import iter_sections

    return _read_sections(item, task, digest, iter_sections(item.path), "\n\n")


def _read_long_table(item: FileItem, task: Task, digest: str) -> LongText:
    """As text alone: cells would take ten times as much memory. What names the columns is said once."""
    from qwen_batch.read.text.tables_in_text import iter_table_sections

    return _read_sections(item, task, digest, iter_table_sections(item.path), "\n", HEAD_LINES)


def _read_sections(
    item: FileItem, task: Task, digest: str, sections: Iterable[Content], between: str, num_repeated: int = 0
) -> LongText:
    """The first lines of a section are left out where the first section has them already."""
    data = bytearray()
    is_first = True
    removed: list[Removal] = []
    warnings: dict[str, None] = {}
    for section in sections:
        done = clean_document(_document(item, digest, section), task.clean)
        if done.text:
            text = done.text if is_first else between + done.text.split("\n", num_repeated)[-1]
            data += text.encode("utf-8", "surrogatepass")
            is_first = False
        removed += done.removed
        warnings.update(dict.fromkeys(done.warnings))
    whole = clean_document(_document(item, digest, Content((), tuple(warnings))), task.clean)
    return LongText(whole._replace(removed=tuple(removed)), data)


def _document(item: FileItem, digest: str, content: Content) -> Document:
    return Document(
        item.doc_id,
        item.source,
        digest,
        content.pages,
        sampling=item.sampling,
        metadata=item.metadata,
        priority=item.priority,
        warnings=content.warnings,
        flags=content.flags,
    )


def _state(path: Path) -> tuple[int, int, int]:
    """What changes when a file does."""
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


def _refuse_if_changed(path: Path, before: tuple[int, int, int]) -> None:
    if _state(path) != before:
        raise DocumentError(CHANGED, "changed while it was read; the next run reads it again")


def _read_pages(path: Path, kind: Kind | None, task: Task) -> Content:
    """The parsers are loaded here and not above: only reading processes need them, and only those of their files."""
    if kind == "pdf":
        from qwen_batch.read.pdf import read_pdf

        limits = task.max_pages, task.clean.tables, task.ocr_seconds, task.ocr_pictures
        return read_pdf(path, task.passwords, *limits)
    if kind in ("text", "empty"):
        from qwen_batch.read.text.plain import read_text

        return read_text(path)
    if kind == "jsonl":
        raise DocumentError("unsupported", "JSON lines hold many documents: name the file as an input of `run`")
    if kind is None:
        raise DocumentError("unsupported", "files of this kind are not read: convert it to PDF or text")
    from qwen_batch.read.formats import read_other

    return read_other(path, kind)
