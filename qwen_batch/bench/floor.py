"""The least time that a workload can take on a machine: its arithmetic at the rate that the machine was measured at.

Counted are the products with weights of every token that must go through the model, attention over what each of them
sees, and logits of the tokens that are generated. A prefix that requests share is counted once, wherever it ends; the
last token of an answer is never fed back. The weights are read at least once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from qwen_batch.bench.workload import BenchRequest
from qwen_batch.model.config import ModelConfig


@dataclass(frozen=True, slots=True)
class Work:
    """What a workload comes to for one model."""

    num_requests: int
    prompt_tokens: int
    distinct_prompt_tokens: int  # shared prefixes once
    output_tokens: int
    computed_tokens: int  # that have to go through the model
    matmul_flops: float
    attention_flops: float
    weight_bytes: int  # read once

    def seconds(self, matmul_flops: float, copy_bytes: float) -> float:
        """At these rates: FLOP a second of the best product, bytes a second of a copy."""
        return (self.matmul_flops + self.attention_flops) / matmul_flops + self.weight_bytes / copy_bytes


def count_work(config: ModelConfig, requests: Sequence[BenchRequest], dtype_bytes: int) -> Work:
    """A product of m x k and k x n is 2mkn FLOP; attention of one token over c is 4c times the query width."""
    per_layer = config.hidden_size * (2 * config.q_size + 2 * config.kv_size + 3 * config.intermediate_size)
    body, head = config.num_layers * per_layer, config.hidden_size * config.vocab_size
    shared = shared_lengths([request.prompt_token_ids for request in requests])
    computed, pairs = 0, 0
    for request, known in zip(requests, shared, strict=True):
        length = len(request.prompt_token_ids) + request.output_tokens - 1
        computed += length - known
        pairs += (length * (length + 1) - known * (known + 1)) // 2
    prompt_tokens = sum(len(request.prompt_token_ids) for request in requests)
    output_tokens = sum(request.output_tokens for request in requests)
    return Work(
        num_requests=len(requests),
        prompt_tokens=prompt_tokens,
        distinct_prompt_tokens=prompt_tokens - sum(shared),
        output_tokens=output_tokens,
        computed_tokens=computed,
        matmul_flops=2.0 * (body * computed + head * output_tokens),
        attention_flops=4.0 * pairs * config.num_layers * config.q_size,
        weight_bytes=(body + head) * dtype_bytes,
    )


def shared_lengths(prompts: Sequence[Sequence[int]]) -> list[int]:
    """For each prompt, how many of its first tokens another one brings already; sorted neighbours share the most."""
    order = sorted(range(len(prompts)), key=lambda index: tuple(prompts[index]))
    shared = [0] * len(prompts)
    for before, index in pairwise(order):
        shared[index] = _common(prompts[before], prompts[index])
    return shared


def _common(first: Sequence[int], second: Sequence[int]) -> int:
    for count, (one, other) in enumerate(zip(first, second, strict=False)):
        if one != other:
            return count
    return min(len(first), len(second))
