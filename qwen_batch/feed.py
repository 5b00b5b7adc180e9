"""The side of a run that does not need the device: inputs -> what is not finished yet -> clean text -> tasks.

    read thread   inputs -> unfinished ones -> child processes (read, clean) -> queue
    plan thread   as many as are there -> prompts, tokens, what the journal knows of their calls -> queue

So reading and tokenising go on while the device computes. The queues are bounded: when the device is behind, reading
waits. What has been read is planned together, since every single encoding would wait for the interpreter.
"""

from __future__ import annotations

import datetime
import json
import logging
import queue
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import islice
from typing import Protocol, TypeVar

from qwen_batch.answer.rows import RunFacts
from qwen_batch.calls import Prepared
from qwen_batch.ingest import Ingest
from qwen_batch.job import Job
from qwen_batch.plan.keys import document_key
from qwen_batch.plan.tree import DocumentTask, Planner
from qwen_batch.read.hashes import hash_file, hash_id
from qwen_batch.read.items import FileItem, Item
from qwen_batch.records import CleanDocument, Failure, Request, Status

logger = logging.getLogger(__name__)

MAX_WAITING_DOCUMENTS = 64
MAX_PLANNED_TOGETHER = 32
STOP_SECONDS = 1.0  # that a run which ends waits for both threads
MAX_CHARS_TOGETHER = 200_000  # more is worth its own encoding, and takes memory
INPUT_TROUBLES = ("not_found", "unsearchable")  # error types of rows that stand for an input, not for a document
_UNSEARCHED = (*INPUT_TROUBLES, "unreadable")
_OF_A_LINE = re.compile(r":\d+$")  # the source of a record


@dataclass(frozen=True, slots=True)
class Ready:
    """A document that is planned, or that failed on the way."""

    outcome: DocumentTask | Failure
    key: str
    started_at: datetime.datetime  # UTC
    calls: Sequence[Prepared] = ()  # the task's first


@dataclass(frozen=True, slots=True)
class Unchanged:
    """A document that an earlier run has finished, with its row's status."""

    status: Status


@dataclass(frozen=True, slots=True)
class Asking:
    """What makes calls of documents. Belongs to the plan thread."""

    planner: Planner
    prepare: Callable[[Iterable[Request]], Sequence[Prepared]]


@dataclass(frozen=True, slots=True)
class PlannerWanted:
    """The first document that has to be asked about: whoever owns the model answers."""

    reply: Future[Asking]


@dataclass(frozen=True, slots=True)
class Exhausted:
    """All inputs have been sent; `error` is what ended the feed early."""

    error: BaseException | None = None


Event = Ready | Unchanged | PlannerWanted | Exhausted
T = TypeVar("T")


class _StoppingError(BaseException):
    """The run is being stopped: no document's fault."""


class Finished(Protocol):
    """What earlier runs have finished."""

    def is_current(self, doc_id: str, key: str | None) -> Status | None: ...


class Feed:
    """Context manager around the threads. `get` hands out their events, the last of which is Exhausted."""

    def __init__(
        self,
        items: Iterable[Item],
        job: Job,
        facts: RunFacts,
        finished: Finished,
        *,
        limit: int | None = None,
        retry_failed: bool = False,
    ) -> None:
        self._items = islice(items, limit)
        self._job = job
        self._facts = facts
        self._finished = finished
        self._retry_failed = retry_failed
        self._present: set[int] | None = set() if job.input.missing == "drop" else None
        self.troubles: set[str] = set()  # ids of rows that stand for inputs in trouble
        self.unsearched: str | None = None  # an input that could not be searched through
        self.num_reading = 0  # documents that are being read; written by the read thread alone
        self.num_planning = 0  # that are being planned; written by the plan thread alone
        self.planned_share = 0.0  # of the long one among these, as well
        self._asking: Asking | None = None
        self._cleaned: queue.Queue[CleanDocument | Failure | Exhausted] = queue.Queue(MAX_PLANNED_TOGETHER)
        self._events: queue.Queue[Event] = queue.Queue(MAX_WAITING_DOCUMENTS)
        self._stopping = threading.Event()
        self._threads = [  # daemons: reading may be stuck in a pipe when the run ends; its children die with us
            threading.Thread(target=self._read, name="read", daemon=True),
            threading.Thread(target=self._plan, name="plan", daemon=True),
        ]

    def __enter__(self) -> Feed:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        end = time.monotonic() + STOP_SECONDS
        for thread in self._threads:
            thread.join(timeout=max(0.0, end - time.monotonic()))

    @property
    def num_present(self) -> int:
        """Documents among the inputs; counted only where the job drops missing ones."""
        return len(self._present or ())

    def is_present(self, doc_id: str) -> bool:
        """Whether the inputs had this document, by the id of its row. To be asked when the feed is exhausted."""
        return self._present is None or hash_id(doc_id) in self._present

    def get(self, timeout_seconds: float) -> Event | None:
        """The next event, None when there is none in time."""
        try:
            return self._events.get(timeout=timeout_seconds) if timeout_seconds else self._events.get_nowait()
        except queue.Empty:
            return None

    def note_planned(self, share: float) -> None:
        """A long document is planned so far (0..1). Breaks off when the run is being stopped."""
        self.planned_share = share
        if self._stopping.is_set():
            raise _StoppingError

    def _read(self) -> None:
        try:
            ingest = Ingest(self._job.input.settings, self._job.clean.steps)
            for result in ingest.iter_clean(self._iter_unfinished(), self._stopping.is_set):
                self.num_reading -= 1
                self._put(self._cleaned, result)
                if self._stopping.is_set():
                    return
            self._put(self._cleaned, Exhausted())
        except BaseException as error:
            self._put(self._cleaned, Exhausted(error))

    def _plan(self) -> None:
        try:
            while not self._stopping.is_set():
                cleaned = self._take_cleaned()
                self.num_planning, self.planned_share = len(cleaned), 0.0
                for event in self._planned(cleaned):
                    self._put(self._events, event)
                    if isinstance(event, Exhausted):
                        return
        except BaseException as error:
            self._put(self._events, Exhausted(error))

    def _put(self, target: queue.Queue[T], item: T) -> None:
        while not self._stopping.is_set():
            try:
                return target.put(item, timeout=0.2)
            except queue.Full:
                continue

    def _take_cleaned(self) -> list[CleanDocument | Failure | Exhausted]:
        """What has been read, up to a limit; waits for one of them, and for no second."""
        taken: list[CleanDocument | Failure | Exhausted] = []
        num_chars = 0
        try:
            while len(taken) < MAX_PLANNED_TOGETHER and num_chars < MAX_CHARS_TOGETHER:
                item = self._cleaned.get_nowait() if taken else self._cleaned.get(timeout=0.2)
                num_chars += len(item.text) if isinstance(item, CleanDocument) else 0
                taken.append(item)
        except queue.Empty:
            pass
        return taken

    def _iter_unfinished(self) -> Iterator[Item]:
        for item in self._items:
            if self._stopping.is_set():
                return
            self._note_presence(item)
            key = self._key_of(item)
            status = self._finished.is_current(item.doc_id, key)
            if status is None or (status == "failed" and self._retry_failed):
                self.num_reading += 1
                yield item
            elif key is None:
                logger.warning("%s: is gone since the inputs were listed; its row stays", item.doc_id)
                self._put(self._events, Unchanged(status))
            else:
                self._put(self._events, Unchanged(status))

    def _note_presence(self, item: Item) -> None:
        if isinstance(item, Failure) and item.error_type in INPUT_TROUBLES:
            self.troubles.add(item.doc_id)
        if self._present is not None:
            self._present.add(hash_id(item.doc_id))
            if isinstance(item, Failure) and item.error_type in _UNSEARCHED and not _OF_A_LINE.search(item.source):
                self.unsearched = item.source

    def _key_of(self, item: Item) -> str | None:
        """None for a file that is gone since it was listed."""
        if not isinstance(item, FileItem):
            return self._key(item)
        try:
            content = hash_file(item.path)
        except FileNotFoundError:
            return None
        except OSError:
            content = ""  # reading it will say what is wrong
        return self._key(Failure(item.doc_id, item.source, "read", "", "", content, metadata=item.metadata))

    def _key(self, document: Item | CleanDocument) -> str:
        content = document.content_sha256 if not isinstance(document, FileItem) else ""
        if isinstance(document, Failure) and content is None:
            content = f"{document.error_type}: {document.error}"
        metadata = json.dumps(dict(document.metadata), sort_keys=True)  # in the journal, though maybe not in the table
        facts = self._facts
        return document_key(content or "", facts.job_sha256, facts.model_sha256, self._job.engine.precision, metadata)

    def _planned(self, items: Sequence[CleanDocument | Failure | Exhausted]) -> Iterator[Ready | Exhausted]:
        """The events of what was read, in its order."""
        started_at = datetime.datetime.now(datetime.UTC)
        tasks = iter(self._start([item for item in items if isinstance(item, CleanDocument)]))
        for item in items:
            if isinstance(item, Exhausted):
                yield item
            else:
                outcome = next(tasks) if isinstance(item, CleanDocument) else item
                if isinstance(outcome, Failure) and outcome.error_type in INPUT_TROUBLES:  # a file that has gone since
                    self.troubles.add(outcome.doc_id)
                calls = self._prepared(outcome) if isinstance(outcome, DocumentTask) else ()
                yield Ready(outcome, self._key(item), started_at, calls)

    def _prepared(self, task: DocumentTask) -> Sequence[Prepared]:
        return self._wait_for_asking().prepare(task.requests())

    def _start(self, documents: Sequence[CleanDocument]) -> list[DocumentTask | Failure]:
        for document in documents:
            for warning in document.warnings:
                logger.warning("%s: %s", document.doc_id, warning, extra={"doc_id": document.doc_id})
        if not documents:
            return []
        planner = self._wait_for_asking().planner
        try:
            outcomes = planner.start_all(documents)
        except Exception:  # of one of them
            outcomes = [_start_one(planner, document) for document in documents]
        return [
            outcome._replace(metadata=document.metadata) if isinstance(outcome, Failure) else outcome
            for outcome, document in zip(outcomes, documents, strict=True)
        ]

    def _wait_for_asking(self) -> Asking:
        if self._asking is None:
            wanted = PlannerWanted(Future())
            self._put(self._events, wanted)
            while not self._stopping.is_set() and self._asking is None:
                try:
                    self._asking = wanted.reply.result(timeout=0.2)
                except TimeoutError:
                    continue
        if self._asking is None:
            raise RuntimeError("the run is being stopped")
        return self._asking


def _start_one(planner: Planner, document: CleanDocument) -> DocumentTask | Failure:
    try:
        return planner.start(document)
    except Exception as error:  # whatever a document does to the planner hurts that document alone
        logger.exception("%s: could not be planned", document.doc_id)
        message = f"planning failed: {error!r}; please report this"
        return Failure(document.doc_id, document.source, "plan", "internal", message, document.content_sha256)
