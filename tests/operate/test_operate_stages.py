"""Where the time goes: stages inside stages, the busy share, and the line that says so."""

from __future__ import annotations

import pytest

from qwen_batch.operate.stages import STAGES, StageClock, StageTimes, format_busy


class Hands:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def fail_after(hands: Hands, seconds: float) -> None:
    hands.now += seconds
    raise ValueError("x")


def test_every_second_belongs_to_the_innermost_stage() -> None:
    hands = Hands()
    clock = StageClock(hands)
    hands.now += 1
    with clock.stage("answer"):
        hands.now += 2
        with clock.stage("schedule"):
            hands.now += 10
        with pytest.raises(ValueError, match="x"), clock.stage("keep"):
            fail_after(hands, 3)
        hands.now += 4
    clock.move(9, "schedule", "device")
    hands.now += 5
    found = {stage: seconds for stage, seconds in clock.times().seconds.items() if seconds}
    assert found == {"other": 6, "answer": 6, "schedule": 1, "device": 9, "keep": 3}
    clock.stop()
    hands.now += 50
    assert sum(clock.times().seconds.values()) == 25


def test_the_device_is_busy_or_waits_only_while_there_is_work() -> None:
    times = StageTimes({**dict.fromkeys(STAGES, 0.0), "load": 4, "feed": 30, "device": 9.5, "write": 0.3, "keep": 0.2})
    assert times.busy_share == 0.95
    assert format_busy(times.seconds) == (
        "95.0% busy while there was work (9.5 s); waited 0.30 s write, 0.20 s keep; "
        "without work 4.0 s load, 30.0 s feed"
    )


def test_a_run_that_computes_nothing_has_no_share() -> None:
    assert StageTimes(dict.fromkeys(STAGES, 1.0) | {"device": 0.0}).busy_share is None
    assert format_busy(dict.fromkeys(STAGES, 0.0)) is None
    assert format_busy(None) is None
    assert format_busy({"compute": 3.0}) is None
