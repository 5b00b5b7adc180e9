"""Tiles are timed, told as rows of the table, and the table is as it was."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch

from qwen_batch.bench import tune
from qwen_batch.kernels.tuning import ATTENTION
from qwen_batch.model.kernel_checks import PagedStep

CPU = torch.device("cpu")


def run(kernel: str, most: int, *, seconds: float = 60.0) -> list[str]:
    before = dict(ATTENTION)
    lines = tune.tune(kernel, CPU, time.monotonic() + seconds, heads_of="tiny", scale=128, most=most)
    assert before == ATTENTION
    return lines


@pytest.fixture
def _instant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times without runs: the interpreter takes seconds for each."""
    times = iter((0.003, 0.001, 0.002))
    monkeypatch.setattr(tune, "seconds", lambda run, device, repeat: next(times))


@pytest.mark.usefixtures("_instant")
@pytest.mark.parametrize("kernel", tune.CHOICES)
def test_the_fastest_comes_first_as_a_row_of_the_table(kernel: str) -> None:
    lines = run(kernel, 2)
    assert [line.split(" ms")[0].strip() for line in lines] == ["1.0000", "2.0000", "3.0000"]
    assert f'("{kernel}", 2, (32,), ' in lines[0]
    assert lines[2].endswith("<- now")


@pytest.mark.usefixtures("_instant")
def test_a_wrong_or_broken_tile_is_named_and_left(monkeypatch: pytest.MonkeyPatch) -> None:
    attend, count = PagedStep.attend, iter(range(9))

    def spoilt(self: PagedStep) -> Any:
        turn = next(count)
        if turn == 2:
            raise RuntimeError("out of resource: shared memory")
        return attend(self) + (turn == 1)

    monkeypatch.setattr(PagedStep, "attend", spoilt)
    now, wrong, broken = run("attention_decode", 2)
    assert now.endswith("<- now")
    assert "is off by" in wrong
    assert "RuntimeError: 'out of resource: shared memory'" in broken


@pytest.mark.usefixtures("_instant")
def test_it_ends_in_time() -> None:
    assert run("attention_decode", 9, seconds=-1.0)[1].strip() == "left  out of time: not all were tried"
