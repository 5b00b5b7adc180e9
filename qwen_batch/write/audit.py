"""The audit log: what happened to each document and each run, in OUT/audit/2026-11-29.jsonl, kept for months.

A line is a JSON object: `seq` counts up from 1, `time`, `event`, the event's own fields, `prev` (the hash of the line
before) and `hash`, the SHA-256 of the line without it. An edited, removed or moved line breaks the chain, and the
journal knows its last link, so that a missing end shows too. Whoever can write the folder can also write a new chain:
copy the last hash elsewhere to be safe from that.

    event ──with its row, in one transaction──▶ journal ──append, sync──▶ file of its day ──▶ journal keeps the last

A stop in between leaves a line in both places, or the beginning of one in the file: `open` cuts a torn line off and
writes what the file lacks, by `seq`. Days follow the clock forward only: after it was set back, lines go on in the
newest file.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from qwen_batch.errors import OutputError
from qwen_batch.write.disk import Disk, output_errors
from qwen_batch.write.journal import Journal, JournaledRow
from qwen_batch.write.many_rows import insert_rows
from qwen_batch.write.schema import to_json

NO_HASH = "0" * 64  # `prev` of the very first line
MAX_WAITING_LINES = 500
_NEAR_BYTES = 1 << 18  # a run's last lines
_DAY = re.compile(r"(\d{4}-\d{2}-\d{2})\.jsonl")
_HASH_AT = -(len(',"hash":""}') + 64)  # where the hash begins in a line without its line end

Fields = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """Something to be remembered."""

    name: str  # run_started, engine_loaded, document, document_dropped, run_finished, run_stopped, audit_pruned
    fields: Fields


@dataclass(frozen=True, slots=True)
class Link:
    """The place of a line in the chain."""

    seq: int
    hash: str
    day: str  # of its file, 2026-11-29


START = Link(0, NO_HASH, "")


def last_event(folder: Path, name: str) -> dict[str, object] | None:
    """The newest event of this name near the end of an audit log; None where there is none. Raises OutputError."""
    with output_errors(folder):
        days = list_days(folder) if folder.is_dir() else []
        if not days:
            return None
        with (folder / f"{days[-1]}.jsonl").open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _NEAR_BYTES))
            lines = file.read().split(b"\n")
    for line in reversed(lines):
        with suppress(ValueError):  # a torn line, or the half where we began
            event = json.loads(line)
            if event["event"] == name:
                return dict(event)
    return None


class AuditLog:
    """The log of one output folder. One thread at a time; every method raises OutputError."""

    def __init__(
        self,
        folder: Path,
        journal: Journal,
        disk: Disk,
        *,
        retention_days: int,
        now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
    ) -> None:
        self._folder = folder
        self._journal = journal
        self._disk = disk
        self._retention_days = retention_days
        self._now = now
        self._head = self._next_head = START  # the next one: of a transaction that has not ended
        self._num_waiting = self._num_next = 0

    def recover(self) -> None:
        """Finish what a stopped run left, and remove days that are older than the retention."""
        with output_errors(self._folder):
            self._disk.make_folder(self._folder)
            days = list_days(self._folder)
            written = self._repair_end(days[-1]) if days else START
        found = self._journal.query("SELECT seq, day, line FROM audit ORDER BY seq DESC LIMIT 1")
        kept = Link(found[0][0], found[0][2][_HASH_AT + 9 : -2], found[0][1]) if found else START
        self._head = max(kept, written, key=lambda link: link.seq)  # the files know more where the journal was lost
        if not found and days:
            self._note_first_line(days[0])
        self._write_waiting(written.seq)
        self._prune(written.day)

    def add(self, connection: sqlite3.Connection, events: Iterable[AuditEvent]) -> None:
        """Put events into the journal, inside the caller's transaction; call `added` once that has ended."""
        time = self._now()
        head, lines = self._head, []
        for event in events:
            day = max(f"{time:%Y-%m-%d}", head.day)
            line, link = make_line(head, event, time, day)
            lines.append((link.seq, link.day, line))
            head = link
        insert_rows(connection, "INSERT INTO audit", lines)
        self._next_head, self._num_next = head, len(lines)

    def added(self) -> None:
        """The transaction of `add` has ended well."""
        self._head = self._next_head
        self._num_waiting += self._num_next
        if self._num_waiting >= MAX_WAITING_LINES:
            self.flush()

    def record(self, *events: AuditEvent) -> None:
        """Keep events by themselves."""
        with self._journal.transaction() as connection:
            self.add(connection, events)
        self.added()

    def flush(self) -> None:
        """Write waiting lines into their files."""
        if self._num_waiting:
            self._write_waiting(self._head.seq - self._num_waiting)

    def _write_waiting(self, written_seq: int) -> None:
        lines = self._journal.query("SELECT seq, day, line FROM audit WHERE seq > ? ORDER BY seq", written_seq)
        with output_errors(self._folder):
            for day, members in groupby(lines, key=lambda line: str(line[1])):
                path = self._folder / f"{day}.jsonl"
                is_new = not path.exists()
                self._disk.append(path, "".join(f"{line}\n" for _, _, line in members).encode())
                self._disk.sync(path)
                if is_new:
                    self._disk.sync_folder(self._folder)
        with self._journal.hasty_transaction() as connection:
            connection.execute("DELETE FROM audit WHERE seq < (SELECT max(seq) FROM audit)")
            if lines:
                connection.execute("INSERT OR REPLACE INTO meta VALUES ('audit_written_seq', ?)", (lines[-1][0],))
        self._num_waiting = 0

    def _repair_end(self, day: str) -> Link:
        """Cut a torn line off the newest file; the last whole line."""
        path = self._folder / f"{day}.jsonl"
        content = path.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            self._disk.truncate(path, whole)
        if not whole:
            older = list_days(self._folder)
            earlier = older[older.index(day) - 1] if older.index(day) else None
            return self._repair_end(earlier) if earlier else START
        last = content[:whole].splitlines()[-1].decode("utf-8", "replace")
        try:
            return Link(int(json.loads(last)["seq"]), str(json.loads(last)["hash"]), day)
        except (ValueError, KeyError, TypeError):
            raise OutputError(
                f"{path}: its last line is no line of an audit log; look at it, move the file away and run again"
            ) from None

    def _prune(self, last_day: str) -> None:
        """Remove days past the retention, counted from the earlier of today and the last run, in case a clock ran."""
        if not last_day:
            return
        today = min(f"{self._now():%Y-%m-%d}", last_day)
        oldest = datetime.date.fromisoformat(today) - datetime.timedelta(days=self._retention_days)
        old = [day for day in list_days(self._folder) if day < oldest.isoformat()]
        if not old or old[-1] == last_day:
            return
        kept = next(day for day in list_days(self._folder) if day >= oldest.isoformat())
        seq = self._note_first_line(kept)
        self.record(AuditEvent("audit_pruned", {"days": old, "first_seq": seq}))
        with output_errors(self._folder):
            for day in old:
                self._disk.remove(self._folder / f"{day}.jsonl")

    def _note_first_line(self, day: str) -> int:
        """Note in the journal that what is before this day's file is not missed."""
        first = next(iter_lines(self._folder / f"{day}.jsonl"), "")
        seq = seq_of(first) or 1
        with self._journal.transaction() as connection:
            connection.execute("INSERT OR REPLACE INTO meta VALUES ('audit_first_seq', ?)", (seq,))
        return seq


def document_event(row: JournaledRow, *, with_text: bool) -> AuditEvent:
    """What the log says of a row. `row_sha256` ties it to the row as the journal has it."""
    values = row.columns
    names = ("run_id", "source", "content_sha256", "error_type", "flags", "finish_reason", "model_sha256", "precision")
    fields = {
        "doc_id": values["doc_id"],
        "status": values["status"],
        "key": row.key,
        **{name: values[name] for name in names},
    }
    answer = {"answer": values["answer"], "thinking": values["thinking"]} if with_text else {}
    return AuditEvent("document", {**fields, "row_sha256": hash_of(row.text), **answer})


def seq_of(line: str) -> int | None:
    """The number of a line; None when it has none."""
    try:
        seq = json.loads(line)["seq"]
    except (ValueError, KeyError, TypeError):
        return None
    return seq if isinstance(seq, int) else None


def make_line(prev: Link, event: AuditEvent, time: datetime.datetime, day: str) -> tuple[str, Link]:
    """The line that follows `prev`, without a line end."""
    values = {"seq": prev.seq + 1, "time": time.isoformat(timespec="milliseconds"), "event": event.name}
    body = to_json({**values, **event.fields, "prev": prev.hash})
    digest = hash_of(body)
    return f'{body[:-1]},"hash":"{digest}"}}', Link(prev.seq + 1, digest, day)


def hash_of(body: str) -> str:
    """The hash of a line from the line without it."""
    return hashlib.sha256(body.encode()).hexdigest()


def split_line(line: str) -> tuple[str, str]:
    """(the line without its hash, the hash). Raises ValueError when it has none."""
    body, mark = line[:_HASH_AT], line[_HASH_AT : _HASH_AT + 9]
    if mark != ',"hash":"':
        raise ValueError("no hash at its end")
    return body + "}", line[_HASH_AT + 9 : -2]


def list_days(folder: Path) -> list[str]:
    """Days that have a file, oldest first."""
    return sorted(match[1] for path in folder.iterdir() if (match := _DAY.fullmatch(path.name)))


def iter_lines(path: Path) -> Iterator[str]:
    """Lines of a file without their ends. A line ends only at a line feed."""
    with path.open(encoding="utf-8", errors="replace", newline="\n") as file:
        for line in file:
            yield line.removesuffix("\n")
