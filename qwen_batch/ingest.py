"""Reading and cleaning, joined: whatever was named becomes one cleaned document or one failure.

Files are parsed and cleaned in child processes with a time and a memory limit; records are cleaned here, unless they
are large.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from qwen_batch.errors import UsageError
from qwen_batch.read.frames import Trouble
from qwen_batch.read.items import CHANGED, FileItem, Task, hash_file
from qwen_batch.read.pool import ProcessPool
from qwen_batch.records import CleanDocument, CleanSteps, Document, Failure, ReadSettings

OCR_SHARE = 0.6  # of the time for a document; what is left must do for one more page and the cleaning
LARGE_CHARS = 1_000_000  # a record with more text is cleaned in a child, under the limits
_SURROGATE = re.compile("[\ud800-\udfff]")


class Ingest:
    """Turns items into cleaned documents, several at a time. `lean`: see ProcessPool."""

    def __init__(self, input: ReadSettings, clean: CleanSteps, lean: bool = False) -> None:
        self._input = input
        self._clean = clean
        self._passwords = passwords_of(input)
        self._ocr_seconds = OCR_SHARE * input.timeout_seconds if input.ocr == "auto" else 0.0
        self._workers = input.workers or os.cpu_count() or 1
        self._lean = lean

    def iter_clean(self, items: Iterable[FileItem | Document | Failure]) -> Iterator[CleanDocument | Failure]:
        """One document or failure for each item, in the order in which they are done.

        Items are pulled only as children are free, so that neither documents nor results pile up. Closing the
        iterator ends the children.
        """
        limits = (self._input.timeout_seconds, self._input.memory_limit)
        with ProcessPool[Task, CleanDocument](
            "qwen_batch.readers:read_and_clean", self._workers, *limits, self._lean
        ) as pool:
            for item in items:
                if isinstance(item, Failure):
                    yield item
                elif isinstance(item, Document) and _num_chars(item) < LARGE_CHARS:
                    yield self._clean_here(item)
                else:
                    pool.submit(self._task(item))
                yield from _results(pool.wait(0))
                while not pool.has_room:
                    yield from _results(pool.wait())
            while pool.num_running:
                yield from _results(pool.wait())

    def _task(self, item: FileItem | Document) -> Task:
        return Task(item, self._passwords, self._input.max_pages, self._clean, self._ocr_seconds)

    def _clean_here(self, document: Document) -> CleanDocument | Failure:
        from qwen_batch.clean import clean_document  # its patterns take time to compile: only where there are records

        try:
            return clean_document(document, self._clean)
        except Exception as error:  # a defect of ours must cost one row, not the night
            trouble = Trouble("cleaning_error", f"cleaning gave up: {type(error).__name__}: {error}")
            return _failure(document, trouble)


def passwords_of(input: ReadSettings) -> tuple[str, ...]:
    """All passwords that the job gives. Raises UsageError where their file cannot be read."""
    return (*input.passwords, *_read_passwords(input.password_file))


def _read_passwords(file: str | None) -> tuple[str, ...]:
    if file is None:
        return ()
    try:
        lines = Path(file).read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"input.password_file: {file} cannot be read: {error}") from None
    return tuple(password for line in lines if (password := line.removesuffix("\r")))


def _num_chars(document: Document) -> int:
    pages = sum(len(line.text) for page in document.pages for line in page.lines)
    return pages + sum(len(message.content) for message in document.messages)


def _results(done: Iterable[tuple[Task, CleanDocument | Trouble]]) -> Iterator[CleanDocument | Failure]:
    for task, result in done:
        yield _failure(task.item, result) if isinstance(result, Trouble) else result


def _failure(item: FileItem | Document, trouble: Trouble) -> Failure:
    return Failure(
        doc_id=item.doc_id,
        source=item.source,
        stage="clean" if trouble.error_type == "cleaning_error" else "read",
        error_type=trouble.error_type,
        error=_mended(trouble.error),
        content_sha256=_content_of(item, trouble),
        metadata=item.metadata,
    )


def _content_of(item: FileItem | Document, trouble: Trouble) -> str | None:
    """None for a file that changed meanwhile: its row must not count as that of the new content."""
    if isinstance(item, Document):
        return item.content_sha256
    return None if trouble.error_type == CHANGED else _hash_or_none(item.path)


def _hash_or_none(path: Path) -> str | None:
    try:
        return hash_file(path)
    except OSError:
        return None


def extract(path: Path, input: ReadSettings, clean: CleanSteps, lean: bool = False) -> CleanDocument | Failure:
    """Read and clean one file, in a child under the same limits. `lean`: see ProcessPool."""
    item = FileItem(_mended(path.name), path, _mended(str(path)))
    if not path.is_file():
        return Failure(item.doc_id, item.source, "read", "not_found", f"{item.source}: {_what_is(path)}")
    ingest = Ingest(dataclasses.replace(input, workers=1), clean, lean)
    return next(iter(ingest.iter_clean([item])))


def _what_is(path: Path) -> str:
    """In words, what is no file."""
    if path.is_dir():
        return "a folder; name a file"
    return "a device or a pipe; save what it gives as a file, and name that" if path.exists() else "no such file"


def extract_report(path: Path, result: CleanDocument | Failure) -> dict[str, Any]:
    """The JSON of `qwen-batch extract`; every value can be encoded as UTF-8."""
    source = _mended(str(path))
    if isinstance(result, Failure):
        return {
            "source": source,
            "status": "failed",
            "error_type": result.error_type,
            "error": _mended(result.error),
            "num_pages": result.num_pages or 0,
            **{"text": "", "pages": [], "removed": [], "warnings": []},
        }
    return {
        "source": source,
        "status": "ok",
        "error_type": None,
        "error": None,
        "num_pages": len(result.pages),
        "text": _mended(result.text),
        "pages": [
            {
                "page_number": page.page_number,
                "text": _mended(page.text),
                "tables": [
                    {
                        "rows": [[_mended(cell) for cell in row] for row in table.rows],
                        "bbox": list(table.bbox) if table.bbox else None,
                        "header_rows": table.header_rows,
                        "spans": [dataclasses.asdict(span) for span in table.spans],
                    }
                    for table in page.tables
                ],
            }
            for page in result.pages
        ],
        "removed": [
            {"page_number": removal.page_number, "text": _mended(removal.text), "reason": removal.reason}
            for removal in result.removed
        ],
        "warnings": [_mended(warning) for warning in result.warnings],
    }


def format_report(report: Mapping[str, Any]) -> str:
    """The report for people: what became of the file, what was taken out, and the text."""
    if report["status"] != "ok":
        return f"{report['source']}: {report['status']} ({report['error_type']}): {report['error']}"
    count = report["num_pages"]
    lines = [f"{report['source']}: {count} page{'' if count == 1 else 's'}"]
    lines += [f"warning: {warning}" for warning in report["warnings"]]
    reasons = Counter(removal["reason"] for removal in report["removed"])
    lines += [f"removed: {number} x {reason}" for reason, number in sorted(reasons.items())]
    return "\n".join((*lines, "", report["text"], ""))


def _mended(text: str) -> str:
    """Without lone surrogates, which file names of other encodings bring."""
    return _SURROGATE.sub("\ufffd", text)
