"""What a comparison found, as values and as a table."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from qwen_batch.bench.engines import ONE_BY_ONE
from qwen_batch.bench.floor import Work


@dataclass(frozen=True, slots=True)
class EngineResult:
    """One engine on one workload. Where it failed, `error` says how, and the rest is what came before."""

    name: str
    engine: str  # what ran, in words
    num_requests: int  # in each round
    start_seconds: float  # from the start of its process to the first token
    rates: tuple[float, ...]  # requests a second, by round
    first_tokens_agree: float | None  # share of requests
    peak_bytes: int
    others_share: float  # median share of the machine that other programs took
    counters: Mapping[str, float]  # of the last round
    error: str | None = None

    @property
    def rate(self) -> float | None:
        return statistics.median(self.rates) if self.rates else None


@dataclass(frozen=True, slots=True)
class Comparison:
    """All engines on one workload."""

    workload: str
    model: str
    precision: str
    device: str
    machine: str
    threads: int
    torch_version: str
    version: str  # of this package
    date: str
    seed: int
    rounds: int
    agreement_requests: int
    work: Work
    matmul_flops: float  # a second, measured in the same rounds
    copy_bytes: float
    engines: tuple[EngineResult, ...]

    @property
    def floor_seconds(self) -> float:
        return self.work.seconds(self.matmul_flops, self.copy_bytes)

    def ratio(self, result: EngineResult) -> float | None:
        """How many times the rate of one-by-one transformers."""
        base = next((other.rate for other in self.engines if other.name == ONE_BY_ONE), None)
        return result.rate / base if result.rate and base else None

    def share_of_limit(self, result: EngineResult) -> float | None:
        """Share of the machine's limit that is reached."""
        return result.rate * self.floor_seconds / self.work.num_requests if result.rate else None

    def to_json(self) -> dict[str, object]:
        engines = [
            {
                **dataclasses.asdict(result),
                "rate": result.rate,
                "ratio": self.ratio(result),
                "share_of_limit": self.share_of_limit(result),
            }
            for result in self.engines
        ]
        return {**dataclasses.asdict(self), "floor_seconds": self.floor_seconds, "engines": engines}


def format_comparison(result: Comparison) -> str:
    """The comparison as lines of text."""
    work = result.work
    return "\n".join(
        (
            f"{result.workload}: {work.num_requests} requests, {work.prompt_tokens:,} tokens in "
            f"({work.distinct_prompt_tokens:,} with shared prefixes once), {work.output_tokens:,} out; "
            f"{result.model} in {result.precision} on {result.device}, seed {result.seed}",
            f"{result.date}, {result.machine}, {result.threads} threads, qwen-batch {result.version}, "
            f"torch {result.torch_version}; "
            f"{f'medians of {result.rounds} rounds' if result.rounds > 1 else 'one round'}",
            f"limit: {result.floor_seconds:.1f} s = {work.num_requests / result.floor_seconds:.3f} req/s, at "
            f"{result.matmul_flops / 1e9:,.0f} GFLOP/s and {result.copy_bytes / 1e9:,.1f} GB/s, measured in the rounds",
            "",
            *_rows(result),
            *_notes(result),
        )
    )


_HEADER = ("engine", "req/s", "x hf-loop", "of limit", "first 8", "start", "peak", "others")


def _rows(result: Comparison) -> Iterator[str]:
    yield "  ".join(_align(_HEADER))
    for engine in result.engines:
        if engine.rate is None:
            yield f"{engine.name:<16}  failed: {engine.error}"
            continue
        ratio, share = result.ratio(engine), result.share_of_limit(engine)
        cells = (
            engine.name + ("*" if engine.num_requests < result.work.num_requests else ""),
            f"{engine.rate:.3f}",
            f"{ratio:.2f}" if ratio else "-",
            f"{share:.0%}" if share else "-",
            f"{engine.first_tokens_agree:.0%}" if engine.first_tokens_agree is not None else "-",
            f"{engine.start_seconds:.1f} s",
            f"{engine.peak_bytes / 1e9:.2f} GB",
            f"{engine.others_share:.0%}",
        )
        yield "  ".join(_align(cells))


def _align(cells: tuple[str, ...]) -> Iterator[str]:
    yield f"{cells[0]:<16}"
    yield from (f"{cell:>9}" for cell in cells[1:])


def _notes(result: Comparison) -> Iterator[str]:
    for engine in result.engines:
        if engine.rate is not None and engine.num_requests < result.work.num_requests:
            yield f"* measured on {engine.num_requests} of the requests, evenly spread over their lengths"
        if engine.rate is not None and engine.error is not None:
            yield f"{engine.name}: ended after {len(engine.rates)} rounds: {engine.error}"
        if "num_computed_tokens" in engine.counters:
            yield (
                f"{engine.name}: {engine.counters['num_computed_tokens']:,} tokens computed in "
                f"{engine.counters['num_steps']:,} steps, {result.work.computed_tokens:,} would be ideal; "
                f"{engine.counters['num_preemptions']} preemptions"
            )
    if result.agreement_requests:
        yield (
            f"first 8: share of requests ({result.agreement_requests} looked at) whose first 8 tokens are those of "
            "transformers in float32"
        )
    yield "start: from the start of the process to its first token; others: share of the machine that others took"
