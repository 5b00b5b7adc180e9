"""Reading order, where the order in which a page was drawn is none.

Most programs draw a page as it is read, and that order knows more than geometry does (columns, captions, footnotes).
What they draw before or after the text goes to its place: running heads, notes, boxes. Forms and merged pages are
drawn in layers: labels, boxes, headings. There the next line is above the last again and again, and the page is cut
instead: at gutters between columns, else at the widest gap between rows (XY-cut; Nagy and Seth, ICPR 1984).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from qwen_batch.read.page.drawn_runs import Placed, from_the_top
from qwen_batch.records import Line

MIN_LINES = 12  # a page of fewer is left alone
MAX_JUMPS = 0.05  # of the steps from line to line
FEW_JUMPS = 2  # a footer that is drawn first makes two
RISE = 2.0  # ems upwards
GUTTER = 1.0  # ems
NARROW_GUTTER = 0.7  # between columns of prose, whose boxes are as high as recognised lines look
BROAD = 12.0  # ems of a line of prose
COLUMN_LINES = 3  # lines that each side of a gutter has, at least
COLUMN_SHARE = 0.5  # of the height that both sides together take: how much each side has
SAME_ROW = 0.5  # of a line's height
MAX_DEPTH = 60


def in_reading_order(lines: Sequence[Line]) -> tuple[Line, ...]:
    """The lines as they are read: as they were drawn, run by run, or cut by geometry where they jump about."""
    placed = [(line, line.bbox) for line in lines if line.bbox is not None]
    if len(placed) < len(lines):
        return tuple(lines)
    jumps = len(placed) >= MIN_LINES and _jumps_about(placed)
    return tuple(line for line, _ in (_cut(placed, 0) if jumps else from_the_top(placed)))


def cut_by_places(lines: Sequence[Line]) -> tuple[Line, ...]:
    """Lines that come in no order at all, as text recognition gives them, in the order of their places."""
    placed = [(line, line.bbox) for line in lines if line.bbox is not None]
    return tuple(line for line, _ in _cut(placed, 0, NARROW_GUTTER))


def _jumps_about(placed: Sequence[Placed]) -> bool:
    return sum(_is_jump(*pair) for pair in pairwise(placed)) > max(FEW_JUMPS, MAX_JUMPS * len(placed))


def _is_jump(before: Placed, after: Placed) -> bool:
    """Whether the next line stands above the last, and not at the top of a column to its right."""
    rise = before[1][1] - after[1][1]
    return rise > RISE * (after[0].font_size or 10.0) and after[1][0] < before[1][2]


def _cut(placed: list[Placed], depth: int, gutter: float = GUTTER) -> list[Placed]:
    if len(placed) < 2 or depth > MAX_DEPTH:
        return _row_by_row(placed)
    parts = _by_gutter(placed, gutter) or _by_gap(placed)
    if parts is None:
        return _row_by_row(placed)
    return [item for part in parts for item in _cut(part, depth + 1, gutter)]


def _row_by_row(placed: Sequence[Placed]) -> list[Placed]:
    """Lines whose middles are level make a row; for what overlaps so that no gap is left."""
    rows: list[list[Placed]] = []
    for item in sorted(placed, key=_middle):
        if rows and _middle(item) - _middle(rows[-1][0]) < SAME_ROW * (item[1][3] - item[1][1]):
            rows[-1].append(item)
        else:
            rows.append([item])
    return [item for row in rows for item in sorted(row, key=lambda item: item[1][0])]


def _middle(item: Placed) -> float:
    return (item[1][1] + item[1][3]) / 2


def _by_gutter(placed: Sequence[Placed], gutter: float) -> tuple[list[Placed], list[Placed]] | None:
    """Two columns with an empty strip between them, less than an em if both are prose; None: there is none."""
    size = _size(placed)
    wide = len(_gaps(placed, 0, GUTTER * size))
    for number, place in enumerate(_gaps(placed, 0, gutter * size)):
        left = [item for item in placed if item[1][2] <= place]
        right = [item for item in placed if item[1][2] > place]
        if min(len(left), len(right)) < COLUMN_LINES:
            continue
        if number >= wide and min(_width(left), _width(right)) < BROAD * size:
            continue
        if min(_height(left), _height(right)) >= COLUMN_SHARE * _height(placed):
            return left, right
    return None


def _by_gap(placed: Sequence[Placed]) -> tuple[list[Placed], list[Placed]] | None:
    """What is above and what is below the widest gap between rows; None: all stand in one row."""
    gaps = _gaps(placed, 1, 0.0)
    if not gaps:
        return None
    above = [item for item in placed if item[1][3] <= gaps[0]]
    return above, [item for item in placed if item[1][3] > gaps[0]]


def _gaps(placed: Sequence[Placed], axis: int, least: float) -> list[float]:
    """Middles of the empty strips across the axis (0: x, 1: y), the widest first."""
    spans = sorted((box[axis], box[axis + 2]) for _, box in placed)
    found: list[tuple[float, float]] = []
    end = spans[0][1]
    for start, stop in spans[1:]:
        if start - end > least:
            found.append((start - end, (start + end) / 2))
        end = max(end, stop)
    return [middle for _, middle in sorted(found, reverse=True)]


def _height(placed: Sequence[Placed]) -> float:
    return max(box[3] for _, box in placed) - min(box[1] for _, box in placed)


def _width(placed: Sequence[Placed]) -> float:
    """Of a line, as most are."""
    widths = sorted(box[2] - box[0] for _, box in placed)
    return widths[len(widths) // 2]


def _size(placed: Sequence[Placed]) -> float:
    sizes = sorted(line.font_size or box[3] - box[1] for line, box in placed)
    return sizes[len(sizes) // 2]
