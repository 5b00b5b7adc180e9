"""`qwen-batch verify`: rows, parts, journal and audit log of an output folder against each other. Changes nothing."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from qwen_batch.errors import OutputError, UsageError
from qwen_batch.write.audit import NO_HASH, hash_of, iter_lines, list_days, split_line
from qwen_batch.write.calls import CALL_SCHEMA
from qwen_batch.write.disk import output_errors
from qwen_batch.write.journal import COMPLETIONS, DOCUMENTS, VERSION, JournaledKind
from qwen_batch.write.parts import list_parts, read_part, shadow_of
from qwen_batch.write.schema import Columns, result_schema

_MAX_SHOWN = 20  # problems of one kind


@dataclass
class Report:
    """What verify found."""

    num_rows: int = 0
    num_parts: int = 0
    num_waiting: int = 0  # rows that the journal has and the next run writes
    num_leaving: int = 0  # rows that were dropped and that the next run takes out of their parts
    num_audit_lines: int = 0
    problems: list[str] = field(default_factory=list)
    row_hashes: dict[str, str] = field(default_factory=dict)  # doc_id -> hash of its row in the audit log, newest
    leaving: set[str] = field(default_factory=set)  # documents that were dropped

    def format(self) -> str:
        """For people."""
        lines = [f"problem    {problem}" for problem in self.problems[:_MAX_SHOWN]]
        if len(self.problems) > _MAX_SHOWN:
            lines.append(f"problem    ... and {len(self.problems) - _MAX_SHOWN:,} more")
        waiting = f", {self.num_waiting:,} more wait in the journal for the next run" if self.num_waiting else ""
        leaving = f", {self.num_leaving:,} of them dropped and taken out by the next run" if self.num_leaving else ""
        lines.append(f"table      {self.num_rows:,} rows in {self.num_parts:,} parts{leaving}{waiting}")
        lines.append(f"audit      {self.num_audit_lines:,} lines")
        lines.append(f"verdict    {f'{len(self.problems):,} problems' if self.problems else 'clean'}")
        return "\n".join(lines)


def verify(folder: Path) -> Report:
    """Check an output folder on which no run works, also where it cannot be written. Raises OutputError, and UsageError
    when there is nothing to check."""
    path = folder / ".journal" / "journal.sqlite"
    if not path.is_file() or not (folder / "results").is_dir():
        raise UsageError(f"{folder}: is no output of a run (no journal, no results in it); name its output.dir")
    report = Report()
    with output_errors(folder), _open_journal(path) as connection:
        try:
            _check_journal(connection, report)
            _check_audit(folder / "audit", connection, report)
            _check_table(folder / "results", connection, DOCUMENTS, report)
            if (folder / "completions").is_dir():
                _check_table(folder / "completions", connection, COMPLETIONS, report)
        except sqlite3.Error as error:
            report.problems.append(f"the journal cannot be read: {error}")
    return report


@contextmanager
def _open_journal(path: Path) -> Iterator[sqlite3.Connection]:
    """SQLite reads a write-ahead log only where it can write beside it: where we cannot, a copy is read."""
    with ExitStack() as stack:
        if not os.access(path.parent, os.W_OK):
            copy = Path(stack.enter_context(TemporaryDirectory(prefix="qwen-batch-")), path.name)
            for suffix in ("", "-wal"):
                with suppress(FileNotFoundError):
                    shutil.copyfile(f"{path}{suffix}", f"{copy}{suffix}")
            path = copy
        yield stack.enter_context(closing(sqlite3.connect(path, isolation_level=None)))


def _check_journal(connection: sqlite3.Connection, report: Report) -> None:
    for (message,) in connection.execute("PRAGMA integrity_check"):
        if message != "ok":
            report.problems.append(f"the journal is damaged: {message}")
    for (version,) in connection.execute("SELECT value FROM meta WHERE name = 'version'"):
        if version != VERSION:
            report.problems.append(f"the journal has layout {version}, this release knows {VERSION}")
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'leaving'").fetchone():
        report.leaving.update(id_ for (id_,) in connection.execute("SELECT doc_id FROM leaving"))


def _check_table(folder: Path, connection: sqlite3.Connection, kind: JournaledKind, report: Report) -> None:
    """Every row once, in the part that the journal says, and as the journal says."""
    name = folder.name
    seen: dict[str, str] = {}  # id -> part
    leftovers = [path.name for path in folder.iterdir() if path.name not in list_parts(folder)]
    leftovers += [shadow_of(folder).name] if shadow_of(folder).exists() else []
    report.problems += [f"{name}/{leftover}: does not belong there" for leftover in leftovers if leftover[0] != "."]
    for part in list_parts(folder):
        rows = _read_rows(folder, part, kind, report)
        journaled = dict(connection.execute(f"SELECT {kind.id_column}, row FROM {kind.table} WHERE part = ?", (part,)))
        for row in rows:
            id_ = row[kind.id_column]
            where = f"{name}/{part}: {id_}"
            if id_ in seen:
                report.problems.append(f"{where}: stands in {seen[id_]} too")
            seen[id_] = part
            text = journaled.pop(id_, None)
            if text is None and kind is COMPLETIONS:
                continue  # a fresh start has forgotten the call; what was said stays
            if text is None and id_ in report.leaving:  # the run ended between the journal and the part
                report.num_leaving += 1
                continue
            report.problems += [f"{where}: {problem}" for problem in _compare(row, text, kind)]
            _check_row_hash(where, id_, text, kind, report)
        for id_ in journaled:
            report.problems.append(f"{name}/{part}: {id_}: the journal says that it stands here, and it does not")
        if kind is DOCUMENTS:
            report.num_rows += len(rows)
            report.num_parts += 1
    _check_rest(name, connection, kind, seen, report)


def _check_rest(
    name: str, connection: sqlite3.Connection, kind: JournaledKind, seen: Mapping[str, str], report: Report
) -> None:
    """What the journal places in parts that are not there, and what waits to be written."""
    parts = set(seen.values())
    for id_, part in connection.execute(f"SELECT {kind.id_column}, part FROM {kind.table}"):
        if part is None and kind is DOCUMENTS:
            report.num_waiting += id_ not in seen
        elif part is not None and part not in parts:
            report.problems.append(f"{name}/{part}: {id_}: the journal says that it stands here, and it does not")


def _read_rows(folder: Path, part: str, kind: JournaledKind, report: Report) -> list[Columns]:
    try:
        table = read_part(folder / part)
    except OutputError as error:
        report.problems.append(str(error))
        return []
    metadata = "metadata" in table.column_names
    schema = result_schema(metadata=metadata) if kind is DOCUMENTS else CALL_SCHEMA
    if not table.schema.equals(schema):
        report.problems.append(f"{folder.name}/{part}: its columns are not those of this table")
    rows: list[Columns] = table.to_pylist()
    return rows


def _compare(row: Columns, text: str | None, kind: JournaledKind) -> Iterator[str]:
    if text is None:
        yield "the journal does not have this row in this part"
        return
    expected = kind.decode(text)
    wrong = [name for name, value in row.items() if name in expected and expected[name] != value]
    if wrong:
        yield f"differs from the journal in {', '.join(wrong)}"


def _check_row_hash(where: str, id_: str, text: str | None, kind: JournaledKind, report: Report) -> None:
    if kind is DOCUMENTS and text is not None and report.row_hashes.get(id_, hash_of(text)) != hash_of(text):
        report.problems.append(f"{where}: is not the row that the audit log tells of")


def _check_audit(folder: Path, connection: sqlite3.Connection, report: Report) -> None:
    """The chain from the oldest line that is kept to the last one that the journal knows."""
    head = connection.execute("SELECT seq, line FROM audit ORDER BY seq DESC LIMIT 1").fetchone()
    bounds = dict(connection.execute("SELECT name, value FROM meta WHERE name LIKE 'audit_%'"))
    if not folder.is_dir():
        if head is not None:
            report.problems.append("audit: the folder is gone")
        return
    chain = _Chain(bounds.get("audit_first_seq", 1), report)
    for day in list_days(folder):
        for number, line in enumerate(iter_lines(folder / f"{day}.jsonl"), start=1):
            chain.take(f"audit/{day}.jsonl:{number}", line)
    if chain.seq < (last := bounds.get("audit_written_seq", 0)):
        report.problems.append(f"audit: lines {chain.seq + 1:,} to {last:,} are missing at its end")
        return
    for seq, line in connection.execute("SELECT seq, line FROM audit ORDER BY seq").fetchall():
        if seq > chain.seq:  # waiting to be written
            chain.take("audit, in the journal", line)
    if head is not None and chain.hash != split_line(head[1])[1]:
        report.problems.append(f"audit: ends at line {chain.seq:,}, where the journal knows another line {head[0]:,}")


class _Chain:
    """Follows the lines and notes where one does not follow the one before."""

    def __init__(self, first_seq: int, report: Report) -> None:
        self.seq = 0
        self.hash = NO_HASH
        self._first_seq = first_seq
        self._report = report

    def take(self, where: str, line: str) -> None:
        self._report.num_audit_lines += 1
        try:
            body, digest = split_line(line)
            values = json.loads(body)
            seq, prev = int(values["seq"]), str(values["prev"])
        except (ValueError, KeyError, TypeError):
            self._report.problems.append(f"{where}: is no line of an audit log")
            return
        if hash_of(body) != digest:
            self._report.problems.append(f"{where}: was edited (its hash is not that of its content)")
        if self.seq == 0:
            if seq > self._first_seq:
                self._report.problems.append(f"{where}: lines {self._first_seq:,} to {seq - 1:,} are missing before it")
        elif (seq, prev) != (self.seq + 1, self.hash):
            self._report.problems.append(f"{where}: line {seq:,} does not follow line {self.seq:,}")
        self.seq, self.hash = seq, digest
        if values.get("event") == "document":
            self._report.row_hashes[values["doc_id"]] = values["row_sha256"]
