"""Where the time of a run's main thread goes, and with it how busy the device is while there is work.

Every moment belongs to one stage: the innermost that is entered, else `other`.

    load      the model and what belongs to it
    feed      waiting for documents, with nothing else to do
    take      documents come in, and the first step waits for more of them
    schedule  a step of the engine but for the device: what runs next, what has ended, its text
    device    the device computes
    keep      waiting until documents begun and calls answered are in the journal
    answer    answers are parsed and checked; they become next calls or rows
    write     waiting until rows are in the journal and the table
    other     progress and metrics

There is no work in load and feed. In all other stages the device could compute, and waits unless it does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

STAGES = ("load", "feed", "take", "schedule", "device", "keep", "answer", "write", "other")
_NO_WORK = ("load", "feed")


@dataclass(frozen=True, slots=True)
class StageTimes:
    """Seconds by stage."""

    seconds: Mapping[str, float]

    @property
    def busy_share(self) -> float | None:
        """Of the time in which there was work, the share in which the device computed; None: it never did."""
        worked = sum(seconds for stage, seconds in self.seconds.items() if stage not in _NO_WORK)
        device = self.seconds["device"]
        return device / worked if device > 0 else None

    @property
    def waits(self) -> dict[str, float]:
        """Seconds in which the device waited although there was work, the most first."""
        waits = {stage: seconds for stage, seconds in self.seconds.items() if stage not in (*_NO_WORK, "device")}
        return dict(sorted(waits.items(), key=lambda item: -item[1]))


def format_busy(seconds: object) -> str | None:
    """One line on the device, from seconds by stage; None when it was not needed, or these are not there."""
    if not isinstance(seconds, Mapping) or set(seconds) != set(STAGES):
        return None
    times = StageTimes(seconds)
    if times.busy_share is None:
        return None
    # The first three say it all; what is below a hundredth of a second is nothing.
    waits = [f"{seconds:.2f} s {stage}" for stage, seconds in times.waits.items() if seconds >= 0.005][:3]
    waited = f"; waited {', '.join(waits)}" if waits else ""
    return (
        f"{times.busy_share:.1%} busy while there was work ({times.seconds['device']:.1f} s){waited}; "
        f"without work {times.seconds['load']:.1f} s load, {times.seconds['feed']:.1f} s feed"
    )


class StageClock:
    """Counts the main thread's seconds. For one thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seconds = dict.fromkeys(STAGES, 0.0)
        self._stage = "other"
        self._since = clock()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time inside belongs to this stage, but for that of stages inside it."""
        outer = self._enter(name)
        try:
            yield
        finally:
            self._enter(outer)

    def move(self, seconds: float, source: str, target: str) -> None:
        """So many seconds that were counted to `source` belong to `target`."""
        self._seconds[source] -= seconds
        self._seconds[target] += seconds

    def stop(self) -> None:
        """What comes later counts to no stage."""
        self._enter("")

    def times(self) -> StageTimes:
        """Up to now, or to where it was stopped."""
        self._enter(self._stage)
        return StageTimes(dict(self._seconds))

    def _enter(self, name: str) -> str:
        now, outer = self._clock(), self._stage
        if outer:
            self._seconds[outer] += now - self._since
        self._since, self._stage = now, name
        return outer
