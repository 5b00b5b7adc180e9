"""Raised digits that pdfium gives as lines of their own, and the lines in which they stand."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Sequence

from qwen_batch.read.page.chars import PageChars
from qwen_batch.read.page.raised_spans import Span, is_raised

LONE_SMALLER = 0.8  # of the letters of the page: a mark that was drawn by itself
BEFORE = 1.2  # of the letters' height, between a mark and its note
FOLLOWS = 0.4  # of the letters' height, at most, between a word and a mark that was drawn apart
BESIDE = 2.0  # of the letters' height: what ends closer to a mark has it, not what begins right of it
TYPICAL = 60  # letters and digits that tell how tall they are
_LONE = re.compile(r"(?<![^\r\n\x02])[^\S\r\n]*([0-9]{1,3})[^\S\r\n]*(?=[\r\n]|$)")
_TALL = re.compile("[A-Z0-9]")
_TALL_WIDE = ("\u3400", "\u9fff"), ("\uac00", "\ud7a3")  # the first and the last; a pattern takes 2 ms to compile


def lone_marks(chars: PageChars) -> Iterator[list[int]]:
    """Small digits that pdfium gives as lines of their own."""
    lone = [list(range(*match.span(1))) for match in _LONE.finditer(chars.text)]
    if not lone:
        return
    sample = itertools.islice(_tall(chars.text), TYPICAL)
    tall = sorted(chars.bottom[place] - chars.top[place] for place in sample)
    for mark in lone:
        typical = tall[len(tall) // 2] if tall else 0.0
        if chars.bottom[mark[0]] - chars.top[mark[0]] < LONE_SMALLER * typical:
            yield mark


def _tall(text: str) -> Iterator[int]:
    """Where capitals, digits, ideographs and Korean syllables stand."""
    if max(text) < _TALL_WIDE[0][0]:
        return (match.start() for match in _TALL.finditer(text))
    return (
        place
        for place, char in enumerate(text)
        if _TALL.match(char) or any(first <= char <= last for first, last in _TALL_WIDE)
    )


def foot_of(chars: PageChars, start: int, end: int) -> float:
    """Where the first letter of a line ends, points from the top."""
    first = next((number for number in range(start, end) if chars.x0[number] != math.inf), start)
    return chars.bottom[first]


def host_of(chars: PageChars, mark: Sequence[int], near: Sequence[Span]) -> Span | None:
    """The line in which a mark stands: behind one of its words or, where nothing stands left of it, before them."""
    x0, x1 = chars.x0[mark[0]], chars.x1[mark[-1]]
    first: Span | None = None
    for span in near:
        if span.base == math.inf or chars.bottom[mark[0]] < span.base - 1.2 * span.height:
            continue
        reach = FOLLOWS * span.height
        drawn = [number for number in range(span.start, span.end) if chars.x0[number] != math.inf]
        left = max((chars.x1[number] for number in drawn if chars.x0[number] < x0), default=-math.inf)
        if not is_raised(chars, mark[0], span) or not any(chars.text[number].isalpha() for number in drawn):
            continue
        if x0 - left < reach and x0 < span.x1 + reach:
            return span
        if left == -math.inf and span.x0 - x1 < BEFORE * span.height:
            first = span
    is_open = not any(span.x0 < x0 and span.x1 > x0 - BESIDE * span.height for span in near)
    return first if is_open else None
