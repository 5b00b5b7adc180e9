"""The gutter between two columns of prose: tables may stand in one of them, beside the text of the other."""

from __future__ import annotations

from collections.abc import Sequence

from qwen_batch.read.page.words import Row, Word, rows_of
from qwen_batch.read.tables.rivers import rivers

MIDDLE = (0.35, 0.65)  # of the width of the text
CROSSED = 0.25  # of the rows: titles, pictures and tables over both columns
MIN_GUTTER = 0.8  # ems
FULL = 0.7  # of a column's width that the words of a line of prose fill
MIN_FULL = (8, 4)  # lines of prose in one column and in the other


def columns_of(rows: Sequence[Row]) -> list[list[Row]]:
    """The rows of the left and of the right column of a page of prose; empty, if it has no two columns."""
    if len(rows) < sum(MIN_FULL):
        return []
    left, right = min(row[0].x0 for row in rows), max(max(word.x1 for word in row) for row in rows)
    low, high = (left + share * (right - left) for share in MIDDLE)
    for start, end in rivers(rows, MIN_GUTTER, CROSSED):
        middle = (start + end) / 2
        if low < middle < high:
            words = [word for row in rows for word in row if not word.x0 < middle < word.x1]
            sides = [rows_of([w for w in words if w.x1 <= middle]), rows_of([w for w in words if w.x0 >= middle])]
            counts = sorted((_num_full(sides[0], start - left), _num_full(sides[1], right - end)), reverse=True)
            if counts[0] >= MIN_FULL[0] and counts[1] >= MIN_FULL[1]:
                return sides
    return []


def _num_full(rows: Sequence[Row], width: float) -> int:
    return sum(sum(map(_width, row)) >= FULL * width and len(row) > 2 for row in rows)


def _width(word: Word) -> float:
    return word.x1 - word.x0
