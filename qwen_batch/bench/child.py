"""The other end of `worker.py`: a process with one engine in it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from qwen_batch.bench.workload import BenchRequest
from qwen_batch.errors import RunError

WORKER = Path(__file__).with_name("worker.py")
ANSWER_SECONDS = 3600.0  # an engine that is silent for longer hangs
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


class EngineFailedError(RunError):
    """An engine could not be loaded, or ended."""


@dataclass(frozen=True, slots=True)
class Timing:
    """One run of one engine."""

    seconds: float
    tokens: tuple[tuple[int, ...], ...]  # generated, by request
    counters: Mapping[str, float]  # what the engine itself counted
    peak_bytes: int  # resident, since the process began
    others_share: float  # of the machine, taken by other programs meanwhile; 0..1


class Child:
    """Context manager around the process. Raises EngineFailedError with the end of what the engine printed."""

    def __init__(self, name: str, python: str, adapter: Path, threads: int) -> None:
        self.name = name
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  closed with the process
        self._started = time.perf_counter()
        self._process = subprocess.Popen(
            [python, str(WORKER), str(adapter)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            encoding="utf-8",
            env={**os.environ, **dict.fromkeys(_THREAD_VARIABLES, str(threads)), "HF_HUB_OFFLINE": "1"},
            start_new_session=True,
        )

    def load(self, options: Mapping[str, object]) -> str:
        """Returns what runs, in words."""
        return str(self._ask({"do": "load", "options": options})["engine"])

    @property
    def age_seconds(self) -> float:
        return time.perf_counter() - self._started

    def run(self, requests: Sequence[BenchRequest]) -> Timing:
        """Answer all of them."""
        prompts = [request.prompt_token_ids for request in requests]
        lengths = [request.output_tokens for request in requests]
        answer = self._ask({"do": "run", "prompts": prompts, "output_tokens": lengths})
        tokens = tuple(tuple(ids) for ids in answer.pop("tokens"))
        if [len(ids) for ids in tokens] != lengths:
            raise EngineFailedError(f"{self.name}: answers are not as long as they were forced to be")
        return Timing(tokens=tokens, **answer)

    def close(self) -> None:
        """End the process and what it started. Doing it again does nothing."""
        with suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=10.0)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._log.close()

    def _ask(self, command: Mapping[str, object]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        watch = threading.Timer(ANSWER_SECONDS, self._process.kill)
        watch.start()
        try:
            self._process.stdin.write(json.dumps(command) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            watch.cancel()
        if not line:
            raise EngineFailedError(f"{self.name}: its process ended: {self._last_words()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise EngineFailedError(f"{self.name}: {answer['error']}")
        return answer

    def _last_words(self) -> str:
        self._process.wait()
        self._log.seek(0)
        text = self._log.read().decode("utf-8", "replace").strip()
        return text[-500:] or f"exit code {self._process.returncode}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
