"""Lines that were drawn in runs, each from the top down, while the runs are not: running heads, page numbers and notes
that come before the text, boxes and stamps that come after it.

A run stays together; it ends where the next line stands above the last, or below lines that were drawn elsewhere. Runs
change places only where one stands above another in the same column, or an empty strip crosses the page between them:
columns, captions and side notes keep the order in which they were drawn.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from qwen_batch.records import BBox, Line

RISE = 1.0  # ems upwards that end a run
SKIPPED = 0.5  # ems downwards in which another line may stand
TOUCHING = 0.3  # ems that lines below each other may share
BESIDE = 1.0  # points that columns may share
TALL = 2.5  # ems: a line that is higher is written upwards or aslant, and says nothing about columns
SMALLER = 0.94  # of the size of the type below
LABEL = 10  # characters: less may be labels of a drawing, which have no order
MAX_RUNS = 80  # of a page: more are such labels

Placed = tuple[Line, BBox]


class _Run(NamedTuple):
    lines: list[Placed]
    box: BBox
    size: float  # points
    num_chars: int


def from_the_top(placed: Sequence[Placed]) -> list[Placed]:
    """The lines, runs that were drawn too early or too late in their places."""
    if not any(_rises(before, after) for before, after in pairwise(placed)):
        return list(placed)
    runs = _runs(placed)
    if not 1 < len(runs) <= MAX_RUNS:
        return list(placed)
    return [item for band in _bands(runs) for run in _sorted(band) for item in run.lines]


def em_of(item: Placed) -> float:
    """The size of a line's letters in points."""
    line, box = item
    return line.font_size or box[3] - box[1] or 10.0


def _is_tall(item: Placed) -> bool:
    return item[1][3] - item[1][1] > TALL * em_of(item)


def _rises(before: Placed, after: Placed) -> bool:
    return before[1][1] - after[1][1] > RISE * min(em_of(before), em_of(after))


def _runs(placed: Sequence[Placed]) -> list[_Run]:
    by_top = sorted((item for item in placed if not _is_tall(item)), key=lambda item: item[1][1])
    tops = [item[1][1] for item in by_top]
    found: list[list[Placed]] = [[]]
    last: Placed | None = None
    for item in placed:
        if not _is_tall(item):
            if last is not None and (_rises(last, item) or _skips(last, item, by_top, tops)):
                found.append([])
            last = item
        found[-1].append(item)
    return [_run(lines) for lines in found]


def _run(lines: list[Placed]) -> _Run:
    wide = [item for item in lines if not _is_tall(item)] or lines
    boxes = [box for _, box in wide]
    return _Run(lines, _around(boxes), em_of(wide[0]), sum(len(line.text) for line, _ in lines))


def _skips(before: Placed, after: Placed, by_top: Sequence[Placed], tops: Sequence[float]) -> bool:
    """Whether another line stands between two, in the column of both."""
    size = min(em_of(before), em_of(after))
    upper, lower = before[1][3], after[1][1]
    if lower - upper <= SKIPPED * size:
        return False
    low, high = bisect.bisect_left(tops, upper - TOUCHING * size), bisect.bisect_left(tops, lower)
    return any(
        item is not before
        and item[1][3] <= lower + TOUCHING * size
        and _share_column(item[1], before[1])
        and _share_column(item[1], after[1])
        for item in by_top[low:high]
    )


def _around(boxes: Sequence[BBox]) -> BBox:
    return (
        min(box[0] for box in boxes),
        min(box[1] for box in boxes),
        max(box[2] for box in boxes),
        max(box[3] for box in boxes),
    )


def _share_column(one: BBox, other: BBox) -> bool:
    return min(one[2], other[2]) - max(one[0], other[0]) > BESIDE


def _bands(runs: Sequence[_Run]) -> list[list[_Run]]:
    """Runs between which an empty strip crosses the whole page, from the top down; as drawn within each."""
    by_top = sorted(range(len(runs)), key=lambda number: runs[number].box[1])
    bands: list[list[int]] = []
    bottom = 0.0
    for number in by_top:
        box, size = runs[number].box, runs[number].size
        if not bands or box[1] < bottom - TOUCHING * size:
            bands = bands or [[]]
        else:
            bands.append([])
        bands[-1].append(number)
        bottom = max(bottom, box[3])
    return [[runs[number] for number in sorted(band)] for band in bands]


def _sorted(runs: Sequence[_Run]) -> list[_Run]:
    """Runs as drawn; before each, those that stand above it in its column and have not come yet. Smaller type may stay
    where it was drawn: captions and labels would part the text from that of the page before."""
    done: dict[int, None] = {}

    def take(number: int) -> None:
        for other, run in enumerate(runs):
            if other not in done and run.size >= SMALLER * runs[number].size and _is_above(run, runs[number]):
                take(other)
        done.setdefault(number)

    for number in range(len(runs)):
        take(number)
    return [runs[number] for number in done]


def _is_above(run: _Run, other: _Run) -> bool:
    """Whether one run stands above another in its column. Of labels that says nothing."""
    size = min(run.size, other.size)
    return (
        min(run.num_chars, other.num_chars) >= LABEL
        and run.box[3] <= other.box[1] + TOUCHING * size
        and other.box[1] - run.box[1] > size
        and _share_column(run.box, other.box)
    )
