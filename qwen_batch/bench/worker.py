"""The process of one engine: it loads an adapter, then answers commands until its input ends.

    python worker.py ADAPTER.py

A command and its answer are one JSON line each, on standard input and on what standard output was at the start; what
the engine itself prints goes to standard error. It runs under the Python that an engine is installed in, so it needs
the standard library alone (3.9 or later), and so do the adapters but for their engine.

    {"do": "load", "options": {...}}                                -> {"engine": what runs, in words}
    {"do": "run", "prompts": [[...]], "output_tokens": [...]}       -> {"seconds", "tokens", "counters", ...}
    anything that goes wrong                                        -> {"error": "..."}

An adapter is a module with `load(options) -> engine`. An engine has `describe() -> str`, `run(prompts, lengths) ->
ids`, and, if it likes, `prepare()`, which is called before the clock, and `counters() -> dict` of the last run. When
the input ends in the middle of a run, whoever asked is gone: the process ends with all that it has started.
"""

from __future__ import annotations

import importlib.util
import json
import os
import queue
import signal
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

# The folder of this file is first there, and its names would hide packages such as `kernels`.
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != Path(__file__).resolve().parent]

CLOSE_SECONDS = 5.0  # for an engine to let go in order


def main() -> None:
    """Answer commands until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    engine: Any = None
    adapter = _import_file(Path(sys.argv[1]))
    commands: queue.Queue[str | None] = queue.Queue()
    threading.Thread(target=_read, args=(commands,), daemon=True).start()
    while (line := commands.get()) is not None:
        command = json.loads(line)
        try:
            if command["do"] == "load":
                engine = adapter.load(command["options"])
                answer = {"engine": engine.describe()}
            else:
                answer = _run(engine, command["prompts"], command["output_tokens"])
        except Exception as error:
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    if hasattr(engine, "close"):
        engine.close()


def _read(commands: queue.Queue[str | None]) -> None:
    for line in sys.stdin:
        commands.put(line)
    commands.put(None)
    time.sleep(CLOSE_SECONDS)
    if os.getpgrp() == os.getpid():  # a group of its own, not that of somebody's shell
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def _run(engine: Any, prompts: list[list[int]], output_tokens: list[int]) -> dict[str, Any]:
    if hasattr(engine, "prepare"):
        engine.prepare()
    own, everyone = _tree_seconds(), _machine_seconds()
    started = time.perf_counter()
    tokens = engine.run(prompts, output_tokens)
    seconds = time.perf_counter() - started
    own, everyone = _tree_seconds() - own, _machine_seconds() - everyone
    return {
        "seconds": seconds,
        "tokens": [[int(token) for token in ids] for ids in tokens],
        "counters": engine.counters() if hasattr(engine, "counters") else {},
        "peak_bytes": _peak_bytes(),
        "others_share": max(0.0, everyone - own) / seconds / (os.cpu_count() or 1),
    }


def _import_file(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _tree() -> list[int]:
    """This process and all that descend from it; empty without /proc."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError):  # it has just ended
            continue
    tree = [os.getpid()] if parents else []
    for pid in tree:  # grows while we walk it
        tree += [child for child, parent in parents.items() if parent == pid]
    return tree


def _tree_seconds() -> float:
    """Processor seconds that the tree has used so far."""
    ticks = 0
    for pid in _tree():
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def _machine_seconds() -> float:
    """Processor seconds that everything on this machine has used so far."""
    try:
        fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    except (OSError, ValueError):
        return 0.0
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")  # all but idle and waiting for a disk


def _peak_bytes() -> int:
    """The most memory that the processes of the tree have held, each at its own worst moment."""
    total = 0
    for pid in _tree():
        try:
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
    return total


if __name__ == "__main__":
    main()
