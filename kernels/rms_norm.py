"""RMSNorm with the residual added first (Zhang and Sennrich 2019).

    s = x + residual;  y = s / sqrt(mean(s^2) + eps) * weight

One program a row, the row in registers: each input is read once, each output written once. The normed row is rounded
to the model's dtype before it is multiplied by the weight, as in the published checkpoints' own code.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import torch
import triton
import triton.language as tl
from torch import Tensor

from qwen_batch.kernels.launch import DTYPES, TYPE_NAMES, Variant, by_alignment, check
from qwen_batch.kernels.tuning import ROW_BLOCKS, row

MAX_WIDTH = ROW_BLOCKS[-1]  # elements of a row that stay in registers


def rms_norm(
    x: Tensor,
    weight: Tensor,
    eps: float,
    residual: Tensor | None = None,
    *,
    normed: Tensor | None = None,
    total: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """x and residual [num_rows, width], weight [width] -> (normed, sum), both [num_rows, width] in x's dtype.

    Without a residual the sum is x itself. `normed` and `total` are where they go, else new memory; `total` may be x.
    """
    num_rows, width = x.shape
    check(x, "x", (num_rows, width), *DTYPES)
    check(weight, "weight", (width,), x.dtype)
    if width > MAX_WIDTH:
        raise ValueError(f"rows of {width} elements exceed {MAX_WIDTH}")
    normed = torch.empty_like(x) if normed is None else normed
    check(normed, "normed", (num_rows, width), x.dtype)
    if residual is None:
        total = x
    else:
        check(residual, "residual", (num_rows, width), x.dtype)
        total = torch.empty_like(x) if total is None else total
        check(total, "total", (num_rows, width), x.dtype)
    if num_rows:
        _rms_norm_kernel[(num_rows,)](
            x, x if residual is None else residual, weight, normed, total, width, eps,
            HAS_RESIDUAL=residual is not None, **row(width).launch,
        )  # fmt: skip
    return normed, total


def rms_norm_reference(x: Tensor, weight: Tensor, eps: float, residual: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The same in plain torch, without rounding between: float64 in gives float64 out."""
    total = x if residual is None else x + residual
    return total * torch.rsqrt(total.square().mean(-1, keepdim=True) + eps) * weight, total


def variants() -> Iterator[Variant]:
    """Every compilation that the launcher may ask for, up to MAX_WIDTH."""
    for dtype in DTYPES:
        for block, has_residual, (suffix, divisible) in product(ROW_BLOCKS, (False, True), by_alignment("width")):
            chosen = row(block)
            yield Variant(
                "rms_norm", f"{TYPE_NAMES[dtype]} width<={block}{' +residual' if has_residual else ''}{suffix}",
                _rms_norm_kernel,
                {
                    **dict.fromkeys(("x", "residual", "weight", "normed", "total"), "*" + TYPE_NAMES[dtype]),
                    "width": "i32", "eps": "fp32", "HAS_RESIDUAL": "constexpr", "BLOCK": "constexpr",
                },
                {"HAS_RESIDUAL": has_residual, **chosen.tiles}, chosen, divisible,
            )  # fmt: skip


@triton.jit
def _rms_norm_kernel(
    x, residual, weight, normed, total, width, eps, HAS_RESIDUAL: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    start = tl.program_id(0).to(tl.int64) * width
    columns = tl.arange(0, BLOCK)
    inside = columns < width
    value = tl.load(x + start + columns, mask=inside, other=0.0)
    if HAS_RESIDUAL:
        value = value.to(tl.float32) + tl.load(residual + start + columns, mask=inside, other=0.0).to(tl.float32)
        value = value.to(x.dtype.element_ty)
        tl.store(total + start + columns, value, mask=inside)
    result = normed_row(value, weight + columns, inside, width, eps)
    tl.store(normed + start + columns, result.to(x.dtype.element_ty), mask=inside)


@triton.jit
def normed_row(value, weight, inside, width, eps):
    """value [BLOCK] in the model's dtype -> float32; rounded to that dtype once more before the weight."""
    wide = value.to(tl.float32)
    scale = tl.rsqrt(tl.sum(wide * wide, axis=0) / width + eps)
    return (wide * scale).to(value.dtype).to(tl.float32) * tl.load(weight, mask=inside, other=0.0).to(tl.float32)
