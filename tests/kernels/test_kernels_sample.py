"""The sampling kernel against a sorting reference, and against the chances that it stands for."""

from __future__ import annotations

import pytest
import torch
from kernel_helpers import DTYPES, draw
from torch import Tensor

from qwen_batch.kernels.sample import SampleInput, num_words, pack, sample, sample_reference


def params(num_rows: int, **values: float | Tensor | None) -> SampleInput:
    """All rows alike, but for what comes as a tensor."""
    off: dict[str, float] = {"temperature": 0.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "uniform": 0.5}
    tensors = {
        name: value if isinstance(value, Tensor) or value is None else torch.full((num_rows,), float(value))
        for name, value in {**off, **values}.items()
    }
    tensors["top_k"] = tensors["top_k"].to(torch.int32)
    return SampleInput(**tensors)


def spread(num_rows: int) -> Tensor:
    return torch.linspace(0.0, 0.999, num_rows)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("vocab", [1, 97, 2048, 2503])
def test_greedy(dtype: torch.dtype, vocab: int) -> None:
    logits = draw(3, vocab, seed=vocab, dtype=dtype)
    assert sample(logits, params(3)).tolist() == logits.float().argmax(-1).tolist()


def test_greedy_takes_the_lowest_of_equal_tokens() -> None:
    logits = torch.zeros(1, 2503)
    logits[0, [2100, 77, 2499]] = 3.0
    assert sample(logits, params(1)).tolist() == [77]


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"top_k": 1},
        {"top_k": 20},
        {"top_k": 96},
        {"top_p": 0.8},
        {"top_p": 1e-6},
        {"min_p": 0.1},
        {"top_k": 50, "top_p": 0.9, "min_p": 0.05, "temperature": 1.7},
    ],
    ids=str,
)
@pytest.mark.parametrize("vocab", [97, 2503])
def test_filters_equal_sorting(asked: dict[str, float], vocab: int) -> None:
    num_rows = 3
    logits = 3 * draw(num_rows, vocab, seed=vocab)

    def given(shift: float) -> SampleInput:
        uniform = (spread(num_rows) + shift).clamp(min=0.0)
        return params(num_rows, **{"temperature": 1.0, "uniform": uniform, **asked})

    # Sums of float32 over the vocabulary: the running mass is known to a millionth of the whole.
    near = [sample_reference(logits, given(shift)).tolist() for shift in (-1e-6, 0.0, 1e-6)]
    for row, token in enumerate(sample(logits, given(0.0)).tolist()):
        assert token in {tokens[row] for tokens in near}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_equal_values_share_their_chance(dtype: torch.dtype) -> None:
    logits = torch.zeros(8, 40, dtype=dtype)
    logits[:, 30:] = -100.0
    got = sample(logits, params(8, temperature=1.0, uniform=(torch.arange(8) + 0.5) / 8)).tolist()
    assert got == [int((row + 0.5) / 8 * 30) for row in range(8)]


def test_draws_follow_the_distribution() -> None:
    weights = torch.tensor([0.5, 0.05, 0.25, 0.2])
    num_rows = 40
    uniform = (torch.arange(num_rows) + 0.5) / num_rows
    got = sample(weights.log().expand(num_rows, 4).contiguous(), params(num_rows, temperature=1.0, uniform=uniform))
    assert (torch.bincount(got, minlength=4) / num_rows).tolist() == pytest.approx(weights.tolist(), abs=1 / num_rows)


@pytest.mark.parametrize("uniform", [0.0, 1.0 - 2**-24, 1.0])
def test_the_ends_of_the_unit_interval(uniform: float) -> None:
    logits = 3 * draw(1, 300, seed=2)
    got = sample(logits, params(1, temperature=1.0, top_k=5, uniform=uniform)).item()
    assert got in logits[0].topk(5).indices.tolist()
    if uniform == 0.0:
        assert got == logits[0].argmax()


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_penalties(temperature: float) -> None:
    vocab, num_rows = 131, 9
    logits = 3 * draw(num_rows, vocab, seed=3)
    seen = draw(num_rows, vocab, seed=4) > 0.3
    said = seen & (draw(num_rows, vocab, seed=5) > 0)

    def given() -> SampleInput:
        return params(
            num_rows,
            temperature=temperature,
            uniform=spread(num_rows),
            repetition=torch.linspace(0.8, 1.6, num_rows),
            presence=torch.linspace(-1.0, 2.0, num_rows),
            seen=pack(seen),
            said=pack(said),
        )

    ours, theirs = given(), given()
    tokens = sample(logits, ours)
    assert tokens.tolist() == sample_reference(logits, theirs).tolist()
    for row, token in enumerate(tokens.tolist()):
        seen[row, token] = said[row, token] = True
    assert ours.seen is not None
    assert ours.said is not None
    assert torch.equal(ours.seen, pack(seen))
    assert torch.equal(ours.said, pack(said))


def test_the_last_bit_of_a_word_is_kept_as_a_bit() -> None:
    logits = torch.zeros(1, 64)
    logits[0, 31] = 9.0
    one, zero = torch.ones(1), torch.zeros(1)
    bitmaps = [torch.zeros((1, 2), dtype=torch.int32) for _ in range(4)]
    for run, seen, said in ((sample, *bitmaps[:2]), (sample_reference, *bitmaps[2:])):
        assert run(logits, params(1, repetition=one, presence=zero, seen=seen, said=said)).tolist() == [31]
    assert all(bitmap.tolist() == [[-(2**31), 0]] for bitmap in bitmaps)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_bitmask(temperature: float) -> None:
    vocab = 101
    logits = draw(6, vocab, seed=6)
    wanted = draw(6, vocab, seed=7) > 1.0
    wanted[3] = False
    given = params(6, temperature=temperature, uniform=spread(6), allowed=pack(wanted))
    tokens = sample(logits, given).tolist()
    assert tokens == sample_reference(logits, given).tolist()
    assert tokens[3] == -1
    assert all(wanted[row, token] for row, token in enumerate(tokens) if row != 3)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_row_with_a_nan_is_told_apart(temperature: float) -> None:
    logits = draw(3, 2503, seed=8)
    logits[1, 2400] = torch.nan
    tokens = sample(logits, params(3, temperature=temperature)).tolist()
    assert [token < 0 for token in tokens] == [False, True, False]


def test_no_rows() -> None:
    assert sample(torch.empty(0, 50), params(0)).shape == (0,)


def test_a_bitmap_has_a_bit_for_each_token() -> None:
    assert [num_words(vocab) for vocab in (1, 32, 33, 151_936)] == [1, 1, 2, 4748]


def test_half_of_the_penalties_is_refused() -> None:
    with pytest.raises(ValueError, match="come together or not at all"):
        sample(torch.zeros(1, 8), params(1, repetition=torch.ones(1)))
