"""Lengths of answers, learned."""

from __future__ import annotations

import random

import pytest

from qwen_batch.engine.estimate import MAX_KINDS, MIN_LENGTHS, OutputEstimator, padded_efficiency
from qwen_batch.records import Request, SamplingParams


def request(template: str = "t", *, max_tokens: int = 100, prompt: int = 50) -> Request:
    return Request("r", [1] * prompt, SamplingParams(max_tokens=max_tokens), template=template)


def taught(lengths: list[int], **options: int) -> OutputEstimator:
    estimator = OutputEstimator()
    for length in lengths:
        estimator.learn(request(**options), length)
    return estimator


def test_nothing_known_means_all_that_was_asked_for() -> None:
    estimator = taught([3] * (MIN_LENGTHS - 1))
    assert estimator.expected(request()) == 100
    assert estimator.enough(request(), 0.9) == 100


def test_the_mean_is_expected_and_a_quantile_kept() -> None:
    estimator = taught(list(range(1, 100)))
    assert estimator.expected(request()) == 50
    assert estimator.enough(request(), 0.9) == 90
    assert estimator.enough(request(), 1.0) == 100
    assert estimator.enough(request(), 0.0) == 0
    assert estimator.enough(request(max_tokens=70), 0.9) == 70, "no more than was asked for"


def test_few_lengths_do_not_vouch_for_a_high_quantile() -> None:
    assert taught([5] * 10).enough(request(), 0.95) == 100
    assert taught([5] * 20).enough(request(), 0.95) == 5


def test_wordings_are_apart_and_prompts_of_new_lengths_take_their_wordings() -> None:
    estimator = taught([10] * 20)
    assert estimator.expected(request(prompt=5000)) == 10
    assert estimator.expected(request("other")) == 100
    for _ in range(20):
        estimator.learn(request(prompt=5000), 60)
    assert (estimator.expected(request(prompt=5000)), estimator.expected(request())) == (60, 10)


def test_old_lengths_are_forgotten() -> None:
    assert taught([90] * 500 + [10] * 128).expected(request()) == 10


def test_a_job_with_ever_new_wordings_does_not_grow() -> None:
    estimator = OutputEstimator()
    for number in range(3 * MAX_KINDS):
        estimator.learn(request(str(number)), 5)
    assert len(estimator._kinds) <= MAX_KINDS


@pytest.mark.parametrize("share", [0.5, 0.8, 0.95])
def test_the_kept_length_suffices_for_that_share(share: float) -> None:
    draw = random.Random(7)
    estimator, within = taught([], max_tokens=10_000), 0
    for number in range(3000):
        length = 1 + int(draw.expovariate(1 / 40))
        within += number >= 100 and length <= estimator.enough(request(max_tokens=10_000), share)
        estimator.learn(request(max_tokens=10_000), length)
    assert share - 0.02 <= within / 2900 <= share + 0.04


def test_padding() -> None:
    assert padded_efficiency([4, 4, 4], 2) == 1.0
    assert padded_efficiency([1, 9, 2, 10], 2) == pytest.approx(22 / (2 * 2 + 2 * 10))
    assert padded_efficiency([], 8) == 1.0
