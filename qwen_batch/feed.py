"""The side of a run that does not need the device: inputs -> what is not finished yet -> clean text -> tasks.

It works in a thread of its own, so that reading and tokenising go on while the device computes. Its queue is bounded:
when the device is behind, reading waits.
"""

from __future__ import annotations

import datetime
import json
import logging
import queue
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, replace
from itertools import islice
from typing import Protocol

from qwen_batch.answer.rows import RunFacts
from qwen_batch.ingest import Ingest
from qwen_batch.job import Job
from qwen_batch.plan.keys import document_key
from qwen_batch.plan.tree import DocumentTask, Planner
from qwen_batch.read.items import FileItem, Item, hash_file, hash_id
from qwen_batch.records import CleanDocument, Failure, Status

logger = logging.getLogger(__name__)

MAX_WAITING_DOCUMENTS = 64
INPUT_TROUBLES = ("not_found", "unsearchable")  # error types of rows that stand for an input, not for a document
_UNSEARCHED = (*INPUT_TROUBLES, "unreadable")
_OF_A_LINE = re.compile(r":\d+$")  # the source of a record


@dataclass(frozen=True, slots=True)
class Ready:
    """A document that is planned, or that failed on the way."""

    outcome: DocumentTask | Failure
    key: str
    started_at: datetime.datetime  # UTC


@dataclass(frozen=True, slots=True)
class Unchanged:
    """A document that an earlier run has finished, with its row's status."""

    status: Status


@dataclass(frozen=True, slots=True)
class PlannerWanted:
    """The first document that has to be asked about: whoever owns the model answers with a planner."""

    reply: Future[Planner]


@dataclass(frozen=True, slots=True)
class Exhausted:
    """All inputs have been sent; `error` is what ended the feed early."""

    error: BaseException | None = None


Event = Ready | Unchanged | PlannerWanted | Exhausted


class Finished(Protocol):
    """What earlier runs have finished."""

    def is_current(self, doc_id: str, key: str) -> Status | None: ...


class Feed:
    """Context manager around the thread. `get` hands out its events, the last of which is Exhausted."""

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
        self._planner: Planner | None = None
        self._events: queue.Queue[Event] = queue.Queue(MAX_WAITING_DOCUMENTS)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)

    def __enter__(self) -> Feed:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(timeout=5.0)  # it may be stuck reading a pipe; it is a daemon, and its children die with us

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

    def _run(self) -> None:
        try:
            for event in self._iter_events():
                self._put(event)
                if self._stopping.is_set():
                    return
            self._put(Exhausted())
        except BaseException as error:
            self._put(Exhausted(error))

    def _put(self, event: Event) -> None:
        while not self._stopping.is_set():
            try:
                return self._events.put(event, timeout=0.2)
            except queue.Full:
                continue

    def _iter_events(self) -> Iterator[Event]:
        unchanged: queue.SimpleQueue[Unchanged] = queue.SimpleQueue()
        cleaned = Ingest(self._job.input.settings, self._job.clean.steps).iter_clean(
            self._iter_unfinished(unchanged.put)
        )
        for result in cleaned:
            yield from _drain(unchanged)
            yield self._plan(result)
        yield from _drain(unchanged)

    def _iter_unfinished(self, report: Callable[[Unchanged], None]) -> Iterator[Item]:
        for item in self._items:
            if self._stopping.is_set():
                return
            self._note_presence(item)
            status = self._finished.is_current(item.doc_id, self._key_of(item))
            if status is None or (status == "failed" and self._retry_failed):
                yield item
            else:
                report(Unchanged(status))

    def _note_presence(self, item: Item) -> None:
        if isinstance(item, Failure) and item.error_type in INPUT_TROUBLES:
            self.troubles.add(item.doc_id)
        if self._present is not None:
            self._present.add(hash_id(item.doc_id))
            if isinstance(item, Failure) and item.error_type in _UNSEARCHED and not _OF_A_LINE.search(item.source):
                self.unsearched = item.source

    def _key_of(self, item: Item) -> str:
        if not isinstance(item, FileItem):
            return self._key(item)
        try:
            content = hash_file(item.path)
        except OSError:
            content = ""  # reading it will say what is wrong
        return self._key(Failure(item.doc_id, item.source, "read", "", "", content, metadata=item.metadata))

    def _key(self, document: Item | CleanDocument) -> str:
        content = document.content_sha256 if not isinstance(document, FileItem) else ""
        if isinstance(document, Failure) and content is None:
            content = f"{document.error_type}: {document.error}"
        metadata = json.dumps(dict(document.metadata), sort_keys=True) if self._job.output.metadata else ""
        facts = self._facts
        return document_key(content or "", facts.job_sha256, facts.model_sha256, self._job.engine.precision, metadata)

    def _plan(self, result: CleanDocument | Failure) -> Ready:
        started_at = datetime.datetime.now(datetime.UTC)
        outcome: DocumentTask | Failure
        if isinstance(result, Failure):
            outcome = result
        else:
            for warning in result.warnings:
                logger.warning("%s: %s", result.doc_id, warning, extra={"doc_id": result.doc_id})
            outcome = self._start(result)
        return Ready(outcome, self._key(result), started_at)

    def _start(self, document: CleanDocument) -> DocumentTask | Failure:
        planner = self._wait_for_planner()
        try:
            outcome = planner.start(document)
        except Exception as error:  # whatever a document does to the planner hurts that document alone
            logger.exception("%s: could not be planned", document.doc_id)
            message = f"planning failed: {error!r}; please report this"
            outcome = Failure(document.doc_id, document.source, "plan", "internal", message, document.content_sha256)
        return replace(outcome, metadata=document.metadata) if isinstance(outcome, Failure) else outcome

    def _wait_for_planner(self) -> Planner:
        if self._planner is None:
            wanted = PlannerWanted(Future())
            self._put(wanted)
            while not self._stopping.is_set() and self._planner is None:
                try:
                    self._planner = wanted.reply.result(timeout=0.2)
                except TimeoutError:
                    continue
        if self._planner is None:
            raise RuntimeError("the run is being stopped")
        return self._planner


def _drain(unchanged: queue.SimpleQueue[Unchanged]) -> Iterator[Unchanged]:
    while not unchanged.empty():
        yield unchanged.get()
