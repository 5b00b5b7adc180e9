from __future__ import annotations

import io
import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest

from qwen_batch.operate.progress import ProgressState, describe, open_progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def records() -> Iterator[list[logging.LogRecord]]:
    found: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = found.append  # type: ignore[method-assign]
    logger = logging.getLogger("qwen_batch.operate.progress")
    old_level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield found
    logger.setLevel(old_level)
    logger.removeHandler(handler)


def test_a_state_in_one_line() -> None:
    state = ProgressState(7, 20, False, 0, 12, 3, 1234.5, 0.256)
    assert describe(state) == "7/20+ documents, 12 running, 3 waiting, 1,234 tokens/s, KV 26%"
    state = ProgressState(7, 20, True, 2, 12, 3, 0.0)
    assert describe(state) == "7/20 documents, 2 failed, 12 running, 3 waiting, 0 tokens/s"
    state = ProgressState(documents_reading=1, documents_planning=3)
    assert describe(state) == "0/0+ documents, 1 being read, 3 being planned, 0 running, 0 waiting, 0 tokens/s"
    state = ProgressState(documents_planning=1, planned_share=0.426)
    assert "0/0+ documents, 1 being planned (43% of the long one), 0 running" in describe(state)


def test_a_line_a_minute_where_there_is_no_terminal(records: list[logging.LogRecord]) -> None:
    clock = Clock()
    stream = io.StringIO()
    with open_progress("auto", stream, clock=clock) as progress:
        for second in range(150):
            clock.now = 1000.0 + second
            progress.update(ProgressState(documents_done=second, documents_known=150))
    assert [record.getMessage().split()[0] for record in records] == ["60/150+", "120/150+", "149/150+"]
    assert vars(records[0])["event"] == "progress"
    assert vars(records[0])["documents_done"] == 60
    assert stream.getvalue() == ""


def test_a_short_run_writes_no_line(records: list[logging.LogRecord]) -> None:
    with open_progress("auto", io.StringIO(), clock=Clock()) as progress:
        progress.update(ProgressState(1, 1, True))
    assert records == []


def test_off_is_silent(records: list[logging.LogRecord]) -> None:
    clock = Clock()
    stream = Terminal()
    with open_progress("off", stream, clock=clock) as progress:
        clock.now += 1000
        progress.update(ProgressState(1, 1, True))
    assert records == []
    assert stream.getvalue() == ""


def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch, records: list[logging.LogRecord]) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "160")
    stream = Terminal()
    clock = Clock()
    stdout = sys.stdout
    with open_progress("auto", stream, clock=clock) as progress:
        assert sys.stdout is stdout  # rows may go there
        progress.update(ProgressState(1, 5, False, kv_use=0.5))
        progress.update(ProgressState(5, 5, True))  # within the same redraw, and still the last to be seen
    shown = stream.getvalue()
    assert "5/5 documents, 0 running, 0 waiting, 0 tokens/s" in shown
    assert "100%" not in shown
    assert records == []


def test_updates_are_cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between redraws an update draws nothing."""
    monkeypatch.setenv("TERM", "xterm")
    clock = Clock()
    draws = 0

    def count(*_: object, **__: object) -> None:
        nonlocal draws
        draws += 1

    with open_progress("auto", Terminal(), clock=clock) as progress:
        monkeypatch.setattr("rich.progress.Progress.update", count)
        for step in range(1000):
            clock.now = 1000.0 + step / 1000
            progress.update(ProgressState(step, 1000))
        assert 8 <= draws <= 11


def test_rich_is_not_loaded_where_there_is_no_terminal() -> None:
    code = (
        "import io, sys\n"
        "from qwen_batch.operate.progress import ProgressState, open_progress\n"
        "with open_progress('auto', io.StringIO()) as progress: progress.update(ProgressState())\n"
        "sys.exit(any(name.partition('.')[0] in ('rich', 'torch') for name in sys.modules))\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
