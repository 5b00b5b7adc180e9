"""The inner step that all attention kernels share: one tile of keys against a tile of queries, softmax on the way.

    s = q k^T * scale;  m' = max(m, s);  l' = l 2^(m - m') + sum 2^(s - m');  o' = o 2^(m - m') + 2^(s - m') v

Scores are in base 2 (scale holds log2 e), the sums in float32 (Milakov and Gimelshein 2018; Dao et al. 2022). The
query heads that share a KV head are rows of one tile, so that each key is read once for all of them (GQA).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from qwen_batch.kernels.launch import DTYPES, INTERPRETED, check

HEAD_DIMS = (16, 32, 64, 80, 96, 128)  # 16 and 32 are those of test models
BLOCK_SIZES = (16, 32, 64, 128, 256)  # tokens in a block of KV memory
LOG2_E = 1.4426950408889634
# Below every score; finite, so that a row that has seen no key yet yields 0 and not NaN.
LOWEST = tl.constexpr(-1.0e30)
# The interpreter multiplies the bits of bfloat16 as integers; there, products are taken in float32. Same values.
WIDE_DOT = tl.constexpr(INTERPRETED)


def scale_of(head_dim: int) -> float:
    """Factor on the scores: 1 / sqrt(head_dim), in base 2."""
    return LOG2_E / math.sqrt(head_dim)


def check_attention(queries: Tensor, key_cache: Tensor, value_cache: Tensor, block_tables: Tensor) -> None:
    """Raise ValueError for tensors that the attention kernels do not take."""
    num_tokens, num_heads, head_dim = queries.shape
    block_size, kv_heads = key_cache.shape[1:3]
    check(queries, "queries", (num_tokens, num_heads, head_dim), *DTYPES)
    check(key_cache, "key_cache", (None, block_size, kv_heads, head_dim), queries.dtype)
    check(value_cache, "value_cache", tuple(key_cache.shape), queries.dtype)
    check(block_tables, "block_tables", (None, None), torch.int32)
    if head_dim not in HEAD_DIMS:
        raise ValueError(f"head_dim {head_dim} is not one of {HEAD_DIMS}")
    if block_size not in BLOCK_SIZES:
        raise ValueError(f"block_size {block_size} is not one of {BLOCK_SIZES}")
    if num_heads % kv_heads:
        raise ValueError(f"{num_heads} query heads cannot share {kv_heads} KV heads evenly")


def attention_reference(
    queries: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    block_tables: Tensor,
    cu_seqlens_q: Sequence[int],
    context_lens: Sequence[int],
    *,
    window: int = 0,
    num_sinks: int = 0,
) -> Tensor:
    """Attention of a ragged step in plain torch, in the dtype given; shapes as in `attention_prefill`."""
    kv_heads, head_dim = key_cache.shape[2:]
    group = queries.shape[1] // kv_heads
    out = torch.zeros_like(queries)
    for seq, context in enumerate(context_lens):
        start, end = cu_seqlens_q[seq], cu_seqlens_q[seq + 1]
        if end == start or context == 0:
            continue
        blocks = block_tables[seq].long()
        k, v = (
            cache[blocks].flatten(0, 1)[:context].repeat_interleave(group, dim=1) for cache in (key_cache, value_cache)
        )
        key, query = torch.arange(context), torch.arange(context - (end - start), context)[:, None]
        seen = key <= query
        if window:
            seen &= (key > query - window) | (key < num_sinks)
        scores = torch.einsum("qhd,khd->hqk", queries[start:end], k) / math.sqrt(head_dim)
        weights = scores.masked_fill(~seen.to(scores.device), -torch.inf).softmax(-1)
        out[start:end] = torch.einsum("hqk,khd->qhd", weights, v)
    return out


@triton.jit
def attend_tile(
    q, out, peak, total, key_cache, value_cache, table, first, end, position, kv_head, num_kv_heads, shift, scale,
    window, num_sinks,
    MASKED: tl.constexpr, HAS_WINDOW: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Keys first .. first + BLOCK_N of the sequence with this block table, for q [BLOCK_M, BLOCK_D] at `position`
    [BLOCK_M]. Keys from `end` on are not there; where not MASKED all are there, and all queries see them."""
    keys = first + tl.arange(0, BLOCK_N)
    there = keys < end
    column = tl.arange(0, BLOCK_D)
    real = column < HEAD_DIM
    if MASKED:
        block = tl.load(table + (keys >> shift), mask=there, other=0).to(tl.int64)
    else:
        block = tl.load(table + (keys >> shift)).to(tl.int64)
    slot = (block << shift) + (keys & ((1 << shift) - 1))
    row = (slot * num_kv_heads + kv_head) * HEAD_DIM
    k_at = key_cache + row[None, :] + column[:, None]
    v_at = value_cache + row[:, None] + column[None, :]
    if MASKED:
        k = tl.load(k_at, mask=real[:, None] & there[None, :], other=0.0)
        v = tl.load(v_at, mask=there[:, None] & real[None, :], other=0.0)
    elif HEAD_DIM < BLOCK_D:
        k = tl.load(k_at, mask=real[:, None], other=0.0)
        v = tl.load(v_at, mask=real[None, :], other=0.0)
    else:
        k = tl.load(k_at)
        v = tl.load(v_at)
    scores = tile_dot(q, k, tl.zeros((q.shape[0], BLOCK_N), dtype=tl.float32)) * scale
    if MASKED:
        seen = (keys[None, :] <= position[:, None]) & there[None, :]
        if HAS_WINDOW:
            seen &= (keys[None, :] > position[:, None] - window) | (keys[None, :] < num_sinks)
        scores = tl.where(seen, scores, float("-inf"))
    new_peak = tl.maximum(peak, tl.max(scores, axis=1))
    weights = tl.exp2(scores - new_peak[:, None])
    fade = tl.exp2(peak - new_peak)
    total = total * fade + tl.sum(weights, axis=1)
    out = tile_dot(weights.to(v.dtype), v, out * fade[:, None])
    return out, new_peak, total


@triton.jit
def tile_dot(a, b, out):
    """a b + out in float32; float32 operands are not rounded to tf32."""
    if WIDE_DOT:
        a = a.to(tl.float32)
        b = b.to(tl.float32)
    return tl.dot(a, b, out, input_precision="ieee")


@triton.jit
def window_tiles(first_query, window, num_sinks, HAS_WINDOW: tl.constexpr, BLOCK_N: tl.constexpr):
    """(tiles of sinks, first tile of the window): between them lie tiles that no query from `first_query` on sees."""
    if HAS_WINDOW:
        start = tl.maximum(first_query - window + 1, 0) // BLOCK_N
        sinks = tl.minimum((num_sinks + BLOCK_N - 1) // BLOCK_N, start)
    else:
        start = first_query * 0
        sinks = start
    return sinks, start
