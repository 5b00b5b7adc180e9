"""Where the letters of a line of characters stand, against which raised digits are measured."""

from __future__ import annotations

import math
from typing import NamedTuple

from qwen_batch.read.page.chars import PageChars

RISE = 0.3  # of its own height that a digit must stand above its line
LEVEL = 0.15  # of the letters' height: what differs less stands on the line
MIN_LEVEL = 0.6  # share of a line's letters on the line; a slanted or upright line has none
SMALLER = 0.9  # of the tallest letter of the line: a raised digit is smaller
SMALLEST = 0.25  # the same: digits that a font lacks have boxes without height
# Beside Chinese letters, which are taller than digits and reach below them, every digit is small and raised a little.
WIDE_SHARE, WIDE_RISE, WIDE_SMALLER = 0.25, 0.7, 0.62
_FIRST_WIDE = "\u0590"  # Hebrew, Arabic and Indian letters reach below the line as well


class Span(NamedTuple):
    """A line of characters, and where its letters stand, in points."""

    start: int
    end: int
    base: float  # where letters end, points from the top; infinite: the line is not level
    height: float  # of its tallest letter
    x0: float
    x1: float
    rise: float = RISE  # of its own height that a raised digit must stand above `base`
    smaller: float = SMALLER  # the height that it must be below, of `height`


def measure(chars: PageChars, start: int, end: int) -> Span:
    letters = [number for number in range(start, end) if chars.text[number].isalnum()]
    drawn = [number for number in range(start, end) if chars.x0[number] != math.inf]
    bottoms = sorted(chars.bottom[number] for number in letters)
    height = max((chars.bottom[number] - chars.top[number] for number in letters), default=0.0)
    base = bottoms[len(bottoms) // 2] if bottoms else math.inf
    if sum(abs(bottom - base) < LEVEL * height for bottom in bottoms) < MIN_LEVEL * len(bottoms):
        base = math.inf
    firm = [number for number in drawn if chars.bottom[number] > base - LEVEL * height] or drawn
    x0, x1 = min(chars.x0[number] for number in firm), max(chars.x1[number] for number in firm)
    num_wide = sum(chars.text[number] > _FIRST_WIDE for number in letters)
    limits = (WIDE_RISE, WIDE_SMALLER) if num_wide > WIDE_SHARE * len(letters) else (RISE, SMALLER)
    return Span(start, end, base, height, x0, x1, *limits)


def stands_on(chars: PageChars, number: int, span: Span) -> bool:
    return abs(chars.bottom[number] - span.base) < LEVEL * span.height or chars.bottom[number] > span.base


def is_raised(chars: PageChars, number: int, span: Span) -> bool:
    height = chars.bottom[number] - chars.top[number]
    return SMALLEST < height / span.height < span.smaller and chars.bottom[number] < span.base - span.rise * height
