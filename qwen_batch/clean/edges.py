"""The lines near the edges of pages, where running heads and page numbers stand."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from qwen_batch.clean.removals import without_lines
from qwen_batch.records import BBox, Line, Page, Removal

Edge = Literal["top", "bottom", "side"]
EDGE_ROWS = 4  # rows at the top and at the bottom that are looked at
ROW_TOLERANCE = 3.0  # points: lines whose middles are closer stand in one row
SIDE_SHARE = 0.12  # of the page's width, at the left and at the right
_DIGITS = re.compile(r"\d+")
_ROMAN_AT_END = re.compile(r"^[ivxlc]{1,7}(?= )|(?<= )[ivxlc]{1,7}$")


class EdgeLine(NamedTuple):
    """A line that stands near an edge."""

    page_index: int  # into the pages of the document
    line_index: int  # into the lines of the page
    edge: Edge
    row: int  # from 0, the outermost
    offset: float  # points from that edge
    text: str
    size: float  # of the font, points
    inner_gap: float  # points to the next row towards the body


def mask(text: str) -> str:
    """The text with numbers hidden, for comparison over pages."""
    folded = " ".join(text.casefold().split())
    return _DIGITS.sub("#", _ROMAN_AT_END.sub("#", folded))


def edge_lines(pages: Sequence[Page]) -> list[EdgeLine]:
    """All lines near an edge, on all pages; lines inside tables are not among them."""
    return [line for index, page in enumerate(pages) for line in _of_page(index, page)]


def remove_lines(
    pages: Sequence[Page], found: Sequence[tuple[EdgeLine, str]]
) -> tuple[tuple[Page, ...], tuple[Removal, ...]]:
    """Take lines out; each comes with its reason."""
    reasons = {(line.page_index, line.line_index): reason for line, reason in found}
    return without_lines(pages, lambda page_index, number: reasons.get((page_index, number)))


def inside(box: BBox, outer: BBox, tolerance: float) -> bool:
    """Whether a box lies within another."""
    return (
        box[0] >= outer[0] - tolerance
        and box[1] >= outer[1] - tolerance
        and box[2] <= outer[2] + tolerance
        and box[3] <= outer[3] + tolerance
    )


def in_table(line: Line, page: Page) -> bool:
    """Whether a line is part of one of the page's tables."""
    if line.bbox is None or not page.tables:
        return False
    tolerance = max(2.0, 0.6 * (line.font_size or 0.0))
    return any(table.bbox is not None and inside(line.bbox, table.bbox, tolerance) for table in page.tables)


def _of_page(page_index: int, page: Page) -> Iterator[EdgeLine]:
    boxes = [
        (number, line, box)
        for number, line in enumerate(page.lines)
        if (box := line.bbox) is not None and line.text.strip()
    ]
    if page.tables:
        boxes = [entry for entry in boxes if not in_table(entry[1], page)]
    upright = [entry for entry in boxes if _is_vertical(entry)]
    rows = _rows([entry for entry in boxes if not _is_vertical(entry)] if upright else boxes)
    height = page.height or max((box[3] for _, _, box in boxes), default=0.0)
    for edge, ordered in (("top", rows), ("bottom", rows[::-1])):
        for position, row in enumerate(ordered[:EDGE_ROWS]):
            gap = _gap(row, ordered[position + 1]) if position + 1 < len(ordered) else float("inf")
            for number, line, box in row:
                offset = box[1] if edge == "top" else height - box[3]
                size = line.font_size or box[3] - box[1]
                name: Edge = "top" if edge == "top" else "bottom"
                yield EdgeLine(page_index, number, name, position, offset, line.text, size, gap)
    width = page.width or max((box[2] for _, _, box in boxes), default=0.0)
    for number, line, box in upright:
        if box[2] < SIDE_SHARE * width or box[0] > (1 - SIDE_SHARE) * width:
            yield EdgeLine(page_index, number, "side", 0, box[0], line.text, line.font_size or 0.0, 0.0)


_Entry = tuple[int, Line, BBox]


def _rows(entries: Sequence[_Entry]) -> list[list[_Entry]]:
    """Lines grouped into rows, from the top down."""
    rows: list[list[_Entry]] = []
    first = -math.inf  # the middle of the first line of a row
    for entry in sorted(entries, key=lambda item: item[2][1] + item[2][3]):
        middle = (entry[2][1] + entry[2][3]) / 2
        if middle - first <= ROW_TOLERANCE:
            rows[-1].append(entry)
        else:
            rows.append([entry])
            first = middle
    return rows


def _gap(row: Sequence[_Entry], other: Sequence[_Entry]) -> float:
    upper, lower = (row, other) if row[0][2][1] <= other[0][2][1] else (other, row)
    return min(box[1] for _, _, box in lower) - max(box[3] for _, _, box in upper)


def _is_vertical(entry: _Entry) -> bool:
    """Text that runs up or down the margin."""
    _, line, (x0, top, x1, bottom) = entry
    return bottom - top > 2 * (x1 - x0) and len(line.text) > 3
