"""Many small parts become few, all at once for a reader, and whatever stops in between."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from write_helpers import Killed, StoppingDisk, abandon, answers, make_row, open_store

from qwen_batch.write import compact as compaction
from qwen_batch.write.store import ResultStore
from qwen_batch.write.verify import verify

NAMES = [f"{n:02}" for n in range(20)]


def fill(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "MIN_SMALL_PARTS", 10**9)
    with closing(open_store(folder, flush_rows=1)) as store:
        store.add_rows([(make_row(name, f"answer {name}"), "k") for name in NAMES])
    monkeypatch.setattr(compaction, "MIN_SMALL_PARTS", 4)
    assert len(list((folder / "results").iterdir())) == 20


def check(folder: Path) -> None:
    assert answers(folder) == {name: f"answer {name}" for name in NAMES}
    assert not list(folder.glob(".results*"))
    assert verify(folder).problems == []


def test_small_parts_are_merged_and_rows_keep_being_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, monkeypatch)
    open_store(tmp_path).close()
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["part-000020.parquet"]
    check(tmp_path)
    with closing(open_store(tmp_path)) as store:
        store.add_rows([(make_row("07", "new", seconds=2), "k2"), (make_row("99", "added"), "k")])
    found = answers(tmp_path)
    assert (found["07"], found["99"], len(found)) == ("new", "added", 21)
    assert verify(tmp_path).problems == []


def test_large_parts_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, monkeypatch)
    open_store(tmp_path).close()
    large = tmp_path / "results" / "part-000020.parquet"
    inode = large.stat().st_ino
    monkeypatch.setattr(compaction.compact, "__defaults__", (10,))
    with closing(open_store(tmp_path, flush_rows=1)) as store:
        store.add_rows([(make_row(f"x{n}"), "k") for n in range(5)])
    assert sorted(path.name for path in (tmp_path / "results").iterdir()) == [
        "part-000020.parquet",
        "part-000026.parquet",
    ]
    assert large.stat().st_ino == inode


def test_a_stop_at_any_step_of_it_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for stop_at in range(1, 200):
        folder = tmp_path / str(stop_at)
        fill(folder, monkeypatch)
        store = open_store(folder)
        disk = StoppingDisk(stop_at)
        store._results._disk = disk
        try:
            store.close()
        except Killed:
            abandon(store)
            assert answers(folder) == {name: f"answer {name}" for name in NAMES}, disk.names
            open_store(folder).close()
            check(folder)
        else:
            assert {"write", "sync", "exchange", "remove_folder"} <= set(disk.names)
            check(folder)
            return
    pytest.fail("it never came to an end")


def test_where_folders_cannot_change_places_nothing_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, monkeypatch)
    store: ResultStore = open_store(tmp_path)
    monkeypatch.setattr(store._results._disk, "exchange", lambda one, other: False)
    store.close()
    assert len(list((tmp_path / "results").iterdir())) == 20
    check(tmp_path)
