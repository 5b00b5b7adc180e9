"""Starts runs as forks of one warm process, and ends them where it is told to: at a named step, or after a while.

Reads one JSON object a line from standard input and answers each with one line:

    arguments       of `qwen-batch`
    stop_at         [NAME, n]: at the n-th step of that name the process kills itself (SIGKILL, its whole group);
                    null: never. How many steps there are in all depends on timing.
    fail_at, errno  [NAME, n]: the n-th disk operation of that name fails, and all operations after it; null: none
    seconds         after which the group is killed from outside; null: never
    deadly_tokens   a prompt of more tokens kills the process when the device gets it; null: none
    log             file for standard error, the steps (`step NAME`), the calls that reach the engine (`call KEY`), and
                    those that the device gets (`computed KEY`, again for every step)

A step is a moment just before or just after something that the protocol of write/ is made of, an engine step, the note
of what is in flight (`flight`), or when the device gets something (`launch`).
"""

from __future__ import annotations

import errno
import functools
import json
import os
import signal
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch

import qwen_batch.pipeline
import qwen_batch.write.store
from qwen_batch.cli import main
from qwen_batch.engine import Engine, EngineConfig
from qwen_batch.engine.runner import Runner
from qwen_batch.write import compact
from qwen_batch.write.disk import Disk
from qwen_batch.write.in_flight import InFlight

OPERATIONS = (
    "make_folder",
    "write",
    "append",
    "truncate",
    "link",
    "exchange",
    "rename",
    "sync",
    "sync_folder",
    "remove",
    "remove_folder",
    "commit",
)


class Steps:
    """Counts steps and ends the process at one of them."""

    def __init__(self, order: dict[str, Any], log: int) -> None:
        self._stop_at = order.get("stop_at")
        self._fail_at = order.get("fail_at")
        self._errno = order.get("errno")
        self._log = log
        self._counts: Counter[str] = Counter()
        self._is_failing = False

    def note(self, line: str) -> None:
        os.write(self._log, f"{line}\n".encode())

    def step(self, name: str) -> None:
        self._counts[name] += 1
        self.note(f"step {name}")
        if self._stop_at == [name, self._counts[name]]:
            os.killpg(0, signal.SIGKILL)

    def around(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapped(*arguments: Any, **options: Any) -> Any:
            self.step(f"before_{name}")
            result = function(*arguments, **options)
            self.step(f"after_{name}")
            return result

        return wrapped

    def failing(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapped(*arguments: Any, **options: Any) -> Any:
            self._counts[name] += 1
            self.note(f"operation {name}")
            self._is_failing |= self._fail_at == [name, self._counts[name]]
            if self._is_failing:
                if name == "commit":
                    raise full_journal(self._errno)
                raise OSError(self._errno, os.strerror(self._errno))
            return function(*arguments, **options)

        return wrapped


def full_journal(number: int) -> sqlite3.OperationalError:
    """What SQLite raises when the system says `number`."""
    message, code = {
        errno.ENOSPC: ("database or disk is full", sqlite3.SQLITE_FULL),
        errno.EIO: ("disk I/O error", sqlite3.SQLITE_IOERR),
        errno.EROFS: ("attempt to write a readonly database", sqlite3.SQLITE_READONLY),
    }[number]
    error = sqlite3.OperationalError(message)
    error.sqlite_errorcode = code
    return error


def run(order: dict[str, Any]) -> None:
    """In the fork: never returns."""
    os.setpgid(0, 0)
    log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    steps = Steps(order, log)
    disk = Disk()
    for name in OPERATIONS:
        operation = steps.failing(name, getattr(disk, name))
        setattr(disk, name, steps.around(name, operation))
    qwen_batch.write.store.Disk = lambda: disk  # type: ignore[misc,assignment]
    compact.MIN_SMALL_PARTS = 4
    for name in ("GATHER_BATCHES", "GATHER_SECONDS", "GATHER_PAUSE_SECONDS"):  # all of it, before the first step
        setattr(qwen_batch.pipeline, name, 10)
    add = Engine.add

    def add_and_note(self: Engine, request: Any) -> None:
        steps.note(f"call {request.request_id}")
        add(self, request)

    launch = Runner.launch

    def launch_or_die(self: Runner, pieces: Any, *before: Any) -> Any:
        for piece in pieces:
            steps.note(f"computed {piece.sequence.request.request_id}")
        if max(piece.sequence.num_prompt_tokens for piece in pieces) > (order.get("deadly_tokens") or 10**9):
            os.killpg(0, signal.SIGKILL)
        return launch(self, pieces, *before)

    Engine.add = add_and_note  # type: ignore[method-assign]
    Engine.step = steps.around("engine_step", Engine.step)  # type: ignore[method-assign]
    Runner.launch = steps.around("launch", launch_or_die)  # type: ignore[method-assign]
    InFlight.begin = steps.around("flight", InFlight.begin)  # type: ignore[method-assign]
    sys.argv = ["qwen-batch", *order["arguments"]]
    code = 99
    try:
        main()
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        sys.stderr.flush()
        os._exit(code)


def serve() -> None:
    torch.set_num_threads(1)  # before any work: threads do not survive a fork
    pa.array(["this imports pandas where it is installed"])
    Engine.load_folder(Path(sys.argv[1]), EngineConfig(device="cpu", dtype="float32", num_blocks=64, max_model_len=512))
    for line in sys.stdin:
        order = json.loads(line)
        started = time.monotonic()
        child = os.fork()
        if child == 0:
            run(order)
        status = wait(child, order.get("seconds"))
        answer = {"code": os.waitstatus_to_exitcode(status), "seconds": time.monotonic() - started}
        print(json.dumps(answer), flush=True)


def wait(child: int, seconds: float | None) -> int:
    if seconds is not None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                return status
            time.sleep(0.001)
        for target in (os.killpg, os.kill):  # it may not have a group of its own yet
            try:
                target(child, signal.SIGKILL)
                break
            except ProcessLookupError:
                continue
    return os.waitpid(child, 0)[1]


if __name__ == "__main__":
    serve()
