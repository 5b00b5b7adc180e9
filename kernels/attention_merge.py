"""Parts of one attention, over disjoint sets of keys, to the whole.

    out = sum_p 2^(lse_p - m) out_p / sum_p 2^(lse_p - m),  m = max_p lse_p

lse_p is the logarithm (base 2) of part p's sum of exponentials; -inf where it saw no key. A row without any key is 0.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
import triton
import triton.language as tl
from torch import Tensor

from qwen_batch.kernels.launch import DTYPES, TYPE_NAMES, Variant, check, next_power_of_2
from qwen_batch.kernels.tile import HEAD_DIMS, LOWEST
from qwen_batch.kernels.tuning import MERGE


def attention_merge(parts: Tensor, lse: Tensor, tokens: Tensor, out: Tensor) -> None:
    """parts float32 [num_rows, num_heads, num_parts, head_dim], lse float32 [num_rows, num_heads, num_parts]; row i is
    written to out [num_tokens, num_heads, head_dim] at tokens[i], int32 [num_rows]."""
    num_rows, num_heads, num_parts, head_dim = parts.shape
    check(parts, "parts", (num_rows, num_heads, num_parts, head_dim), torch.float32)
    check(lse, "lse", (num_rows, num_heads, num_parts), torch.float32)
    check(tokens, "tokens", (num_rows,), torch.int32)
    check(out, "out", (None, num_heads, head_dim), *DTYPES)
    if num_rows:
        _attention_merge_kernel[(num_rows, num_heads)](
            parts, lse, tokens, out, num_heads, num_parts, HEAD_DIM=head_dim, BLOCK_D=next_power_of_2(head_dim),
            **MERGE.launch,
        )  # fmt: skip


def attention_merge_reference(parts: Tensor, lse: Tensor) -> Tensor:
    """[num_rows, num_heads, num_parts, head_dim] -> [num_rows, num_heads, head_dim], in the dtype given."""
    weights = torch.exp2(lse - lse.max(dim=-1, keepdim=True).values.clamp(min=-1e30))
    weights = weights / weights.sum(-1, keepdim=True).clamp(min=1e-30)
    return (weights[..., None] * parts).sum(dim=-2)


def variants() -> Iterator[Variant]:
    """Every compilation that the launcher may ask for."""
    for dtype in DTYPES:
        for head_dim in HEAD_DIMS:
            yield Variant(
                "attention_merge", f"{TYPE_NAMES[dtype]} head_dim={head_dim}", _attention_merge_kernel,
                {
                    "parts": "*fp32", "lse": "*fp32", "tokens": "*i32", "out": "*" + TYPE_NAMES[dtype],
                    "num_heads": "i32", "num_parts": "i32",
                    **dict.fromkeys(("HEAD_DIM", "BLOCK_D", "BLOCK_PARTS"), "constexpr"),
                },
                {"HEAD_DIM": head_dim, "BLOCK_D": next_power_of_2(head_dim), **MERGE.tiles},
                MERGE,
            )  # fmt: skip


# No number is a reason to compile anew: what variants() names is all that there is.
@triton.jit(do_not_specialize=["num_heads", "num_parts"])
def _attention_merge_kernel(
    parts, lse, tokens, out, num_heads, num_parts, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK_PARTS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    column = tl.arange(0, BLOCK_D)
    start = (row * num_heads + head) * num_parts
    merged = tl.zeros((BLOCK_D,), dtype=tl.float32)
    peak = tl.full((), LOWEST, dtype=tl.float32)
    total = tl.full((), 0.0, dtype=tl.float32)
    for first in range(0, num_parts, BLOCK_PARTS):
        part = first + tl.arange(0, BLOCK_PARTS)
        weight = tl.load(lse + start + part, mask=part < num_parts, other=float("-inf"))
        new_peak = tl.maximum(peak, tl.max(weight, axis=0))
        weight = tl.exp2(weight - new_peak)
        fade = tl.exp2(peak - new_peak)
        inside = ((part < num_parts) & (weight != 0.0))[:, None] & (column < HEAD_DIM)[None, :]
        value = tl.load(parts + (start + part)[:, None] * HEAD_DIM + column[None, :], mask=inside, other=0.0)
        merged = merged * fade + tl.sum(value * weight[:, None], axis=0)
        total = total * fade + tl.sum(weight, axis=0)
        peak = new_peak
    merged = merged / tl.where(total == 0.0, 1.0, total)
    target = (tl.load(tokens + row).to(tl.int64) * num_heads + head) * HEAD_DIM + column
    tl.store(out + target, merged.to(out.dtype.element_ty), mask=column < HEAD_DIM)
