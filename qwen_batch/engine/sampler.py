"""Logits -> the next token of each sequence.

Rows are filtered in the order penalties, temperature, top-k, top-p, min-p, as in transformers. A draw uses one number
in [0, 1) that depends on the request's seed and the token's place in the output alone: the same request gives the same
tokens in any batch, and again after a preemption.

Tokens stay on the device, -1 where a row has a NaN, until `read_tokens`: they feed the next step there, and where the
steps overlap the host reads them one step late. Until then a sequence ends in PENDING, and `Unread` says where on the
device its token stands.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from collections.abc import Sequence as Rows
from dataclasses import dataclass

import torch
from torch import Tensor

from qwen_batch.engine.sequence import PENDING, Sequence
from qwen_batch.model.staging import Staging
from qwen_batch.model.workspace import Memory
from qwen_batch.records import SamplingParams


@dataclass(frozen=True, slots=True)
class Unread:
    """Tokens of the step before, which the host has not read yet."""

    tokens: Tensor  # int64 [num_rows] on the device
    rows: Mapping[Sequence, int]  # whose token each row is


def sample(
    logits: Tensor,
    sequences: Rows[Sequence],
    argmax: Callable[[Tensor], Tensor] | None = None,
    unread: Unread | None = None,
) -> Tensor:
    """logits [num_rows, vocab] of any dtype, one row for each sequence -> tokens int64 [num_rows] on their device.

    argmax: a faster way to greedy tokens, -1 for a NaN; taken when no row asks for more.
    """
    if argmax is not None and all(is_plain_greedy(s.request.sampling) for s in sequences):
        return argmax(logits)
    logits = logits.float()
    penalised = [row for row, s in enumerate(sequences) if _has_penalty(s.request.sampling)]
    if penalised:
        logits = logits.clone()
        for row in penalised:
            _penalise(logits[row], sequences[row], unread)
    best, tokens = logits.max(dim=-1)
    drawn = [row for row, s in enumerate(sequences) if s.request.sampling.temperature > 0]
    if drawn:
        rows = torch.tensor(drawn, device=logits.device)
        tokens[rows] = _draw(logits[rows], [sequences[row] for row in drawn])
    return tokens.masked_fill_(best.isnan(), -1)


def sample_on_device(
    logits: Tensor, sequences: Rows[Sequence], staging: Staging, memory: Memory, unread: Unread | None = None
) -> Tensor:
    """The same through the sampling kernel, without a look from the host."""
    from qwen_batch.model.triton_sampler import SampleRow, sample_rows  # triton is not installed everywhere

    rows = [
        SampleRow(
            s.request.sampling, _uniform(s), _known(s.token_ids), _known(s.output_ids), pending=pending_row(s, unread)
        )
        for s in sequences
    ]
    return sample_rows(logits, rows, staging, memory, unread.tokens if unread is not None else None)


def read_tokens(tokens: Tensor) -> list[int | None]:
    """Token ids; None where the logits had a NaN. Waits for the device unless the tensor is on the host."""
    return [None if token < 0 else token for token in tokens.tolist()]


def pending_row(sequence: Sequence, unread: Unread | None) -> int:
    """Where on the device the sequence's last token stands; -1 when the host knows it."""
    if sequence.token_ids[-1] != PENDING:
        return -1
    assert unread is not None, f"{sequence} waits for a token that no step computes"
    return unread.rows[sequence]


def is_plain_greedy(params: SamplingParams) -> bool:
    return params.temperature == 0 and not _has_penalty(params)


def _has_penalty(params: SamplingParams) -> bool:
    return params.repetition_penalty != 1.0 or params.presence_penalty != 0.0


def _penalise(row: Tensor, sequence: Sequence, unread: Unread | None = None) -> None:
    """Change one row [vocab] in place. A token that comes twice is changed once: values are read before any is set."""
    params, at = sequence.request.sampling, pending_row(sequence, unread)
    pending = unread.tokens[at : at + 1].clamp(min=0) if unread is not None and at >= 0 else None

    def indices(token_ids: Rows[int]) -> Tensor:
        known = torch.tensor(sorted(set(_known(token_ids))), dtype=torch.int64, device=row.device)
        return known if pending is None else torch.cat((known, pending))

    if params.repetition_penalty != 1.0:
        seen = indices(sequence.token_ids)
        values = row[seen]
        row[seen] = torch.where(values > 0, values / params.repetition_penalty, values * params.repetition_penalty)
    if params.presence_penalty != 0.0 and sequence.num_output_tokens:
        said = indices(sequence.output_ids)
        row[said] = row[said] - params.presence_penalty


def _known(token_ids: Rows[int]) -> Rows[int]:
    """Without the token that the host has not read."""
    return token_ids[:-1] if token_ids and token_ids[-1] == PENDING else token_ids


def _draw(logits: Tensor, sequences: Rows[Sequence]) -> Tensor:
    """logits float32 [rows, vocab] -> tokens int64 [rows], by inverting the cumulative distribution."""
    params = [s.request.sampling for s in sequences]

    def column(values: Rows[float]) -> Tensor:
        return torch.tensor(values, dtype=torch.float32, device=logits.device)[:, None]

    vocab = logits.shape[1]
    top_ks = [p.top_k if 0 < p.top_k < vocab else vocab for p in params]
    # Sorting a whole vocabulary is slow; with top-k everywhere the largest k are enough.
    values, indices = (logits / column([p.temperature for p in params])).topk(max(top_ks), dim=-1)
    probs = _filtered(values, column(top_ks), column([p.top_p for p in params]), column([p.min_p for p in params]))
    cumulative = probs.double().cumsum(dim=-1)
    points = torch.tensor([_uniform(s) for s in sequences], dtype=torch.float64, device=logits.device)[:, None]
    # The last column that can be chosen is the last with a probability, whatever the rounding of the sum.
    last = ((probs > 0).sum(dim=-1, keepdim=True) - 1).clamp_(min=0)  # a row of NaN has none; the caller drops it
    chosen = torch.searchsorted(cumulative, points * cumulative[:, -1:], right=True).minimum(last)
    return indices.gather(1, chosen)[:, 0]


def _filtered(values: Tensor, top_k: Tensor, top_p: Tensor, min_p: Tensor) -> Tensor:
    """Descending scaled logits [rows, k] -> probabilities, 0 for what is filtered out; the first always stays."""
    ranks = torch.arange(values.shape[1], device=values.device)[None, :]
    values = values.masked_fill(ranks >= top_k, float("-inf"))
    probs = values.softmax(dim=-1)
    before = probs.cumsum(dim=-1) - probs
    dropped = (before >= top_p) & (top_p < 1.0)
    dropped[:, 0] = False
    kept = values.masked_fill(dropped, float("-inf")).softmax(dim=-1)
    return kept.masked_fill(kept < min_p * kept[:, :1], 0.0)


def _uniform(sequence: Sequence) -> float:
    """A number in [0, 1) from the seed and the place in the output; 53 bits of a hash."""
    name = f"{sequence.request.sampling.seed}:{sequence.num_output_tokens}".encode()
    return (int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "big") >> 11) / 2**53
