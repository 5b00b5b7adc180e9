from __future__ import annotations

import errno
import os
import shutil
import threading
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from write_helpers import abandon, answers, collect_log, make_call, make_row, open_store, read_results

from qwen_batch.errors import OutputError
from qwen_batch.records import ResultRow
from qwen_batch.write.calls import CALL_SCHEMA
from qwen_batch.write.disk import Disk
from qwen_batch.write.schema import result_schema


def keyed(*doc_ids: str, answer: str = "yes", seconds: int = 1) -> list[tuple[ResultRow, str]]:
    return [(make_row(doc_id, answer, seconds), f"key-{answer}") for doc_id in doc_ids]


def fill(folder: Path, *doc_ids: str, **changes: Any) -> None:
    with closing(open_store(folder, **changes)) as store:
        store.add_rows(keyed(*doc_ids))


def part_names(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "results").iterdir())


class FullDisk(Disk):
    """Refuses to write files while `full`, as a disk without space does, halfway through."""

    full = False

    def write(self, path: Path, chunks: Iterable[bytes | memoryview]) -> None:
        if self.full:
            path.write_bytes(b"half")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().write(path, chunks)


def test_a_table_reads_before_and_without_any_row(tmp_path: Path) -> None:
    with closing(open_store(tmp_path / "new" / "out")):
        assert read_results(tmp_path / "new" / "out") == []
    table = pq.read_table(tmp_path / "new" / "out" / "results")
    assert table.schema.equals(result_schema(metadata=False))


def test_rows_appear_when_enough_have_come(tmp_path: Path) -> None:
    with closing(open_store(tmp_path, flush_rows=3)) as store:
        store.add_rows(keyed("a", "b"))
        assert answers(tmp_path) == {}
        store.add_rows(keyed("c"))
        assert answers(tmp_path).keys() == {"a", "b", "c"}
        store.add_rows(keyed("d"))
    assert answers(tmp_path).keys() == {"a", "b", "c", "d"}
    assert part_names(tmp_path) == ["part-000000.parquet", "part-000001.parquet"]


def test_rows_appear_when_the_first_has_waited_long_enough(tmp_path: Path) -> None:
    now = 100.0
    with closing(open_store(tmp_path, flush_rows=100, flush_seconds=30.0, clock=lambda: now)) as store:
        now = 1000.0
        store.add_rows(keyed("a"))
        now = 1029.0
        store.add_rows(keyed("b"))
        store.tick()
        assert answers(tmp_path) == {}
        now = 1030.0
        store.tick()
        assert answers(tmp_path).keys() == {"a", "b"}
        store.add_rows(keyed("c"))
        store.tick()
        assert answers(tmp_path).keys() == {"a", "b"}


def test_slow_runs_do_not_leave_a_part_for_each_flush(tmp_path: Path) -> None:
    with closing(open_store(tmp_path, flush_rows=10)) as store:
        for number in range(25):
            store.add_rows(keyed(f"doc-{number}"))
            store.flush()
    assert len(part_names(tmp_path)) == 3
    assert len(answers(tmp_path)) == 25


def test_a_second_run_changes_nothing(tmp_path: Path) -> None:
    fill(tmp_path, *"abcde")
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in (tmp_path / "results").iterdir()}
    with closing(open_store(tmp_path)) as store:
        assert [store.is_current(doc_id, "key-yes") for doc_id in "abcdef"] == ["ok"] * 5 + [None]
        assert store.is_current("a", "another key") is None
    assert {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in (tmp_path / "results").iterdir()} == before


def test_a_changed_document_takes_its_old_place(tmp_path: Path) -> None:
    fill(tmp_path, *"abcde")
    with closing(open_store(tmp_path)) as store:
        store.add_rows(keyed("b", answer="no", seconds=9))
        assert answers(tmp_path)["b"] == "yes"
    rows = read_results(tmp_path)
    assert [(row["doc_id"], row["answer"]) for row in rows] == [(doc, "no" if doc == "b" else "yes") for doc in "abcde"]
    assert len(part_names(tmp_path)) == 2


def test_a_document_twice_in_an_add_has_its_last_row(tmp_path: Path) -> None:
    with closing(open_store(tmp_path)) as store:
        store.add_rows([*keyed("a", answer="first"), *keyed("a", answer="second")])
        assert store.is_current("a", "key-second") == "ok"
    assert answers(tmp_path) == {"a": "second"}


def test_a_row_that_does_not_fit_is_never_durable(tmp_path: Path) -> None:
    with closing(open_store(tmp_path)) as store:
        with pytest.raises(ValueError, match="a row does not fit the table"):
            store.add_rows([*keyed("a"), (make_row("b", num_pages=2**40), "k")])
        assert store.is_current("a", "key-yes") is None
        store.add_rows(keyed("c"))
    assert answers(tmp_path).keys() == {"c"}


def test_fresh_forgets_what_was_computed_and_shows_old_rows_meanwhile(tmp_path: Path) -> None:
    with closing(open_store(tmp_path)) as store:
        store.add_rows(keyed("a", "b"))
        store.add_completions([make_call("c")])
    with closing(open_store(tmp_path, fresh=True)) as store:
        assert store.is_current("a", "key-yes") is None
        assert store.completion("c") is None
        store.add_rows(keyed("a", answer="anew", seconds=5))
    assert answers(tmp_path) == {"a": "anew", "b": "yes"}
    with closing(open_store(tmp_path)) as store:  # a fresh run that was stopped goes on without --fresh
        assert store.is_current("a", "key-anew") == "ok"
        assert store.is_current("b", "key-yes") is None


def test_completions_are_kept_as_a_table_when_asked_for(tmp_path: Path) -> None:
    with closing(open_store(tmp_path)) as store:
        store.add_completions([make_call("early")])
        assert store.completion("early") == make_call("early").completion
    assert not (tmp_path / "completions").exists()
    with closing(open_store(tmp_path, keep_completions=True)) as store:
        store.add_completions([make_call("late", level=1, index=2, text="\ud800"), make_call("early", text="new")])
    table = pq.read_table(tmp_path / "completions")
    assert table.schema.equals(CALL_SCHEMA)
    assert [(row["key"], row["text"]) for row in table.to_pylist()] == [("early", "new"), ("late", "\ufffd")]
    assert table.to_pylist()[1] == {
        "doc_id": "a.pdf",
        "level": 1,
        "index": 2,
        "key": "late",
        "prompt_tokens": 11,
        "completion_tokens": 3,
        "cached_tokens": 4,
        "finish_reason": "stop",
        "text": "\ufffd",
        "run_id": "run-1",
    }


def test_names_of_temporary_files_are_no_data_to_readers_and_are_removed(tmp_path: Path) -> None:
    fill(tmp_path, "a")
    temporary = tmp_path / "results" / ".part-000009.parquet.tmp"
    shutil.copy(tmp_path / "results" / "part-000000.parquet", temporary)
    (tmp_path / "results" / ".DS_Store").write_bytes(b"the user's file manager")
    assert answers(tmp_path) == {"a": "yes"}
    fill(tmp_path, "b")
    assert not temporary.exists()
    assert (tmp_path / "results" / ".DS_Store").exists()


def test_a_lost_journal_costs_computing_but_no_row_and_no_double(tmp_path: Path) -> None:
    fill(tmp_path, *"abcd")
    shutil.rmtree(tmp_path / ".journal")
    with closing(open_store(tmp_path)) as store:
        assert store.is_current("a", "key-yes") is None
        assert answers(tmp_path).keys() == set("abcd")
        store.add_rows(keyed("d", "a", "e", answer="anew", seconds=5))
    assert answers(tmp_path) == {"a": "anew", "b": "yes", "c": "yes", "d": "anew", "e": "anew"}


def test_a_lost_table_is_written_again(tmp_path: Path) -> None:
    fill(tmp_path, *"abcde")
    shutil.rmtree(tmp_path / "results")
    with closing(open_store(tmp_path)) as store:
        assert answers(tmp_path).keys() == set("abcde")
        assert store.is_current("a", "key-yes") == "ok"


def test_a_part_put_back_from_an_older_copy_is_brought_up_to_date(tmp_path: Path) -> None:
    fill(tmp_path, *"abc")
    old = (tmp_path / "results" / "part-000000.parquet").read_bytes()
    with closing(open_store(tmp_path)) as store:
        store.add_rows(keyed("b", answer="new", seconds=9))
    (tmp_path / "results" / "part-000000.parquet").write_bytes(old)
    open_store(tmp_path).close()
    assert answers(tmp_path) == {"a": "yes", "b": "new", "c": "yes"}


def test_a_document_in_two_parts_keeps_its_newest_row(tmp_path: Path) -> None:
    fill(tmp_path / "one", *"abc")
    with closing(open_store(tmp_path / "two")) as store:
        store.add_rows([*keyed("b", answer="newer", seconds=9), *keyed("c", answer="older", seconds=0), *keyed("d")])
    parts = tmp_path / "one" / "results"
    shutil.copy(tmp_path / "two" / "results" / "part-000000.parquet", parts / "part-000007.parquet")
    shutil.rmtree(tmp_path / "one" / ".journal")
    with collect_log() as messages:
        open_store(tmp_path / "one").close()
    assert answers(tmp_path / "one") == {"a": "yes", "b": "newer", "c": "yes", "d": "yes"}
    assert messages == [f"{parts}: 2 rows stood there twice; the newest of each is kept"]


def test_of_a_document_in_two_parts_the_journal_knows_better(tmp_path: Path) -> None:
    fill(tmp_path / "one", *"abc")
    with closing(open_store(tmp_path / "two")) as store:
        store.add_rows(keyed("b", answer="of another table", seconds=9))
    parts = tmp_path / "one" / "results"
    shutil.copy(tmp_path / "two" / "results" / "part-000000.parquet", parts / "part-000007.parquet")
    with closing(open_store(tmp_path / "one")) as store:
        assert store.is_current("b", "key-yes") == "ok"
    assert answers(tmp_path / "one") == {"a": "yes", "b": "yes", "c": "yes"}


def test_metadata_switched_on_and_off(tmp_path: Path) -> None:
    fill(tmp_path, *"abcd")
    with closing(open_store(tmp_path, metadata=True)) as store:
        assert {row["metadata"] for row in read_results(tmp_path)} == {'{"team":"法务","n":[1,2.5,null]}'}
        store.add_rows(keyed("e"))
    assert pq.read_table(tmp_path / "results").schema.equals(result_schema(metadata=True))
    open_store(tmp_path).close()
    assert pq.read_table(tmp_path / "results").schema.equals(result_schema(metadata=False))
    shutil.rmtree(tmp_path / ".journal")
    open_store(tmp_path, metadata=True).close()
    assert {row["metadata"] for row in read_results(tmp_path)} == {None}
    assert answers(tmp_path).keys() == set("abcde")


def test_a_table_of_another_form_is_refused(tmp_path: Path) -> None:
    fill(tmp_path, "a")
    part = tmp_path / "results" / "part-000000.parquet"
    table = pq.ParquetFile(part).read()
    pq.write_table(table.append_column("penalty", pa.array([1])), part)
    with pytest.raises(OutputError, match=r"belongs to a table of another form \(it has the columns penalty\); choose"):
        open_store(tmp_path)
    pq.write_table(table.drop_columns(["model"]), part)
    with pytest.raises(OutputError, match="it lacks values of model"):
        open_store(tmp_path)
    number = pa.array([["x"]])
    pq.write_table(table.set_column(table.schema.get_field_index("num_pages"), "num_pages", number), part)
    with pytest.raises(OutputError, match=r"its num_pages is list<.*>, not int32"):
        open_store(tmp_path)
    pq.write_table(pa.table({"x": [1]}), part)
    with pytest.raises(OutputError, match=r"is not a part of this table \(no column doc_id\); move it away"):
        open_store(tmp_path)
    part.write_bytes(b"PAR1 half a file")
    with pytest.raises(OutputError, match="is damaged, or no Parquet file; move it away and run again"):
        open_store(tmp_path)


def test_files_of_others_are_named(tmp_path: Path) -> None:
    fill(tmp_path, "a")
    for name in ("holiday.jpg", "part-1.parquet", "notes"):
        (tmp_path / "results" / name).write_bytes(b"")
    with pytest.raises(OutputError) as caught:
        open_store(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path / 'results'}: holds files that are not ours: holiday.jpg, notes, part-1.parquet; "
        "move them away, or choose another folder with --output"
    )


def test_a_full_disk_is_an_error_with_advice_and_costs_nothing(tmp_path: Path) -> None:
    disk = FullDisk()
    store = open_store(tmp_path, disk=disk, flush_rows=2)
    store.add_rows(keyed("a", "b"))
    disk.full = True
    with pytest.raises(OutputError) as caught:
        store.add_rows(keyed("b", "c", answer="new", seconds=5))
    path = tmp_path / "results" / "part-000000.parquet"
    assert str(caught.value) == (
        f"{path}: no space is left on the disk; free some and run again: what is finished is saved"
    )
    assert answers(tmp_path) == {"a": "yes", "b": "yes"}
    assert part_names(tmp_path) == ["part-000000.parquet"]
    assert store.is_current("c", "key-new") == "ok"
    disk.full = False
    store.flush()
    assert answers(tmp_path) == {"a": "yes", "b": "new", "c": "new"}
    store.close()


def test_a_disk_that_stays_full_leaves_the_rows_to_the_next_run(tmp_path: Path) -> None:
    disk = FullDisk()
    store = open_store(tmp_path, disk=disk)
    store.add_rows(keyed("a"))
    disk.full = True
    with pytest.raises(OutputError, match="no space is left on the disk"):
        store.close()
    assert answers(tmp_path) == {}
    open_store(tmp_path).close()
    assert answers(tmp_path) == {"a": "yes"}


def test_a_journal_without_room_refuses_the_rows(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.add_rows(keyed("a"))
    pages = store._journal._connection.execute("PRAGMA page_count").fetchone()[0]
    store._journal._connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(OutputError, match="no space is left on the disk"):
        store.add_rows([(make_row("b", "x" * 100_000), "k")])
    assert store.is_current("b", "k") is None
    assert store.is_current("a", "key-yes") == "ok"
    store.close()
    assert answers(tmp_path) == {"a": "yes"}


@pytest.mark.parametrize("where", ["", "results", ".journal"])
def test_a_file_where_a_folder_is_needed(tmp_path: Path, where: str) -> None:
    path = tmp_path / "out" / where
    path.parent.mkdir(exist_ok=True)
    path.write_text("I was here first")
    with pytest.raises(OutputError, match="a file stands where a folder is needed; move it away"):
        open_store(tmp_path / "out")
    assert path.read_text() == "I was here first"


def test_a_folder_that_may_not_be_written(tmp_path: Path) -> None:
    class ReadOnlyDisk(Disk):
        def make_folder(self, folder: Path) -> None:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(folder))

    with pytest.raises(OutputError) as caught:
        open_store(tmp_path, disk=ReadOnlyDisk())
    assert str(caught.value) == (
        f"{tmp_path / '.journal'}: it may not be written; check its permissions, or choose another folder with --output"
    )


def test_threads_share_a_store(tmp_path: Path) -> None:
    with closing(open_store(tmp_path, flush_rows=7)) as store:

        def work(number: int) -> None:
            for step in range(15):
                store.add_rows(keyed(f"{number}-{step}"))
                assert store.is_current(f"{number}-{step}", "key-yes") == "ok"

        threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(answers(tmp_path)) == 45


def test_a_reader_beside_a_run_always_sees_a_whole_table(tmp_path: Path) -> None:
    fill(tmp_path, *(f"doc-{number}" for number in range(10)), flush_rows=4)
    done = threading.Event()
    looks: list[int] = []
    wrong: list[BaseException] = []

    def look() -> None:
        try:
            while not done.is_set():
                looks.append(len(answers(tmp_path)))
        except BaseException as error:
            wrong.append(error)

    reader = threading.Thread(target=look)
    reader.start()
    with closing(open_store(tmp_path, flush_rows=4)) as store:
        for version in range(2, 25):
            store.add_rows(
                keyed(*(f"doc-{(version + step) % 10}" for step in range(4)), answer=f"{version}", seconds=version)
            )
    done.set()
    reader.join()
    assert wrong == []
    assert set(looks) == {10}


def test_closing_twice_and_a_store_that_was_left_alone(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.add_rows(keyed("a"))
    store.close()
    store.close()
    left = open_store(tmp_path)
    left.add_rows(keyed("b"))
    abandon(left)
    again = open_store(tmp_path)
    assert answers(tmp_path).keys() == {"a", "b"}
    again.close()


def test_folder_names_with_an_equals_sign_are_no_columns(tmp_path: Path) -> None:
    fill(tmp_path / "year=2026", "a")
    fill(tmp_path / "year=2026", "a", "b")
    assert pq.read_table(tmp_path / "year=2026" / "results").schema.equals(result_schema(metadata=False))
