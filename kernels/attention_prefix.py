"""Attention of many decoding branches over the prefix that they share: its keys are read once for the group.

    part p:  out_p, lse_p = softmax over keys of the prefix;   whole: attention_merge with the parts of the suffixes

The branches stand as rows of one query tile, so that the product with the prefix's keys is one of matrices and not of
many vectors (Juravsky et al. 2024, Hydragen; Ye et al. 2024, cascade inference). `attention_decode` covers the keys
from the end of the prefix on.
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
from qwen_batch.kernels.tile import HEAD_DIMS, LOWEST, attend_tile, check_attention, scale_of


@dataclass(frozen=True, slots=True)
class PrefixTiles:
    """Which branches each program takes; worked out once a step, used by every layer."""

    tiles: Tensor  # int32 [num_tiles, 4]: first of its members, their number, sequence with the table, prefix length
    members: Tensor  # int32 [total]: rows that share a prefix, group after group

    @classmethod
    def plan(
        cls,
        groups: Sequence[tuple[Sequence[int], int, int]],
        group: int,
        config: Config,
        place: Callable[[Sequence[int]], Tensor],
    ) -> PrefixTiles:
        """`groups`: (rows, a sequence whose block table begins with the prefix, length of the prefix in tokens).

        `group` is the number of query heads of a KV head; `place` makes an int32 tensor on the device.
        """
        per_tile = config.tiles["BLOCK_M"] // group
        if not per_tile:
            raise ValueError(f"{group} query heads a KV head exceed the {config.tiles['BLOCK_M']} rows of a tile")
        tiles: list[int] = []
        members: list[int] = []
        for rows, seq, length in groups:
            for first in range(0, len(rows), per_tile):
                tiles += [len(members), len(rows[first : first + per_tile]), seq, length]
                members += rows[first : first + per_tile]
        return cls(place(tiles).view(-1, 4), place(members))


def attention_prefix(
    queries: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    block_tables: Tensor,
    tokens: Tensor,
    tiles: PrefixTiles,
    parts: Tensor,
    lse: Tensor,
    *,
    num_splits: int,
) -> None:
    """Write parts 0 .. num_splits of the members' rows of `parts` and `lse`; the rest is left as it is.

    Shapes as in `attention_decode`; the query of row i is queries[tokens[i]].
    """
    check_attention(queries, key_cache, value_cache, block_tables)
    _, num_heads, head_dim = queries.shape
    block_size, kv_heads = key_cache.shape[1:3]
    check(tokens, "tokens", (None,), torch.int32)
    check(parts, "parts", (len(tokens), num_heads, None, head_dim), torch.float32)
    check(lse, "lse", (len(tokens), num_heads, parts.shape[2]), torch.float32)
    if not 1 <= num_splits <= parts.shape[2]:
        raise ValueError(f"{num_splits} splits do not fit {parts.shape[2]} parts")
    chosen = config(head_dim, queries.dtype).on(arch_of(queries.device))
    if len(tiles.tiles):
        _attention_prefix_kernel[(len(tiles.tiles), kv_heads, num_splits)](
            queries, key_cache, value_cache, block_tables, tokens, tiles.tiles, tiles.members, parts, lse,
            block_tables.shape[1], kv_heads, num_heads // kv_heads, block_size.bit_length() - 1, num_splits,
            parts.shape[2], scale_of(head_dim), HEAD_DIM=head_dim, BLOCK_D=next_power_of_2(head_dim), **chosen.launch,
        )  # fmt: skip


def config(head_dim: int, dtype: torch.dtype) -> Config:
    """Tiles; as many branches fit one as the heads of a group divide its rows."""
    return tuning.attention("attention_prefix", head_dim, dtype)


def variants() -> Iterator[Variant]:
    """Every compilation that the launcher may ask for."""
    for dtype in DTYPES:
        for head_dim in HEAD_DIMS:
            pointer, chosen = "*" + TYPE_NAMES[dtype], config(head_dim, dtype)
            ints = ("table_width", "num_kv_heads", "group", "shift", "num_splits", "num_parts")
            yield Variant(
                "attention_prefix", f"{TYPE_NAMES[dtype]} head_dim={head_dim}", _attention_prefix_kernel,
                {
                    **dict.fromkeys(("queries", "key_cache", "value_cache"), pointer),
                    **dict.fromkeys(("tables", "tokens", "tiles", "members"), "*i32"),
                    "parts": "*fp32", "lse": "*fp32", **dict.fromkeys(ints, "i32"), "scale": "fp32",
                    **dict.fromkeys(("HEAD_DIM", "BLOCK_D", "BLOCK_M", "BLOCK_N"), "constexpr"),
                },
                {"HEAD_DIM": head_dim, "BLOCK_D": next_power_of_2(head_dim), **chosen.tiles},
                chosen,
            )  # fmt: skip


# No number is a reason to compile anew: what variants() names is all that there is.
@triton.jit(do_not_specialize=["table_width", "num_kv_heads", "group", "shift", "num_splits", "num_parts"])
def _attention_prefix_kernel(
    queries, key_cache, value_cache, tables, tokens, tiles, members, parts, lse,
    table_width, num_kv_heads, group, shift, num_splits, num_parts, scale,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    tile = tiles + tl.program_id(0) * 4
    kv_head = tl.program_id(1)
    split = tl.program_id(2)
    first = tl.load(tile)
    count = tl.load(tile + 1)
    table = tables + tl.load(tile + 2).to(tl.int64) * table_width
    length = tl.load(tile + 3)
    row = tl.arange(0, BLOCK_M)
    column = tl.arange(0, BLOCK_D)
    there = row < count * group
    index = tl.load(members + first + row // group, mask=there, other=0).to(tl.int64)
    token = tl.load(tokens + index, mask=there, other=0).to(tl.int64)
    head = kv_head * group + row % group
    inside = there[:, None] & (column < HEAD_DIM)[None, :]
    at = (token * num_kv_heads * group + head)[:, None] * HEAD_DIM + column[None, :]
    q = tl.load(queries + at, mask=inside, other=0.0)

    position = tl.full((BLOCK_M,), 0, dtype=tl.int32) + length
    per_split = ((length + BLOCK_N - 1) // BLOCK_N + num_splits - 1) // num_splits * BLOCK_N
    end = tl.minimum((split + 1) * per_split, length)
    full = tl.maximum(end // BLOCK_N * BLOCK_N, split * per_split)
    result = tl.zeros((BLOCK_M, BLOCK_D), dtype=tl.float32)
    peak = tl.full((BLOCK_M,), LOWEST, dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    for key in range(split * per_split, full, BLOCK_N):
        result, peak, total = attend_tile(
            q, result, peak, total, key_cache, value_cache, table, key, end, position, kv_head, num_kv_heads, shift,
            scale, 0, 0, False, False, HEAD_DIM, BLOCK_D, BLOCK_N,
        )  # fmt: skip
    for key in range(full, end, BLOCK_N):
        result, peak, total = attend_tile(
            q, result, peak, total, key_cache, value_cache, table, key, end, position, kv_head, num_kv_heads, shift,
            scale, 0, 0, True, False, HEAD_DIM, BLOCK_D, BLOCK_N,
        )  # fmt: skip
    divisor = tl.where(total == 0.0, 1.0, total)
    result = result / divisor[:, None]
    part = (index * num_kv_heads * group + head) * num_parts + split
    tl.store(parts + part[:, None] * HEAD_DIM + column[None, :], result, mask=inside)
    tl.store(lse + part, tl.where(total == 0.0, float("-inf"), peak + tl.log2(divisor)), mask=there)
