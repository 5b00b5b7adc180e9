"""Attention of sequences that decode, one query each, their keys divided among several programs (split-KV).

    part p:  out_p, lse_p = softmax over keys of split p;   whole: attention_merge of the parts

A program reads one split of one sequence's keys for one KV head and serves all query heads that share it, so that each
key is read from memory once. The number of splits is fixed before the launch and the same for all sequences; what each
split holds follows from the context length on the device, so that a captured graph serves any lengths.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
import triton
import triton.language as tl
from torch import Tensor

from qwen_batch.kernels import tuning
from qwen_batch.kernels.launch import DTYPES, TYPE_NAMES, Config, Variant, arch_of, check, next_power_of_2
from qwen_batch.kernels.tile import HEAD_DIMS, LOWEST, attend_tile, check_attention, scale_of, window_tiles

MAX_GROUP = 16  # query heads of a KV head: rows of a tile, the fewest that the matrix units take


def attention_decode(
    queries: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    block_tables: Tensor,
    context_lens: Tensor,
    seqs: Tensor,
    tokens: Tensor,
    parts: Tensor,
    lse: Tensor,
    *,
    num_splits: int,
    first_part: int = 0,
    starts: Tensor | None = None,
    window: int = 0,
    num_sinks: int = 0,
) -> None:
    """Write parts first_part .. first_part + num_splits of `parts` float32 [num_rows, num_heads, num_parts, head_dim]
    and of `lse` [num_rows, num_heads, num_parts]; the rest is left as it is.

    Row i is sequence seqs[i] of block_tables int32 [num_seqs, max_blocks] and context_lens int32 [num_seqs], its query
    is queries[tokens[i]]; seqs and tokens are int32 [num_rows]. `starts` int32 [num_rows]: keys before these are not
    looked at, because `attention_prefix` covers them; not together with a window.
    """
    check_attention(queries, key_cache, value_cache, block_tables)
    _, num_heads, head_dim = queries.shape
    block_size, kv_heads = key_cache.shape[1:3]
    num_rows, num_parts = len(seqs), parts.shape[2]
    for tensor, name in ((seqs, "seqs"), (tokens, "tokens"), (starts if starts is not None else seqs, "starts")):
        check(tensor, name, (num_rows,), torch.int32)
    check(context_lens, "context_lens", (len(block_tables),), torch.int32)
    check(parts, "parts", (num_rows, num_heads, None, head_dim), torch.float32)
    check(lse, "lse", (num_rows, num_heads, num_parts), torch.float32)
    if not 1 <= num_splits <= min(tuning.MAX_SPLITS, num_parts - first_part):
        raise ValueError(f"{num_splits} splits do not fit {num_parts} parts from {first_part} on")
    if starts is not None and window:
        raise ValueError("a shared prefix and a window exclude each other")
    chosen = config(num_heads // kv_heads, head_dim, queries.dtype).on(arch_of(queries.device))
    if num_rows:
        _attention_decode_kernel[(num_rows, kv_heads, num_splits)](
            queries, key_cache, value_cache, block_tables, context_lens, seqs, tokens,
            seqs if starts is None else starts, parts, lse, block_tables.shape[1], kv_heads, num_heads // kv_heads,
            block_size.bit_length() - 1, num_splits, num_parts, first_part, scale_of(head_dim), window, num_sinks,
            HAS_STARTS=starts is not None, HAS_WINDOW=window > 0, HEAD_DIM=head_dim,
            BLOCK_D=next_power_of_2(head_dim), **chosen.launch,
        )  # fmt: skip


def choose_splits(num_rows: int, num_kv_heads: int, longest: int, num_processors: int) -> int:
    """Splits that give every processor its programs, each with keys enough to be worth a part."""
    wanted = -(-tuning.PROGRAMS_PER_PROCESSOR * num_processors // max(1, num_rows * num_kv_heads))
    return max(1, min(wanted, -(-longest // tuning.MIN_KEYS_PER_SPLIT), tuning.MAX_SPLITS))


def config(group: int, head_dim: int, dtype: torch.dtype) -> Config:
    """Tiles for query heads in groups of so many. Raises ValueError for more than a tile has rows."""
    if group > MAX_GROUP:
        raise ValueError(f"{group} query heads a KV head exceed {MAX_GROUP}")
    return tuning.attention("attention_decode", head_dim, dtype)


def variants() -> Iterator[Variant]:
    """Every compilation that the launcher may ask for."""
    for dtype in DTYPES:
        for head_dim in HEAD_DIMS:
            for has_starts, has_window in ((False, False), (True, False), (False, True)):
                yield _variant(dtype, head_dim, has_starts, has_window)


def _variant(dtype: torch.dtype, head_dim: int, has_starts: bool, has_window: bool) -> Variant:
    pointer, chosen = "*" + TYPE_NAMES[dtype], config(MAX_GROUP, head_dim, dtype)
    ints = ("table_width", "num_kv_heads", "group", "shift", "num_splits", "num_parts", "first_part")
    constants = ("HAS_STARTS", "HAS_WINDOW", "HEAD_DIM", "BLOCK_D", "BLOCK_M", "BLOCK_N")
    suffix = (" prefix" if has_starts else "") + (" window" if has_window else "")
    return Variant(
        "attention_decode", f"{TYPE_NAMES[dtype]} head_dim={head_dim}{suffix}",
        _attention_decode_kernel,
        {
            **dict.fromkeys(("queries", "key_cache", "value_cache"), pointer),
            **dict.fromkeys(("tables", "context_lens", "seqs", "tokens", "starts"), "*i32"),
            "parts": "*fp32", "lse": "*fp32", **dict.fromkeys(ints, "i32"),
            "scale": "fp32", "window": "i32", "num_sinks": "i32", **dict.fromkeys(constants, "constexpr"),
        },
        {
            "HAS_STARTS": has_starts, "HAS_WINDOW": has_window, "HEAD_DIM": head_dim,
            "BLOCK_D": next_power_of_2(head_dim), **chosen.tiles,
        },
        chosen,
    )  # fmt: skip


# No number is a reason to compile anew: what variants() names is all that there is.
@triton.jit(
    do_not_specialize=[
        "table_width", "num_kv_heads", "group", "shift", "num_splits", "num_parts", "first_part", "window", "num_sinks",
    ]
)  # fmt: skip
def _attention_decode_kernel(
    queries, key_cache, value_cache, tables, context_lens, seqs, tokens, starts, parts, lse,
    table_width, num_kv_heads, group, shift, num_splits, num_parts, first_part, scale, window, num_sinks,
    HAS_STARTS: tl.constexpr, HAS_WINDOW: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    index = tl.program_id(0)
    kv_head = tl.program_id(1)
    split = tl.program_id(2)
    seq = tl.load(seqs + index).to(tl.int64)
    context = tl.load(context_lens + seq)
    offset = context * 0
    if HAS_STARTS:
        offset = tl.load(starts + index)
    row = tl.arange(0, BLOCK_M)
    column = tl.arange(0, BLOCK_D)
    head = kv_head * group + row
    inside = (row < group)[:, None] & (column < HEAD_DIM)[None, :]
    token = tl.load(tokens + index).to(tl.int64)
    at = (token * num_kv_heads * group + head)[:, None] * HEAD_DIM + column[None, :]
    q = tl.load(queries + at, mask=inside, other=0.0)

    position = tl.full((BLOCK_M,), 0, dtype=tl.int32) + context - 1
    sinks, begin = window_tiles(context - 1, window, num_sinks, HAS_WINDOW, BLOCK_N)
    num_tiles = sinks + (context - offset + BLOCK_N - 1) // BLOCK_N - begin
    per_split = (num_tiles + num_splits - 1) // num_splits
    result = tl.zeros((BLOCK_M, BLOCK_D), dtype=tl.float32)
    peak = tl.full((BLOCK_M,), LOWEST, dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    for tile in range(split * per_split, tl.minimum((split + 1) * per_split, num_tiles)):
        if HAS_WINDOW:
            tile = tl.where(tile < sinks, tile, begin + tile - sinks)
        result, peak, total = attend_tile(
            q, result, peak, total, key_cache, value_cache, tables + seq * table_width, offset + tile * BLOCK_N,
            context, position, kv_head, num_kv_heads, shift, scale, window, num_sinks,
            True, HAS_WINDOW, HEAD_DIM, BLOCK_D, BLOCK_N,
        )  # fmt: skip
    divisor = tl.where(total == 0.0, 1.0, total)
    result = result / divisor[:, None]
    part = (index.to(tl.int64) * num_kv_heads * group + head) * num_parts + first_part + split
    tl.store(parts + part[:, None] * HEAD_DIM + column[None, :], result, mask=inside)
    tl.store(lse + part, tl.where(total == 0.0, float("-inf"), peak + tl.log2(divisor)), mask=row < group)
