"""The table after a stop at any step: each document once, all that was acknowledged there, and true keys."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import pytest
from write_helpers import (
    Killed,
    StoppingDisk,
    abandon,
    answers,
    make_call,
    make_row,
    open_store,
    read_results,
)

from qwen_batch.write.disk import Disk
from qwen_batch.write.store import ResultStore

Versions = dict[str, tuple[str, str]]  # document -> (answer, key)

ADDS: list[Versions] = [
    {"a": ("a1", "ka1"), "b": ("b1", "kb1")},
    {"c": ("c1", "kc1"), "d": ("d1", "kd1"), "e": ("e1", "ke1")},  # fills one part, begins the next
    {"a": ("a2", "ka2")},  # a changed document of the first part
    {"f": ("f1", "kf1"), "e": ("e2", "ke2"), "b": ("b2", "kb2"), "g": ("g1", "kg1")},  # parts old and new at once
]


def add(store: ResultStore, versions: Versions) -> None:
    rows = [(make_row(doc_id, answer, seconds=int(answer[1])), key) for doc_id, (answer, key) in versions.items()]
    store.add_rows(rows)


def scenario(folder: Path, disk: Disk, acknowledged: list[Versions], opened: list[ResultStore]) -> None:
    """Add, with a flush after each add; `acknowledged` grows when an add has returned."""
    store = open_store(folder, disk=disk, keep_completions=True)
    opened.append(store)
    for number, versions in enumerate(ADDS):
        store.add_completions([make_call(f"call-{number}")])
        add(store, versions)
        acknowledged.append(versions)
        store.flush()
    store.close()


def merge(adds: Iterable[Versions]) -> Versions:
    merged: Versions = {}
    for versions in adds:
        merged.update(versions)
    return merged


def check_reopened(folder: Path, acknowledged: list[Versions], rest: list[Versions]) -> None:
    """All acknowledged versions, or all of the add that was under way: adds are whole or not at all."""
    sure, possible = merge(acknowledged), merge([*acknowledged, *rest[:1]])
    with closing(open_store(folder, keep_completions=True)) as store:
        found = answers(folder)
        expected = possible if found == {doc: answer for doc, (answer, _) in possible.items()} else sure
        assert found == {doc: answer for doc, (answer, _) in expected.items()}
        for doc_id, (_, key) in expected.items():
            assert store.is_current(doc_id, key) == "ok"
            assert store.is_current(doc_id, key + "-changed") is None
        for number in range(len(acknowledged)):
            assert store.completion(f"call-{number}") is not None
        keys = [row["key"] for row in read_results(folder, "completions")]
        assert len(set(keys)) == len(keys) >= len(acknowledged)
    assert not list(folder.rglob("*.tmp"))


def count_steps(tmp_path: Path) -> int:
    disk = StoppingDisk(10**9)
    scenario(tmp_path / "whole", disk, [], [])
    return len(disk.names)


def test_a_stop_at_any_step_loses_and_doubles_nothing(tmp_path: Path) -> None:
    steps = count_steps(tmp_path)
    assert steps > 50
    for stop_at in range(1, steps + 1):
        folder = tmp_path / f"stop-{stop_at}"
        acknowledged: list[Versions] = []
        opened: list[ResultStore] = []
        with pytest.raises(Killed):
            scenario(folder, StoppingDisk(stop_at), acknowledged, opened)
        if opened:
            before = answers(folder)  # what readers see before anything is repaired
            flushed = merge(acknowledged[:-1])
            assert flushed.keys() <= before.keys(), f"rows vanished at step {stop_at}"
            abandon(opened[0])
        check_reopened(folder, acknowledged, ADDS[len(acknowledged) :])


def test_a_second_stop_while_the_first_is_repaired(tmp_path: Path) -> None:
    """Every 13th stop of the run, and after it a stop at every step of the next run's opening."""
    for stop_at in range(5, count_steps(tmp_path), 13):
        acknowledged: list[Versions] = []
        for second in range(1, 100):
            folder = tmp_path / f"stop-{stop_at}-{second}"
            acknowledged, opened = [], []
            with pytest.raises(Killed):
                scenario(folder, StoppingDisk(stop_at), acknowledged, opened)
            for store in opened:
                abandon(store)
            try:
                abandon(open_store(folder, keep_completions=True, disk=StoppingDisk(second)))
            except Killed:
                check_reopened(folder, acknowledged, ADDS[len(acknowledged) :])
            else:
                break
        else:
            pytest.fail("opening never came to an end")


def test_a_stop_while_metadata_is_switched_on(tmp_path: Path) -> None:
    for stop_at in range(1, 100):
        folder = tmp_path / f"stop-{stop_at}"
        with closing(open_store(folder)) as store:
            store.add_rows([(make_row(doc_id), "k") for doc_id in "abcd"])
        try:
            abandon(open_store(folder, metadata=True, disk=StoppingDisk(stop_at)))
        except Killed:
            assert answers(folder).keys() == set("abcd")
            open_store(folder, metadata=True).close()
            rows = read_results(folder)
            assert len(rows) == 4
            assert all(row["metadata"] for row in rows), f"metadata was lost at step {stop_at}"
        else:
            assert stop_at > 10
            return
    pytest.fail("opening never came to an end")


def test_the_order_of_steps_survives_a_power_cut(tmp_path: Path) -> None:
    """Durable before it is visible, and visible for ever before the journal says so."""
    disk = StoppingDisk(10**9)
    store = open_store(tmp_path, disk=disk)
    del disk.names[:]
    store.add_rows([(make_row(), "k")])
    assert disk.names == ["commit"]
    store.flush()
    table, audit = disk.names[1:6], disk.names[6:]
    assert table == ["write", "sync", "rename", "sync_folder", "commit"]
    assert audit == ["append", "append_half", "sync", "sync_folder", "commit"]
    store.close()


CHILD = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from test_write_crash import scenario
from write_helpers import StoppingDisk
class Acknowledged(list):
    def append(self, versions):
        print("added", flush=True)
def kill(name):
    print(name, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
scenario(Path(sys.argv[2]), StoppingDisk(int(sys.argv[3]), kill), Acknowledged(), [])
"""


def test_sigkill_of_a_real_process(tmp_path: Path) -> None:
    """The same as above with a process that is really gone, at one step of each kind while rows are replaced."""
    disk = StoppingDisk(10**9)
    scenario(tmp_path / "whole", disk, [], [])
    last = {name: len(disk.names) - disk.names[::-1].index(name) for name in disk.names if name != "make_folder"}
    assert {"write", "sync", "rename", "sync_folder", "commit"} <= last.keys()
    for name, stop_at in last.items():
        folder = tmp_path / name
        command = [sys.executable, "-c", CHILD, str(Path(__file__).parent), str(folder), str(stop_at)]
        child = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert child.returncode == -signal.SIGKILL, child.stderr
        *adds, stopped_in = child.stdout.split()
        assert stopped_in == name
        check_reopened(folder, ADDS[: len(adds)], ADDS[len(adds) :])
