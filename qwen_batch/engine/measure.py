"""How long steps of different sizes take on this device, measured once and kept.

All layers of a decoder are alike, so a few of them are measured, as many as no cache holds, and scaled up. The table is
kept under QWEN_BATCH_HOME by what it depends on: device, threads, model shape, dtype, backend.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import os
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from qwen_batch.engine.cost import spans_of
from qwen_batch.model.attention import StepInput
from qwen_batch.model.decoder import Decoder
from qwen_batch.model.home import home
from qwen_batch.model.kv_cache import KVCache

logger = logging.getLogger(__name__)

SIZES = (1, 256, 512, 1024, 2048, 4096, 8192)  # tokens of a step
PIECE_TOKENS = 256  # of the prompts in such a step
MIN_CHOICE = 256
# Of the weights that are measured: more than the last cache of a CPU holds, less than a second's work.
MIN_WEIGHT_BYTES = 64 << 20
BUDGET_SECONDS = 1.5
# The largest step at this share of the best rate is taken. Larger ones cut fewer prompts and start more sequences at
# once: 10 requests of 300 to 3,200 tokens took 12.0, 11.5 and 10.5 s in steps of 256, 1,024 and 2,048 tokens, whose
# rates by themselves are within 5 % (`demo`, bfloat16, two Zen 4 cores, 2026-11-29).
NEAR_BEST = 0.97
LARGEST = {"cpu": 2048, "cuda": 8192}  # activations of larger steps take memory from keys and values
Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Seconds of one step of the whole model by its number of tokens."""

    seconds: Mapping[int, float]

    def choose(self) -> int:
        """The largest step whose rate is near the best."""
        rates = {tokens: tokens / took for tokens, took in self.seconds.items() if tokens >= MIN_CHOICE}
        best = max(rates.values())
        return max(tokens for tokens, rate in rates.items() if rate >= NEAR_BEST * best)

    def describe(self) -> str:
        """Why that size."""
        rates = (f"{tokens:,}: {tokens / took:,.0f}" for tokens, took in self.seconds.items() if tokens >= MIN_CHOICE)
        return f"{self.choose():,} tokens in a step, of measured tokens/s by size {', '.join(rates)}"


def step_times(decoder: Decoder, backend: str, block_size: int) -> StepTimes:
    """From the cache, or measured now (about BUDGET_SECONDS)."""
    path = home() / "steps" / f"{_fingerprint(decoder, backend, block_size)}.json"
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        return StepTimes({int(tokens): float(took) for tokens, took in kept.items()})
    except (OSError, ValueError):
        pass
    times = measure_steps(decoder, block_size)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f".{path.name}.{os.getpid()}")
        beside.write_text(json.dumps(times.seconds), encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        logger.warning("%s: step times cannot be kept, and are measured at every start: %s", path, error)
    return times


def measure_steps(decoder: Decoder, block_size: int, clock: Clock = time.perf_counter) -> StepTimes:
    """Two runs of each small size, the faster one counts; no larger size that would not fit BUDGET_SECONDS.

    On CUDA another run goes before: there the first of each size finds memory and loads kernels of cuBLAS.
    """
    is_cuda = decoder.weights.device.type == "cuda"
    part, scale = _some_layers(decoder)
    head = min(_timed(decoder, partial(_run_head, decoder), clock) for _ in range(3))
    for tokens in (1, 64):  # memory, threads and kernels, of decoding too, are there before the clock starts
        _run_step(part, tokens, block_size)
    seconds: dict[int, float] = {}
    started, took = clock(), 0.0
    for tokens in (size for size in SIZES if size <= LARGEST[decoder.weights.device.type]):
        if len(seconds) > 1 and clock() - started + 2 * (1 + is_cuda) * took > BUDGET_SECONDS:
            break
        if is_cuda:
            _run_step(part, tokens, block_size)
        runs = range(2 if tokens < 1024 else 1)
        took = min(_timed(part, partial(_run_step, part, tokens, block_size), clock) for _ in runs)
        seconds[tokens] = max(took - head, took / 10) * scale + head
    if is_cuda:
        torch.cuda.empty_cache()
    return StepTimes(seconds)


def _some_layers(decoder: Decoder) -> tuple[Decoder, float]:
    """(a decoder of the first layers, how many times as many there are)."""
    config, weights = decoder.config, decoder.weights
    layer = config.hidden_size * (2 * config.q_size + 2 * config.kv_size + 3 * config.intermediate_size)
    wanted = -(-MIN_WEIGHT_BYTES // (layer * weights.dtype.itemsize))
    count = min(config.num_layers, wanted)
    part = Decoder(
        dataclasses.replace(config, num_layers=count),
        dataclasses.replace(weights, layers=weights.layers[:count]),
        decoder.native,
        use_triton=decoder.use_triton,
    )
    return part, config.num_layers / count


def _run_step(decoder: Decoder, tokens: int, block_size: int) -> None:
    device, spans = decoder.weights.device, spans_of(tokens, PIECE_TOKENS)
    each = -(-PIECE_TOKENS // block_size)
    tables = [[*range(row * each, (row + 1) * each)] for row in range(len(spans))]
    cache = KVCache.allocate(decoder.config, each * len(spans), block_size, decoder.weights.dtype, device)
    offsets = [min(tokens, row * PIECE_TOKENS) for row in range(len(spans) + 1)]
    places = torch.arange(tokens)
    slots = places % PIECE_TOKENS + places // PIECE_TOKENS * (each * block_size)
    decoder.forward(
        StepInput(
            token_ids=torch.zeros(tokens, dtype=torch.int64, device=device),
            positions=(places % PIECE_TOKENS).to(device),
            slot_mapping=slots.to(device),
            block_tables=torch.tensor(tables, device=device),
            logit_indices=torch.tensor([tokens - 1], device=device),
            cu_seqlens_q=offsets,
            context_lens=[new for new, _ in spans],
            block_lists=tables,
        ),
        cache,
    )


@torch.inference_mode()
def _run_head(decoder: Decoder) -> None:
    decoder.weights.head(decoder.weights.norm[None])


def _timed(decoder: Decoder, work: Callable[[], None], clock: Clock) -> float:
    is_cuda = decoder.weights.device.type == "cuda"
    if is_cuda:
        torch.cuda.synchronize()
    started = clock()
    work()
    if is_cuda:
        torch.cuda.synchronize()
    return clock() - started


def _fingerprint(decoder: Decoder, backend: str, block_size: int) -> str:
    weights = decoder.weights
    is_cuda = weights.device.type == "cuda"
    device = torch.cuda.get_device_name(weights.device) if is_cuda else f"{_cpu()}, {torch.get_num_threads()} threads"
    shape = dataclasses.asdict(decoder.config)
    facts = [device, str(weights.dtype), backend.partition(" ")[0], block_size, torch.__version__, shape]
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()[:32]


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "cpu")
