"""Tables of two columns without rules: labels, and the amount of each flush with the others.

Contents, indexes and the lines of forms look alike: whole numbers behind leaders, or without a head, make no table.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from qwen_batch.read.page.words import Row, em_of, is_numeric, is_sign, middle_of, pieces_of
from qwen_batch.read.tables.columns import MAX_LEADING, make_table
from qwen_batch.read.tables.rivers import RIVER, is_leader
from qwen_batch.records import Table

MIN_PAIRS = 4
MIN_NAMED = 3  # pairs below a head, or all amounts
MAX_BETWEEN = 2  # lines of labels that go on, or that entitle the next ones
FLUSH = 0.6  # ems that the ends of amounts may differ
MAX_LABEL_WORDS = 12.0  # on average
HEAD_SHIFT = 2.0  # ems that a head may stand beside its amounts
AMOUNTS = 0.5  # of the right column
_AMOUNT = re.compile(r"[$€£¥%]|\d[.,]\d")
_EQUATION = re.compile(r"\([\d.]+[a-z]?\)")


class _Pair(NamedTuple):
    """A label and its amount."""

    place: int  # of the row among those of the page
    label: Row
    amount: Row
    led: bool  # by dots

    @property
    def text(self) -> str:
        return " ".join(word.text for word in self.amount)


def find_pairs(rows: Sequence[Row]) -> list[Table]:
    """The tables of two columns among the rows of a page, from the top down."""
    found: list[Table] = []
    run: list[_Pair] = []
    taken = 0
    for index, row in enumerate(rows):
        pair = _pair_of(index, row)
        if run and not (pair and _goes_on(rows, run, pair)):
            if index - run[-1].place <= MAX_BETWEEN and pair is None:
                continue
            found += _table_of(rows, run, taken)
            taken, run = run[-1].place + 1, []
        if pair:
            run.append(pair)
    return found + _table_of(rows, run, taken)


def _pair_of(index: int, row: Row) -> _Pair | None:
    words = [word for word in row if not is_leader(word)]
    pieces = pieces_of(words) if words else []
    if (
        len(pieces) != 2
        or len(pieces[1]) > 2
        or not all(is_numeric(word.text) or is_sign(word.text) for word in pieces[1])
    ):
        return None
    is_number = any(char.isdigit() for word in pieces[1] for char in word.text)
    return _Pair(index, pieces[0], pieces[1], len(words) < len(row)) if is_number else None


def _goes_on(rows: Sequence[Row], run: Sequence[_Pair], pair: _Pair) -> bool:
    """Whether a pair is close below a run, with its amount flush with the others, and no line between in the way."""
    last, em = run[-1], em_of(pair.amount)
    between = rows[last.place : pair.place + 1]
    steps = (middle_of(lower[0]) - middle_of(upper[0]) for upper, lower in pairwise(between))
    if len(between) > MAX_BETWEEN + 2 or any(step > MAX_LEADING * em for step in steps):
        return False
    left, right = _strip([*run, pair])
    if right - left < RIVER * em or any(row[-1].x1 > right or len(pieces_of(row)) > 1 for row in between[1:-1]):
        return False
    ends = (abs(pair.amount[-1].x1 - run[0].amount[-1].x1), abs(pair.amount[0].x0 - run[0].amount[0].x0))
    return min(ends) < FLUSH * em


def _strip(run: Sequence[_Pair]) -> tuple[float, float]:
    return max(pair.label[-1].x1 for pair in run), min(pair.amount[0].x0 for pair in run)


def _table_of(rows: Sequence[Row], run: Sequence[_Pair], taken: int) -> list[Table]:
    if len(run) < MIN_NAMED:
        return []
    start, end = _strip(run)
    head = _head_of(rows, run, taken)
    amounts = sum(_AMOUNT.search(pair.text) is not None for pair in run)
    if len(run) < MIN_PAIRS and not head and amounts < len(run):
        return []
    if amounts < AMOUNTS * len(run) and (not head or any(pair.led for pair in run)):
        return []
    if sum(len(pair.label) for pair in run) > MAX_LABEL_WORDS * len(run):
        return []
    if all(_EQUATION.fullmatch(pair.text) for pair in run):
        return []
    return [make_table(head, rows[run[0].place : run[-1].place + 1], [(start + end) / 2])]


def _head_of(rows: Sequence[Row], run: Sequence[_Pair], taken: int) -> list[Row]:
    """The row above, where it names the amounts."""
    first = run[0]
    if first.place <= taken:
        return []
    row, em = rows[first.place - 1], em_of(first.amount)
    start, end = _strip(run)
    right = max(pair.amount[-1].x1 for pair in run)
    pieces = pieces_of(row)
    named = pieces[-1]
    is_over = named[0].x0 > start and named[0].x0 < right and named[-1].x1 > end - HEAD_SHIFT * em
    is_near = middle_of(first.amount[0]) - middle_of(row[0]) < MAX_LEADING * em
    inside = row[-1].x1 < right + HEAD_SHIFT * em and row[0].x0 > first.label[0].x0 - HEAD_SHIFT * em
    return [row] if is_over and is_near and inside and len(pieces) <= 2 else []
