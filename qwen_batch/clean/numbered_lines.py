"""Line numbers that were read with the text of their line: `12 of the goods, which`, or `the fair, the lost   10`.

A list counts too. What tells line numbers: the lines are prose that goes on from line to line, or exactly four lines
stand between one number and the next; and they begin, or end, at one place in the margin, evenly down the page.
Where one page shows that, shorter columns at the same place on others are line numbers as well.
"""

from __future__ import annotations

import bisect
import math
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

from qwen_batch.clean.edges import in_table
from qwen_batch.clean.markers import has_columns, starts_lower
from qwen_batch.records import BBox, Line, Page, Removal

Side = Literal["left", "right"]
COLUMNS: tuple[tuple[Side, int], ...] = (("left", 1), ("left", 5), ("right", 5))  # where numbers are, and their step
MIN_PAGES_SPACED = 2
ENOUGH = {1: 10, 5: 4}  # numbers on a page that shows what they are
FEW = 3  # numbers at the same place on another page
SHIFT = 12.0  # points: numbers of one digit and of two may begin so far apart
SPACE_TOLERANCE = 2.5  # points that the distance of two numbers may differ from the others
MARGIN_SHARE = 0.2  # of the page's width
HEIGHT_SHARE = {1: 0.4, 5: 0.2}  # of the page, at least, from the first number to the last
LOWER_SHARE = 0.4  # of the lines begin in the middle of a sentence; items of lists hardly do
FULL_SHARE = 0.75  # of the longest line: most lines of prose are as long
BETWEEN_SHARE = 0.8  # of the gaps have four lines in them
ROW = 0.5  # of the font size: lines closer to each other stand in one row
_BEFORE = re.compile(r"(\d{1,3})(\s+)(?=\S)", re.ASCII)
_AFTER = re.compile(r"(?<=\S)(\s{3,})(\d{1,3})$", re.ASCII)
_ALONE = re.compile(r"\d{1,3}", re.ASCII)


class Numbered(NamedTuple):
    """A line with a number, and what is left of it without."""

    line_index: int  # into the lines of the page
    value: int
    place: float  # where the number begins, at the left, or ends, at the right; points
    top: float
    rest: str  # "": the number stands alone
    gap: str  # blanks between the number and the rest


def strip_numbers(pages: Sequence[Page], reason: str) -> tuple[tuple[Page, ...], tuple[Removal, ...]]:
    """The pages without line numbers that stand in one line with its text."""
    removed: list[Removal] = []
    done = [
        page if not found else _stripped(page, found, reason, removed)
        for page, found in zip(pages, _find(pages), strict=True)
    ]
    return tuple(done), tuple(removed)


def _find(pages: Sequence[Page]) -> list[list[Numbered]]:
    """For each page the lines whose number is a line number."""
    with_numbers = [list(_with_number(page)) for page in pages]
    for side, step in COLUMNS:
        columns = [
            _counting(list(_of_side(page, lines, side)), step) if lines else []
            for page, lines in zip(pages, with_numbers, strict=True)
        ]
        certain = [column for column, page in zip(columns, pages, strict=True) if _is_certain(column, page, step)]
        spaced = [column for column, page in zip(columns, pages, strict=True) if _is_spaced(column, page, step)]
        if certain or len(spaced) >= MIN_PAGES_SPACED:
            model = (certain or spaced)[0]
            return [column if _is_like(column, model) else [] for column in columns]
    return [[] for _ in pages]


def _with_number(page: Page) -> Iterator[tuple[int, Line, BBox]]:
    """The lines that begin or end with a number."""
    for index, line in enumerate(page.lines):
        if (line.text[:1].isdecimal() or line.text[-1:].isdecimal()) and line.bbox and not in_table(line, page):
            yield index, line, line.bbox


def _of_side(page: Page, lines: Sequence[tuple[int, Line, BBox]], side: Side) -> Iterator[Numbered]:
    """The lines that begin, or end, with a number in that margin."""
    width = page.width or 0.0
    for index, line, box in lines:
        place = box[0] if side == "left" else box[2]
        if not (place < MARGIN_SHARE * width if side == "left" else place > (1 - MARGIN_SHARE) * width):
            continue
        if _ALONE.fullmatch(line.text):
            yield Numbered(index, int(line.text), place, box[1], "", "")
        elif side == "left" and (match := _BEFORE.match(line.text)):
            yield Numbered(index, int(match[1]), place, box[1], line.text[match.end() :], match[2])
        elif side == "right" and (match := _AFTER.search(line.text)):
            yield Numbered(index, int(match[2]), place, box[1], line.text[: match.start()], match[1])


def _counting(lines: Sequence[Numbered], step: int) -> list[Numbered]:
    """The longest column that counts by the step, unless more lines count one by one: that is a list."""
    column = _longest(lines, step)
    return column if step == 1 or len(_longest(lines, 1)) <= len(column) else []


def _longest(lines: Sequence[Numbered], step: int) -> list[Numbered]:
    """The longest column that counts by the step, one number below the other; by fives only through multiples."""
    columns: dict[int, list[Numbered]] = {}  # by their last value
    best: list[Numbered] = []
    for line in sorted(lines, key=lambda line: line.top):
        if line.value % step:
            continue
        column = columns.pop(line.value - step, [])
        if column and abs(line.place - column[0].place) >= SHIFT:
            column = []
        column.append(line)
        columns[line.value] = column
        best = max(best, column, key=len)
    return best


def _is_certain(column: Sequence[Numbered], page: Page, step: int) -> bool:
    """Whether a page shows by itself that a column is one of line numbers."""
    if not _covers(column, page, step):
        return False
    if step > 1:
        return _have_lines_between(column, page, step - 1)
    rests = [line.rest for line in column if line.rest]
    if not rests:
        return False
    lower = sum(map(starts_lower, rests))
    longest = max(map(len, rests))
    full = sum(len(rest) >= FULL_SHARE * longest for rest in rests)
    return lower >= LOWER_SHARE * len(rests) and 2 * full > len(rests) and _is_even(column) and _is_plain(column)


def _is_spaced(column: Sequence[Numbered], page: Page, step: int) -> bool:
    """Whether a column may be one of line numbers if another page has it too: numbers from 1, well before the text."""
    if step > 1 or not _covers(column, page, step) or column[0].value > 1:
        return False
    gaps = [line.gap for line in column if line.rest]
    return bool(gaps) and all(len(gap) > 1 for gap in gaps) and _is_even(column) and _is_plain(column)


def _covers(column: Sequence[Numbered], page: Page, step: int) -> bool:
    height = column[-1].top - column[0].top if column else 0.0
    return len(column) >= ENOUGH[step] and height >= HEIGHT_SHARE[step] * (page.height or 0.0)


def _is_plain(column: Sequence[Numbered]) -> bool:
    """False for the rows of a table."""
    return 2 * sum(has_columns(line.rest) for line in column) < len(column)


def _is_even(column: Sequence[Numbered]) -> bool:
    gaps = _gaps(column)
    return max(gaps) - min(gaps) <= SPACE_TOLERANCE


def _have_lines_between(column: Sequence[Numbered], page: Page, wanted: int) -> bool:
    """Whether so many rows of text stand between one number and the next."""
    sizes = sorted(line.font_size or 0.0 for line in page.lines)
    height = ROW * sizes[len(sizes) // 2]
    tops = sorted(line.bbox[1] for line in page.lines if line.bbox and line.text.strip())
    rows = [top for before, top in pairwise([-math.inf, *tops]) if top - before > height]
    between = [
        bisect.bisect(rows, below.top - height) - bisect.bisect(rows, above.top + height)
        for above, below in pairwise(column)
    ]
    return sum(number == wanted for number in between) >= BETWEEN_SHARE * len(between)


def _is_like(column: Sequence[Numbered], model: Sequence[Numbered]) -> bool:
    """Whether a column stands where the model stands, its numbers as far apart."""
    if len(column) < FEW or abs(column[0].place - model[0].place) > SHIFT:
        return False
    usual = _usual_gap(model)
    return sum(abs(gap - usual) <= SPACE_TOLERANCE for gap in _gaps(column)) > len(column) / 2 - 1


def _gaps(column: Sequence[Numbered]) -> list[float]:
    return [below.top - above.top for above, below in pairwise(column)]


def _usual_gap(column: Sequence[Numbered]) -> float:
    gaps = sorted(_gaps(column))
    return gaps[len(gaps) // 2]


def _stripped(page: Page, found: Sequence[Numbered], reason: str, removed: list[Removal]) -> Page:
    lines: list[Line | None] = list(page.lines)
    for numbered in sorted(found):
        removed.append(Removal(page.page_number, str(numbered.value), reason))
        lines[numbered.line_index] = _rest(page.lines[numbered.line_index], numbered)
    return page._replace(lines=tuple(line for line in lines if line is not None))


def _rest(line: Line, numbered: Numbered) -> Line | None:
    """A line without its number. Where the rest begins or ends is not known, but in proportion."""
    if not numbered.rest or line.bbox is None:
        return None
    x0, top, x1, bottom = line.bbox
    width = (x1 - x0) * len(numbered.rest) / len(line.text)
    box = (x1 - width, top, x1, bottom) if line.text.endswith(numbered.rest) else (x0, top, x0 + width, bottom)
    return line._replace(text=numbered.rest, bbox=box)
