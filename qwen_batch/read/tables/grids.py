"""From drawn rules to the cells of tables.

Rules that nearly coincide are one, pieces of one rule are joined, a cell is the smallest rectangle whose corners are
crossings with rules between them, and cells that share a corner make a table. This is how pdfplumber finds tables
(after Nurminen's thesis of 2013), which the tests compare it with; pdfplumber itself takes sixty milliseconds and
15 MB to load, and compares every crossing with every other.
"""

from __future__ import annotations

import math
import operator
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from qwen_batch.records import BBox

SNAP = 3.0  # points: rules closer than this are one
MIN_EDGE = 4.0  # points
SAME_ENDS = 4.0  # points that the ends of a table's level rules may differ
MIN_LEVEL, MIN_UPRIGHT = 3, 2  # strokes of a page
MIN_BANDS = 2  # between level rules, with rules between columns
MAX_TITLE = 30.0  # points: the height of a row that entitles a part of a table

Point = tuple[float, float]


class Rule(NamedTuple):
    """A horizontal rule at a height, or a vertical one at a distance from the left, and from where to where it goes."""

    place: float
    start: float
    end: float


class Rules(NamedTuple):
    """What rules a page, merged and in order; nothing where it is too little for a table."""

    level: list[Rule]
    upright: list[Rule]


class Crossing(NamedTuple):
    """Which vertical and which horizontal rules meet at a point, by their numbers."""

    vertical: set[int]
    horizontal: set[int]


def rules_of(edges: Sequence[BBox]) -> Rules:
    """The rules that the strokes of a page make."""
    level = [Rule(y, x0, x1) for x0, y, x1, bottom in edges if x1 - x0 > bottom - y]
    if len(level) < MIN_LEVEL:
        return Rules([], [])
    upright = [Rule(x, y0, y1) for x, y0, x1, y1 in edges if not x1 - x > y1 - y0]
    return Rules(merge_rules(set(level)), merge_rules(set(upright)) if len(upright) >= MIN_UPRIGHT else [])


def merge_rules(rules: Iterable[Rule]) -> list[Rule]:
    """Rules of one direction, those that nearly coincide at their mean place, joined where they touch."""
    found: list[Rule] = []
    for group in _groups(sorted(rules)):
        place = sum([rule[0] for rule in group]) / len(group)
        (_, start, end), *others = sorted(group, key=operator.itemgetter(1))
        for _, begin, stop in others:
            if begin <= end + SNAP:
                end = max(end, stop)
            else:
                found.append(Rule(place, start, end))
                start, end = begin, stop
        found.append(Rule(place, start, end))
    return [rule for rule in found if rule.end - rule.start >= MIN_EDGE]


def _groups(ordered: Sequence[Rule]) -> Iterator[list[Rule]]:
    group: list[Rule] = []
    reach = -math.inf  # no further can one of the group be
    for rule in ordered:
        if rule[0] > reach and group:
            yield group
            group = []
        group.append(rule)
        reach = rule[0] + SNAP
    if group:
        yield group


def groups_by_ends(rules: Iterable[Rule]) -> list[list[Rule]]:
    """Level rules that begin, and end, at the same places."""
    groups: list[list[Rule]] = []
    for rule in rules:
        for group in groups:
            if abs(group[0].start - rule.start) <= SAME_ENDS >= abs(group[0].end - rule.end):
                group.append(rule)
                break
        else:
            groups.append([rule])
    return groups


def close_sides(vertical: Sequence[Rule], horizontal: Sequence[Rule]) -> Iterator[Rule]:
    """The upright rules that are missing at the sides of tables whose rows are open there: where level rules of one
    width have rules between columns from one to the next."""
    for group in groups_by_ends(sorted(horizontal)):
        bands = [_Band(upper, lower, _divides(vertical, upper, lower)) for upper, lower in pairwise(group)]
        divided = [number for number, band in enumerate(bands) if band.is_divided]
        for number, band in enumerate(bands):
            is_title = (
                not band.is_divided and band.height <= MAX_TITLE and number - 1 in divided and number + 1 in divided
            )
            if len(divided) >= MIN_BANDS and (band.is_divided or is_title):
                start, end = min(band.upper.start, band.lower.start), max(band.upper.end, band.lower.end)
                yield Rule(start, band.upper.place, band.lower.place)
                yield Rule(end, band.upper.place, band.lower.place)


class _Band(NamedTuple):
    """What lies between two level rules."""

    upper: Rule
    lower: Rule
    is_divided: bool

    @property
    def height(self) -> float:
        return self.lower.place - self.upper.place


def _divides(vertical: Sequence[Rule], upper: Rule, lower: Rule) -> bool:
    """Whether a rule goes from one to the other, well within their ends."""
    left, right = upper.start + SAME_ENDS, upper.end - SAME_ENDS
    return any(
        left < rule.place < right and rule.start <= upper.place + SNAP and rule.end >= lower.place - SNAP
        for rule in vertical
    )


def find_cells(vertical: Sequence[Rule], horizontal: Sequence[Rule]) -> list[list[BBox]]:
    """The cells of each table, tables from the top down."""
    cells = _cells(_crossings(vertical, sorted(horizontal)))
    return sorted(_tables(cells), key=lambda table: min((cell[1], cell[0]) for cell in table))


def _crossings(vertical: Sequence[Rule], horizontal: Sequence[Rule]) -> dict[Point, Crossing]:
    """`horizontal` must be sorted."""
    heights = [rule.place for rule in horizontal]
    found: dict[Point, Crossing] = {}
    for number, rule in enumerate(vertical):
        first, after = bisect_left(heights, rule.start - SNAP), bisect_right(heights, rule.end + SNAP)
        for other in range(first, after):
            across = horizontal[other]
            if across.start - SNAP <= rule.place <= across.end + SNAP:
                crossing = found.setdefault((rule.place, across.place), Crossing(set(), set()))
                crossing.vertical.add(number)
                crossing.horizontal.add(other)
    return found


def _cells(crossings: dict[Point, Crossing]) -> list[BBox]:
    below: dict[float, list[float]] = defaultdict(list)
    beside: dict[float, list[float]] = defaultdict(list)
    for x, y in sorted(crossings):
        below[x].append(y)
        beside[y].append(x)
    found = (_smallest_cell(x, y, crossings, below[x], beside[y]) for x, y in sorted(crossings))
    return [cell for cell in found if cell is not None]


def _smallest_cell(
    x: float, y: float, crossings: dict[Point, Crossing], ys: Sequence[float], xs: Sequence[float]
) -> BBox | None:
    """The smallest cell whose upper left corner is (x, y); `ys` and `xs`: all crossings below each other, and beside
    each other, ascending."""
    here = crossings[x, y]
    right = [(other, at) for other in xs[bisect_right(xs, x) :] if here.horizontal & (at := crossings[other, y])[1]]
    for bottom in ys[bisect_right(ys, y) :] if right else ():
        low = crossings[x, bottom]
        if not here.vertical & low.vertical:
            continue
        for other, high in right:
            corner = crossings.get((other, bottom))
            if corner and corner.vertical & high.vertical and corner.horizontal & low.horizontal:
                return x, y, other, bottom
    return None


def _tables(cells: Sequence[BBox]) -> Iterator[list[BBox]]:
    """Cells that share a corner, directly or through others."""
    at: dict[Point, list[int]] = defaultdict(list)
    for number, cell in enumerate(cells):
        for corner in _corners(cell):
            at[corner].append(number)
    left = dict.fromkeys(range(len(cells)))
    while left:
        reached = [left.popitem()[0]]
        for number in reached:  # grows meanwhile
            near = (other for corner in _corners(cells[number]) for other in at[corner])
            for other in near:
                if other in left:
                    del left[other]
                    reached.append(other)
        yield [cells[number] for number in reached]


def _corners(cell: BBox) -> tuple[Point, Point, Point, Point]:
    x0, top, x1, bottom = cell
    return (x0, top), (x0, bottom), (x1, top), (x1, bottom)
