"""Attention of pieces of prompts over paged keys and values: ragged, causal, grouped heads, window with sinks.

    out = softmax(q k^T / sqrt(d) + mask) v, over the keys that the block table names

A program takes a tile of queries of one sequence with all query heads of one KV head. Tiles of keys that every query
sees need no mask; only those at the diagonal have one. With a window, a query sees the last `window` keys and the
first `num_sinks` (Xiao et al. 2023); tiles between are skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from qwen_batch.kernels import tuning
from qwen_batch.kernels.launch import DTYPES, TYPE_NAMES, Config, Variant, arch_of, check, next_power_of_2
from qwen_batch.kernels.tile import HEAD_DIMS, LOWEST, attend_tile, check_attention, scale_of, window_tiles


@dataclass(frozen=True, slots=True)
class PrefillTiles:
    """Which queries each program takes; worked out once a step, used by every layer."""

    seqs: Tensor  # int32 [num_tiles]
    firsts: Tensor  # int32 [num_tiles]: first query of the tile, counted within its sequence's piece
    queries_per_tile: int

    @classmethod
    def plan(
        cls,
        cu_seqlens_q: Sequence[int],
        context_lens: Sequence[int],
        group: int,
        config: Config,
        place: Callable[[Sequence[int]], Tensor],
        skip: frozenset[int] = frozenset(),
    ) -> PrefillTiles:
        """Tiles of all sequences but those in `skip`, those with the most keys first: the last ones to run are short.

        `group` is the number of query heads of a KV head; `place` makes an int32 tensor on the device.
        """
        per_tile = config.tiles["BLOCK_M"] // group
        if not per_tile:
            raise ValueError(f"{group} query heads a KV head exceed the {config.tiles['BLOCK_M']} rows of a tile")
        tiles = []
        for seq, context in enumerate(context_lens):
            length = cu_seqlens_q[seq + 1] - cu_seqlens_q[seq]
            if seq not in skip:
                tiles += [(context - length + first + per_tile, seq, first) for first in range(0, length, per_tile)]
        tiles.sort(reverse=True)
        return cls(place([seq for _, seq, _ in tiles]), place([first for _, _, first in tiles]), per_tile)


def attention_prefill(
    queries: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    block_tables: Tensor,
    cu_seqlens_q: Tensor,
    context_lens: Tensor,
    tiles: PrefillTiles,
    out: Tensor,
    *,
    window: int = 0,
    num_sinks: int = 0,
) -> None:
    """Write `out` [num_tokens, num_heads, head_dim] for the queries of `tiles`, and nothing else.

    queries [num_tokens, num_heads, head_dim]; caches [num_blocks, block_size, num_kv_heads, head_dim]; block_tables
    int32 [num_seqs, max_blocks]; cu_seqlens_q int32 [num_seqs + 1]; context_lens int32 [num_seqs]: keys of each
    sequence, its new tokens included. window 0: every earlier key is seen.
    """
    check_attention(queries, key_cache, value_cache, block_tables)
    check(cu_seqlens_q, "cu_seqlens_q", (len(block_tables) + 1,), torch.int32)
    check(context_lens, "context_lens", (len(block_tables),), torch.int32)
    check(out, "out", tuple(queries.shape), queries.dtype)
    _, num_heads, head_dim = queries.shape
    block_size, kv_heads = key_cache.shape[1:3]
    chosen = config(head_dim, queries.dtype, has_window=window > 0).on(arch_of(queries.device))
    if len(tiles.seqs):
        _attention_prefill_kernel[(len(tiles.seqs), kv_heads)](
            queries, key_cache, value_cache, block_tables, cu_seqlens_q, context_lens, tiles.seqs, tiles.firsts, out,
            block_tables.shape[1], kv_heads, num_heads // kv_heads, tiles.queries_per_tile,
            block_size.bit_length() - 1, scale_of(head_dim), window, num_sinks,
            HAS_WINDOW=window > 0, HEAD_DIM=head_dim, BLOCK_D=next_power_of_2(head_dim), **chosen.launch,
        )  # fmt: skip


def config(head_dim: int, dtype: torch.dtype, *, has_window: bool = False) -> Config:
    """The rows of a tile do not depend on `has_window`: tiles are planned once for all layers."""
    return tuning.attention("attention_prefill" + " window" * has_window, head_dim, dtype)


def variants() -> Iterator[Variant]:
    """Every compilation that the launcher may ask for."""
    for dtype in DTYPES:
        for head_dim in HEAD_DIMS:
            for has_window in (False, True):
                pointer, chosen = "*" + TYPE_NAMES[dtype], config(head_dim, dtype, has_window=has_window)
                ints = ("table_width", "num_kv_heads", "group", "queries_per_tile", "shift")
                yield Variant(
                    "attention_prefill",
                    f"{TYPE_NAMES[dtype]} head_dim={head_dim}{' window' if has_window else ''}",
                    _attention_prefill_kernel,
                    {
                        **dict.fromkeys(("queries", "key_cache", "value_cache"), pointer),
                        **dict.fromkeys(("tables", "cu_seqlens", "context_lens", "tile_seqs", "tile_firsts"), "*i32"),
                        "out": pointer, **dict.fromkeys(ints, "i32"),
                        "scale": "fp32", "window": "i32", "num_sinks": "i32",
                        **dict.fromkeys(("HAS_WINDOW", "HEAD_DIM", "BLOCK_D", "BLOCK_M", "BLOCK_N"), "constexpr"),
                    },
                    {
                        "HAS_WINDOW": has_window, "HEAD_DIM": head_dim, "BLOCK_D": next_power_of_2(head_dim),
                        **chosen.tiles,
                    },
                    chosen,
                )  # fmt: skip


# No number is a reason to compile anew: what variants() names is all that there is.
@triton.jit(
    do_not_specialize=["table_width", "num_kv_heads", "group", "queries_per_tile", "shift", "window", "num_sinks"]
)
def _attention_prefill_kernel(
    queries, key_cache, value_cache, tables, cu_seqlens, context_lens, tile_seqs, tile_firsts, out,
    table_width, num_kv_heads, group, queries_per_tile, shift, scale, window, num_sinks,
    HAS_WINDOW: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):  # fmt: skip
    seq = tl.load(tile_seqs + tl.program_id(0))
    first = tl.load(tile_firsts + tl.program_id(0))
    kv_head = tl.program_id(1)
    start = tl.load(cu_seqlens + seq)
    length = tl.load(cu_seqlens + seq + 1) - start
    context = tl.load(context_lens + seq)
    table = tables + seq.to(tl.int64) * table_width

    row = tl.arange(0, BLOCK_M)
    query = first + row // group
    column = tl.arange(0, BLOCK_D)
    token = (start + query).to(tl.int64)
    at = ((token * num_kv_heads + kv_head) * group + row % group)[:, None] * HEAD_DIM + column[None, :]
    inside = ((row < queries_per_tile * group) & (query < length))[:, None] & (column < HEAD_DIM)[None, :]
    q = tl.load(queries + at, mask=inside, other=0.0)

    position = context - length + query
    first_position = context - length + first
    end = context - length + tl.minimum(first + queries_per_tile, length)
    result = tl.zeros((BLOCK_M, BLOCK_D), dtype=tl.float32)
    peak = tl.full((BLOCK_M,), LOWEST, dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)

    if HAS_WINDOW:
        sinks, begin = window_tiles(first_position, window, num_sinks, HAS_WINDOW, BLOCK_N)
        for index in range(0, sinks + (end + BLOCK_N - 1) // BLOCK_N - begin):
            tile = tl.where(index < sinks, index, begin + index - sinks)
            result, peak, total = attend_tile(
                q, result, peak, total, key_cache, value_cache, table, tile * BLOCK_N, end, position, kv_head,
                num_kv_heads, shift, scale, window, num_sinks, True, True, HEAD_DIM, BLOCK_D, BLOCK_N,
            )  # fmt: skip
    else:
        seen_by_all = (first_position + 1) // BLOCK_N * BLOCK_N
        for tile in range(0, seen_by_all, BLOCK_N):
            result, peak, total = attend_tile(
                q, result, peak, total, key_cache, value_cache, table, tile, end, position, kv_head,
                num_kv_heads, shift, scale, window, num_sinks, False, False, HEAD_DIM, BLOCK_D, BLOCK_N,
            )  # fmt: skip
        for tile in range(seen_by_all, end, BLOCK_N):
            result, peak, total = attend_tile(
                q, result, peak, total, key_cache, value_cache, table, tile, end, position, kv_head,
                num_kv_heads, shift, scale, window, num_sinks, True, False, HEAD_DIM, BLOCK_D, BLOCK_N,
            )  # fmt: skip
    result = result / tl.where(total == 0.0, 1.0, total)[:, None]
    tl.store(out + at, result.to(out.dtype.element_ty), mask=inside)
