"""Blanks that pdfium sees between the letters of a word whose letters stand on a grid, as listings set in LaTeX do.

It judges each gap by the font alone; a narrow letter in its cell then looks like a word. What the line does elsewhere
says more: the middles of its letters are one cell apart, or two where a blank is.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Iterator

from qwen_batch.read.page.chars import PageChars

MIN_STEPS = 10  # from letter to letter in a line
LEAST, MOST = 0.62, 1.45  # cells from one letter to the next; of other fonts, narrow letters stand closer
BLANK = 1.6  # cells: from here on it is two
SMALL_SHARE = 0.5  # of a line's characters: capitals alone may be the heads of columns
_SPREAD = re.compile(r"(?<!\S)[^\W\d_] [^\W\d_A-Z] [^\W\d_A-Z](?!\S)")  # capitals may be signs of formulas
_LINE = re.compile(r"[^\r\n\x02]+")


def without_idle_blanks(chars: PageChars) -> PageChars:
    """Characters whose blanks have infinite places (PageChars.without_blanks), without blanks within words."""
    if not _SPREAD.search(chars.text):
        return chars
    lines = [match.span() for match in _LINE.finditer(chars.text) if _SPREAD.search(match[0])]
    idle = {place for start, end in lines for place in _idle(chars, start, end)}
    return chars.at([place for place in range(len(chars.text)) if place not in idle]) if idle else chars


def _idle(chars: PageChars, start: int, end: int) -> Iterator[int]:
    drawn = [place for place in range(start, end) if chars.x0[place] < math.inf]
    middles = [(chars.x0[place] + chars.x1[place]) / 2 for place in drawn]
    steps = list(map(operator.sub, middles[1:], middles))
    if len(steps) < MIN_STEPS or sum(chars.text[place].islower() for place in drawn) < SMALL_SHARE * len(drawn):
        return
    from statistics import median  # loads decimals and fractions, and hardly a file needs it

    cell = median(sorted(steps)[: len(steps) * 4 // 5])
    is_next = [LEAST * cell <= step <= MOST * cell for step in steps]
    if all(is_next) or not all(near or step >= BLANK * cell for near, step in zip(is_next, steps, strict=True)):
        return
    for before, after, near in zip(drawn, drawn[1:], is_next, strict=False):
        if near:
            yield from range(before + 1, after)
