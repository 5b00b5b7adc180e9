"""The output folder as the pipeline sees it: what is finished, and where finished things go."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from qwen_batch.records import Completion, ResultRow, Status, clean_id
from qwen_batch.write.audit import AuditEvent, AuditLog, document_event
from qwen_batch.write.calls import CALL_SCHEMA, ModelCall, call_to_json, columns_from_json
from qwen_batch.write.disk import Disk
from qwen_batch.write.in_flight import InFlight
from qwen_batch.write.journal import COMPLETIONS, DOCUMENTS, Journal, JournaledKind, JournaledRow
from qwen_batch.write.parts import PartFolder
from qwen_batch.write.schema import result_schema, row_to_dict
from qwen_batch.write.table import JournaledTable


class RowSink(Protocol):
    """Where rows go: an output folder (ResultStore) or standard output (JsonlWriter)."""

    def is_current(self, doc_id: str, key: str | None) -> Status | None:
        """Status of the document's finished row if it was computed under this key; None: under any."""

    def completion(self, key: str) -> Completion | None:
        """The completion that was already computed under this key."""

    def add_completions(self, calls: Sequence[ModelCall]) -> None:
        """Keep what the model answered."""

    def add_rows(self, items: Sequence[tuple[ResultRow, str]]) -> None:
        """Keep finished rows, each with the key under which it was computed."""

    def begin(self, doc_ids: Sequence[str]) -> None:
        """Note that the model is about to work on these documents. Waits for no medium."""

    def deaths(self, doc_id: str) -> int:
        """How many runs died while they worked on this document, without a row in between."""

    def record(self, event: str, fields: Mapping[str, object]) -> None:
        """Write an event of the run into the audit log."""

    def drop_missing(self, is_present: Callable[[str], bool]) -> int:
        """Take out the rows of documents that are gone; how many there were."""

    def drop_failed(self, error_types: Collection[str], is_present: Callable[[str], bool]) -> int:
        """Take out failed rows of these error types that are not present; how many there were."""

    def tick(self) -> None:
        """Called often: do what is due."""

    def flush(self) -> None:
        """Show readers everything that was added."""

    def close(self, *, in_order: bool = True) -> None:
        """Flush and let go. in_order False: what ended the run may be a document that is in flight."""


class ResultStore:
    """The journal and the tables of an output folder. Any thread may call any method; each raises OutputError.

    What `add_rows` and `add_completions` were given is durable when they return, and also when they raise after the
    journal took it (the disk filled up while a part was written): the next `open` writes it.
    """

    def __init__(
        self,
        journal: Journal,
        results: JournaledTable,
        completions: JournaledTable | None,
        audit: AuditLog,
        in_flight: InFlight,
        *,
        audit_text: bool,
    ) -> None:
        self._journal = journal
        self._results = results
        self._completions = completions
        self._audit = audit
        self._audit_text = audit_text
        self._in_flight = in_flight
        self._lock = threading.RLock()  # over the tables; the journal has its own, so questions never wait for a flush
        self._closed = False

    @classmethod
    def open(
        cls,
        folder: Path,
        *,
        metadata: bool,
        flush_rows: int,
        flush_seconds: float,
        keep_completions: bool = False,
        fresh: bool = False,
        audit_days: int = 184,
        audit_text: bool = False,
        disk: Disk | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> ResultStore:
        """Open or create the folder, and finish what an earlier run could not.

        flush_rows: rows that wait in the journal at most before a part is written; also the rows of a full part.
        fresh: everything counts as not computed; the old rows stay in the table until new ones replace them.
        """
        disk = disk or Disk()

        def table(name: str, schema: pa.Schema, kind: JournaledKind, stamp_column: str | None) -> JournaledTable:
            parts = PartFolder(
                folder / name,
                schema,
                id_column=kind.id_column,
                stamp_column=stamp_column,
                part_rows=flush_rows,
                disk=disk,
            )
            made = JournaledTable(
                parts, journal, kind, disk, flush_rows=flush_rows, flush_seconds=flush_seconds, clock=clock
            )
            made.recover()
            return made

        def drop_what_leaves(results: JournaledTable) -> None:
            if leaving := journal.leaving():
                results.drop([doc_id for doc_id in leaving if results.holds(doc_id)])
                journal.has_left()

        with ExitStack() as on_error:
            journal = Journal.open(folder / ".journal" / "journal.sqlite", disk)
            on_error.callback(journal.close)
            results = table("results", result_schema(metadata=metadata), DOCUMENTS, "finished_at")
            drop_what_leaves(results)
            completions = table("completions", CALL_SCHEMA, COMPLETIONS, None) if keep_completions else None
            if fresh:
                journal.forget_keys()
            audit = AuditLog(folder / "audit", journal, disk, retention_days=audit_days)
            audit.recover()
            in_flight = InFlight(journal)
            in_flight.recover()
            on_error.pop_all()
        return cls(journal, results, completions, audit, in_flight, audit_text=audit_text)

    def is_current(self, doc_id: str, key: str | None) -> Status | None:
        if not self._results.holds(clean_id(doc_id)):
            return None
        found = self._journal.current_key(doc_id)
        return found[1] if found is not None and key in (None, found[0]) else None

    def completion(self, key: str) -> Completion | None:
        return self._journal.completion(key)

    def add_completions(self, calls: Sequence[ModelCall]) -> None:
        with self._lock:
            self._journal.add_completions(calls)
            self._in_flight.progress(call.doc_id for call in calls)
            if self._completions is not None:
                self._completions.add([columns_from_json(call_to_json(call)) for call in calls])

    def add_rows(self, items: Sequence[tuple[ResultRow, str]]) -> None:
        """Raises ValueError, and keeps none of them, when a row does not fit the table."""
        rows = [(row_to_dict(row), key) for row, key in items]
        with self._lock:
            self._results.check([row for row, _ in rows])
            self._journal.add_rows(rows, self._keep_with)
            self._audit.added()
            self._results.add([row for row, _ in rows])

    def _keep_with(self, connection: sqlite3.Connection, rows: Sequence[JournaledRow]) -> None:
        """What belongs into the same transaction as rows."""
        self._audit.add(connection, [document_event(row, with_text=self._audit_text) for row in rows])
        self._in_flight.end(connection, [row.columns["doc_id"] for row in rows])

    def begin(self, doc_ids: Sequence[str]) -> None:
        self._in_flight.begin(doc_ids)  # without our lock: the device waits for this, and not for a part being written

    def deaths(self, doc_id: str) -> int:
        return self._in_flight.deaths(doc_id)

    def record(self, event: str, fields: Mapping[str, object]) -> None:
        with self._lock:
            self._audit.record(AuditEvent(event, fields))

    def drop_missing(self, is_present: Callable[[str], bool]) -> int:
        with self._lock:
            self.flush()
            return self._drop([doc_id for doc_id in self._results.ids() if not is_present(doc_id)])

    def drop_failed(self, error_types: Collection[str], is_present: Callable[[str], bool]) -> int:
        with self._lock:
            failed = self._journal.failed_rows()
            gone = [row["doc_id"] for row in failed if row["error_type"] in error_types]
            gone = [doc_id for doc_id in gone if not is_present(doc_id)]
            if gone:
                self.flush()
            return self._drop(gone)

    def _drop(self, gone: list[str]) -> int:
        """Rows that are in part files."""
        if gone:
            events = [AuditEvent("document_dropped", {"doc_id": doc_id}) for doc_id in gone]
            self._journal.forget_documents(gone, lambda connection: self._audit.add(connection, events))
            self._audit.added()
            self._results.drop(gone)
            self._journal.has_left()
        return len(gone)

    def tick(self) -> None:
        with self._lock:
            for table in self._tables():
                table.tick()

    def flush(self) -> None:
        with self._lock:
            for table in self._tables():
                table.flush()
            self._audit.flush()

    def close(self, *, in_order: bool = True) -> None:
        """Flush, compact, and let go of the journal. Doing it again does nothing."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            try:
                if in_order:  # else the documents in flight are suspects, as after a death
                    self._in_flight.close()
                self.flush()
                for table in self._tables():
                    table.compact()
            finally:
                self._journal.close()

    def _tables(self) -> list[JournaledTable]:
        return [self._results, *([self._completions] if self._completions is not None else [])]
