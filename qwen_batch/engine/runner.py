"""Pieces of sequences -> one ragged step -> the next tokens, which stay on the device until they are read.

`launch` hands a step to the device and waits for nothing. Tokens that the step before has computed and the host has
not read yet are taken from where they stand; `Flight.read` fetches them later, through pinned memory and an event.
"""

from __future__ import annotations

import time
from collections.abc import Sequence as Pieces
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from qwen_batch.engine.sampler import Unread, pending_row, read_tokens, sample, sample_on_device
from qwen_batch.engine.scheduler import Piece
from qwen_batch.engine.sequence import PENDING, Sequence
from qwen_batch.model.attention import StepInput
from qwen_batch.model.decoder import Decoder
from qwen_batch.model.kv_cache import KVCache

if TYPE_CHECKING:
    from qwen_batch.engine.graphs import DecodeGraphs


@dataclass(frozen=True, slots=True)
class Launched:
    """A piece that is under way."""

    sequence: Sequence
    num_tokens: int
    num_computed_tokens: int  # of the sequence, when the step is done
    reaches_end: bool  # the step computes the sequence's next token

    @classmethod
    def of(cls, piece: Piece) -> Launched:
        done = piece.sequence.num_computed_tokens + piece.num_tokens
        return cls(piece.sequence, piece.num_tokens, done, piece.reaches_end)


@dataclass(frozen=True, slots=True)
class Flight:
    """A step that the device has, and its tokens: one for each piece that reaches its sequence's end."""

    pieces: tuple[Launched, ...]
    unread: Unread
    landing: Tensor  # int64 [num_rows] on the host
    landed: torch.cuda.Event | None  # None: they are there
    started: float  # of time.monotonic

    def read(self) -> list[int | None]:
        """The tokens (None: the logits had a NaN). Waits until the step is done."""
        if self.landed is not None:
            self.landed.synchronize()
        return read_tokens(self.landing)


class Runner:
    """Owns the model and the KV memory. `graphs` computes the steps that it takes."""

    def __init__(self, decoder: Decoder, cache: KVCache, graphs: DecodeGraphs | None = None) -> None:
        self._decoder = decoder
        self._cache = cache
        self._graphs = graphs
        self._staging = decoder.staging
        self._landings = _Landings(decoder.weights.device)

    def launch(self, pieces: Pieces[Piece], before: Flight | None = None) -> Flight:
        """Hand a step to the device. `before` is the step before, if it has not been read."""
        started = time.monotonic()
        self._staging.begin_step()
        unread = before.unread if before is not None else None
        ends = [piece.sequence for piece in pieces if piece.reaches_end]
        step = self._step_input(pieces, unread)
        logits = self._graphs.run(step) if self._graphs is not None else None
        if logits is None:
            logits = self._decoder.forward(step, self._cache)
        tokens = self._sample(logits, ends, unread)
        landing, landed = self._landings.send(tokens)
        rows = {sequence: row for row, sequence in enumerate(ends)}
        return Flight(tuple(map(Launched.of, pieces)), Unread(tokens, rows), landing, landed, started)

    def run(self, pieces: Pieces[Piece]) -> list[int | None]:
        """A step by itself: the tokens (None: the logits had a NaN) of its pieces that reach their sequences' ends."""
        return self.launch(pieces).read()

    def clear_blocks(self, block_ids: list[int]) -> None:
        """Fill blocks with zeros: a NaN behind the end of what their next owner has would reach it as 0 * NaN."""
        if block_ids:
            blocks = self._staging.put(block_ids)
            for tensor in (*self._cache.keys, *self._cache.values):
                tensor.index_fill_(0, blocks, 0)

    def give_memory_back(self) -> None:
        """What is kept from step to step; the next ones, which are smaller, take what they need."""
        self._decoder.workspace.clear()
        if self._decoder.weights.device.type == "cuda":
            torch.cuda.empty_cache()

    def _sample(self, logits: Tensor, ends: list[Sequence], unread: Unread | None) -> Tensor:
        if not ends:
            return torch.empty(0, dtype=torch.int64, device=logits.device)
        if self._decoder.use_triton:
            return sample_on_device(logits, ends, self._staging, self._decoder.workspace, unread)
        native = self._decoder.native
        return sample(logits, ends, native.argmax if native is not None else None, unread)

    def _step_input(self, pieces: Pieces[Piece], unread: Unread | None) -> StepInput:
        block_size, put = self._cache.block_size, self._staging.put
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
        last = [end - 1 for end in offsets[1:]]
        widest = max(len(piece.sequence.block_table) for piece in pieces)
        tables = [s.block_table + [0] * (widest - len(s.block_table)) for s in (piece.sequence for piece in pieces)]
        ids = put(token_ids)
        pending = [
            (at, pending_row(piece.sequence, unread))
            for at, piece in zip(last, pieces, strict=True)
            if token_ids[at] == PENDING
        ]
        if unread is not None and pending:
            places, rows = put(list(zip(*pending, strict=True)))
            # A broken row's token is -1; what follows from it is thrown away, but must be a row of the embedding.
            ids.index_copy_(0, places, unread.tokens.index_select(0, rows).clamp_(min=0))
        return StepInput(
            token_ids=ids,
            positions=put(positions),
            slot_mapping=put(slots),
            block_tables=put(tables, torch.int32 if self._decoder.use_triton else torch.int64),
            logit_indices=put([at for at, piece in zip(last, pieces, strict=True) if piece.reaches_end]),
            cu_seqlens_q=offsets,
            context_lens=[piece.sequence.num_computed_tokens + piece.num_tokens for piece in pieces],
            block_lists=tables,
        )


class _Landings:
    """Where tokens arrive on the host: two pinned buffers that take turns, as at most two steps are under way."""

    def __init__(self, device: torch.device) -> None:
        self._is_cuda = device.type == "cuda"
        self._buffers = [torch.empty(0, dtype=torch.int64)] * 2
        self._turn = 0

    def send(self, tokens: Tensor) -> tuple[Tensor, torch.cuda.Event | None]:
        """Begin the copy of `tokens`; (where they will be, what to wait for)."""
        if not self._is_cuda:
            return tokens, None
        self._turn = 1 - self._turn
        if len(self._buffers[self._turn]) < len(tokens):
            self._buffers[self._turn] = torch.empty(2 * len(tokens), dtype=torch.int64, pin_memory=True)
        landing = self._buffers[self._turn][: len(tokens)]
        landing.copy_(tokens, non_blocking=True)
        landed = torch.cuda.Event()  # type: ignore[no-untyped-call]
        landed.record()
        return landing, landed
