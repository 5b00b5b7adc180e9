"""Where the letters of a line of characters stand, against which raised digits are measured."""

from __future__ import annotations

import math
import operator
from itertools import compress
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
    text, top, bottom = chars.text[start:end], chars.top[start:end], chars.bottom[start:end]
    are_letters = [char.isalnum() for char in text]
    bottoms = sorted(compress(bottom, are_letters))
    height = max(map(operator.sub, compress(bottom, are_letters), compress(top, are_letters)), default=0.0)
    base = bottoms[len(bottoms) // 2] if bottoms else math.inf
    if sum([abs(place - base) < LEVEL * height for place in bottoms]) < MIN_LEVEL * len(bottoms):
        base = math.inf
    least = base - LEVEL * height
    x0, x1 = chars.x0[start:end], chars.x1[start:end]
    if any(map(least.__lt__, bottom)):  # white space has no place
        are_firm = list(map(least.__lt__, bottom))
        x0, x1 = list(compress(x0, are_firm)), list(compress(x1, are_firm))
    num_wide = sum(char > _FIRST_WIDE for char in compress(text, are_letters))
    limits = (WIDE_RISE, WIDE_SMALLER) if num_wide > WIDE_SHARE * len(bottoms) else (RISE, SMALLER)
    return Span(start, end, base, height, min(x0), max(x1), *limits)


def stands_on(chars: PageChars, number: int, span: Span) -> bool:
    return abs(chars.bottom[number] - span.base) < LEVEL * span.height or chars.bottom[number] > span.base


def is_raised(chars: PageChars, number: int, span: Span) -> bool:
    height = chars.bottom[number] - chars.top[number]
    return SMALLEST < height / span.height < span.smaller and chars.bottom[number] < span.base - span.rise * height
