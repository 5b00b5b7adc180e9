"""The audit log: chained, rotated, pruned, whole after any stop; and `verify`, which sees when it is not."""

from __future__ import annotations

import datetime
import errno
import json
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from write_helpers import StoppingDisk, abandon, make_call, make_row, open_store, read_results

from qwen_batch.write.audit import AuditEvent, AuditLog
from qwen_batch.write.disk import Disk
from qwen_batch.write.journal import Journal
from qwen_batch.write.parts import PartFolder
from qwen_batch.write.verify import verify

# Of a flush: the table comes first.
STEPS_TO_HALF_A_LINE = len(["write", "sync", "rename", "sync_folder", "commit", "append", "append_half"])
DAY = datetime.datetime(2026, 11, 29, 2, 5, tzinfo=datetime.UTC)


def fill(folder: Path) -> None:
    with closing(open_store(folder, keep_completions=True)) as store:
        store.record("run_started", {"who": "me"})
        for name in "abcdefg":
            store.add_completions([make_call(f"call-{name}", name)])
            store.add_rows([(make_row(name, f"answer {name}"), f"key-{name}")])


def log_file(folder: Path) -> Path:
    (path,) = (folder / "audit").iterdir()
    return path


def events(folder: Path) -> list[dict[str, object]]:
    files = sorted((folder / "audit").iterdir())
    return [json.loads(line) for path in files for line in path.read_text(encoding="utf-8").split("\n")[:-1]]


def test_a_line_for_each_row_without_its_text(tmp_path: Path) -> None:
    fill(tmp_path)
    lines = events(tmp_path)
    assert [line["seq"] for line in lines] == list(range(1, 9))
    assert [line.get("doc_id") for line in lines] == [None, *"abcdefg"]
    assert {"status", "key", "run_id", "content_sha256", "flags", "row_sha256", "model_sha256"} <= lines[1].keys()
    assert "answer a" not in log_file(tmp_path).read_text()
    assert verify(tmp_path).problems == []


def test_text_on_request(tmp_path: Path) -> None:
    with closing(open_store(tmp_path, audit_text=True)) as store:
        store.add_rows([(make_row("a", "the answer\u2028合同"), "k")])
    assert events(tmp_path)[0]["answer"] == "the answer\u2028合同"
    assert verify(tmp_path).problems == []


def edit(text: str) -> str:
    return text.replace('"status":"ok"', '"status":"no"', 1).replace('"status": "ok"', '"status": "no"', 1)


def swap(text: str) -> str:
    lines = text.splitlines(keepends=True)
    return "".join([*lines[:2], lines[3], lines[2], *lines[4:]])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (edit, ":2: was edited (its hash is not that of its content)"),
        (lambda text: "".join(text.splitlines(keepends=True)[:3] + text.splitlines(keepends=True)[4:]), "line 5 does"),
        (swap, ":3: line 4 does not follow line 2"),
        (lambda text: "".join(text.splitlines(keepends=True)[:-1]), "audit: lines 8 to 8 are missing at its end"),
        (lambda text: "".join(text.splitlines(keepends=True)[2:]), ":1: lines 1 to 2 are missing before it"),
        (lambda text: text + "nonsense\n", ":9: is no line of an audit log"),
    ],
    ids=["edited", "removed", "reordered", "end removed", "beginning removed", "added"],
)
def test_a_changed_log_is_noticed(tmp_path: Path, change: Callable[[str], str], message: str) -> None:
    fill(tmp_path)
    path = log_file(tmp_path)
    before = path.read_text(encoding="utf-8")
    path.write_text(change(before), encoding="utf-8")
    assert path.read_text(encoding="utf-8") != before
    assert any(message in problem for problem in verify(tmp_path).problems), verify(tmp_path).problems


def test_a_removed_log_is_noticed(tmp_path: Path) -> None:
    fill(tmp_path)
    shutil.rmtree(tmp_path / "audit")
    assert verify(tmp_path).problems == ["audit: the folder is gone"]


def open_log(folder: Path, now: datetime.datetime, disk: Disk | None = None) -> tuple[AuditLog, Journal]:
    journal = Journal.open(folder / ".journal" / "journal.sqlite")
    (folder / "results").mkdir(exist_ok=True)
    log = AuditLog(folder / "audit", journal, disk or Disk(), retention_days=184, now=lambda: now)
    log.recover()
    return log, journal


def note(folder: Path, now: datetime.datetime) -> None:
    log, journal = open_log(folder, now)
    log.record(AuditEvent("run_started", {}))
    log.flush()
    journal.close()


def test_days_rotate_and_are_pruned_past_the_retention(tmp_path: Path) -> None:
    for days in (0, 1, 100, 184, 185):
        note(tmp_path, DAY + datetime.timedelta(days=days))
    note(tmp_path, DAY + datetime.timedelta(days=186))  # day 0 is 185 days before the last run
    names = sorted(path.stem for path in (tmp_path / "audit").iterdir())
    expected = [(DAY + datetime.timedelta(days=days)).date().isoformat() for days in (1, 100, 184, 185, 186)]
    assert names == expected
    assert events(tmp_path)[-2]["event"] == "audit_pruned"
    assert verify(tmp_path).problems == []
    (tmp_path / "audit" / f"{expected[0]}.jsonl").unlink()
    assert "are missing before it" in verify(tmp_path).problems[0]


def test_a_clock_that_jumps_prunes_and_breaks_nothing(tmp_path: Path) -> None:
    note(tmp_path, DAY)
    note(tmp_path, DAY + datetime.timedelta(days=5000))
    note(tmp_path, DAY + datetime.timedelta(days=1))
    note(tmp_path, DAY - datetime.timedelta(days=3))
    assert [line["seq"] for line in events(tmp_path)] == [1, 2, 3, 4]
    assert len(list((tmp_path / "audit").iterdir())) == 2
    assert verify(tmp_path).problems == []


def test_a_torn_line_is_cut_off_and_written_again(tmp_path: Path) -> None:
    fill(tmp_path)
    disk = StoppingDisk(10**9)
    store = open_store(tmp_path, disk=disk)
    store.add_rows([(make_row("z"), "k")])
    disk._stop_at = len(disk.names) + STEPS_TO_HALF_A_LINE
    with pytest.raises(BaseException, match="append_half"):
        store.flush()
    abandon(store)
    assert not log_file(tmp_path).read_bytes().endswith(b"\n")
    open_store(tmp_path).close()
    assert [line["seq"] for line in events(tmp_path)] == list(range(1, 10))
    assert verify(tmp_path).problems == []


def test_the_chain_goes_on_after_the_journal_was_lost(tmp_path: Path) -> None:
    fill(tmp_path)
    shutil.rmtree(tmp_path / ".journal")
    with closing(open_store(tmp_path)) as store:
        store.add_rows([(make_row(name, f"answer {name}"), f"key-{name}") for name in "abcdefg"])
    assert [line["seq"] for line in events(tmp_path)] == list(range(1, 16))
    report = verify(tmp_path)
    assert [problem for problem in report.problems if problem.startswith("audit")] == []


def test_verify_sees_a_changed_cell(tmp_path: Path) -> None:
    fill(tmp_path)
    part = tmp_path / "results/part-000001.parquet"
    table = pq.read_table(part)
    position = table.column_names.index("answer")
    forged = table["answer"].to_pylist()
    forged[1] = "forged"
    pq.write_table(table.set_column(position, table.schema.field("answer"), [forged]), part)
    assert verify(tmp_path).problems == ["results/part-000001.parquet: e: differs from the journal in answer"]


def test_verify_sees_missing_and_doubled_rows(tmp_path: Path) -> None:
    fill(tmp_path)
    results = tmp_path / "results"
    shutil.copy(results / "part-000000.parquet", results / "part-000009.parquet")
    problems = verify(tmp_path).problems
    assert "results/part-000009.parquet: a: stands in part-000000.parquet too" in problems
    (results / "part-000009.parquet").unlink()
    (results / "part-000002.parquet").unlink()
    expected = "results/part-000002.parquet: g: the journal says that it stands here, and it does not"
    assert verify(tmp_path).problems == [expected]
    open_store(tmp_path).close()
    assert verify(tmp_path).problems == [], "the next run writes it again"


def test_verify_sees_a_row_that_the_audit_log_does_not_tell_of(tmp_path: Path) -> None:
    fill(tmp_path)
    other = tmp_path / "other"
    with closing(open_store(other)) as store:
        store.add_rows([(make_row("a", "something else"), "key-a")])
    with closing(open_store(tmp_path)) as store, store._journal.transaction() as connection:
        text = read_journal_row(other)
        connection.execute("UPDATE documents SET row = ?, part = NULL WHERE doc_id = 'a'", (text,))
    open_store(tmp_path).close()
    assert verify(tmp_path).problems == ["results/part-000000.parquet: a: is not the row that the audit log tells of"]


def read_journal_row(folder: Path) -> str:
    journal = Journal.open(folder / ".journal" / "journal.sqlite")
    ((text,),) = journal.query("SELECT row FROM documents")
    journal.close()
    return str(text)


def test_a_drop_that_was_cut_short_is_no_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal has forgotten the rows, and the part could not be written: the next run takes them out."""
    fill(tmp_path)

    def refuse(*arguments: object) -> None:
        raise OSError(errno.EIO, "refused")

    with closing(open_store(tmp_path)) as store:
        monkeypatch.setattr(PartFolder, "drop", refuse)
        with pytest.raises(OSError, match="refused"):
            store.drop_missing(lambda doc_id: doc_id != "c")
        monkeypatch.undo()
    report = verify(tmp_path)
    assert report.problems == []
    assert "1 of them dropped and taken out by the next run" in report.format()
    open_store(tmp_path).close()
    assert "c" not in [row["doc_id"] for row in read_results(tmp_path)]
    assert verify(tmp_path).num_leaving == 0


def test_dropped_rows_are_gone_and_told_of(tmp_path: Path) -> None:
    fill(tmp_path)
    with closing(open_store(tmp_path)) as store:
        assert store.drop_missing(lambda doc_id: doc_id in "abf") == 4
        assert store.is_current("c", "key-c") is None
    assert [row["doc_id"] for row in read_results(tmp_path)] == ["a", "b", "f"]
    assert [line["doc_id"] for line in events(tmp_path)[-4:]] == ["c", "d", "e", "g"]
    assert verify(tmp_path).problems == []
