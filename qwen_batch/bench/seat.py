"""One engine's place in a comparison, and what was measured of it."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Mapping, Sequence

from qwen_batch.bench.child import Child, EngineFailedError, Timing
from qwen_batch.bench.engines import Competitor
from qwen_batch.bench.result import EngineResult
from qwen_batch.bench.workload import BenchRequest

FIRST_TOKENS = 8  # that are compared with the reference


class Seat:
    """Holds the engine's process. `keep`: it lives between runs; else every run begins a new one.

    An engine that fails is out from then on, with the reason in `error`; the others go on.
    """

    def __init__(
        self,
        competitor: Competitor,
        options: Mapping[str, object],
        *,
        threads: int,
        keep: bool,
        report: Callable[[str], None],
    ) -> None:
        self.competitor = competitor
        self.engine = ""  # what runs, in words
        self.error: str | None = None
        self.timings: list[Timing] = []
        self.agree: float | None = None
        self._options = options
        self._threads = threads
        self._keep = keep
        self._report = report
        self._child: Child | None = None
        self._start_seconds = 0.0
        self._num_requests = 0

    def start(self, probe: BenchRequest) -> None:
        """From nothing to the first token of the probe."""

        def begin() -> None:
            child = self._begin()
            child.run([dataclasses.replace(probe, output_tokens=1)])
            self._start_seconds = child.age_seconds
            self._report(f"{self.competitor.name}: {self.engine}; first token after {self._start_seconds:.1f} s")

        self._attempt(begin)

    def first_tokens(self, requests: Sequence[BenchRequest]) -> tuple[tuple[int, ...], ...] | None:
        """The first tokens of each answer; also what warms the engine up."""
        few = [
            dataclasses.replace(request, output_tokens=min(FIRST_TOKENS, request.output_tokens)) for request in requests
        ]
        found: list[Timing] = []
        self._attempt(lambda: found.append(self._alive().run(few)))
        return found[0].tokens if found else None

    def measure(self, requests: Sequence[BenchRequest]) -> Timing | None:
        """A timed round."""

        def run() -> None:
            child = self._alive()
            if not self._keep:
                child.run([dataclasses.replace(requests[0], output_tokens=2)])  # warm before the clock starts
            self.timings.append(child.run(requests))

        before, self._num_requests = len(self.timings), len(requests)
        self._attempt(run)
        return self.timings[-1] if len(self.timings) > before else None

    def close(self) -> None:
        """End the process."""
        if self._child is not None:
            self._child.close()
            self._child = None

    def result(self) -> EngineResult:
        return EngineResult(
            name=self.competitor.name,
            engine=self.engine,
            num_requests=self._num_requests,
            start_seconds=self._start_seconds,
            rates=tuple(self._num_requests / timing.seconds for timing in self.timings),
            first_tokens_agree=self.agree,
            peak_bytes=max((timing.peak_bytes for timing in self.timings), default=0),
            others_share=statistics.median([timing.others_share for timing in self.timings] or [0.0]),
            counters=self.timings[-1].counters if self.timings else {},
            error=self.error,
        )

    def _alive(self) -> Child:
        return self._child or self._begin()

    def _begin(self) -> Child:
        competitor = self.competitor
        self._child = Child(competitor.name, competitor.python, competitor.adapter, self._threads)
        self.engine = self._child.load(self._options)
        return self._child

    def _attempt(self, work: Callable[[], None]) -> None:
        if self.error is not None:
            return
        try:
            work()
        except EngineFailedError as error:
            self.error = str(error)
            self._report(f"failed: {error}")
            self.close()
        if not self._keep:
            self.close()
