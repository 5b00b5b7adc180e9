"""How a reading process is started: a fresh interpreter, or a fork of this one.

A fresh interpreter is the rule: its parent has threads, a model and gigabytes. A command that does nothing but read
files has none of them, and a fork of it is ready in half of the time.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import time
from collections.abc import Sequence
from typing import IO, NoReturn, Protocol

POLL_SECONDS = 0.01


class Process(Protocol):
    """What the pool needs of a child; `subprocess.Popen` has it, too."""

    pid: int

    def poll(self) -> int | None:
        """Its exit code, the negative number of the signal that ended it, or None while it lives."""

    def wait(self) -> int: ...

    def kill(self) -> None: ...


def may_fork() -> bool:
    """Whether this process has one thread only; with more, a fork may inherit locks that nobody opens."""
    try:
        return len(os.listdir("/proc/self/task")) == 1
    except OSError:
        return False


def spawn(arguments: list[str], pipes: Sequence[int], stderr: IO[bytes]) -> Process:
    """A fresh interpreter that serves (read/worker.py). Raises OSError."""
    import subprocess  # takes longer to load than a fork takes

    return subprocess.Popen(
        [sys.executable, "-P", "-m", "qwen_batch.read.worker", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=stderr,
        pass_fds=pipes,
        start_new_session=True,  # Ctrl-C reaches the parent alone, which decides
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )


def fork(arguments: list[str], pipes: Sequence[int], stderr: IO[bytes]) -> Process:
    """A copy of this process that serves. Raises OSError."""
    gc.freeze()  # a collection in the child would write to all that it shares with its parent, and so copy it
    pid = os.fork()
    if pid:
        return _Forked(pid)
    _serve(arguments, pipes, stderr.fileno())


def _serve(arguments: list[str], pipes: Sequence[int], stderr: int) -> NoReturn:
    """What the copy does; it never comes back into its parent's code."""
    code = 1
    try:
        os.setsid()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for number, place in ((nowhere, 0), (nowhere, 1), (stderr, 2)):
            os.dup2(number, place)
        _close_all_but(pipes)  # the parent's end of the lifeline above all
        from qwen_batch.read.worker import main

        main(arguments)
        code = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)


def _close_all_but(kept: Sequence[int]) -> None:
    for name in os.listdir("/proc/self/fd"):
        if (number := int(name)) > 2 and number not in kept:
            with contextlib.suppress(OSError):  # the one that lists them is closed already
                os.close(number)


class _Forked:
    """A forked child."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._code: int | None = None

    def poll(self) -> int | None:
        return self._ended(os.WNOHANG)

    def wait(self) -> int:
        code = self._ended(0)
        return 0 if code is None else code

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def _ended(self, options: int) -> int | None:
        if self._code is None:
            pid, status = os.waitpid(self.pid, options)
            self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code


def ends_within(process: Process, seconds: float) -> int | None:
    """The exit code; None: it still lives then."""
    end = time.monotonic() + seconds
    while (code := process.poll()) is None and time.monotonic() < end:
        time.sleep(POLL_SECONDS)
    return code
