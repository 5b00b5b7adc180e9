"""What a step costs: arithmetic, memory traffic, seconds, and bytes of KV memory, before it is run.

Seconds are those of a device that does not overlap arithmetic and traffic, at rates that were measured on whole steps
(engine/measure.py): what is lost to the host's part of a step is in the rates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from qwen_batch.model.config import ModelConfig

Span = tuple[int, int]  # (new tokens, tokens in all after them) of one sequence in a step


@dataclass(frozen=True, slots=True)
class StepWork:
    """Multiplications and additions, each counted; bytes read and written: weights, keys and values."""

    flops: float
    bytes: float


@dataclass(frozen=True, slots=True)
class DeviceRates:
    """As measured; both above 0."""

    flops_per_second: float
    bytes_per_second: float


def step_work(config: ModelConfig, dtype_bytes: int, spans: Iterable[Span], num_logits: int) -> StepWork:
    """One ragged step: products with all weights, causal attention, logits of `num_logits` tokens."""
    spans = list(spans)
    tokens = sum(new for new, _ in spans)
    pairs = sum(new * length - new * (new - 1) // 2 for new, length in spans)  # of a query and a key that it sees
    layer = config.hidden_size * (2 * config.q_size + 2 * config.kv_size + 3 * config.intermediate_size)
    head = config.hidden_size * config.vocab_size
    flops = 2 * config.num_layers * (tokens * layer + 2 * pairs * config.q_size) + 2 * num_logits * head
    weights = (config.num_layers * layer + (head if num_logits else 0)) * dtype_bytes
    cache = sum(new + length for new, length in spans) * config.kv_bytes_per_token(dtype_bytes)
    return StepWork(float(flops), float(weights + cache))


def step_seconds(work: StepWork, rates: DeviceRates) -> float:
    return work.flops / rates.flops_per_second + work.bytes / rates.bytes_per_second


def kv_bytes(config: ModelConfig, dtype_bytes: int, block_size: int, num_tokens: int) -> int:
    """KV memory of a sequence of so many computed tokens, whole blocks, exactly as the engine allocates it."""
    num_blocks = -(-num_tokens // block_size)
    return num_blocks * block_size * config.kv_bytes_per_token(dtype_bytes)


def fit_rates(config: ModelConfig, dtype_bytes: int, seconds: Mapping[int, float], piece: int) -> DeviceRates:
    """Rates at which the smallest and the largest measured step (tokens -> seconds, in prompts of `piece` tokens) come
    out right."""
    small, large = min(seconds), max(seconds)
    a, b = (step_work(config, dtype_bytes, spans_of(tokens, piece), 1) for tokens in (small, large))
    # t = flops * x + bytes * y, twice.
    scale = a.flops * b.bytes - b.flops * a.bytes
    x = (seconds[small] * b.bytes - seconds[large] * a.bytes) / scale if scale else 0.0
    y = (a.flops * seconds[large] - b.flops * seconds[small]) / scale if scale else 0.0
    # Noise may ask for a negative one: then the other explains all of its own step.
    x = x if x > 0 else seconds[large] / b.flops
    y = y if y > 0 else seconds[small] / a.bytes
    return DeviceRates(1.0 / x, 1.0 / y)


def spans_of(num_tokens: int, piece: int) -> list[Span]:
    """A step of prompts of `piece` tokens, the last one shorter."""
    full, rest = divmod(num_tokens, piece)
    return [(piece, piece)] * full + ([(rest, rest)] if rest else [])
