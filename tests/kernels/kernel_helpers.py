"""Inputs, poison and tolerances for the kernels' tests. Kernels run in Triton's interpreter, on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def draw(*shape: int, seed: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def poison(*shape: int, dtype: torch.dtype) -> Tensor:
    return torch.full(shape, torch.nan, dtype=dtype)


def ints(values: Sequence[int]) -> Tensor:
    return torch.tensor(values, dtype=torch.int32)


def assert_close(got: Tensor, want: Tensor, *, roundings: int) -> None:
    """Every element within `roundings` half-units of its dtype's precision, relative to the largest value in sight.

    `want` is float64. A NaN, such as poison that nobody overwrote, never passes.
    """
    unit = torch.finfo(got.dtype).eps
    scale = max(1.0, float(want.abs().max())) if want.numel() else 1.0
    assert got.shape == want.shape
    assert not got.isnan().any(), "an element was not written"
    worst = float((got.double() - want).abs().max()) if want.numel() else 0.0
    assert worst <= roundings / 2 * unit * scale, f"off by {worst / unit / scale * 2:.2f} half-units"


@dataclass(frozen=True, slots=True)
class Paged:
    """A ragged step over blocks of keys and values; unused slots of the caches hold NaN."""

    queries: Tensor
    key_cache: Tensor
    value_cache: Tensor
    block_tables: Tensor  # int32
    cu_seqlens_q: list[int]
    context_lens: list[int]

    @property
    def num_seqs(self) -> int:
        return len(self.context_lens)

    def ints(self, values: Sequence[int]) -> Tensor:
        return ints(values)


def make_paged(
    lengths: list[int],
    contexts: list[int],
    *,
    heads: int,
    kv_heads: int,
    head_dim: int,
    block_size: int,
    dtype: torch.dtype,
    seed: int = 0,
) -> Paged:
    """`lengths` new tokens of sequences that then have `contexts` keys, in blocks in random order."""
    generator = torch.Generator().manual_seed(seed)
    counts = [-(-context // block_size) for context in contexts]
    order = (torch.randperm(sum(counts) + 2, generator=generator)).tolist()
    tables = torch.zeros((len(contexts), max(1, *counts)), dtype=torch.int32)
    caches = [poison(len(order), block_size, kv_heads, head_dim, dtype=dtype) for _ in range(2)]
    for seq, (context, count) in enumerate(zip(contexts, counts, strict=True)):
        blocks = [order.pop() for _ in range(count)]
        tables[seq, :count] = torch.tensor(blocks, dtype=torch.int32)
        for cache in caches:
            filled = torch.full((count * block_size, kv_heads, head_dim), torch.nan)
            filled[:context] = torch.randn((context, kv_heads, head_dim), generator=generator)
            cache[blocks] = filled.view(count, block_size, kv_heads, head_dim).to(dtype)
    offsets = [0]
    for length in lengths:
        offsets.append(offsets[-1] + length)
    queries = torch.randn((offsets[-1], heads, head_dim), generator=generator).to(dtype)
    return Paged(queries, *caches, tables, offsets, contexts)
