"""Line numbers in the margin, as court pleadings and bills of law have them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from qwen_batch.clean.edges import in_table
from qwen_batch.clean.numbered_lines import strip_numbers
from qwen_batch.clean.removals import without_lines
from qwen_batch.records import BBox, Line, Page, Removal

REASON = "line_number"
MIN_NUMBERS = 10  # counting up by one, from the top of the page to its foot
STEPS = (1, 5)  # bills of law number every fifth line
FEW_NUMBERS = 4  # of these
SHORT = 2  # of those that go on from the page before
MAX_DIGITS = 4
PLACE_TOLERANCE = 6.0  # points between right edges
SPACE_TOLERANCE = 2.5  # points that the distance of two numbers may differ from the others
MARGIN_SHARE = 0.2  # of the page's width
HEIGHT_SHARE = 0.4  # of the page, at least, from the first number to the last

_Numbered = tuple[int, Line, BBox, int]  # index, line, place, value


class _Before(NamedTuple):
    """What the pages so far tell about those that follow."""

    ends: frozenset[int] = frozenset()  # the last numbers of the page before
    places: tuple[float, ...] = ()  # where columns end at the right


def remove_line_numbers(pages: Sequence[Page]) -> tuple[tuple[Page, ...], tuple[Removal, ...]]:
    """Take out columns of bare numbers in a margin that count evenly down the page, or go on from the page before, and
    such numbers that were read with the text of their line."""
    found: list[set[int]] = []
    before = _Before()
    for page in pages:
        columns = _of_page(page, before)
        found.append({item[0] for column in columns for item in column})
        ends = frozenset(column[-1][3] for column in columns)
        before = _Before(ends or before.ends, tuple({*before.places, *(round(column[-1][2][2]) for column in columns)}))
    kept, removed = without_lines(pages, lambda page_index, number: REASON if number in found[page_index] else None)
    kept, stripped = strip_numbers(kept, REASON)
    return kept, (*removed, *stripped)


def _of_page(page: Page, before: _Before) -> list[list[_Numbered]]:
    """The columns of line numbers of a page. The one at the right may go on from the one at the left."""
    numbers = [
        (index, line, line.bbox, int(line.text))
        for index, line in enumerate(page.lines)
        if line.bbox
        and len(line.text) <= MAX_DIGITS
        and line.text.isascii()
        and line.text.isdigit()
        and not in_table(line, page)
    ]
    found: list[list[_Numbered]] = []
    ends = set(before.ends)
    for step in STEPS:
        columns = _columns(sorted(numbers, key=lambda item: item[2][1]), step)
        for column in sorted(columns, key=lambda column: column[0][3]):
            goes_on = column[0][3] - step in ends
            alone = step == 1 or len(column) == sum(_is_level(item, column[0]) for item in numbers)
            if not alone or not (goes_on or column[0][3] <= max(step, 2)):
                continue
            if _is_margin(column, page, step) or (goes_on and _is_known(column, before.places)):
                found.append(column)
                ends.add(column[-1][3])
    return found


def _is_known(column: Sequence[_Numbered], places: Sequence[float]) -> bool:
    """Whether a column stands where those of other pages do; then it may be short, and uneven at headings."""
    return len(column) >= SHORT and any(abs(column[-1][2][2] - place) < PLACE_TOLERANCE for place in places)


def _columns(numbers: Sequence[_Numbered], step: int, tolerance: float = PLACE_TOLERANCE) -> Iterator[list[_Numbered]]:
    """Runs that count by the step, one below the other."""
    rest = list(numbers)
    while rest:
        run = [rest.pop(0)]
        for item in list(rest):
            if _is_level(item, run[-1], tolerance) and item[3] == run[-1][3] + step:
                run.append(item)
                rest.remove(item)
        yield run


def _is_level(item: _Numbered, other: _Numbered, tolerance: float = PLACE_TOLERANCE) -> bool:
    return abs(item[2][2] - other[2][2]) < tolerance


def _is_margin(column: Sequence[_Numbered], page: Page, step: int) -> bool:
    width, height = page.width or 0.0, page.height or 0.0
    if len(column) < (MIN_NUMBERS if step == 1 else FEW_NUMBERS):
        return False
    if column[-1][2][3] - column[0][2][1] < HEIGHT_SHARE * height:
        return False
    gaps = sorted(after[2][1] - before[2][1] for before, after in pairwise(column))
    if gaps[-1] - gaps[0] > SPACE_TOLERANCE:
        return False
    left, right = min(item[2][0] for item in column), max(item[2][2] for item in column)
    return right < MARGIN_SHARE * width or left > (1 - MARGIN_SHARE) * width
