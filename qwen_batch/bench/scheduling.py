"""The scheduler without a model: what planning costs, and what it plans.

    python -m qwen_batch.bench.scheduling [--requests 1000000] [--mixed] [--output scheduling.json]

Runs the engine's scheduler and block manager over synthetic requests; answers have lengths that are drawn, and no
logits. `--mixed` counts how many requests of unequal length run at once in a pool for 16 of 3,000 tokens.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import json
import random
import resource
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from qwen_batch.engine.block_manager import BlockManager
from qwen_batch.engine.estimate import padded_efficiency
from qwen_batch.engine.scheduler import Piece, Scheduler
from qwen_batch.engine.sequence import Sequence
from qwen_batch.records import Request, SamplingParams

BLOCK_SIZE = 16
POOL_TOKENS = 16 * 3000  # of `--mixed`


@dataclass(frozen=True, slots=True)
class Shape:
    """Requests as they come: a shared beginning, a body, an answer. Lengths in tokens."""

    name: str
    shared_tokens: int
    body: Callable[[random.Random], int]
    output_tokens: int


SHAPES = (
    Shape("seed", 0, lambda draw: 256, 128),
    Shape("tickets", 180, lambda draw: draw.randint(30, 250), 48),
    Shape("contracts", 200, lambda draw: int(min(3000, max(100, draw.lognormvariate(6.35, 0.85)))), 96),
)


def iter_requests(shape: Shape, count: int, seed: int = 0) -> Iterator[Request]:
    """The same seed gives the same requests."""
    draw = random.Random(f"{seed}-{shape.name}")
    text = draw.choices(range(100_000), k=1 << 20)
    shared, sampling = text[: shape.shared_tokens], SamplingParams(max_tokens=shape.output_tokens)
    for number in range(count):
        length, start = shape.body(draw), draw.randrange(len(text) - 4096)
        yield Request(f"{shape.name}-{number}", shared + text[start : start + length], sampling, template=shape.name)


@dataclass(slots=True)
class Planned:
    """What a simulated run came to."""

    num_requests: int = 0
    num_steps: int = 0
    num_computed_tokens: int = 0
    num_cached_tokens: int = 0
    num_preemptions: int = 0
    num_recomputed_tokens: int = 0
    max_num_running: int = 0
    mean_running: float = 0.0  # over the steps in which more waited
    max_fragmentation: float = 0.0  # share of the slots of blocks in use that hold no token
    padded_efficiency: float = 0.0  # useful tokens over tokens, were the batches padded
    seconds: float = 0.0
    cpu_seconds: float = 0.0  # of the process: what `seconds` are on an idle machine


class Simulation:
    """The engine's loop around the scheduler, with answers of a length that `answer_tokens` says."""

    def __init__(
        self,
        *,
        num_blocks: int,
        max_num_seqs: int,
        max_num_batched_tokens: int = 2048,
        output_reserve: float = 1.0,
        block_size: int = BLOCK_SIZE,
        answer_tokens: Callable[[Request], int] = lambda request: request.sampling.max_tokens,
    ) -> None:
        self.blocks = BlockManager(num_blocks, block_size)
        self.scheduler = Scheduler(
            self.blocks,
            max_num_seqs=max_num_seqs,
            max_num_batched_tokens=max_num_batched_tokens,
            output_reserve=output_reserve,
        )
        self.result = Planned()
        self._answer_tokens = answer_tokens
        self._left: dict[Sequence, int] = {}  # running -> tokens that its answer still gets
        self._contended_steps = 0
        self._lengths: Counter[int] = Counter()

    def run(self, requests: Iterable[Request], *, watch: bool = False) -> Planned:
        """Until all are answered. `watch` also checks the blocks after every step, which costs more than planning."""
        source = iter(requests)
        started, cpu_started = time.perf_counter(), time.process_time()
        while True:
            while self.scheduler.wants_more:
                request = next(source, None)
                if request is None:
                    break
                self.scheduler.add(Sequence(request, None))
            pieces = self.scheduler.schedule()
            if not pieces:
                break
            self._step(pieces)
            if watch:
                self._watch()
        self.result.seconds = time.perf_counter() - started
        self.result.cpu_seconds = time.process_time() - cpu_started
        return self._summed_up()

    def _step(self, pieces: list[Piece]) -> None:
        result = self.result
        result.num_steps += 1
        for sequence in self.scheduler.started:
            if not sequence.num_preemptions:
                self._left[sequence] = self._answer_tokens(sequence.request)
                result.num_cached_tokens += sequence.num_cached_tokens
        for piece in pieces:
            sequence, ends = piece.sequence, piece.reaches_end
            sequence.num_computed_tokens += piece.num_tokens
            result.num_computed_tokens += piece.num_tokens
            self.blocks.share(sequence)
            if ends:
                sequence.token_ids.append(0)
                self._left[sequence] -= 1
                if not self._left[sequence]:
                    self._finish(sequence)

    def _finish(self, sequence: Sequence) -> None:
        del self._left[sequence]
        self.result.num_requests += 1
        self._lengths[len(sequence.token_ids)] += 1
        self.scheduler.finish(sequence)

    def _watch(self) -> None:
        running = self.scheduler.running
        self.blocks.check(running)
        self.result.max_fragmentation = max(self.result.max_fragmentation, self.blocks.fragmentation(running))
        if self.scheduler.num_waiting:
            self._contended_steps += 1
            self.result.mean_running += len(running)

    def _summed_up(self) -> Planned:
        result, scheduler = self.result, self.scheduler
        result.num_preemptions = scheduler.num_preemptions
        result.num_recomputed_tokens = scheduler.num_recomputed_tokens
        result.max_num_running = scheduler.max_num_running
        result.mean_running /= max(1, self._contended_steps)
        result.padded_efficiency = padded_efficiency(self._lengths.elements(), scheduler.max_num_seqs)
        return result


def mixed(seed: int = 0) -> tuple[Planned, int]:
    """(a run of all shapes, mixed, in a pool of POOL_TOKENS; how many contiguous slots of the longest fit the pool)."""
    requests = [request for shape in SHAPES for request in iter_requests(shape, 128, seed)]
    random.Random(seed).shuffle(requests)
    longest = max(len(request.prompt_token_ids) + request.sampling.max_tokens for request in requests)
    simulation = Simulation(num_blocks=POOL_TOKENS // BLOCK_SIZE, max_num_seqs=512)
    return simulation.run(requests, watch=True), max(16, POOL_TOKENS // longest)


def many(num_requests: int, seed: int = 0) -> Planned:
    """As many short requests with a shared prompt, a label for an answer."""
    shape = dataclasses.replace(SHAPES[1], output_tokens=1)
    gc.collect()
    gc.freeze()  # what lives as long as the process is not looked through again and again
    return Simulation(num_blocks=4096, max_num_seqs=64).run(iter_requests(shape, num_requests, seed))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--mixed", action="store_true", help="only the requests of unequal length")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, help="a file for the numbers, as JSON")
    arguments = parser.parse_args()
    planned, slots = mixed(arguments.seed)
    result: dict[str, object] = {"mixed": dataclasses.asdict(planned), "contiguous_slots": slots}
    print(
        f"mixed: {planned.num_requests} requests in {POOL_TOKENS:,} tokens of KV memory: {planned.max_num_running} at "
        f"once at most, {planned.mean_running:.1f} on average while more waited, where contiguous slots of the longest "
        f"would hold {slots}; {planned.num_preemptions} preemptions; at most {planned.max_fragmentation:.1%} of the "
        f"slots in use empty; padded batches would be {planned.padded_efficiency:.0%} useful"
    )
    if not arguments.mixed:
        planned = many(arguments.requests, arguments.seed)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        result["many"] = {**dataclasses.asdict(planned), "peak_bytes": peak}
        print(
            f"many: {planned.num_requests:,} requests in {planned.num_steps:,} steps: {planned.seconds:.1f} s "
            f"({planned.cpu_seconds:.1f} s of CPU), peak {peak / 2**20:,.0f} MiB; "
            f"{planned.num_computed_tokens:,} tokens computed, {planned.num_cached_tokens:,} shared, "
            f"{planned.num_preemptions} preemptions"
        )
    if arguments.output is not None:
        arguments.output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
