"""The attention kernels against plain torch in float64, over irregular shapes."""

from __future__ import annotations

import pytest
import torch
from kernel_helpers import DTYPES, Paged, assert_close, draw, ints, make_paged, poison
from torch import Tensor

from qwen_batch.kernels import attention_decode as decode
from qwen_batch.kernels import attention_merge as merge
from qwen_batch.kernels import attention_prefill as prefill
from qwen_batch.kernels import attention_prefix as prefix
from qwen_batch.kernels import tuning
from qwen_batch.kernels.tile import attention_reference

# Weights are rounded to the dtype before they meet the values, the result once more; scores of float32 sums add less.
ROUNDINGS = {torch.float32: 16, torch.bfloat16: 4, torch.float16: 4}


def reference(paged: Paged, *, window: int = 0, num_sinks: int = 0) -> Tensor:
    return attention_reference(
        paged.queries.double(),
        paged.key_cache.double(),
        paged.value_cache.double(),
        paged.block_tables,
        paged.cu_seqlens_q,
        paged.context_lens,
        window=window,
        num_sinks=num_sinks,
    )


def run_prefill(paged: Paged, *, window: int = 0, num_sinks: int = 0) -> Tensor:
    _, heads, head_dim = paged.queries.shape
    config = prefill.config(head_dim, paged.queries.dtype)
    group = heads // paged.key_cache.shape[2]
    tiles = prefill.PrefillTiles.plan(paged.cu_seqlens_q, paged.context_lens, group, config, paged.ints)
    out = poison(*paged.queries.shape, dtype=paged.queries.dtype)
    prefill.attention_prefill(
        paged.queries,
        paged.key_cache,
        paged.value_cache,
        paged.block_tables,
        paged.ints(paged.cu_seqlens_q),
        paged.ints(paged.context_lens),
        tiles,
        out,
        window=window,
        num_sinks=num_sinks,
    )
    return out


def run_decode(paged: Paged, *, num_splits: int, window: int = 0, num_sinks: int = 0) -> Tensor:
    """All sequences have one query."""
    _, heads, head_dim = paged.queries.shape
    rows = paged.ints(list(range(paged.num_seqs)))
    parts = poison(len(rows), heads, num_splits, head_dim, dtype=torch.float32)
    lse = poison(len(rows), heads, num_splits, dtype=torch.float32)
    out = poison(*paged.queries.shape, dtype=paged.queries.dtype)
    decode.attention_decode(
        paged.queries,
        paged.key_cache,
        paged.value_cache,
        paged.block_tables,
        paged.ints(paged.context_lens),
        rows,
        rows,
        parts,
        lse,
        num_splits=num_splits,
        window=window,
        num_sinks=num_sinks,
    )
    merge.attention_merge(parts, lse, rows, out)
    return out


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    ("head_dim", "heads", "kv_heads", "block_size"),
    [(64, 4, 4, 16), (80, 3, 1, 32), (96, 8, 2, 64), (128, 8, 1, 16)],
    ids=lambda value: str(value),
)
def test_prefill(dtype: torch.dtype, head_dim: int, heads: int, kv_heads: int, block_size: int) -> None:
    paged = make_paged(
        [1, 0, 37, 7], [1, 5, 37, 101], heads=heads, kv_heads=kv_heads, head_dim=head_dim, block_size=block_size,
        dtype=dtype,
    )  # fmt: skip
    assert_close(run_prefill(paged), reference(paged), roundings=ROUNDINGS[dtype])


@pytest.mark.parametrize("heads", [1, 3, 4, 8])
def test_prefill_takes_any_number_of_heads_in_a_group(heads: int) -> None:
    paged = make_paged(
        [53, 2], [97, 131], heads=2 * heads, kv_heads=2, head_dim=32, block_size=16, dtype=torch.float32
    )  # fmt: skip
    assert_close(run_prefill(paged), reference(paged), roundings=16)


@pytest.mark.parametrize(("window", "num_sinks"), [(1, 0), (7, 0), (64, 4), (33, 40), (500, 4)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_prefill_with_a_window_and_sinks(window: int, num_sinks: int, dtype: torch.dtype) -> None:
    paged = make_paged([41, 1, 150], [41, 211, 150], heads=4, kv_heads=2, head_dim=64, block_size=16, dtype=dtype)
    got = run_prefill(paged, window=window, num_sinks=num_sinks)
    assert_close(got, reference(paged, window=window, num_sinks=num_sinks), roundings=ROUNDINGS[dtype])


def test_prefill_leaves_other_rows_alone() -> None:
    paged = make_paged([1, 5], [9, 5], heads=2, kv_heads=1, head_dim=64, block_size=16, dtype=torch.float32)
    config = prefill.config(64, torch.float32)
    tiles = prefill.PrefillTiles.plan(paged.cu_seqlens_q, paged.context_lens, 2, config, ints, skip=frozenset([0]))
    out = poison(*paged.queries.shape, dtype=torch.float32)
    prefill.attention_prefill(
        paged.queries, paged.key_cache, paged.value_cache, paged.block_tables, paged.ints(paged.cu_seqlens_q),
        paged.ints(paged.context_lens), tiles, out,
    )  # fmt: skip
    assert out[0].isnan().all()
    assert_close(out[1:], reference(paged)[1:], roundings=16)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    ("head_dim", "heads", "kv_heads", "block_size", "num_splits"),
    [(64, 4, 4, 16, 1), (80, 3, 1, 32, 2), (96, 8, 2, 64, 3), (128, 8, 1, 16, 5)],
    ids=lambda value: str(value),
)
def test_decode(dtype: torch.dtype, head_dim: int, heads: int, kv_heads: int, block_size: int, num_splits: int) -> None:
    contexts = [1, 0, 127, 211, 16]  # 0: a padding row, as captured graphs have them
    paged = make_paged(
        [1] * 5, contexts, heads=heads, kv_heads=kv_heads, head_dim=head_dim, block_size=block_size, dtype=dtype
    )
    got = run_decode(paged, num_splits=num_splits)
    assert_close(got, reference(paged), roundings=ROUNDINGS[dtype])
    assert not got[1].any()


@pytest.mark.parametrize(("window", "num_sinks"), [(1, 0), (13, 0), (64, 4), (31, 70), (500, 4)])
@pytest.mark.parametrize("num_splits", [1, 4])
def test_decode_with_a_window_and_sinks(window: int, num_sinks: int, num_splits: int) -> None:
    paged = make_paged([1] * 3, [1, 97, 302], heads=8, kv_heads=2, head_dim=64, block_size=16, dtype=torch.float32)
    got = run_decode(paged, num_splits=num_splits, window=window, num_sinks=num_sinks)
    assert_close(got, reference(paged, window=window, num_sinks=num_sinks), roundings=16)


@pytest.mark.parametrize(
    ("dtype", "heads", "kv_heads", "head_dim", "prefix_splits"),
    [
        (torch.float32, 8, 1, 64, 3),
        (torch.float32, 2, 2, 128, 1),
        (torch.bfloat16, 3, 1, 80, 1),
        (torch.bfloat16, 8, 2, 96, 2),
        (torch.float16, 8, 1, 128, 1),
    ],
    ids=str,
)
def test_prefix_with_decode_equals_the_whole(
    dtype: torch.dtype, heads: int, kv_heads: int, head_dim: int, prefix_splits: int
) -> None:
    paged = make_paged(
        [1] * 14, [0, 80, *range(65, 77)], heads=heads, kv_heads=kv_heads, head_dim=head_dim, block_size=16,
        dtype=dtype,
    )  # fmt: skip
    tables = paged.block_tables
    tables[3:11, :3] = tables[2, :3]  # 9 branches of one prefix of 48 tokens
    tables[11:, :1] = tables[1, :1]  # 4 branches of another, of 16 tokens
    rows = paged.ints(list(range(14)))
    groups = [(list(range(2, 11)), 2, 48), ([1, 11, 12, 13], 1, 16)]
    starts = paged.ints([0, 16, *[48] * 9, *[16] * 3])
    tiles = prefix.PrefixTiles.plan(groups, heads // kv_heads, prefix.config(head_dim, dtype), ints)
    num_parts = prefix_splits + 2
    parts = poison(14, heads, num_parts, head_dim, dtype=torch.float32)
    lse = torch.full((14, heads, num_parts), -torch.inf)
    out = poison(*paged.queries.shape, dtype=dtype)
    prefix.attention_prefix(
        paged.queries, paged.key_cache, paged.value_cache, tables, rows, tiles, parts, lse, num_splits=prefix_splits
    )
    decode.attention_decode(
        paged.queries, paged.key_cache, paged.value_cache, tables, paged.ints(paged.context_lens), rows, rows, parts,
        lse, num_splits=2, first_part=prefix_splits, starts=starts,
    )  # fmt: skip
    merge.attention_merge(parts, lse, rows, out)
    assert_close(out, reference(paged), roundings=ROUNDINGS[dtype])


@pytest.mark.parametrize("num_parts", [1, 3, 16, 17, 129])
def test_merge(num_parts: int) -> None:
    parts, lse = draw(5, 3, num_parts, 80, seed=1), draw(5, 3, num_parts, seed=2) * 20
    lse[1, :, 0] = -torch.inf
    lse[2] = -torch.inf
    want = merge.attention_merge_reference(parts.double(), lse.double())
    parts[lse == -torch.inf] = torch.nan  # a part without keys is not looked at
    want[2] = 0.0
    out = poison(7, 3, 80, dtype=torch.float32)
    merge.attention_merge(parts, lse, torch.tensor([6, 0, 2, 3, 4], dtype=torch.int32), out)
    assert_close(out[[6, 0, 2, 3, 4]], want, roundings=16)
    assert out[[1, 5]].isnan().all()


@pytest.mark.filterwarnings("ignore:All-NaN slice")  # of numpy, in which the interpreter computes
def test_a_nan_among_the_keys_shows_in_the_result() -> None:
    paged = make_paged([1], [40], heads=2, kv_heads=1, head_dim=64, block_size=16, dtype=torch.float32)
    paged.key_cache[int(paged.block_tables[0, 1]), 3, 0, 5] = torch.nan
    assert run_decode(paged, num_splits=1).isnan().all()


def test_splits_fill_the_card_and_no_more() -> None:
    assert decode.choose_splits(64, 8, 8192, 132) == 1
    assert decode.choose_splits(1, 8, 8192, 132) == 32
    assert decode.choose_splits(1, 8, 300, 132) == 2
    assert decode.choose_splits(1, 1, 100_000, 132) == tuning.MAX_SPLITS
    assert decode.choose_splits(0, 8, 0, 132) == 1


def test_shapes_that_kernels_do_not_take_are_refused() -> None:
    paged = make_paged([1], [4], heads=2, kv_heads=1, head_dim=48, block_size=16, dtype=torch.float32)
    with pytest.raises(ValueError, match="head_dim 48 is not one of"):
        run_decode(paged, num_splits=1)
    paged = make_paged([1], [4], heads=2, kv_heads=1, head_dim=64, block_size=24, dtype=torch.float32)
    with pytest.raises(ValueError, match="block_size 24 is not one of"):
        run_decode(paged, num_splits=1)
    with pytest.raises(ValueError, match="17 query heads a KV head exceed 16"):
        decode.config(17, 64, torch.bfloat16)
