"""The gated activation of the feed-forward part (Shazeer 2020).

    y = silu(gate) * up,  silu(x) = x / (1 + exp(-x))

Gate and up come side by side from one matrix product; each is read once and y written once.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
import triton
import triton.language as tl
from torch import Tensor

from qwen_batch.kernels.launch import DTYPES, TYPE_NAMES, Variant, by_alignment, check
from qwen_batch.kernels.tuning import SILU_MUL as CONFIG


def silu_mul(gate_up: Tensor, out: Tensor | None = None) -> Tensor:
    """gate_up [num_rows, 2 * width] -> [num_rows, width], in `out` or in new memory."""
    num_rows, width = gate_up.shape[0], gate_up.shape[1] // 2
    check(gate_up, "gate_up", (num_rows, 2 * width), *DTYPES)
    out = torch.empty((num_rows, width), dtype=gate_up.dtype, device=gate_up.device) if out is None else out
    check(out, "out", (num_rows, width), gate_up.dtype)
    if num_rows:
        _silu_mul_kernel[(num_rows, triton.cdiv(width, CONFIG.tiles["BLOCK"]))](gate_up, out, width, **CONFIG.launch)
    return out


def silu_mul_reference(gate_up: Tensor) -> Tensor:
    """The same in plain torch, in the dtype given."""
    gate, up = gate_up.chunk(2, dim=-1)
    return gate / (1 + torch.exp(-gate)) * up


def variants() -> Iterator[Variant]:
    """Every compilation that the launcher may ask for."""
    for dtype in DTYPES:
        for suffix, divisible in by_alignment("width"):
            pointer = "*" + TYPE_NAMES[dtype]
            yield Variant(
                "silu_mul", TYPE_NAMES[dtype] + suffix, _silu_mul_kernel,
                {"gate_up": pointer, "out": pointer, "width": "i32", "BLOCK": "constexpr"},
                dict(CONFIG.tiles), CONFIG, divisible,
            )  # fmt: skip


@triton.jit
def _silu_mul_kernel(gate_up, out, width, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < width
    gate = tl.load(gate_up + row * 2 * width + columns, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(gate_up + row * 2 * width + width + columns, mask=inside, other=0.0).to(tl.float32)
    value = gate / (1.0 + tl.exp(-gate)) * up
    tl.store(out + row * width + columns, value.to(out.dtype.element_ty), mask=inside)
