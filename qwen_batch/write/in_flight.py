"""Which documents were being worked on when a run died, so that the one that kills runs is found and set aside.

    unknown ──begin──▶ open ──its row, in one transaction──▶ unknown
                        │ the process dies; the next run opens the folder
                        ▼
                    suspect (deaths + 1, closed) ──begin──▶ open ...

Work begins right before the device gets the first of a document's calls; what only waits for that stays unknown.

A run that ends in order closes its documents without a death. Suspects are asked last and one at a time, so that the
next death names one document; after MAX_DEATHS it is quarantined. A power cut or a kill from outside counts as a death
too: an innocent document would have to meet three in a row, with no call of it answered in between. (One call that
kills runs is the last that is left of its document, sooner or later.)
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence

from qwen_batch.records import clean_id
from qwen_batch.write.journal import Journal
from qwen_batch.write.many_rows import for_ids, insert_rows

MAX_DEATHS = 3  # of runs, while a document was in flight in each


class InFlight:
    """The journal's table of that name. Raises OutputError."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._deaths: dict[str, int] = {}

    def recover(self) -> None:
        """Count a death for what the last run left open."""
        if self._journal.query("SELECT 1 FROM in_flight WHERE is_open LIMIT 1"):
            with self._journal.transaction() as connection:
                connection.execute("UPDATE in_flight SET deaths = deaths + 1, is_open = 0 WHERE is_open")
        self._deaths = dict(self._journal.query("SELECT doc_id, deaths FROM in_flight WHERE deaths > 0"))

    def deaths(self, doc_id: str) -> int:
        """Runs that died while they worked on this document, since it last had a row or an answer to a call."""
        return self._deaths.get(clean_id(doc_id), 0)

    def begin(self, doc_ids: Iterable[str]) -> None:
        """Note that work on these documents begins. Survives the process, not a power cut."""
        values = [(clean_id(doc_id), 0, 1) for doc_id in doc_ids]
        with self._journal.hasty_transaction() as connection:
            insert_rows(connection, "INSERT INTO in_flight", values, "ON CONFLICT (doc_id) DO UPDATE SET is_open = 1")

    def end(self, connection: sqlite3.Connection, doc_ids: Sequence[str]) -> None:
        """These documents have their rows; inside the transaction that keeps them."""
        for_ids(connection, "DELETE FROM in_flight WHERE doc_id", doc_ids)
        for doc_id in doc_ids if self._deaths else ():
            self._deaths.pop(doc_id, None)

    def progress(self, doc_ids: Iterable[str]) -> None:
        """Calls of these documents were answered, and are kept. A long one, asked for days, may see many a death."""
        known = sorted({clean_id(doc_id) for doc_id in doc_ids} & self._deaths.keys()) if self._deaths else []
        if known:
            with self._journal.hasty_transaction() as connection:
                for_ids(connection, "UPDATE in_flight SET deaths = 0 WHERE doc_id", known)
            for doc_id in known:
                del self._deaths[doc_id]

    def close(self) -> None:
        """The run ends in order: nobody is to blame."""
        if self._journal.query("SELECT 1 FROM in_flight WHERE is_open LIMIT 1"):
            with self._journal.hasty_transaction() as connection:
                connection.execute("DELETE FROM in_flight WHERE is_open AND deaths = 0")
                connection.execute("UPDATE in_flight SET is_open = 0")
