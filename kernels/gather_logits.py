"""The rows whose logits are wanted, ready for the output projection: gather, last residual add, last RMSNorm.

    y[i] = rms_norm(x[index[i]] + residual[index[i]]) * weight

Of a step's tokens only those at a sequence's end need logits; the others are never read.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import torch
import triton
import triton.language as tl
from torch import Tensor

from qwen_batch.kernels.launch import DTYPES, TYPE_NAMES, Variant, by_alignment, check
from qwen_batch.kernels.rms_norm import MAX_WIDTH, normed_row, rms_norm_reference
from qwen_batch.kernels.tuning import ROW_BLOCKS, row


def gather_logits(
    x: Tensor, residual: Tensor, weight: Tensor, eps: float, indices: Tensor, out: Tensor | None = None
) -> Tensor:
    """x and residual [num_tokens, width], indices int64 [num_rows] into the tokens -> [num_rows, width], in `out` or in
    new memory."""
    num_tokens, width = x.shape
    check(x, "x", (num_tokens, width), *DTYPES)
    check(residual, "residual", (num_tokens, width), x.dtype)
    check(weight, "weight", (width,), x.dtype)
    check(indices, "indices", (None,), torch.int64)
    if width > MAX_WIDTH:
        raise ValueError(f"rows of {width} elements exceed {MAX_WIDTH}")
    out = torch.empty((len(indices), width), dtype=x.dtype, device=x.device) if out is None else out
    check(out, "out", (len(indices), width), x.dtype)
    if len(indices):
        _gather_logits_kernel[(len(indices),)](x, residual, weight, indices, out, width, eps, **row(width).launch)
    return out


def gather_logits_reference(x: Tensor, residual: Tensor, weight: Tensor, eps: float, indices: Tensor) -> Tensor:
    """The same in plain torch, in the dtype given."""
    return rms_norm_reference(x[indices], weight, eps, residual[indices])[0]


def variants() -> Iterator[Variant]:
    """Every compilation that the launcher may ask for, up to MAX_WIDTH."""
    for dtype in DTYPES:
        for block, (suffix, divisible) in product(ROW_BLOCKS, by_alignment("width")):
            pointer, chosen = "*" + TYPE_NAMES[dtype], row(block)
            yield Variant(
                "gather_logits", f"{TYPE_NAMES[dtype]} width<={block}{suffix}", _gather_logits_kernel,
                {
                    "x": pointer, "residual": pointer, "weight": pointer, "indices": "*i64", "out": pointer,
                    "width": "i32", "eps": "fp32", "BLOCK": "constexpr",
                },
                dict(chosen.tiles), chosen, divisible,
            )  # fmt: skip


@triton.jit
def _gather_logits_kernel(x, residual, weight, indices, out, width, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    start = tl.load(indices + row) * width
    columns = tl.arange(0, BLOCK)
    inside = columns < width
    value = tl.load(x + start + columns, mask=inside, other=0.0).to(tl.float32)
    value += tl.load(residual + start + columns, mask=inside, other=0.0).to(tl.float32)
    result = normed_row(value.to(x.dtype.element_ty), weight + columns, inside, width, eps)
    tl.store(out + row.to(tl.int64) * width + columns, result.to(x.dtype.element_ty), mask=inside)
