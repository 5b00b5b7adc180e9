"""Line numbers in the margin, as court pleadings and bills of law have them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from qwen_batch.clean.edges import in_table
from qwen_batch.clean.markers import has_columns
from qwen_batch.clean.removals import without_lines
from qwen_batch.records import BBox, Line, Page, Removal

REASON = "line_number"
MIN_NUMBERS = 10  # counting up by one, from the top of the page to its foot
STEPS = (1, 5)  # bills of law number every fifth line
FEW_NUMBERS = 4  # of these
PLACE_TOLERANCE = 6.0  # points between right edges
SPACE_TOLERANCE = 2.5  # points that the distance of two numbers may differ from the others
MARGIN_SHARE = 0.2  # of the page's width
HEIGHT_SHARE = 0.4  # of the page, at least, from the first number to the last

MIN_PAGES_BEFORE_TEXT = 2
DIGIT_SHIFT = 12.0  # points: numbers of one digit and of two may begin so far apart
_BEFORE_TEXT = re.compile(r"(\d{1,2})\s{2,}(?=\S)")

_Numbered = tuple[int, Line, BBox, int]  # index, line, place, value


def remove_line_numbers(pages: Sequence[Page]) -> tuple[tuple[Page, ...], tuple[Removal, ...]]:
    """Take out columns of bare numbers in a margin that count evenly down the page, and such numbers before the text
    of a line, as transcripts have them."""
    found = [set(_of_page(page)) for page in pages]
    kept, removed = without_lines(pages, lambda page_index, number: REASON if number in found[page_index] else None)
    before_text = [_before_text(page) for page in kept]
    if sum(bool(places) for places in before_text) < MIN_PAGES_BEFORE_TEXT:  # on one page it may be a list
        return kept, removed
    taken = [_stripped(page, places) for page, places in zip(kept, before_text, strict=True)]
    return tuple(page for page, _ in taken), (*removed, *(each for _, some in taken for each in some))


def _before_text(page: Page) -> frozenset[int]:
    """Indices of the lines that begin with a number of such a column."""
    numbers = [
        (index, line, (line.bbox[0], line.bbox[1], line.bbox[0], line.bbox[3]), int(match[1]))
        for index, line in enumerate(page.lines)
        if line.bbox and (match := _BEFORE_TEXT.match(line.text)) and not in_table(line, page)
    ]
    for column in _columns(sorted(numbers, key=lambda item: item[2][1]), 1, DIGIT_SHIFT):
        plain = sum(not has_columns(line.text[2:].strip()) for _, line, _, _ in column)
        if plain > len(column) / 2 and column[0][3] == 1 and _is_margin(column, page, 1):
            return frozenset(index for index, _, _, _ in column)
    return frozenset()


def _stripped(page: Page, places: frozenset[int]) -> tuple[Page, list[Removal]]:
    lines, removed = list(page.lines), list[Removal]()
    for index in sorted(places):
        line = lines[index]
        number, rest = line.text.split(None, 1)
        removed.append(Removal(page.page_number, number, REASON))
        box = line.bbox
        if box is not None:  # where the rest begins is not known, but in proportion
            shift = (box[2] - box[0]) * (len(line.text) - len(rest)) / len(line.text)
            box = box[0] + shift, *box[1:]
        lines[index] = dataclasses.replace(line, text=rest, bbox=box)
    return dataclasses.replace(page, lines=tuple(lines)), removed


def _of_page(page: Page) -> Iterator[int]:
    numbers = [
        (index, line, line.bbox, int(line.text))
        for index, line in enumerate(page.lines)
        if line.bbox and len(line.text) < 4 and line.text.isascii() and line.text.isdigit() and not in_table(line, page)
    ]
    for step in STEPS:
        for column in _columns(sorted(numbers, key=lambda item: item[2][1]), step):
            alone = step == 1 or len(column) == sum(_is_level(item, column[0]) for item in numbers)
            if alone and _is_margin(column, page, step):
                yield from (item[0] for item in column)


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
    if len(column) < (MIN_NUMBERS if step == 1 else FEW_NUMBERS) or column[0][3] > max(step, 2):
        return False
    if column[-1][2][3] - column[0][2][1] < HEIGHT_SHARE * height:
        return False
    gaps = sorted(after[2][1] - before[2][1] for before, after in pairwise(column))
    if gaps[-1] - gaps[0] > SPACE_TOLERANCE:
        return False
    left, right = min(item[2][0] for item in column), max(item[2][2] for item in column)
    return right < MARGIN_SHARE * width or left > (1 - MARGIN_SHARE) * width
