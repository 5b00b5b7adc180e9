"""Lines that the detector joins over a narrow gutter, parted again.

Two columns are often an em apart, which is little more than words are; but no line of prose is white at the same place
as eight lines around it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

from qwen_batch.read.ocr.sessions import Floats, Pixels

EM = 0.75  # of the height of a line's box
SCALE = 2  # pixels of the picture for one of the ink, which evens out noise
CONTRAST = 48  # levels of grey by which ink is darker than the paper
WIDE = 0.85  # ems; a typewriter's spaces are 0.7 wide, and stand one above another
LINES = 8  # heights of a box that a gutter is long, at least
BROAD = 12.0  # ems of a line of prose in a column
SHARE = 0.5  # of the lines on each side are so broad
LEVEL = 0.2  # of a line's height: how much its upper edge may slope

Ink = npt.NDArray[np.bool_]


class Gutter(NamedTuple):
    """A white strip between two columns, in pixels."""

    left: float
    top: float
    right: float
    bottom: float

    def is_beside(self, box: Floats) -> bool:
        return self.top <= float(box[:, 1].mean()) <= self.bottom


def part_at_gutters(picture: Pixels, boxes: Sequence[Floats]) -> list[Floats]:
    """The boxes of lines, of which none reaches into a gutter."""
    parted = list(boxes)
    level = [box for box in boxes if abs(box[1][1] - box[0][1]) < LEVEL * _height(box)]
    if len(level) < LINES:
        return parted
    em = EM * sorted(_height(box) for box in level)[len(level) // 2]
    ink = _ink(picture)
    gutters: list[Gutter] = []
    for box in level:
        if _width(box) < 2 * BROAD * em or any(gutter.is_beside(box) for gutter in gutters):
            continue
        gutter = _gutter_through(ink, box, em)
        if gutter and _parts_columns(gutter, boxes, em):
            gutters.append(gutter)
            parted = [part for whole in parted for part in _cut(whole, gutter, boxes)]
    return parted


def _ink(picture: Pixels) -> Ink:
    grey = cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY)
    small = cv2.resize(grey, None, fx=1 / SCALE, fy=1 / SCALE, interpolation=cv2.INTER_AREA)
    ink: Ink = small < np.median(small) - CONTRAST
    return ink


def _gutter_through(ink: Ink, box: Floats, em: float) -> Gutter | None:
    """The longest white strip that crosses a box; None: none is long enough."""
    first, last = (round(float(side) / SCALE) for side in (box[:, 0].min() + BROAD * em, box[:, 0].max() - BROAD * em))
    middle, wide = int(box[:, 1].mean() / SCALE), int(WIDE * em / SCALE)
    longest: Gutter | None = None
    for left in range(first, last - wide):
        if ink[middle, left : left + wide].any():
            continue
        drawn: Ink = np.any(ink[:, left : left + wide], axis=1)
        above, below = np.flatnonzero(drawn[:middle]), np.flatnonzero(drawn[middle:])
        top = int(above[-1]) + 1 if len(above) else 0
        bottom = middle + int(below[0]) if len(below) else len(drawn)
        if longest is None or bottom - top > longest.bottom - longest.top:
            longest = Gutter(left, top, left + wide, bottom)
    if longest is None or (longest.bottom - longest.top) * SCALE < LINES * em / EM:
        return None
    return _broadened(ink, longest)


def _broadened(ink: Ink, strip: Gutter) -> Gutter:
    """As wide as it is white all along, in pixels of the picture."""
    _, top, _, bottom = (int(side) for side in strip)
    drawn: Ink = np.any(ink[top:bottom], axis=0)
    before, after = np.flatnonzero(drawn[: int(strip.left)]), np.flatnonzero(drawn[int(strip.right) :])
    left = int(before[-1]) + 1 if len(before) else strip.left
    right = strip.right + int(after[0]) if len(after) else strip.right
    return Gutter(left * SCALE, top * SCALE, right * SCALE, bottom * SCALE)


def _parts_columns(gutter: Gutter, boxes: Sequence[Floats], em: float) -> bool:
    """Whether most of what stands on each side are lines of prose."""
    beside = [box for box in boxes if gutter.is_beside(box)]
    left = [min(float(box[:, 0].max()), gutter.left) - float(box[:, 0].min()) for box in beside]
    right = [float(box[:, 0].max()) - max(float(box[:, 0].min()), gutter.right) for box in beside]
    for widths in (left, right):
        lines = [width for width in widths if width > em]
        broad = sum(width >= BROAD * em for width in lines)
        if broad < LINES // 2 or broad < SHARE * len(lines):
            return False
    return True


def _cut(box: Floats, gutter: Gutter, boxes: Sequence[Floats]) -> Iterator[Floats]:
    """The parts of a box on each side; a sliver of a line that has a box of its own is none."""
    left, right = float(box[:, 0].min()), float(box[:, 0].max())
    if not gutter.is_beside(box) or right <= gutter.left or left >= gutter.right:
        yield box
        return
    for start, end in ((left, min(right, gutter.left)), (max(left, gutter.right), right)):
        part = np.clip(box, (start, 0), (end, np.inf)).astype(np.float32)
        others = [other for other in boxes if other is not box]
        if end - start >= _height(box) or (end - start > SCALE and not any(_holds(other, part) for other in others)):
            yield part


def _holds(box: Floats, part: Floats) -> bool:
    x, y = part.mean(axis=0)
    return bool(box[:, 0].min() <= x <= box[:, 0].max() and box[:, 1].min() <= y <= box[:, 1].max())


def _width(box: Floats) -> float:
    return float(box[:, 0].max() - box[:, 0].min())


def _height(box: Floats) -> float:
    return float(box[:, 1].max() - box[:, 1].min())
