"""A table of part files whose rows survive any stop: each is durable in the journal before it is in a part.

What happens to a row, and what a stop at that point leaves for the next `open` to do:

    new ──journal.add──▶ pending ──write, sync──▶ temporary ──rename, sync folder──▶ in its part ──note_part──▶ noted

    new          nothing is known of it: it is computed again
    pending      the journal has it, with part NULL: it is written
    temporary    the same; the temporary file is removed first
    in its part  the same; writing it again into its place changes nothing
    noted        nothing; when its part is later lost or put back from an older copy, it is pending again

The table on disk holds an id at most once at every instant: a new row for an id takes the place of the old one in the
same part, and that part changes by one rename. Rows that are in a part but not in the journal (which was lost) stay,
and keep their place when they are computed again. An id that stands twice (two folders were merged, say) keeps its
newest row. Parts with other columns (`output.metadata` was switched) are rewritten from the journal at `open`; a row
that the journal lacks gets empty values there.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence

from qwen_batch.write.compact import compact
from qwen_batch.write.disk import Disk, output_errors
from qwen_batch.write.journal import Journal, JournaledKind
from qwen_batch.write.parts import PartFolder
from qwen_batch.write.schema import Columns, rows_to_table

logger = logging.getLogger(__name__)

_RECOVERY_ROWS = 1000  # rows in memory at once while pending rows are written; a row is some kB


class JournaledTable:
    """One table and its rows in the journal. Not for several threads at once; every method raises OutputError."""

    def __init__(
        self,
        parts: PartFolder,
        journal: Journal,
        kind: JournaledKind,
        disk: Disk,
        *,
        flush_rows: int,
        flush_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._parts = parts
        self._journal = journal
        self._kind = kind
        self._disk = disk
        self._flush_rows = flush_rows
        self._flush_seconds = flush_seconds
        self._clock = clock
        self._pending: dict[str, Columns] = {}
        self._pending_since = 0.0

    def recover(self) -> None:
        """Bring the part files to what the journal says; afterwards nothing is pending."""
        parts = self._parts
        parts.scan()
        if parts.other_schema:
            logger.info("%s: rewriting %d parts for the job's columns", parts.folder, len(parts.other_schema))
            self._journal.forget_parts(self._kind, parts.other_schema)  # first: a stop from here on rewrites them
        if parts.duplicates:
            count = sum(map(len, parts.duplicates.values()))
            logger.warning("%s: %d rows stood there twice; the newest of each is kept", parts.folder, count)
        parts.repair()
        self._journal.reconcile(self._kind, parts.places)
        while rows := self._journal.pending(self._kind, _RECOVERY_ROWS):
            self._write(rows)

    def check(self, rows: Sequence[Columns]) -> None:
        """Raise ValueError unless these rows can be written; to be asked before they go into the journal."""
        rows_to_table([self._fit(row) for row in rows], self._parts.schema)

    def add(self, rows: Sequence[Columns]) -> None:
        """Take rows that the journal has. Flushes when enough have come, or the first has waited long enough."""
        if rows and not self._pending:
            self._pending_since = self._clock()
        for row in rows:
            self._pending[row[self._kind.id_column]] = row
        self.tick()

    def tick(self) -> None:
        """Flush if it is time."""
        waited = self._clock() - self._pending_since
        if len(self._pending) >= self._flush_rows or (self._pending and waited >= self._flush_seconds):
            self.flush()

    def flush(self) -> None:
        """Write what is pending. After an error it still is, here and in the journal."""
        self._write(list(self._pending.values()))

    def ids(self) -> Iterable[str]:
        """Ids of all rows that part files hold."""
        return self._parts.places.keys()

    def holds(self, id_: str) -> bool:
        """Whether there is a row of this id, in a part file or on its way there; asks no medium."""
        return id_ in self._pending or id_ in self._parts.places

    def drop(self, ids: Iterable[str]) -> None:
        """Take rows that the journal has forgotten out of the part files."""
        self._parts.drop(ids)

    def compact(self) -> None:
        """Merge small parts, if there are many."""
        parts = self._parts
        with output_errors(parts.folder):
            changed = compact(parts.folder, parts.num_rows, self._disk)
        if changed:
            parts.rescan()
            self._journal.reconcile(self._kind, parts.places)

    def _write(self, rows: Sequence[Columns]) -> None:
        for part, ids in self._parts.write([self._fit(row) for row in rows]):
            self._journal.note_part(self._kind, ids, part)
            for id_ in ids:
                self._pending.pop(id_, None)

    def _fit(self, row: Columns) -> Columns:
        """The journal always has the metadata; the table does only when the job asks for it."""
        if "metadata" in row and "metadata" not in self._parts.schema.names:
            return {name: value for name, value in row.items() if name != "metadata"}
        return row
