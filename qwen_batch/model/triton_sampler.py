"""The sampling kernel for rows given as plain numbers: one copy to the device, one launch, nothing read back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from qwen_batch.kernels.sample import SampleInput, num_words, sample
from qwen_batch.records import SamplingParams


@dataclass(frozen=True, slots=True)
class SampleRow:
    """How one row of logits is sampled."""

    params: SamplingParams
    uniform: float  # in [0, 1), from the seed and the place in the output
    token_ids: Sequence[int]  # prompt and output; read where there is a repetition penalty
    output_ids: Sequence[int]  # read where there is a presence penalty

    @property
    def has_penalty(self) -> bool:
        return self.params.repetition_penalty != 1.0 or self.params.presence_penalty != 0.0


def sample_rows(logits: Tensor, rows: Sequence[SampleRow]) -> Tensor:
    """logits [num_rows, vocab] -> tokens int64 [num_rows] on their device; -1 where a logit is NaN."""
    params = [row.params for row in rows]
    penalised = any(row.has_penalty for row in rows)
    # All numbers in one float32 array, so that one copy takes them over; top-k is exact below 2 ** 24.
    columns = (
        [p.temperature for p in params],
        [p.top_p for p in params],
        [p.min_p for p in params],
        [row.uniform for row in rows],
        [p.repetition_penalty for p in params],
        [p.presence_penalty for p in params],
        [p.top_k for p in params],
    )
    temperature, top_p, min_p, uniform, repetition, presence, top_k = _to(
        torch.tensor(columns, dtype=torch.float32), logits.device
    )
    vocab = logits.shape[1]
    return sample(
        logits,
        SampleInput(
            temperature=temperature,
            top_k=top_k.to(torch.int32),
            top_p=top_p,
            min_p=min_p,
            uniform=uniform,
            repetition=repetition if penalised else None,
            presence=presence if penalised else None,
            seen=_bitmap((row.token_ids for row in rows), len(rows), vocab, logits.device) if penalised else None,
            said=_bitmap((row.output_ids for row in rows), len(rows), vocab, logits.device) if penalised else None,
        ),
    )


def _bitmap(rows: Iterable[Sequence[int]], num_rows: int, vocab: int, device: torch.device) -> Tensor:
    """int32 [num_rows, words] with a bit for each token that a row holds."""
    bits = np.zeros((num_rows, num_words(vocab) * 32), dtype=np.uint8)
    for row, token_ids in enumerate(rows):
        bits[row, list(token_ids)] = 1
    words = np.packbits(bits, axis=1, bitorder="little").view("<i4")
    return _to(torch.from_numpy(words), device)


def _to(host: Tensor, device: torch.device) -> Tensor:
    return host.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else host
