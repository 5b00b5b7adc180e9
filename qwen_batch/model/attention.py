"""Attention of one ragged step over blocks of keys and values, through torch.

A step holds pieces of many sequences, one after another without padding. Pieces of one token (decode) are grouped by
context length and go through one call a group; longer pieces (prefill) go one by one. What depends on the step alone
(groups, masks, block indices) is worked out once and used by every layer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from qwen_batch.model.kv_cache import KVCache, gather_blocks

# A decode group may be padded to this many times its shortest context (and is never split below 64 tokens).
MAX_PADDING = 1.25
# Queries that share one mask in a prefill with context; bounds the mask to QUERY_TILE * context elements.
QUERY_TILE = 256


@dataclass(frozen=True, slots=True)
class StepInput:
    """One ragged step: the new tokens of num_seqs sequences, one sequence after another."""

    token_ids: Tensor  # int64 [num_tokens]
    positions: Tensor  # int64 [num_tokens]
    slot_mapping: Tensor  # int64 [num_tokens]: where each token's key and value go
    block_tables: Tensor  # int64 (int32 for the triton backend) [num_seqs, max_blocks], padded with 0
    logit_indices: Tensor  # int64 [num_rows]: the tokens whose logits are wanted
    cu_seqlens_q: Sequence[int]  # num_seqs + 1 offsets into the tokens
    context_lens: Sequence[int]  # num_seqs: keys of each sequence after this step, its new tokens included
    block_lists: Sequence[Sequence[int]] = ()  # rows of block_tables on the host, where shared prefixes may be found

    @property
    def piece_lengths(self) -> list[int]:
        """New tokens of each sequence."""
        return [end - start for start, end in pairwise(self.cu_seqlens_q)]


@dataclass(frozen=True, slots=True)
class _DecodeGroup:
    tokens: Tensor  # int64 [group]: rows of the step
    blocks: Tensor  # int64 [group, num_blocks]
    mask: Tensor  # [group, 1, 1, num_blocks * block_size], 0 or -inf


@dataclass(frozen=True, slots=True)
class _PrefillPiece:
    start: int  # tokens start..end of the step
    end: int
    blocks: Tensor | None  # int64 [num_blocks]; None: no context but the piece itself
    tiles: tuple[tuple[int, int, Tensor], ...]  # (first query, keys, mask [queries, keys])


class StepAttention:
    """Attention of one step. `attend` is called once a layer."""

    def __init__(self, step: StepInput, cache: KVCache) -> None:
        self._cache = cache
        self._slots = step.slot_mapping
        dtype, device = cache.keys[0].dtype, cache.keys[0].device
        decodes = [row for row, length in enumerate(step.piece_lengths) if length == 1]
        self._groups = tuple(_decode_groups(step, decodes, cache.block_size, dtype, device))
        self._prefill = PrefillAttention(step, cache)

    def attend(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """queries [num_tokens, num_heads, head_dim], keys and values [num_tokens, num_kv_heads, head_dim]
        -> [num_tokens, num_heads * head_dim]. Stores the keys and values first."""
        self._cache.store(layer, self._slots, keys, values)
        output = torch.empty_like(queries)
        for group in self._groups:
            output[group.tokens] = self._decode(layer, queries, group)
        self._prefill.attend(layer, queries, keys, values, output)
        return output.flatten(1)

    def _decode(self, layer: int, queries: Tensor, group: _DecodeGroup) -> Tensor:
        """The query heads that share a KV head stand as rows of one small matrix, so that keys are not repeated."""
        batch, kv_heads, dim = len(group.tokens), *self._cache.keys[layer].shape[2:]
        q = queries[group.tokens].view(batch, kv_heads, -1, dim)
        k, v = (
            gather_blocks(cache, group.blocks).view(batch, -1, kv_heads, dim).transpose(1, 2)
            for cache in (self._cache.keys[layer], self._cache.values[layer])
        )
        mask = group.mask.expand(-1, 1, q.shape[2], -1)
        return scaled_dot_product_attention(q, k, v, attn_mask=mask).reshape(batch, -1, dim)


class PrefillAttention:
    """Attention of the pieces of a step that are longer than one token. Their keys and values are stored already."""

    def __init__(self, step: StepInput, cache: KVCache) -> None:
        self._cache = cache
        dtype, device = cache.keys[0].dtype, cache.keys[0].device
        self._pieces = tuple(
            _prefill_piece(step, row, cache.block_size, dtype, device)
            for row, length in enumerate(step.piece_lengths)
            if length > 1
        )

    @property
    def has_pieces(self) -> bool:
        return bool(self._pieces)

    def attend(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor, output: Tensor) -> None:
        """As StepAttention.attend, into the pieces' rows of `output` [num_tokens, num_heads, head_dim]."""
        for piece in self._pieces:
            output[piece.start : piece.end] = self._attend(layer, queries, keys, values, piece)

    def _attend(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor, piece: _PrefillPiece) -> Tensor:
        q = queries[piece.start : piece.end].transpose(0, 1)[None]
        if piece.blocks is None:
            k, v = (x[piece.start : piece.end].transpose(0, 1)[None] for x in (keys, values))
            out = scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            return out[0].transpose(0, 1)
        k, v = (
            gather_blocks(cache, piece.blocks).flatten(0, 1).transpose(0, 1)[None]
            for cache in (self._cache.keys[layer], self._cache.values[layer])
        )
        tiles = [
            scaled_dot_product_attention(
                q[:, :, first : first + len(mask)], k[:, :, :end], v[:, :, :end], attn_mask=mask, enable_gqa=True
            )
            for first, end, mask in piece.tiles
        ]
        return torch.cat(tiles, dim=2)[0].transpose(0, 1)


def _decode_groups(
    step: StepInput, rows: Sequence[int], block_size: int, dtype: torch.dtype, device: torch.device
) -> Iterator[_DecodeGroup]:
    for members in group_by_length(rows, step.context_lens):
        longest = max(step.context_lens[row] for row in members)
        num_blocks = -(-longest // block_size)
        lengths = torch.tensor([step.context_lens[row] for row in members], device=device)
        beyond = torch.arange(num_blocks * block_size, device=device)[None, :] >= lengths[:, None]
        mask = torch.zeros(beyond.shape, dtype=dtype, device=device).masked_fill_(beyond, float("-inf"))
        yield _DecodeGroup(
            tokens=torch.tensor([step.cu_seqlens_q[row] for row in members], device=device),
            blocks=step.block_tables[torch.tensor(members, device=device), :num_blocks],
            mask=mask[:, None, None, :],
        )


def group_by_length(rows: Sequence[int], lengths: Sequence[int]) -> list[list[int]]:
    """Rows with like lengths together: the longest of a group is at most MAX_PADDING times its shortest."""
    groups: list[list[int]] = []
    limit = 0.0
    for row in sorted(rows, key=lambda row: lengths[row]):
        if not groups or lengths[row] > limit:
            groups.append([])
            limit = max(lengths[row] * MAX_PADDING, 64)
        groups[-1].append(row)
    return groups


def _prefill_piece(
    step: StepInput, row: int, block_size: int, dtype: torch.dtype, device: torch.device
) -> _PrefillPiece:
    start, end = step.cu_seqlens_q[row], step.cu_seqlens_q[row + 1]
    total = step.context_lens[row]
    context = total - (end - start)
    if context == 0:
        return _PrefillPiece(start, end, None, ())
    tiles = []
    for first in range(0, end - start, QUERY_TILE):
        queries = min(QUERY_TILE, end - start - first)
        keys = context + first + queries
        later = torch.ones((queries, keys), dtype=torch.bool, device=device).triu_(context + first + 1)
        tiles.append(
            (first, keys, torch.zeros(later.shape, dtype=dtype, device=device).masked_fill_(later, -torch.inf))
        )
    return _PrefillPiece(start, end, step.block_tables[row, : -(-total // block_size)], tuple(tiles))
