"""What the attention kernels must know about a step, worked out on the host once and used by every layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from qwen_batch.kernels import attention_decode as decode
from qwen_batch.kernels import attention_prefill as prefill
from qwen_batch.kernels import attention_prefix as prefix
from qwen_batch.kernels.tuning import MIN_BRANCHES, MIN_PREFIX_TOKENS
from qwen_batch.model.attention import StepInput
from qwen_batch.model.config import ModelConfig
from qwen_batch.model.shared_prefix import find_shared_prefixes
from qwen_batch.model.staging import Staging


@dataclass(frozen=True, slots=True)
class AttentionShape:
    """What does not change from step to step."""

    num_kv_heads: int
    group: int  # query heads of a KV head
    head_dim: int
    block_size: int
    dtype: torch.dtype
    num_processors: int  # of the device

    @classmethod
    def of(cls, config: ModelConfig, block_size: int, dtype: torch.dtype, device: torch.device) -> AttentionShape:
        processors = torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1
        group = config.num_heads // config.num_kv_heads
        return cls(config.num_kv_heads, group, config.head_dim, block_size, dtype, processors)

    def splits(self, num_rows: int, longest: int) -> int:
        return decode.choose_splits(num_rows, self.num_kv_heads, longest, self.num_processors)


@dataclass(frozen=True, slots=True)
class DecodeRows:
    """The sequences of a step that have one query each."""

    seqs: Tensor  # int32 [num_rows]
    tokens: Tensor  # int32 [num_rows]
    num_splits: int
    starts: Tensor | None  # int32 [num_rows]: keys before these are the shared prefix's
    prefixes: prefix.PrefixTiles | None
    num_prefix_splits: int  # 0 without shared prefixes


@dataclass(frozen=True, slots=True)
class AttentionPlan:
    """One step."""

    tables: Tensor  # int32 [num_seqs, max_blocks]
    offsets: Tensor  # int32 [num_seqs + 1]
    context_lens: Tensor  # int32 [num_seqs]
    tiles: prefill.PrefillTiles
    decodes: DecodeRows | None


def plan_attention(step: StepInput, shape: AttentionShape, staging: Staging) -> AttentionPlan:
    place = partial(staging.put, dtype=torch.int32)
    rows = [seq for seq, length in enumerate(step.piece_lengths) if length == 1]
    config = prefill.config(shape.head_dim, shape.dtype)
    return AttentionPlan(
        tables=step.block_tables.to(torch.int32),  # the runner makes them so already
        offsets=place(step.cu_seqlens_q),
        context_lens=place(step.context_lens),
        tiles=prefill.PrefillTiles.plan(
            step.cu_seqlens_q, step.context_lens, shape.group, config, place, frozenset(rows)
        ),
        decodes=_plan_decodes(step, rows, shape, staging) if rows else None,
    )


def _plan_decodes(step: StepInput, rows: Sequence[int], shape: AttentionShape, staging: Staging) -> DecodeRows:
    place = partial(staging.put, dtype=torch.int32)
    contexts = [step.context_lens[seq] for seq in rows]
    shared = shared_prefixes([step.block_lists[seq] for seq in rows], contexts, shape.block_size)
    starts = prefix_starts(shared, len(rows))
    rest = max(context - start for context, start in zip(contexts, starts, strict=True))
    return DecodeRows(
        seqs=place(rows),
        tokens=place([step.cu_seqlens_q[seq] for seq in rows]),
        num_splits=shape.splits(len(rows), rest),
        starts=place(starts) if shared else None,
        prefixes=prefix.PrefixTiles.plan(
            [(members, rows[members[0]], length) for members, length in shared],
            shape.group,
            prefix.config(shape.head_dim, shape.dtype),
            place,
        )
        if shared
        else None,
        num_prefix_splits=shape.splits(len(shared), max(length for _, length in shared)) if shared else 0,
    )


def prefix_starts(shared: Sequence[tuple[Sequence[int], int]], num_rows: int) -> list[int]:
    """For each row the length of the prefix that it shares, or 0."""
    starts = [0] * num_rows
    for members, length in shared:
        for row in members:
            starts[row] = length
    return starts


def shared_prefixes(
    tables: Sequence[Sequence[int]], context_lens: Sequence[int], block_size: int
) -> list[tuple[list[int], int]]:
    """(rows, length in tokens) of prefixes that are worth a pass of their own."""
    return list(
        find_shared_prefixes(tables, context_lens, block_size, min_branches=MIN_BRANCHES, min_tokens=MIN_PREFIX_TOKENS)
    )
