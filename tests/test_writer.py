"""Work beside the device waits for its start, keeps its order, and is never lost."""

from __future__ import annotations

import threading
from contextlib import suppress

import pytest

from qwen_batch.writer import Writer


def test_work_waits_for_its_start_and_keeps_its_order() -> None:
    done: list[int] = []
    with Writer() as writer:
        tasks = [writer.submit(lambda n=n: done.append(n)) for n in range(3)]  # type: ignore[misc]
        assert done == []
        writer.start()
        assert tasks[2].result() is None
        assert done == [0, 1, 2]


def test_waiting_for_a_result_starts_the_work_in_the_thread() -> None:
    with Writer() as writer:
        assert writer.submit(threading.get_ident).result() != threading.get_ident()


def test_what_the_work_raises_is_raised_to_whom_waits() -> None:
    def refuse() -> None:
        raise OSError("no space is left")

    with Writer() as writer:
        task = writer.submit(refuse)
        writer.start()
        with pytest.raises(OSError, match="no space is left"):
            task.result()


def test_what_was_put_off_is_done_before_the_end_also_after_an_error() -> None:
    done: list[str] = []
    with suppress(KeyboardInterrupt), Writer() as writer:
        writer.submit(lambda: done.append("rows"))
        raise KeyboardInterrupt
    assert done == ["rows"]
