"""Kernels on this device: right numbers first, then their share of what the device itself can do."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

import torch

from qwen_batch.bench.roofline import Rates, seconds
from qwen_batch.bench.shapes import shape_config
from qwen_batch.model.kernel_checks import Check, Draw, PagedStep, iter_checks
from qwen_batch.model.triton_plan import AttentionShape

BLOCK_SIZE = 16


def all_checks(device: torch.device, seed: int) -> Iterator[Check]:
    """Every kernel in bfloat16, in the shape of Qwen3-32B and in an irregular one."""
    dtype = torch.bfloat16
    model = shape_config("Qwen3-32B")
    irregular = dataclasses.replace(
        model, hidden_size=720, intermediate_size=3001, num_heads=9, num_kv_heads=3, head_dim=80
    )
    for config in (model, irregular):
        shape = AttentionShape.of(config, BLOCK_SIZE, dtype, device)
        yield from iter_checks(config, shape, Draw.on(device, dtype, seed))


def attention_shares(device: torch.device, ceilings: Rates, num_seqs: int, context: int) -> dict[str, float]:
    """Decode attention as a share of the copy rate, prefill attention of the matmul rate, at the heads of Qwen3-32B."""
    config, dtype = shape_config("Qwen3-32B"), torch.bfloat16
    shape, draw = AttentionShape.of(config, BLOCK_SIZE, dtype, device), Draw.on(device, dtype)
    step = PagedStep(draw, shape, [1] * num_seqs, [context] * num_seqs)
    read = num_seqs * context * 2 * config.kv_size * dtype.itemsize
    decode_share = read / seconds(step.attend, device) / ceilings.copy_bytes
    step = PagedStep(draw, shape, [context], [context])
    flops = 4 * config.q_size * context * (context + 1) / 2
    prefill_share = flops / seconds(step.attend, device) / ceilings.matmul_flops
    assert not math.isnan(decode_share + prefill_share)
    return {"decode_of_copy": decode_share, "prefill_of_matmul": prefill_share}
