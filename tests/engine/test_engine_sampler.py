"""The sampler keeps to the distribution, the filters of transformers, and its seed."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import (
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from qwen_batch.engine import sampler
from qwen_batch.engine.sampler import _filtered, _penalise
from qwen_batch.engine.sequence import Sequence
from qwen_batch.errors import UsageError
from qwen_batch.records import Request, SamplingParams

VOCAB = 40


def sample(*arguments: Any) -> list[int | None]:
    return sampler.read_tokens(sampler.sample(*arguments))


def make_sequence(
    params: SamplingParams, prompt: tuple[int, ...] = (1, 2, 3), output: tuple[int, ...] = ()
) -> Sequence:
    sequence = Sequence(Request("r", prompt, params), None)
    sequence.token_ids += output
    return sequence


def random_logits(rows: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(rows, VOCAB, generator=torch.Generator().manual_seed(seed)) * 3


def test_greedy_takes_the_largest() -> None:
    logits = random_logits(5)
    sequences = [make_sequence(SamplingParams())] * 5
    assert sample(logits, sequences) == logits.argmax(-1).tolist()


def test_the_faster_argmax_serves_plain_greedy_rows_alone() -> None:
    logits = random_logits(3)
    logits[1, 0] = float("nan")

    def argmax(rows: torch.Tensor) -> torch.Tensor:
        return torch.tensor([-1 if row.isnan().any() else 7 for row in rows])

    plain = make_sequence(SamplingParams())
    assert sample(logits, [plain] * 3, argmax) == [7, None, 7]
    for other in (SamplingParams(temperature=0.5), SamplingParams(presence_penalty=1.0)):
        assert sample(logits, [plain, plain, make_sequence(other)], argmax)[0] == logits[0].argmax()


def test_a_row_with_nan_is_named_and_spoils_no_other() -> None:
    logits = random_logits(3)
    logits[1, 7] = float("nan")
    sequences = [make_sequence(SamplingParams(temperature=t)) for t in (0.0, 0.8, 0.8)]
    tokens = sample(logits, sequences)
    assert tokens[1] is None
    assert tokens[0] == logits[0].argmax()
    assert tokens[2] is not None


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 999),
    temperature=st.floats(0.2, 3),
    top_k=st.integers(0, VOCAB + 5),
    top_p=st.floats(0.05, 1.0),
    min_p=st.floats(0.0, 0.5),
)
def test_filters_equal_transformers(seed: int, temperature: float, top_k: int, top_p: float, min_p: float) -> None:
    logits = random_logits(1, seed)
    ids = torch.tensor([[0]])
    expected = TemperatureLogitsWarper(temperature)(ids, logits)
    if top_k:
        expected = TopKLogitsWarper(top_k)(ids, expected)
    if top_p < 1:
        expected = TopPLogitsWarper(top_p)(ids, expected)
    if min_p:
        expected = MinPLogitsWarper(min_p)(ids, expected)
    values, indices = (logits / temperature).sort(descending=True)
    columns = (torch.tensor([[float(x)]]) for x in (top_k or VOCAB, top_p, min_p))
    filtered = torch.zeros_like(logits).scatter(1, indices, _filtered(values, *columns))
    filtered /= filtered.sum()
    torch.testing.assert_close(filtered, expected.softmax(-1), atol=1e-5, rtol=1e-4)


def test_repetition_penalty_equals_transformers() -> None:
    logits = random_logits(1)
    sequence = make_sequence(SamplingParams(repetition_penalty=1.7), prompt=(3, 5, 5), output=(7,))
    expected = RepetitionPenaltyLogitsProcessor(1.7)(torch.tensor([[3, 5, 5, 7]]), logits.clone())
    row = logits[0].clone()
    _penalise(row, sequence)
    torch.testing.assert_close(row, expected[0])


def test_presence_penalty_counts_the_output_once_and_not_the_prompt() -> None:
    row = torch.zeros(VOCAB)
    _penalise(row, make_sequence(SamplingParams(presence_penalty=0.5), prompt=(1, 2), output=(7, 7, 8)))
    assert {i: v for i, v in enumerate(row.tolist()) if v} == {7: -0.5, 8: -0.5}


def test_logits_of_the_caller_are_not_changed() -> None:
    logits = random_logits(2)
    before = logits.clone()
    sample(logits, [make_sequence(SamplingParams(repetition_penalty=2.0, temperature=t)) for t in (0.0, 1.0)])
    assert torch.equal(logits, before)


def draw_many(params: SamplingParams, count: int, logits: torch.Tensor) -> list[int | None]:
    return [
        token
        for seed in range(count)
        for token in sample(logits, [make_sequence(SamplingParams(**{**_fields(params), "seed": seed}))])
    ]


def _fields(params: SamplingParams) -> dict[str, object]:
    return {name: getattr(params, name) for name in SamplingParams.__dataclass_fields__}


def test_draws_follow_the_distribution() -> None:
    logits = torch.tensor([[2.0, 1.0, 0.0, -1.0]])
    draws = torch.tensor(draw_many(SamplingParams(temperature=1.5), 4000, logits))
    shares = torch.bincount(draws, minlength=4) / 4000
    torch.testing.assert_close(shares, (logits[0] / 1.5).softmax(-1), atol=0.03, rtol=0)


def test_filtered_tokens_are_never_drawn() -> None:
    logits = random_logits(1)
    allowed = set(logits[0].topk(3).indices.tolist())
    assert set(draw_many(SamplingParams(temperature=5.0, top_k=3), 300, logits)) == allowed


def test_a_seed_gives_the_same_token_in_any_batch() -> None:
    params = [SamplingParams(temperature=1.0, seed=s, top_k=k) for s in range(8) for k in (0, 5)]
    logits = random_logits(1).expand(len(params), -1)
    alone = [sample(logits[:1], [make_sequence(p)])[0] for p in params]
    together = sample(logits, [make_sequence(p) for p in params])
    mixed = sample(logits, [make_sequence(p) for p in reversed(params)])
    assert alone == together == mixed[::-1]
    assert len(set(alone)) > 3


def test_the_place_in_the_output_changes_the_draw() -> None:
    logits = torch.zeros(1, VOCAB)
    params = SamplingParams(temperature=1.0, seed=3)
    tokens = {sample(logits, [make_sequence(params, output=(0,) * n)])[0] for n in range(20)}
    assert len(tokens) > 10


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_tokens": 0}, "sampling: max_tokens must be at least 1"),
        ({"temperature": -1.0}, "sampling: temperature must be 0 (greedy) or a positive number"),
        ({"temperature": float("nan")}, "sampling: temperature must be 0 (greedy) or a positive number"),
        ({"top_p": 0.0}, "sampling: top_p must be in (0, 1]"),
        ({"stop": ""}, "sampling: stop must not hold an empty string"),
    ],
)
def test_bad_parameters_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        SamplingParams(**change)  # type: ignore[arg-type]
    assert str(caught.value) == message
