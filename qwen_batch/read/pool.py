"""Child processes that parse documents, so that one that hangs, aborts or eats memory costs one failed row.

`multiprocessing` starts nothing here (see read/processes.py): children must start from notebooks and scripts alike.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import IO, Any, Generic, Self, TypeVar

from qwen_batch.errors import RunError
from qwen_batch.read.frames import HEADER, Trouble, frame
from qwen_batch.read.processes import ends_within, fork, may_fork, spawn

MAX_TASKS = 200  # of one child; then a fresh one, so that a leak of a native library stays small
MAX_RESULT_BYTES = 1 << 30
START_SECONDS = 120.0  # a child imports its parsers; cold disks are slow
END_SECONDS = 5.0  # from the end of a child's channel to the end of the child
TAIL_CHARS = 300
RECEIVE_BYTES = 1 << 16  # what a pipe holds

T = TypeVar("T")
R = TypeVar("R")


class ProcessPool(Generic[T, R]):
    """Runs `target` ("module:function") on items in child processes; results come as they finish.

    Use it as a context manager. Children start when they are needed and never outlive this process.
    `lean`: this process is small and has loaded nothing that a child must not have, so that children may be forks.
    """

    def __init__(
        self, target: str, workers: int, timeout_seconds: float, memory_limit_bytes: int, lean: bool = False
    ) -> None:
        self._target = target
        self._workers = workers
        self._timeout_seconds = timeout_seconds
        self._memory_limit_bytes = memory_limit_bytes
        self._lean = lean
        self._idle: list[_Child[T]] = []
        self._busy: list[_Child[T]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def has_room(self) -> bool:
        return len(self._busy) < self._workers

    @property
    def num_running(self) -> int:
        return len(self._busy)

    def run(self, items: Iterable[T]) -> Iterator[tuple[T, R | Trouble]]:
        """Each item with its result, in the order in which they finish; items are pulled only as children are free."""
        try:
            for item in items:
                self.submit(item)
                while not self.has_room:
                    yield from self.wait()
            while self._busy:
                yield from self.wait()
        finally:
            self.close()

    def submit(self, item: T, more_seconds: float = 0.0) -> None:
        """Give an item to a child; there must be room. `more_seconds`: than others have."""
        if not self.has_room:
            raise RuntimeError("no child is free: wait() first")
        child = self._idle.pop() if self._idle else None
        if child is not None and child.process.poll() is not None:  # it died while it had nothing to do
            child.kill()
            child = None
        if child is None:
            child = _Child(self._target, self._memory_limit_bytes, self._lean)
        self._busy.append(child)
        child.give(item, self._timeout_seconds + more_seconds)

    def wait(self, seconds: float | None = None) -> list[tuple[T, R | Trouble]]:
        """Results that are there, waiting for the first; with `seconds`, at most so long."""
        end = None if seconds is None else time.monotonic() + seconds
        while self._busy:
            done = self._step(end)
            if done or (end is not None and time.monotonic() >= end):
                return done
        return []

    def close(self) -> None:
        """End all children at once; what they were doing is lost."""
        for child in (*self._idle, *self._busy):
            child.kill()
        self._idle.clear()
        self._busy.clear()

    def _step(self, end: float | None) -> list[tuple[T, R | Trouble]]:
        now = time.monotonic()
        due = min([child.deadline for child in self._busy] + ([end] if end is not None else []))
        poll = select.poll()
        moves: dict[int, Callable[[], None]] = {}  # by number of the pipe
        for child in self._busy:
            for pipe, event, move in child.pipes:
                poll.register(pipe, event)
                moves[pipe] = move
        # Reading comes before judging deadlines: the caller may have been away while a child finished in time.
        for pipe, _ in poll.poll(max(0.0, due - now) * 1000):
            moves[pipe]()
        return [self._finish(child, result) for child in list(self._busy) if (result := child.outcome()) is not None]

    def _finish(self, child: _Child[T], result: _Result) -> tuple[T, R | Trouble]:
        self._busy.remove(child)
        item = child.take()
        if child.dead or child.num_tasks >= MAX_TASKS:
            child.kill()
        else:
            self._idle.append(child)
        return item, result.value


class _Result:
    """Tells 'no result yet' from a result that is None."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class _Child(Generic[T]):
    """One child process, and what it is doing."""

    def __init__(self, target: str, memory_limit_bytes: int, lean: bool) -> None:
        tasks, self._tasks = os.pipe()
        self._results, results = os.pipe()
        lifeline, held = os.pipe()
        self._mine = [self._tasks, self._results, held]
        self._stderr = _scratch_file()
        theirs = (tasks, results, lifeline)
        start = fork if lean and may_fork() else spawn
        try:
            self.process = start([target, *map(str, theirs), str(memory_limit_bytes)], theirs, self._stderr)
        except OSError as error:
            self._close()
            raise RunError(f"a reading process cannot be started: {error}") from None
        finally:
            for pipe in theirs:
                os.close(pipe)
        os.set_blocking(self._tasks, False)
        os.set_blocking(self._results, False)
        self.deadline = time.monotonic() + START_SECONDS
        self.num_tasks = 0
        self.dead = False
        self._ready = False
        self._items: list[T] = []
        self._timeout_seconds = 0.0
        self._outgoing = memoryview(b"")
        self._incoming = bytearray()

    @property
    def pipes(self) -> list[tuple[int, int, Callable[[], None]]]:
        """For each pipe that is waited for: its number, the event, and what moves bytes then."""
        sending = [(self._tasks, select.POLLOUT, self._send)] if self._outgoing else []
        return [(self._results, select.POLLIN, self._receive), *sending]

    def give(self, item: T, timeout_seconds: float) -> None:
        self._items = [item]
        self._timeout_seconds = timeout_seconds
        self.num_tasks += 1
        self._outgoing = memoryview(frame(item))
        if self._ready:
            self.deadline = time.monotonic() + timeout_seconds

    def take(self) -> T:
        return self._items.pop()

    def _receive(self) -> None:
        """Take as many bytes as are there."""
        with contextlib.suppress(BlockingIOError):
            data = os.read(self._results, RECEIVE_BYTES)
            self.dead = not data
            self._incoming += data

    def _send(self) -> None:
        """Give as many bytes as go without waiting."""
        try:
            self._outgoing = self._outgoing[os.write(self._tasks, self._outgoing) :]
        except BlockingIOError:
            pass
        except BrokenPipeError:
            self.dead = True

    def outcome(self) -> _Result | None:
        """The result of the task, or the trouble that ended it; None: not yet."""
        if not self._ready and self._next_frame() is not None:
            self._ready = True
            self.deadline = time.monotonic() + self._timeout_seconds
        if self._ready and (result := self._next_frame()) is not None:
            return result
        if self.dead:
            return _Result(self._death())
        if len(self._incoming) > MAX_RESULT_BYTES:
            self.dead = True
            return _Result(Trouble("memory", "its text is larger than 1 GiB: split the document"))
        if self._ready and self._incoming:  # the work is done; what is left is the transfer
            self.deadline = time.monotonic() + self._timeout_seconds
        if time.monotonic() >= self.deadline:
            return _Result(self._overdue())
        return None

    def kill(self) -> None:
        """End the process, and whatever it started, and free what belongs to it."""
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._close()

    def _close(self) -> None:
        self._stderr.close()
        while self._mine:
            os.close(self._mine.pop())

    def _next_frame(self) -> _Result | None:
        if len(self._incoming) < HEADER.size:
            return None
        end = HEADER.size + HEADER.unpack_from(self._incoming)[0]
        if len(self._incoming) < end:
            return None
        value = pickle.loads(memoryview(self._incoming)[HEADER.size : end])
        self._incoming = self._incoming[end:]
        return _Result(value)

    def _overdue(self) -> Trouble:
        self.dead = True
        if not self._ready:
            raise RunError(f"a reading process did not start within {START_SECONDS:.0f} s: {self._tail()}")
        message = f"took longer than input.timeout_seconds ({self._timeout_seconds:g} s) to read: raise it, or split it"
        return Trouble("timeout", message)

    def _death(self) -> Trouble:
        code = ends_within(self.process, END_SECONDS)
        if code is None:  # it closed its end, and lives
            self.process.kill()
            code = self.process.wait()
        if not self._ready:
            message = "a reading process does not start; input.memory_limit may be too low for it"
            raise RunError(f"{message} (exit {code}): {self._tail()}")
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit {code}"
        tail = self._tail()
        advice = "the file is damaged, or needs more than input.memory_limit"
        return Trouble("crashed", f"the parser crashed ({how}): {advice}{'; it said: ' + tail if tail else ''}")

    def _tail(self) -> str:
        """The last that the process wrote to standard error."""
        self._stderr.seek(0)
        text = " ".join(self._stderr.read().decode("utf-8", "replace").split())
        return text[-TAIL_CHARS:]


def _scratch_file() -> IO[bytes]:
    """A file without a name, in memory where the system has that."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("stderr"), "w+b")
    import tempfile

    return tempfile.TemporaryFile()
