"""The thread beside the device: what needs a medium, or much Python, while a step is computed.

What it is given waits for `start`, which comes right before the device gets the next step. Before that the journal is
told which documents the step begins, and finds no commit under way that it would have to wait for.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Writer:
    """Context manager around the thread. Work is done in the order in which it came, all of it before the end."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "writer")
        self._put_off: list[Task[Any]] = []

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self.start()
        self._thread.shutdown()

    def submit(self, work: Callable[[], T]) -> Task[T]:
        """Have this done after the next `start`."""
        task = Task(self, work)
        self._put_off.append(task)
        return task

    def start(self) -> None:
        """Let the thread have what was put off."""
        put_off, self._put_off = self._put_off, []
        for task in put_off:
            task.future = self._thread.submit(task.work)


class Task(Generic[T]):
    """Work that was submitted."""

    def __init__(self, writer: Writer, work: Callable[[], T]) -> None:
        self._writer = writer
        self.work = work
        self.future: Future[T] | None = None  # None: it waits for the start

    def result(self) -> T:
        """What the work returned or raised. Starts it where it was put off, since somebody waits for it."""
        if self.future is None:
            self._writer.start()
        assert self.future is not None
        return self.future.result()
