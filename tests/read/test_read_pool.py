"""Child processes: limits, crashes, and that nothing is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from qwen_batch.errors import RunError
from qwen_batch.read import pool as pool_module
from qwen_batch.read.frames import Trouble
from qwen_batch.read.pool import ProcessPool
from qwen_batch.read.processes import may_fork

ADVICE = "the file is damaged, or needs more than input.memory_limit"
HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def _targets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(HERE))


def make_pool(workers: int = 2, timeout: float = 20.0, memory: int = 1 << 30) -> ProcessPool[Any, Any]:
    return ProcessPool("pool_targets:work", workers, timeout, memory)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_for_end(pid: int) -> bool:
    end = time.monotonic() + 10
    while is_alive(pid) and time.monotonic() < end:
        time.sleep(0.02)
    return not is_alive(pid)


def test_results_come_with_their_items() -> None:
    assert sorted(make_pool().run(range(5))) == [(number, ("done", number)) for number in range(5)]


def test_trouble_costs_only_its_own_item() -> None:
    tasks = ["abort", "exit", "memory", "error", "refuse", "fine"]
    results = dict(make_pool(workers=1).run(tasks))
    assert results["fine"] == ("done", "fine")
    message = f"the parser crashed (signal SIGABRT): {ADVICE}; it said: native assertion failed"
    assert results["abort"] == Trouble("crashed", message)
    assert results["exit"] == Trouble("crashed", f"the parser crashed (exit 7): {ADVICE}")
    assert results["memory"].error_type == "memory"
    assert "input.memory_limit" in results["memory"].error
    assert results["error"] == Trouble("parser_error", "the parser gave up: ValueError: no such thing")
    assert results["refuse"] == Trouble("encrypted", "give a password")


@pytest.mark.parametrize("task", ["hang", "sleep"])
def test_a_child_that_takes_too_long_is_killed(task: str) -> None:
    start = time.monotonic()
    results = dict(make_pool(workers=1, timeout=0.5).run([task, "fine"]))
    assert results[task].error_type == "timeout"
    assert "input.timeout_seconds (0.5 s)" in results[task].error
    assert results["fine"] == ("done", "fine")
    assert time.monotonic() - start < 15


def test_a_result_that_waits_for_its_reader_is_not_overdue() -> None:
    with make_pool(workers=1, timeout=1.0) as pool:
        pool.submit("fine")
        pool.wait()
        pool.submit("large")
        pool.wait(0)
        time.sleep(1.2)  # the caller is busy with something else, until after the deadline
        assert pool.wait() == [("large", b"x" * 3_000_000)]


def test_what_a_child_prints_does_not_matter() -> None:
    assert list(make_pool(workers=1).run(["print", "fine"])) == [("print", ""), ("fine", ("done", "fine"))]


def test_items_are_pulled_only_as_children_are_free() -> None:
    pulled: list[int] = []

    def items() -> Iterator[int]:
        for number in range(100):
            pulled.append(number)
            yield number

    results = make_pool(workers=2).run(items())
    for done in range(1, 4):
        next(results)
        assert len(pulled) <= done + 2
    results.close()  # type: ignore[attr-defined]


def test_closing_early_ends_the_children() -> None:
    pool = make_pool(workers=1)
    results = pool.run(["pid", "sleep", "sleep"])
    _, pid = next(results)
    assert is_alive(pid)
    results.close()  # type: ignore[attr-defined]
    assert wait_for_end(pid)


def test_a_producer_that_raises_ends_the_children() -> None:
    def items() -> Iterator[str]:
        yield "pid"
        raise LookupError("the source broke")

    pids: list[int] = []
    with pytest.raises(LookupError, match="the source broke"):
        pids.extend(pid for _, pid in make_pool(workers=1).run(items()))
    assert all(wait_for_end(pid) for pid in pids)


def test_children_are_replaced_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "MAX_TASKS", 2)
    pids = [pid for _, pid in make_pool(workers=1).run(["pid"] * 4)]
    assert pids[0] == pids[1] != pids[2] == pids[3]


def test_an_idle_child_that_died_is_replaced() -> None:
    with make_pool(workers=1) as pool:
        pool.submit("pid")
        ((_, pid),) = pool.wait()
        os.kill(pid, signal.SIGKILL)
        assert wait_for_end(pid)
        pool.submit("fine")
        assert pool.wait() == [("fine", ("done", "fine"))]


def test_a_child_that_cannot_start_ends_the_run() -> None:
    with pytest.raises(RunError, match=r"does not start.*no_such_module"):
        list(ProcessPool[Any, Any]("no_such_module:work", 1, 5.0, 1 << 30).run(["x"]))


PARENT = """
import sys
sys.path.insert(0, {here!r})
from qwen_batch.read.pool import ProcessPool
pool = ProcessPool("pool_targets:work", 1, 60.0, 1 << 30, lean={lean})
pool.submit("pid")
((_, pid),) = pool.wait()
pool.submit("grandchild")
((_, grandchild),) = pool.wait()
pool.submit("hang")
pool.wait(0.2)
print(pid, grandchild, flush=True)
pool.wait()
"""


@pytest.mark.parametrize("lean", [False, True])
def test_no_child_and_nothing_of_its_outlives_a_killed_parent(lean: bool) -> None:
    script = PARENT.format(here=str(HERE), lean=lean)
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert all(map(is_alive, pids))
        parent.kill()
    assert all(map(wait_for_end, pids))


def test_children_are_in_a_session_of_their_own() -> None:
    with make_pool(workers=1) as pool:
        pool.submit("pid")
        ((_, pid),) = pool.wait()
        assert os.getsid(pid) == pid != os.getsid(0)


LEAN = """
import os, sys
sys.path.insert(0, {here!r})
from qwen_batch.errors import RunError
from qwen_batch.read.pool import ProcessPool
file = open(os.devnull)
pool = ProcessPool("pool_targets:work", 1, {timeout}, 1 << 30, lean=True)
for task, result in pool.run({tasks!r}):
    print(task, result)
print("subprocess" in sys.modules)
try:
    list(ProcessPool("no_such_module:work", 1, 5.0, 1 << 30, lean=True).run(["x"]))
except RunError as error:
    print(error)
"""


def test_a_lean_parent_forks_and_everything_else_is_the_same() -> None:
    tasks = ["fine", "abort", "exit", "memory", "refuse", "print", "hang", "session", "files"]
    script = LEAN.format(here=str(HERE), timeout=1.0, tasks=tasks)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    *results, spawned, failed = done.stdout.splitlines()
    abort = Trouble("crashed", f"the parser crashed (signal SIGABRT): {ADVICE}; it said: native assertion failed")
    assert results == [
        "fine ('done', 'fine')",
        f"abort {abort}",
        f"exit {Trouble('crashed', f'the parser crashed (exit 7): {ADVICE}')}",
        f"memory {dict(make_pool(workers=1).run(['memory']))['memory']}",
        f"refuse {Trouble('encrypted', 'give a password')}",
        "print ",
        f"hang {dict(make_pool(workers=1, timeout=1.0).run(['hang']))['hang']}",
        "session True",
        "files 6",  # standard input, output and error, two ways, the lifeline: nothing of the parent's
    ]
    assert spawned == "False"
    assert "does not start" in failed
    assert "No module named 'no_such_module'" in failed
    assert done.stderr == ""


def test_a_parent_with_threads_does_not_fork() -> None:
    end = threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    assert not may_fork()
    end.set()
    thread.join()
