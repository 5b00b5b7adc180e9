"""The journal: what is finished, in SQLite at OUT/.journal/journal.sqlite.

    documents    doc_id -> key and status of its newest row, the row itself, and the part that holds it
    completions  key    -> a model call, and the part of the `completions` table that holds it
    audit        lines of the audit log that are not in its files yet, and the last one; see audit.py
    in_flight    documents that a run works on, and how many runs died while they did; see in_flight.py
    meta         version of this layout, and the numbers of the first and last audit lines that the files must have

`part` is NULL until the row stands in a part file; table.py says who writes it and when. What an `add_*` method was
given is on the medium when it returns: a write-ahead log with synchronous=FULL (https://sqlite.org/wal.html).
"""

from __future__ import annotations

import datetime
import json
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import orjson

from qwen_batch.errors import OutputError
from qwen_batch.records import Completion, Status, clean_id
from qwen_batch.write.calls import ModelCall, call_to_json, columns_from_json, completion_from_json
from qwen_batch.write.disk import DENIED_ADVICE, FULL_ADVICE, Disk, output_errors
from qwen_batch.write.many_rows import for_ids, insert_rows
from qwen_batch.write.parts import Place
from qwen_batch.write.schema import Columns, microseconds

VERSION = 1
_LAYOUT = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
CREATE TABLE documents (doc_id TEXT PRIMARY KEY, key TEXT, status TEXT NOT NULL, stamp INTEGER NOT NULL, part TEXT,
    row TEXT NOT NULL);
CREATE TABLE completions (key TEXT PRIMARY KEY, stamp INTEGER NOT NULL, part TEXT, row TEXT NOT NULL);
CREATE INDEX documents_part ON documents (part);
CREATE INDEX completions_part ON completions (part);
"""
_LATER = """
CREATE TABLE IF NOT EXISTS audit (seq INTEGER PRIMARY KEY, day TEXT NOT NULL, line TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS in_flight (doc_id TEXT PRIMARY KEY, deaths INTEGER NOT NULL, is_open INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS leaving (doc_id TEXT PRIMARY KEY);
CREATE INDEX IF NOT EXISTS documents_failed ON documents (status) WHERE status = 'failed';
"""
# Of 4 KiB, in the write-ahead log before it is copied into the database. Keys are hashes, so a step's rows change pages
# all over the index, and those are copied the less often the longer the log is: a quarter off the cost of a row.
_LOG_PAGES = 8000
_CACHE_KIB = 32 * 1024  # of pages in memory; the index of 100,000 calls has 10 MB, and SQLite's default is 2 MB
_DAMAGED = (
    "the journal is damaged; move the folder .journal away and run again: the table is kept, "
    "and its documents are computed again"
)
_BUSY_ADVICE = "another process uses the journal; end it and run again"


@dataclass(frozen=True, slots=True)
class JournaledRow:
    """A row on its way into the journal."""

    columns: Columns
    key: str
    text: str  # the columns as JSON, as the journal keeps them

    def values(self) -> tuple[str, str, str, int, str]:
        row = self.columns
        return row["doc_id"], self.key, row["status"], microseconds(row["finished_at"]), self.text


def _row_to_json(row: Columns) -> str:
    return orjson.dumps(row).decode()  # moments in ISO 8601


def _row_from_json(text: str) -> Columns:
    row: Columns = json.loads(text)
    for name in ("started_at", "finished_at"):
        row[name] = datetime.datetime.fromisoformat(row[name])
    return row


@dataclass(frozen=True, slots=True)
class JournaledKind:
    """A table of the journal whose rows go into part files."""

    table: str
    id_column: str
    decode: Callable[[str], Columns]  # from the journal's text to a row for the part file


DOCUMENTS = JournaledKind("documents", "doc_id", _row_from_json)
COMPLETIONS = JournaledKind("completions", "key", columns_from_json)


class Journal:
    """Any thread may call any method. Every method raises OutputError.

    One connection writes, behind a lock, and one writes what need not wait for the medium. A third one answers
    questions, which therefore never wait for it either.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection, disk: Disk) -> None:
        self.path = path
        self._connection = connection
        self._hasty: sqlite3.Connection | None = None  # opened with the first hasty transaction
        self._reader: sqlite3.Connection | None = None  # opened with the first question
        self._reader_lock = threading.Lock()
        self._known_calls: set[int] | None = None  # hashes of all keys of calls; read with the first question
        self._disk = disk
        self._lock = threading.RLock()

    @classmethod
    def open(cls, path: Path, disk: Disk | None = None) -> Journal:
        """Open the journal, or create it. Raises OutputError when it is damaged, newer than us, or not ours."""
        disk = disk or Disk()
        with output_errors(path), _journal_errors(path):
            disk.make_folder(path.parent)
            connection = _connect(path)
            journal = cls(path, connection, disk)
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = FULL")
                connection.execute("PRAGMA secure_delete = ON")  # what is redacted later is overwritten
                connection.execute(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}")
                connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
                journal._check_layout()
            except BaseException:
                journal.close()
                raise
        return journal

    def completion(self, key: str) -> Completion | None:
        """The completion that was computed for this key."""
        if not self._may_know(key):
            return None
        row = self._one("SELECT row FROM completions WHERE key = ?", key)
        if row is None:
            return None
        with self._decoding():
            return completion_from_json(row[0])

    def current_key(self, doc_id: str) -> tuple[str, Status] | None:
        """Key and status of the document's row; None when there is none, or its key was forgotten."""
        found = self._one("SELECT key, status FROM documents WHERE doc_id = ?", clean_id(doc_id))
        return None if found is None or found[0] is None else (found[0], cast(Status, found[1]))

    def add_completions(self, calls: Iterable[ModelCall]) -> None:
        """Keep these calls, each in place of an earlier one with its key. All or none."""
        values = [(call.key, 0, call_to_json(call)) for call in calls]
        with self._lock:
            with self.transaction() as connection:
                insert_rows(connection, "INSERT OR REPLACE INTO completions (key, stamp, row)", values)
            if self._known_calls is not None:
                self._known_calls.update(hash(key) for key, _, _ in values)

    def add_rows(
        self,
        rows: Iterable[tuple[Columns, str]],
        also: Callable[[sqlite3.Connection, Sequence[JournaledRow]], None] | None = None,
    ) -> None:
        """Keep these (row, key), each in place of the document's earlier row, and what `also` does. All or none."""
        journaled = [JournaledRow(row, key, _row_to_json(row)) for row, key in rows]
        insert = "INSERT OR REPLACE INTO documents (doc_id, key, status, stamp, row)"
        with self.transaction() as connection:
            insert_rows(connection, insert, [row.values() for row in journaled])
            if also is not None:
                also(connection, journaled)

    def forget_documents(
        self, doc_ids: Sequence[str], also: Callable[[sqlite3.Connection], None] | None = None
    ) -> None:
        """Let these documents be unknown, and do what `also` does. All or none. Their rows are `leaving` until
        `has_left` says that no part holds them."""
        with self.transaction() as connection:
            for_ids(connection, "DELETE FROM documents WHERE doc_id", doc_ids)
            connection.executemany("INSERT OR IGNORE INTO leaving VALUES (?)", [(doc_id,) for doc_id in doc_ids])
            if also is not None:
                also(connection)

    def leaving(self) -> list[str]:
        """Documents that were dropped, and have not come back, whose rows a part may still hold."""
        return [id_ for (id_,) in self.query("SELECT doc_id FROM leaving EXCEPT SELECT doc_id FROM documents")]

    def has_left(self) -> None:
        """No part holds rows of dropped documents any more."""
        with self.transaction() as connection:
            connection.execute("DELETE FROM leaving")

    def pending(self, kind: JournaledKind, limit: int) -> list[Columns]:
        """Up to `limit` rows that no part file holds, in the order in which they came."""
        query = f"SELECT row FROM {kind.table} WHERE part IS NULL ORDER BY rowid LIMIT ?"
        with self._lock, _journal_errors(self.path):
            found = self._connection.execute(query, (limit,)).fetchall()
        with self._decoding():
            return [kind.decode(text) for (text,) in found]

    def failed_rows(self) -> list[Columns]:
        """Every row whose status is failed."""
        rows = self.query("SELECT row FROM documents WHERE status = 'failed'")
        with self._decoding():
            return [_row_from_json(text) for (text,) in rows]

    def note_part(self, kind: JournaledKind, ids: Sequence[str], part: str) -> None:
        """Note that the part file holds the newest rows of these ids."""
        with self.transaction() as connection:
            for_ids(connection, f"UPDATE {kind.table} SET part = ? WHERE {kind.id_column}", ids, part)

    def forget_parts(self, kind: JournaledKind, parts: Iterable[str]) -> None:
        """Note that these part files hold nothing: their rows are pending again."""
        with self.transaction() as connection:
            for_ids(connection, f"UPDATE {kind.table} SET part = NULL WHERE part", list(parts))

    def reconcile(self, kind: JournaledKind, places: Mapping[str, Place]) -> None:
        """Note where rows stand after parts were compacted, and make pending what no part file holds as the journal
        remembers it (deleted, or an older copy)."""
        query = f"SELECT {kind.id_column}, part, stamp FROM {kind.table} WHERE part IS NOT NULL"
        update = f"UPDATE {kind.table} SET part = ? WHERE {kind.id_column} = ?"
        with self.transaction() as connection:
            changes: list[tuple[str | None, str]] = []
            for id_, part, stamp in connection.execute(query):
                place = places.get(id_)
                if place != Place(part, stamp):
                    changes.append((place.part if place is not None and place.stamp == stamp else None, id_))
            connection.executemany(update, changes)

    def forget_keys(self) -> None:
        """Let no document and no completion count as computed. The rows stay."""
        with self._lock:
            with self.transaction() as connection:
                connection.execute("UPDATE documents SET key = NULL")
                connection.execute("DELETE FROM completions")
            self._known_calls = None

    def close(self) -> None:
        with self._lock, self._reader_lock, _journal_errors(self.path):
            for connection in (self._reader, self._hasty):
                if connection is not None:
                    connection.close()
            self._connection.close()

    def _check_layout(self) -> None:
        tables = {name for (name,) in self._connection.execute("SELECT name FROM sqlite_master")}
        if not tables:
            self._create_layout()
        elif not {"meta", "documents", "completions"} <= tables:
            raise OutputError(f"{self.path}: this is not a journal of qwen-batch; choose another folder with --output")
        found = self._one("SELECT value FROM meta WHERE name = 'version'")
        if found is None:
            raise OutputError(f"{self.path}: {_DAMAGED}")
        if found[0] != VERSION:
            raise OutputError(
                f"{self.path}: written by a newer qwen-batch (layout {found[0]}, this one knows {VERSION}); "
                "upgrade qwen-batch, or choose another folder with --output"
            )
        self._add_later(tables)

    def _create_layout(self) -> None:
        with self.transaction() as connection:
            for statement in filter(str.strip, _LAYOUT.split(";")):
                connection.execute(statement)
            connection.execute("INSERT INTO meta VALUES ('version', ?)", (VERSION,))
        self._disk.sync_folder(self.path.parent)

    def _add_later(self, names: set[str]) -> None:
        """A folder of an earlier release gets the tables and the index that it lacks."""
        if not {"audit", "in_flight", "documents_failed"} <= names:
            with self.transaction() as connection:
                for statement in filter(str.strip, _LATER.split(";")):
                    connection.execute(statement)

    def _one(self, query: str, *values: str) -> tuple[Any, ...] | None:
        with self._reader_lock, _journal_errors(self.path):
            if self._reader is None:
                self._reader = _connect(self.path)
            return cast("tuple[Any, ...] | None", self._reader.execute(query, values).fetchone())

    def _may_know(self, key: str) -> bool:
        """False where the journal has no call of this key, known without asking it: most calls are new.

        Whoever asks does not wait for the lock, and with it for a medium, but the first time.
        """
        known = self._known_calls
        if known is None:
            with self._lock:
                known = self._known_calls = {hash(key) for (key,) in self.query("SELECT key FROM completions")}
        return hash(key) in known

    def query(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """All rows that a SELECT finds."""
        with self._lock, _journal_errors(self.path):
            return self._connection.execute(statement, values).fetchall()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All that is done inside, or none of it; on the medium when it ends."""
        with self._lock, _journal_errors(self.path):
            yield from self._transaction(self._connection)

    @contextmanager
    def hasty_transaction(self) -> Iterator[sqlite3.Connection]:
        """The same for what must survive the process but not a power cut: it does not wait for the medium.

        The device may be waiting for it: each statement lets go of the interpreter, and there are as few as can be.
        """
        with self._lock, _journal_errors(self.path):
            if self._hasty is None:
                self._hasty = _connect(self.path)
                self._hasty.execute("PRAGMA synchronous = NORMAL")  # in WAL mode: no sync at a commit
                self._hasty.execute("PRAGMA wal_autocheckpoint = 0")  # and none where the log has become long
            yield from self._transaction(self._hasty)

    def _transaction(self, connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
            self._disk.commit(connection)
        except BaseException:
            with suppress(sqlite3.Error):  # SQLite itself has rolled back after some errors
                connection.execute("ROLLBACK")
            raise

    @contextmanager
    def _decoding(self) -> Iterator[None]:
        try:
            yield
        except (ValueError, KeyError, TypeError) as error:
            raise OutputError(f"{self.path}: {_DAMAGED}") from error


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=30.0, isolation_level=None, check_same_thread=False)


@contextmanager
def _journal_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.ProgrammingError:
        raise  # our own mistake
    except sqlite3.Error as error:
        raise OutputError(f"{path}: {_advice(error)}") from error


def _advice(error: sqlite3.Error) -> str:
    code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF  # the low byte is the kind of error
    if code == sqlite3.SQLITE_FULL:
        return FULL_ADVICE
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return DENIED_ADVICE
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return _BUSY_ADVICE
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return _DAMAGED
    return f"{error}; look at the disk and run again: what is finished is saved"
