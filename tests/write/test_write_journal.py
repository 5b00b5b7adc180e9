from __future__ import annotations

import dataclasses
import sqlite3
import threading
from pathlib import Path

import pytest
from write_helpers import make_call, make_row

from qwen_batch.errors import OutputError
from qwen_batch.write.journal import COMPLETIONS, DOCUMENTS, Journal
from qwen_batch.write.parts import Place
from qwen_batch.write.schema import microseconds, row_to_dict


def test_completions_and_keys_come_back(tmp_path: Path) -> None:
    path = tmp_path / "j" / "journal.sqlite"
    call = make_call("k1", text="是的\0 yes")
    failed = make_row("b", None, status="failed", error_type="encrypted", error="password?", stage="read")
    journal = Journal.open(path)
    journal.add_completions([call])
    journal.add_rows([(row_to_dict(make_row("a")), "ka"), (row_to_dict(failed), "kb")])
    journal.close()
    journal = Journal.open(path)
    assert journal.completion("k1") == call.completion
    assert journal.completion("k2") is None
    assert journal.current_key("a") == ("ka", "ok")
    assert journal.current_key("b") == ("kb", "failed")
    assert journal.current_key("c") is None
    assert journal.pending(DOCUMENTS, 10) == [row_to_dict(make_row("a")), row_to_dict(failed)]
    journal.close()


def test_a_failed_completion_keeps_its_error(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path / "journal.sqlite")
    call = make_call()
    completion = dataclasses.replace(call.completion, finish_reason="error", error_type="too_long", error="why")
    journal.add_completions([dataclasses.replace(call, completion=completion)])
    assert journal.completion("k") == completion
    journal.close()


def test_a_surrogate_in_an_id_finds_its_row(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path / "journal.sqlite")
    journal.add_rows([(row_to_dict(make_row("x\udc80.pdf")), "k")])
    assert journal.current_key("x\udc80.pdf") == ("k", "ok")
    assert journal.current_key("x\udc81.pdf") is None
    journal.close()


def test_pending_is_what_no_part_holds(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path / "journal.sqlite")
    rows = [row_to_dict(make_row(doc_id)) for doc_id in "abc"]
    journal.add_rows([(row, "k") for row in rows])
    journal.note_part(DOCUMENTS, ["a", "b"], "part-000000.parquet")
    assert [row["doc_id"] for row in journal.pending(DOCUMENTS, 10)] == ["c"]
    journal.add_rows([(rows[0], "k2")])
    assert [row["doc_id"] for row in journal.pending(DOCUMENTS, 10)] == ["c", "a"]
    assert [row["doc_id"] for row in journal.pending(DOCUMENTS, 1)] == ["c"]
    journal.note_part(DOCUMENTS, ["a", "c"], "part-000001.parquet")
    journal.forget_parts(DOCUMENTS, ["part-000000.parquet"])
    assert [row["doc_id"] for row in journal.pending(DOCUMENTS, 10)] == ["b"]
    journal.close()


def test_reconcile_believes_the_parts(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path / "journal.sqlite")
    rows = [row_to_dict(make_row(doc_id)) for doc_id in "abcd"]
    stamp = microseconds(rows[0]["finished_at"])
    journal.add_rows([(row, "k") for row in rows])
    journal.note_part(DOCUMENTS, list("abcd"), "p0")
    journal.reconcile(DOCUMENTS, {"a": Place("p0", stamp), "b": Place("p1", stamp), "c": Place("p0", stamp - 1)})
    assert [row["doc_id"] for row in journal.pending(DOCUMENTS, 10)] == ["c", "d"]
    journal.forget_parts(DOCUMENTS, ["p1"])
    assert [row["doc_id"] for row in journal.pending(DOCUMENTS, 10)] == ["b", "c", "d"], "b stands in p1"
    journal.close()


def test_forgotten_keys_leave_the_rows(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path / "journal.sqlite")
    journal.add_rows([(row_to_dict(make_row("a")), "k")])
    journal.add_completions([make_call("c")])
    journal.forget_keys()
    assert journal.current_key("a") is None
    assert journal.completion("c") is None
    assert len(journal.pending(DOCUMENTS, 10)) == 1
    assert journal.pending(COMPLETIONS, 10) == []
    journal.close()


def test_an_add_is_whole_or_not_at_all(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path / "journal.sqlite")
    bad = {**row_to_dict(make_row("b")), "status": None}
    with pytest.raises(OutputError):
        journal.add_rows([(row_to_dict(make_row("a")), "k"), (bad, "k")])
    assert journal.current_key("a") is None
    journal.add_rows([(row_to_dict(make_row("a")), "k")])  # and the journal goes on
    assert journal.current_key("a") == ("k", "ok")
    journal.close()


def test_threads_share_a_journal(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path / "journal.sqlite")
    wrong: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for step in range(20):
                key = f"{number}-{step}"
                journal.add_completions([make_call(key, text=key)])
                found = journal.completion(key)
                assert found is not None
                assert found.text == key
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(journal.pending(COMPLETIONS, 1000)) == 80
    journal.close()


def test_a_file_that_is_no_journal(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    path.write_bytes(b"no database at all, " * 100)
    with pytest.raises(OutputError) as caught:
        Journal.open(path)
    assert str(caught.value) == (
        f"{path}: the journal is damaged; move the folder .journal away and run again: the table is kept, "
        "and its documents are computed again"
    )


def test_a_journal_damaged_within(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    journal = Journal.open(path)
    journal.add_completions([make_call(f"k{number}", text="x" * 5000) for number in range(20)])
    journal.close()
    content = bytearray(path.read_bytes())
    content[8192:] = b"\xff" * (len(content) - 8192)
    path.write_bytes(content)
    with pytest.raises(OutputError, match="the journal is damaged"):  # noqa: PT012 - at opening or at a question
        journal = Journal.open(path)
        try:
            for number in range(20):
                journal.completion(f"k{number}")
        finally:
            journal.close()


def test_a_journal_of_a_newer_version(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    Journal.open(path).close()
    connection = sqlite3.connect(path)
    connection.execute("UPDATE meta SET value = 99")
    connection.commit()
    connection.close()
    with pytest.raises(OutputError, match=r"written by a newer qwen-batch \(layout 99, this one knows 1\); upgrade"):
        Journal.open(path)


def test_a_database_of_something_else(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE holiday (photo BLOB)")
    connection.close()
    with pytest.raises(OutputError, match="is not a journal of qwen-batch"):
        Journal.open(path)


def test_every_commit_waits_for_the_medium(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path / "journal.sqlite")
    pragmas = [journal._connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")]
    assert pragmas == ["wal", 2]
    journal.close()
