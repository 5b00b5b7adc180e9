"""Attention of one step through the native sources: what is to be done is planned once, and done in every layer."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from typing import Protocol

import torch
from torch import Tensor

from qwen_batch.model.attention import PrefillAttention, StepInput
from qwen_batch.model.config import ModelConfig
from qwen_batch.model.kv_cache import KVCache
from qwen_batch.model.native_library import AttentionPlan, NativeLibrary
from qwen_batch.model.shared_prefix import find_shared_prefixes

KEYS, MAX_ROWS, STATE_LANES = 64, 96, 32  # as in native_attention.c
# A prefix is read once for all when so many sequences share it: rows that are computed together cost less each.
MIN_BRANCHES = 2

Work = tuple[int, int, int, int, int, int, int, int, int]  # as in native_attention.c


class NativeAttention(Protocol):
    """Attention over keys and values that are stored already."""

    def attend(self, layer: int, qkv: Tensor, output: Tensor) -> None:
        """qkv [num_tokens, q_size + 2 * kv_size], rotated -> output [num_tokens, q_size]."""
        ...


def plan_attention(library: NativeLibrary, config: ModelConfig, step: StepInput, cache: KVCache) -> NativeAttention:
    """The form that this CPU has."""
    form = VectorAttention if library.can_attend(config.head_dim) else PlainAttention
    return form(library, config, step, cache)


class VectorAttention:
    """All of a step through our own kernel, on a CPU with 512-bit vectors."""

    def __init__(
        self, library: NativeLibrary, config: ModelConfig, step: StepInput, cache: KVCache, *, exact: bool = False
    ) -> None:
        self._functions = library.functions
        self._config = config
        self._cache = cache
        decodes = [row for row, length in enumerate(step.piece_lengths) if length == 1]
        shared = _find_prefixes(step, decodes, cache.block_size)
        own_begin = {row: length for members, length in shared for row in members}
        prefixes, extra_tokens = _plan_prefixes(step, config, shared)
        singles = list(_plan_singles(step, config, decodes, own_begin))
        ends = _rows_that_end(step)
        own = _table([*_plan_prefill(step, config), *singles])
        last = _table([*_plan_singles(step, config, ends, {}), *singles])
        tokens = torch.arange(len(step.positions) + len(extra_tokens))
        tokens[len(step.positions) :] = torch.tensor(extra_tokens, dtype=torch.int64)
        states = len(step.positions) * config.num_heads if prefixes else 0
        self._tensors = (
            _table(prefixes),
            own,
            last,
            tokens,
            step.positions[tokens] + 1,
            step.block_tables,
            torch.empty(states * (config.head_dim + STATE_LANES), dtype=torch.float32),
        )
        pointers = [tensor.data_ptr() for tensor in self._tensors]
        counts = len(prefixes), len(own), len(last)
        sizes = step.block_tables.shape[1], cache.block_size, int(exact)
        self.plan = AttentionPlan(*pointers[:3], *counts, *pointers[3:6], *sizes, pointers[6])

    def attend(self, layer: int, qkv: Tensor, output: Tensor) -> None:
        config, keys, values = self._config, self._cache.keys[layer], self._cache.values[layer]
        self._functions.attend(
            ctypes.byref(self.plan),
            0,
            qkv.data_ptr(),
            qkv.shape[1],
            keys.data_ptr(),
            values.data_ptr(),
            config.num_heads,
            config.num_kv_heads,
            config.head_dim,
            output.data_ptr(),
        )


def _rows_that_end(step: StepInput) -> list[int]:
    """The rows of longer pieces whose last token's logits are wanted: in the last layer they need one query alone."""
    wanted = set(step.logit_indices.tolist())
    lengths = step.piece_lengths
    return [row for row, end in enumerate(step.cu_seqlens_q[1:]) if lengths[row] > 1 and end - 1 in wanted]


def _table(work: Sequence[Work]) -> Tensor:
    """The longest first, so that threads end together."""
    ordered = sorted(work, key=lambda w: (w[4] - w[3]) * w[1] * w[6], reverse=True)
    return torch.tensor(ordered, dtype=torch.int64).reshape(-1, 9)


def _plan_prefill(step: StepInput, config: ModelConfig) -> Iterator[Work]:
    tile = MAX_ROWS // (config.num_heads // config.num_kv_heads)
    for row, length in enumerate(step.piece_lengths):
        if length == 1:
            continue
        start, context = step.cu_seqlens_q[row], step.context_lens[row] - length
        for first in range(0, length, tile):
            count = min(tile, length - first)
            for head in range(config.num_kv_heads):
                yield start + first, count, row, 0, context + first + count, head, 1, 0, 0


def _plan_singles(
    step: StepInput, config: ModelConfig, rows: Sequence[int], own_begin: dict[int, int]
) -> Iterator[Work]:
    """The last token of each row; all its heads together where there are tokens enough for all threads: they stand side
    by side."""
    together = MAX_ROWS // (config.num_heads // config.num_kv_heads)
    heads = min(config.num_kv_heads, together) if len(rows) >= 4 * torch.get_num_threads() else 1
    for row in rows:
        begin = own_begin.get(row, 0)
        for head in range(0, config.num_kv_heads, heads):
            count = min(heads, config.num_kv_heads - head)
            yield step.cu_seqlens_q[row + 1] - 1, 1, row, begin, step.context_lens[row], head, count, int(begin > 0), 0


def _find_prefixes(step: StepInput, rows: Sequence[int], block_size: int) -> list[tuple[list[int], int]]:
    """(rows of the step, keys that they share: a multiple of KEYS, so that tiles stay where they were)."""
    if not step.block_lists:
        return []
    tables, lengths = [step.block_lists[row] for row in rows], [step.context_lens[row] for row in rows]
    found = find_shared_prefixes(tables, lengths, block_size, min_branches=MIN_BRANCHES, min_tokens=KEYS)
    return [([rows[member] for member in members], length // KEYS * KEYS) for members, length in found]


def _plan_prefixes(
    step: StepInput, config: ModelConfig, shared: Sequence[tuple[list[int], int]]
) -> tuple[list[Work], list[int]]:
    """The work, and the tokens that its rows name beyond the step's own order."""
    tile = MAX_ROWS // (config.num_heads // config.num_kv_heads)
    work: list[Work] = []
    tokens: list[int] = []
    for members, length in shared:
        for first in range(0, len(members), tile):
            part = members[first : first + tile]
            at = len(step.positions) + len(tokens)
            tokens += [step.cu_seqlens_q[row] for row in part]
            work += [(at, len(part), part[0], 0, length, head, 1, 0, 1) for head in range(config.num_kv_heads)]
    return work, tokens


class PlainAttention:
    """Single tokens through native.c, which any CPU can run; longer pieces through torch."""

    def __init__(self, library: NativeLibrary, config: ModelConfig, step: StepInput, cache: KVCache) -> None:
        self._functions = library.functions
        self._config = config
        self._cache = cache
        self._prefill = PrefillAttention(step, cache)
        decodes = [row for row, length in enumerate(step.piece_lengths) if length == 1]
        self._num_decodes = len(decodes)
        self._tokens = torch.tensor([step.cu_seqlens_q[row] for row in decodes], dtype=torch.int64)
        self._contexts = torch.tensor([step.context_lens[row] for row in decodes], dtype=torch.int64)
        all_decode = self._num_decodes == len(step.context_lens)
        self._tables = step.block_tables if all_decode else step.block_tables[decodes].contiguous()

    def attend(self, layer: int, qkv: Tensor, output: Tensor) -> None:
        config = self._config
        if self._num_decodes:
            self._functions.attend_decode(
                qkv.data_ptr(),
                qkv.shape[1],
                self._tokens.data_ptr(),
                self._tables.data_ptr(),
                self._contexts.data_ptr(),
                self._num_decodes,
                self._tables.shape[1],
                self._cache.keys[layer].data_ptr(),
                self._cache.values[layer].data_ptr(),
                self._cache.block_size,
                config.num_heads,
                config.num_kv_heads,
                config.head_dim,
                output.data_ptr(),
            )
        if self._prefill.has_pieces:
            heads = [config.q_size, config.kv_size, config.kv_size]
            q, k, v = (x.view(len(x), -1, config.head_dim) for x in torch.split(qkv, heads, dim=-1))
            self._prefill.attend(layer, q, k, v, output.view(len(output), -1, config.head_dim))
