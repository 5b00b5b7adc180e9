"""Two pages on one sheet, as of a book that lies open: they are read one after the other.

A wide page with an empty strip down its middle may as well be one table. Two pages begin at the same distance from
their left edge, and their lines do not all stand level, or are as long as lines of prose. Sheets that are read from the
right are left alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from qwen_batch.read.page.chars import PageChars
from qwen_batch.read.page.rtl_letters import has_rtl_letters

WIDE = 1.2  # times as wide as high, at least
GUTTER = 0.03  # of the sheet's width, at least
SAME_MARGIN = 0.02  # of the same
MIN_SHARE = 0.2  # of the characters: how many each page has
MIN_CHARS = 200
LEVEL = 0.7  # share of a page's lines level with one of the other's: more are rows of a table
ROW_CHARS = 5  # characters of a line that counts
PROSE = 40  # characters in most lines of a page


def pages_on(chars: PageChars, size: tuple[float, float]) -> tuple[PageChars, ...]:
    """The characters of a page, or those of the left page and of the right one. Size: width and height, points."""
    width, height = size
    if width < WIDE * height or len(chars.text) < 2 * MIN_CHARS or has_rtl_letters(chars.text):
        return (chars,)
    inked = [number for number, char in enumerate(chars.text) if not char.isspace()]
    left = [number for number in inked if chars.x0[number] + chars.x1[number] < width]
    right = [number for number in inked if chars.x0[number] + chars.x1[number] >= width]
    if min(len(left), len(right)) < max(MIN_CHARS, MIN_SHARE * len(inked)):
        return (chars,)
    start, end = min(chars.x0[number] for number in right), max(chars.x1[number] for number in left)
    is_empty = end < width / 2 < start and start - end >= GUTTER * width
    margins = min(chars.x0[number] for number in left), start - width / 2
    if not is_empty or abs(margins[0] - margins[1]) > SAME_MARGIN * width or _is_table(_feet(chars, left, right)):
        return (chars,)
    is_left = [False] * len(chars.text)
    for number in left:
        is_left[number] = True
    return chars.only(is_left), chars.only([not here for here in is_left])


def _feet(chars: PageChars, *sides: Sequence[int]) -> list[Counter[int]]:
    """How many characters of each side stand on which line, by its foot in points."""
    return [Counter(round(chars.bottom[number]) for number in side) for side in sides]


def _is_table(feet: Sequence[Counter[int]]) -> bool:
    """Whether rows go on over the middle."""
    lines = [{foot: count for foot, count in side.items() if count >= ROW_CHARS} for side in feet]
    if not all(lines):
        return False
    is_prose = all(sorted(side.values())[len(side) // 2] >= PROSE for side in lines)
    level = [
        sum(any(foot + step in other for step in (-1, 0, 1)) for foot in own) for own, other in (lines, reversed(lines))
    ]
    return not is_prose and min(count / len(side) for count, side in zip(level, lines, strict=True)) > LEVEL
