"""Reading and cleaning, joined: whatever was named becomes one cleaned document or one failure.

Files are parsed and cleaned in child processes with a time and a memory limit; records are cleaned here, unless they
are large.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from qwen_batch.errors import UsageError
from qwen_batch.read.frames import Trouble
from qwen_batch.read.items import CHANGED, FileItem, Task
from qwen_batch.read.kinds import SUFFIXES
from qwen_batch.read.pool import ProcessPool
from qwen_batch.records import CleanDocument, CleanSteps, Document, Failure, ReadSettings
from qwen_batch.reports import mended, path_text

OCR_SHARE = 0.6  # of the time for a document; what is left must do for one more page and the cleaning
MAX_AHEAD = 4  # results for each child that may wait for an earlier one, where their order is kept
WAKE_SECONDS = 0.2  # between two looks whether the run is being stopped
MAX_PASSWORD_BYTES = 1 << 20  # of their file; a larger one is something else
NOT_REGULAR = "a device or a pipe; save what it gives as a file, and name that"
LONG_TEXT = 10_000_000  # bytes of a text file; what is longer has more time
BYTES_A_SECOND = 250_000  # at least, on a machine that does much else; 2 million by itself
LARGE_CHARS = 1_000_000  # a record with more text is cleaned in a child, under the limits


class Ingest:
    """Turns items into cleaned documents, several at a time.

    `lean`: see ProcessPool. `is_hashed`: whether the hash of a file's content is asked for.
    """

    def __init__(self, input: ReadSettings, clean: CleanSteps, lean: bool = False, is_hashed: bool = True) -> None:
        self._input = input
        self._clean = clean
        self._passwords = passwords_of(input)
        self._ocr_seconds = OCR_SHARE * input.timeout_seconds if input.ocr != "off" else 0.0
        self._workers = input.workers or os.cpu_count() or 1
        self._lean = lean
        self._is_hashed = is_hashed

    def iter_clean(
        self, items: Iterable[FileItem | Document | Failure], stopping: Callable[[], bool] = lambda: False
    ) -> Iterator[CleanDocument | Failure]:
        """One document or failure for each item, in the order in which they are done.

        Items are pulled only as children are free, so that neither documents nor results pile up. Closing the
        iterator ends the children, and so does `stopping`, which is asked while they are waited for.
        """
        with self._pool() as pool:
            for item in items:
                if isinstance(item, Failure):
                    yield item
                elif isinstance(item, Document) and _num_chars(item) < LARGE_CHARS:
                    yield self._clean_here(item)
                else:
                    pool.submit(self._task(item), more_seconds(item))
                yield from (_result(*done) for done in pool.wait(0))
                while not pool.has_room and not stopping():
                    yield from (_result(*done) for done in pool.wait(WAKE_SECONDS))
                if stopping():
                    return
            while pool.num_running and not stopping():
                yield from (_result(*done) for done in pool.wait(WAKE_SECONDS))

    def iter_in_order(self, items: Iterable[FileItem | Failure]) -> Iterator[CleanDocument | Failure]:
        """As `iter_clean`, in the order of the items. Each must be an object of its own."""
        source = iter(items)
        waiting: deque[FileItem | Failure] = deque()
        done: dict[int, CleanDocument | Failure] = {}  # by the identity of the item
        is_more = True
        with self._pool() as pool:
            while is_more or waiting:
                while is_more and pool.has_room and len(waiting) < MAX_AHEAD * self._workers:
                    item = next(source, None)
                    is_more = item is not None
                    if item is not None:
                        waiting.append(item)
                        if isinstance(item, Failure):
                            done[id(item)] = item
                        else:
                            pool.submit(self._task(item), more_seconds(item))
                if waiting and id(waiting[0]) not in done:
                    done.update((id(task.item), _result(task, result)) for task, result in pool.wait())
                while waiting and id(waiting[0]) in done:
                    yield done.pop(id(waiting.popleft()))

    def _pool(self) -> ProcessPool[Task, CleanDocument]:
        limits = (self._input.timeout_seconds, self._input.memory_limit)
        return ProcessPool("qwen_batch.readers:read_for_parent", self._workers, *limits, self._lean)

    def _task(self, item: FileItem | Document) -> Task:
        ocr = self._ocr_seconds, self._input.ocr == "all"
        return Task(item, self._passwords, self._input.max_pages, self._clean, *ocr, self._is_hashed)

    def _clean_here(self, document: Document) -> CleanDocument | Failure:
        from qwen_batch.clean import clean_document  # its patterns take time to compile: only where there are records

        try:
            return clean_document(document, self._clean)
        except Exception as error:  # a defect of ours must cost one row, not the night
            trouble = Trouble("cleaning_error", f"cleaning gave up: {type(error).__name__}: {error}")
            return _failure(document, trouble, document.content_sha256)


def more_seconds(item: FileItem | Document) -> float:
    """What a long text file may take beyond input.timeout_seconds: it is read to its end, whatever it says, while the
    time that a page of a PDF takes has no bound."""
    if not isinstance(item, FileItem) or SUFFIXES.get(item.path.suffix.lower()) not in ("text", "csv"):
        return 0.0
    try:
        size = item.path.stat().st_size
    except OSError:  # the child will say it
        return 0.0
    return max(0, size - LONG_TEXT) / BYTES_A_SECOND


def passwords_of(input: ReadSettings) -> tuple[str, ...]:
    """All passwords that the job gives. Raises UsageError where their file cannot be read."""
    return (*input.passwords, *_read_passwords(input.password_file))


def _read_passwords(file: str | None) -> tuple[str, ...]:
    """One a line, with the blanks that it has; empty lines are none."""
    if file is None:
        return ()
    try:
        if not stat.S_ISREG(os.stat(file).st_mode):  # opening a pipe waits for whoever writes to it
            raise UsageError(f"input.password_file: {file} is not a file but a folder, a pipe or a device")
        with open(file, "rb") as stream:
            content = stream.read(MAX_PASSWORD_BYTES + 1)
        text = content.decode("utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"input.password_file: {file} cannot be read: {error}") from None
    if len(content) > MAX_PASSWORD_BYTES:
        raise UsageError(f"input.password_file: {file} is larger than 1 MiB: it must hold one password a line")
    return tuple(password for line in text.split("\n") if (password := line.removesuffix("\r")))


def _num_chars(document: Document) -> int:
    pages = sum(len(line.text) for page in document.pages for line in page.lines)
    return pages + sum(len(message.content) for message in document.messages)


def _result(task: Task, result: CleanDocument | Trouble) -> CleanDocument | Failure:
    if isinstance(result, Trouble):
        return _failure(task.item, result, _content_of(task, result))
    return result


def _failure(item: FileItem | Document, trouble: Trouble, content_sha256: str | None) -> Failure:
    return Failure(
        doc_id=item.doc_id,
        source=item.source,
        stage="clean" if trouble.error_type == "cleaning_error" else "read",
        error_type=trouble.error_type,
        error=mended(trouble.error),
        content_sha256=content_sha256,
        num_pages=trouble.num_pages,
        metadata=item.metadata,
    )


def _content_of(task: Task, trouble: Trouble) -> str | None:
    """None for a file that changed meanwhile: its row must not count as that of the new content."""
    if isinstance(task.item, Document):
        return task.item.content_sha256
    return _hash_or_none(task.item.path) if task.is_hashed and trouble.error_type != CHANGED else None


def _hash_or_none(path: Path) -> str | None:
    from qwen_batch.read.hashes import hash_file

    try:
        return hash_file(path)
    except OSError:
        return None


def extract(path: Path, input: ReadSettings, clean: CleanSteps, lean: bool = False) -> CleanDocument | Failure:
    """Read and clean one file, in a child under the same limits. `lean`: see ProcessPool."""
    return next(extract_all([path], input, clean, lean))


def extract_all(
    paths: Sequence[Path], input: ReadSettings, clean: CleanSteps, lean: bool = False
) -> Iterator[CleanDocument | Failure]:
    """Read and clean files, several at a time; what became of them comes in their order."""
    workers = input.workers or os.cpu_count() or 1
    ingest = Ingest(input._replace(workers=min(len(paths), workers)), clean, lean, is_hashed=False)
    return ingest.iter_in_order(_named(path) for path in paths)


def _named(path: Path) -> FileItem | Failure:
    item = FileItem(path_text(path), path, path_text(path))
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return _refused(item, "not_found", "no such file")
    except OSError as error:  # folders that one may not enter, links that lead in a circle, names without end
        return _refused(item, "unreadable", f"cannot be read: {error.strerror}")
    if stat.S_ISREG(mode):
        return item
    what = "a folder; name a file" if stat.S_ISDIR(mode) else NOT_REGULAR
    return _refused(item, "not_found", what)


def _refused(item: FileItem, error_type: str, reason: str) -> Failure:
    return Failure(item.doc_id, item.source, "read", error_type, f"{item.source}: {reason}")
