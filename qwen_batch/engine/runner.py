"""Pieces of sequences -> one ragged step -> the next tokens."""

from __future__ import annotations

from collections.abc import Sequence as Pieces
from itertools import accumulate

import torch

from qwen_batch.engine.sampler import sample, sample_on_device
from qwen_batch.engine.scheduler import Piece
from qwen_batch.model.attention import StepInput
from qwen_batch.model.decoder import Decoder
from qwen_batch.model.kv_cache import KVCache


class Runner:
    """Owns the model and the KV memory."""

    def __init__(self, decoder: Decoder, cache: KVCache) -> None:
        self._decoder = decoder
        self._cache = cache
        self._device = decoder.weights.device

    def run(self, pieces: Pieces[Piece]) -> list[int | None]:
        """Compute the pieces; a token for each piece that reaches its sequence's end (None: the logits had a NaN)."""
        ends = [piece.sequence for piece in pieces if piece.reaches_end]
        logits = self._decoder.forward(self._step_input(pieces), self._cache)
        if ends and self._decoder.use_triton:
            return sample_on_device(logits, ends)
        native = self._decoder.native
        return sample(logits, ends, native.argmax if native is not None else None) if ends else []

    def _step_input(self, pieces: Pieces[Piece]) -> StepInput:
        block_size = self._cache.block_size
        token_ids: list[int] = []
        positions: list[int] = []
        slots: list[int] = []
        for piece in pieces:
            start, table = piece.sequence.num_computed_tokens, piece.sequence.block_table
            end = start + piece.num_tokens
            token_ids += piece.sequence.token_ids[start:end]
            positions += range(start, end)
            slots += [table[at // block_size] * block_size + at % block_size for at in range(start, end)]
        offsets = list(accumulate((piece.num_tokens for piece in pieces), initial=0))
        widest = max(len(piece.sequence.block_table) for piece in pieces)
        tables = [s.block_table + [0] * (widest - len(s.block_table)) for s in (piece.sequence for piece in pieces)]
        return StepInput(
            token_ids=self._tensor(token_ids),
            positions=self._tensor(positions),
            slot_mapping=self._tensor(slots),
            block_tables=self._tensor(tables),
            logit_indices=self._tensor(
                [end - 1 for end, piece in zip(offsets[1:], pieces, strict=True) if piece.reaches_end]
            ),
            cu_seqlens_q=offsets,
            context_lens=[piece.sequence.num_computed_tokens + piece.num_tokens for piece in pieces],
            block_lists=tables,
        )

    def _tensor(self, values: list[int] | list[list[int]]) -> torch.Tensor:
        host = torch.tensor(values, dtype=torch.int64)
        if self._device.type != "cuda":
            return host
        return host.pin_memory().to(self._device, non_blocking=True)  # from pageable memory the copy would wait
