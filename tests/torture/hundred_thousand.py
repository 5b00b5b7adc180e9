"""A run over many JSONL records with a STUB in place of the engine: what everything but the model costs.

Prints one JSON object: RSS when 10,000 rows were written and at the peak, and the seconds spent in the planner (chat
template, tokens, keys), the journal (questions, calls, rows and their audit lines, what is in flight) and in all.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import qwen_batch.calls
import qwen_batch.engine
from qwen_batch.engine import Engine, EngineConfig
from qwen_batch.engine.engine import EngineStats
from qwen_batch.engine.queue import LOOKAHEAD_REQUESTS
from qwen_batch.job import load_job
from qwen_batch.pipeline import RunOptions, run_job
from qwen_batch.plan.tree import Planner
from qwen_batch.records import Completion, Request
from qwen_batch.write.in_flight import InFlight
from qwen_batch.write.journal import Journal

EARLY_ROWS = 10_000
STEP_SECONDS = 0.01
SPENT = {f"{room}_{kind}": 0.0 for room in ("planner", "journal") for kind in ("cpu_seconds", "wall_seconds")}
SEEN = {"rows": 0, "early_rss": 0}


class StubEngine:
    """Looks as far ahead as ours, and answers a batch of requests a step with fixed tokens. It computes nothing, and
    takes as long as a fast device takes for a step: each one costs three commits."""

    def __init__(self, engine: Engine) -> None:
        self.tokenizer = engine.tokenizer
        self.config = engine.config
        self.max_model_len = engine.max_model_len
        self.precision = "stub"
        self._requests: list[Request] = []

    def describe(self) -> str:
        return "a stub that computes nothing"

    def report(self) -> str:
        return "a stub plans nothing"

    def add(self, request: Request) -> None:
        self._requests.append(request)

    def step(self, begin: Callable[[list[Request]], None]) -> list[Completion]:
        at_once = self.config.max_num_seqs
        requests, self._requests = self._requests[:at_once], self._requests[at_once:]
        begin(requests)
        time.sleep(STEP_SECONDS)
        answer = tuple(range(100, 120))
        return [Completion(r.request_id, answer, "an answer", "stop", len(r.prompt_token_ids)) for r in requests]

    @property
    def has_unfinished(self) -> bool:
        return bool(self._requests)

    @property
    def wants_more(self) -> bool:
        return len(self._requests) < LOOKAHEAD_REQUESTS

    @property
    def stats(self) -> EngineStats:
        return EngineStats(
            num_running=0,
            num_waiting=len(self._requests),
            num_blocks=1,
            num_used_blocks=0,
            num_steps=0,
            num_preemptions=0,
            max_num_running=0,
            max_fragmentation=0.0,
            num_recomputed_tokens=0,
            num_computed_tokens=0,
            num_cached_tokens=0,
        )


def rss_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def timed(kind: str, owner: Any, name: str) -> None:
    function: Callable[..., Any] = getattr(owner, name)

    def wrapped(*arguments: Any, **options: Any) -> Any:
        cpu, wall = time.thread_time(), time.monotonic()
        try:
            return function(*arguments, **options)
        finally:
            SPENT[f"{kind}_cpu_seconds"] += time.thread_time() - cpu
            SPENT[f"{kind}_wall_seconds"] += time.monotonic() - wall

    setattr(owner, name, wrapped)


def watch_rows() -> None:
    add_rows = Journal.add_rows

    def watching(self: Journal, rows: Any, *arguments: Any) -> None:
        rows = list(rows)
        add_rows(self, rows, *arguments)
        SEEN["rows"] += len(rows)
        if SEEN["rows"] >= EARLY_ROWS and not SEEN["early_rss"]:
            SEEN["early_rss"] = rss_bytes()

    Journal.add_rows = watching  # type: ignore[method-assign]


def main(job: str) -> None:
    load = Engine.load_folder
    stub: Callable[[Path, EngineConfig], Any] = lambda folder, config: StubEngine(load(folder, config))  # noqa: E731
    qwen_batch.engine.Engine.load_folder = stub  # type: ignore[method-assign,assignment]
    watch_rows()
    timed("planner", Planner, "start_all")
    timed("planner", qwen_batch.calls, "request_key")
    timed("journal", InFlight, "begin")
    for name in ("current_key", "completion", "add_completions", "add_rows", "note_part"):
        timed("journal", Journal, name)
    started = time.monotonic()
    summary = run_job(load_job(job), RunOptions(quiet=True))
    status = Path("/proc/self/status").read_text()
    peak = int(status.split("VmHWM:")[1].split()[0]) * 1024
    print(
        json.dumps(
            {
                "documents": summary.num_documents,
                "early_rss_bytes": SEEN["early_rss"],
                "peak_rss_bytes": peak,
                "wall_seconds": time.monotonic() - started,
                **SPENT,
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1])
