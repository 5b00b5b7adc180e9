"""How far the run is: a live bar on a terminal, a line a minute in a log, nothing when it is off."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

logger = logging.getLogger(__name__)

LINE_SECONDS = 60.0
BAR_SECONDS = 0.1  # no eye sees more, and a redraw costs about a millisecond


@dataclass(frozen=True, slots=True)
class ProgressState:
    """Where the run stands."""

    documents_done: int = 0  # with a row, whatever its status; those of earlier runs included
    documents_known: int = 0  # found so far
    reading_done: bool = False  # `documents_known` is final
    documents_failed: int = 0
    requests_running: int = 0
    requests_waiting: int = 0
    tokens_per_second: float = 0.0  # prompt and answer tokens
    kv_use: float | None = None  # share of the KV blocks in use, 0..1
    documents_reading: int = 0  # being read and cleaned; not yet among those known
    documents_planning: int = 0  # being divided and encoded; as well
    planned_share: float = 0.0  # of the long one among these, 0..1


class Progress(Protocol):
    """Shows states. `update` may be called as often as one likes."""

    def update(self, state: ProgressState) -> None: ...


def describe(state: ProgressState) -> str:
    """The state in one line."""
    more = "" if state.reading_done else "+"  # reading goes on, and may find more
    parts = [f"{state.documents_done}/{state.documents_known}{more} documents"]
    if state.documents_failed:
        parts.append(f"{state.documents_failed} failed")
    if not state.reading_done and not state.requests_running:  # nothing else would show that something goes on
        parts += [f"{state.documents_reading} being read"] if state.documents_reading else []
        share = f" ({state.planned_share:.0%} of the long one)" if state.planned_share else ""
        parts += [f"{state.documents_planning} being planned{share}"] if state.documents_planning else []
    return ", ".join([*parts, _describe_engine(state)])


@contextmanager
def open_progress(
    mode: Literal["auto", "off"],
    stream: TextIO,
    *,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Progress]:
    """auto: a live bar when `stream` is a terminal, else a line a minute through the log, in the log's own form."""
    if mode == "off":
        yield _Nothing()
    elif stream.isatty():
        with _open_bar(stream) as rich_bar:
            bar = _Bar(rich_bar, clock)
            try:
                yield bar
            finally:
                bar.finish()
    else:
        lines = _Lines(clock)
        try:
            yield lines
        finally:
            lines.finish()


class _Nothing:
    def update(self, state: ProgressState) -> None:
        pass


class _Lines:
    """A log line a minute, the first after a minute, and one at the end unless it would repeat the last."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._next = clock() + LINE_SECONDS
        self._state: ProgressState | None = None
        self._shown: ProgressState | None = None

    def update(self, state: ProgressState) -> None:
        self._state = state
        if self._clock() >= self._next:
            self._next = self._clock() + LINE_SECONDS
            self._show()

    def finish(self) -> None:
        if self._shown is not None and self._state != self._shown:
            self._show()

    def _show(self) -> None:
        assert self._state is not None
        self._shown = self._state
        logger.info("%s", describe(self._state), extra={"event": "progress", **dataclasses.asdict(self._state)})


class _Bar:
    """The live bar. States that come faster than redraws are skipped, the last one never."""

    def __init__(self, bar: RichProgress, clock: Callable[[], float]) -> None:
        self._bar = bar
        self._clock = clock
        self._task = bar.add_task("documents", total=None, detail="")
        self._next = clock()
        self._state: ProgressState | None = None

    def update(self, state: ProgressState) -> None:
        self._state = state
        if self._clock() >= self._next:
            self._next = self._clock() + BAR_SECONDS
            self.finish()

    def finish(self) -> None:
        """Draw the newest state."""
        if self._state is not None:
            total = self._state.documents_known if self._state.reading_done else None
            detail = describe(self._state)
            self._bar.update(self._task, completed=self._state.documents_done, total=total, detail=detail)


def _open_bar(stream: TextIO) -> RichProgress:
    # imported here: nothing else needs rich, and a run in a log must not pay for it
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    return Progress(
        SpinnerColumn(),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[detail]}", markup=False),
        TimeElapsedColumn(),
        console=Console(file=stream),
        refresh_per_second=4,
        redirect_stdout=False,  # rows may go there
    )


def _describe_engine(state: ProgressState) -> str:
    kv = "" if state.kv_use is None else f", KV {state.kv_use:.0%}"
    requests = f"{state.requests_running} running, {state.requests_waiting} waiting"
    return f"{requests}, {state.tokens_per_second:,.0f} tokens/s{kv}"
