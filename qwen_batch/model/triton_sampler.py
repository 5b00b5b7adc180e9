"""The sampling kernel for rows given as plain numbers: one copy to the device, one launch, nothing read back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from qwen_batch.kernels.sample import SampleInput, num_words, sample
from qwen_batch.model.staging import Staging
from qwen_batch.model.workspace import Memory
from qwen_batch.records import SamplingParams


@dataclass(frozen=True, slots=True)
class SampleRow:
    """How one row of logits is sampled."""

    params: SamplingParams
    uniform: float  # in [0, 1), from the seed and the place in the output
    token_ids: Sequence[int]  # prompt and output; read where there is a repetition penalty
    output_ids: Sequence[int]  # read where there is a presence penalty
    pending: int = -1  # row of `unread` that holds one more token of prompt and output

    @property
    def has_penalty(self) -> bool:
        return self.params.repetition_penalty != 1.0 or self.params.presence_penalty != 0.0


def sample_rows(
    logits: Tensor, rows: Sequence[SampleRow], staging: Staging, memory: Memory, unread: Tensor | None = None
) -> Tensor:
    """logits [num_rows, vocab] -> tokens int64 [num_rows] on their device; -1 where a logit is NaN.

    unread: tokens of the step before, int64 on the device.
    """
    params = [row.params for row in rows]
    penalised = any(row.has_penalty for row in rows)
    # One array, so that one copy takes them over; rows as wide as keeps each aligned, which kernels are compiled for.
    columns = (
        [p.temperature for p in params],
        [p.top_p for p in params],
        [p.min_p for p in params],
        [row.uniform for row in rows],
        [p.repetition_penalty for p in params],
        [p.presence_penalty for p in params],
    )
    numbers = np.zeros((len(columns), -(-len(rows) // 16) * 16), dtype=np.float32)
    numbers[:, : len(rows)] = columns
    temperature, top_p, min_p, uniform, repetition, presence = staging.put(numbers, torch.float32)[:, : len(rows)]
    vocab = logits.shape[1]
    seen = said = None
    if penalised:
        seen = _bitmap([row.token_ids for row in rows], vocab, staging)
        said = _bitmap([row.output_ids for row in rows], vocab, staging)
        _add_unread((seen, said), [row.pending for row in rows], unread, staging)
    return sample(
        logits,
        SampleInput(
            temperature=temperature,
            top_k=staging.put([p.top_k for p in params], torch.int32),
            top_p=top_p,
            min_p=min_p,
            uniform=uniform,
            repetition=repetition if penalised else None,
            presence=presence if penalised else None,
            seen=seen,
            said=said,
        ),
        memory.take("scores", tuple(logits.shape), torch.float32),
    )


def _bitmap(rows: Sequence[Sequence[int]], vocab: int, staging: Staging) -> Tensor:
    """int32 [num_rows, words] with a bit for each token that a row holds."""
    bits = np.zeros((len(rows), num_words(vocab) * 32), dtype=np.uint8)
    for row, token_ids in enumerate(rows):
        bits[row, list(token_ids)] = 1
    words = np.packbits(bits, axis=1, bitorder="little").view("<i4")
    return staging.put(words, torch.int32)


def _add_unread(bitmaps: Iterable[Tensor], pending: Sequence[int], unread: Tensor | None, staging: Staging) -> None:
    """Set the bits of tokens that only the device knows."""
    rows = [row for row, at in enumerate(pending) if at >= 0]
    if unread is None or not rows:
        return
    at, source = staging.put([rows, [pending[row] for row in rows]])
    tokens = unread[source].clamp(min=0)
    places = at, tokens // 32
    bits = torch.ones_like(tokens, dtype=torch.int32) << (tokens % 32).to(torch.int32)
    for bitmap in bitmaps:
        bitmap[places] = bitmap[places] | bits
