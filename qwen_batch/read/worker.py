"""A reading process: runs one function on each task that its parent sends, within a memory limit.

    python -m qwen_batch.read.worker MODULE:FUNCTION TASKS RESULTS LIFELINE MEMORY_LIMIT

TASKS, RESULTS and LIFELINE are numbers of pipes. The first frame that the child sends is None, when it is ready.
Standard output is not used: a native library may print there.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import importlib
import os
import pickle
import resource
import signal
import sys
from collections.abc import Callable
from typing import IO

from qwen_batch.errors import DocumentError
from qwen_batch.read.frames import HEADER, Trouble, frame

MAX_STDERR_BYTES = 1 << 20
NICENESS = 5  # there is a reading process for each core, and the device must not wait for one
NEW_OBJECTS = 20_000  # between collections: with Python's 700, looking at characters and lines took 8 % of the time
EXTRA_BYTES = 1 << 30  # of address space, beyond the limit, that OCR may take
MAX_MESSAGE_CHARS = 500


def main(arguments: list[str]) -> None:
    """Serve until the parent closes its end."""
    target, *numbers, memory_limit = arguments
    tasks_fd, results_fd, lifeline_fd = map(int, numbers)
    _die_with_parent(lifeline_fd)
    os.nice(NICENESS)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy starts a thread for each core, which takes 50 ms
    gc.disable()  # until all is loaded
    module, _, name = target.partition(":")
    function = getattr(importlib.import_module(module), name)
    _limit(int(memory_limit))
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS)
    gc.enable()
    with open(tasks_fd, "rb") as tasks, open(results_fd, "wb") as results:
        results.write(frame(None))
        results.flush()
        while header := tasks.read(HEADER.size):
            task = pickle.loads(tasks.read(HEADER.unpack(header)[0]))
            _answer(results, function, task)


def _answer(results: IO[bytes], function: Callable[[object], object], task: object) -> None:
    try:
        data = pickle.dumps(_run(function, task), protocol=5)
    except MemoryError:
        data = pickle.dumps(Trouble("memory", _MEMORY_ADVICE), protocol=5)
    results.write(HEADER.pack(len(data)))  # apart: results may be large, and together they would be copied
    results.write(data)
    results.flush()


_MEMORY_ADVICE = "needs more memory than input.memory_limit allows: raise it, or split the document"


def _run(function: Callable[[object], object], task: object) -> object:
    try:
        return function(task)
    except DocumentError as error:
        return Trouble(error.error_type, str(error), error.num_pages)
    except MemoryError:
        return Trouble("memory", _MEMORY_ADVICE)
    except Exception as error:
        message = f"{type(error).__name__}: {error}"[:MAX_MESSAGE_CHARS]
        return Trouble("parser_error", f"the parser gave up: {message}")


def _die_with_parent(lifeline: int) -> None:
    """The kernel ends this process, and what it has started, when the other end of the pipe closes, even within native
    code that never returns.

    A pipe and not PR_SET_PDEATHSIG, which fires when the parent's *thread* ends.
    """
    signal.signal(signal.SIGIO, signal.SIG_DFL)  # its default action is to terminate
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())  # the group of its own that it was started in
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)


def _limit(memory_bytes: int) -> None:
    """After the imports: they are not the document's fault."""
    for kind, value in (
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, MAX_STDERR_BYTES),
    ):
        with contextlib.suppress(OSError, ValueError):  # a stricter limit is already in force, or macOS
            hard = resource.getrlimit(kind)[1]
            lowered = value if hard == resource.RLIM_INFINITY else min(value, hard)
            # What may be raised again: for models of OCR (ocr/recogniser.py), and what LibreOffice writes.
            highest = {resource.RLIMIT_AS: lowered + EXTRA_BYTES, resource.RLIMIT_FSIZE: hard}.get(kind, lowered)
            resource.setrlimit(kind, (lowered, highest if hard == resource.RLIM_INFINITY else min(highest, hard)))


if __name__ == "__main__":
    main(sys.argv[1:])
