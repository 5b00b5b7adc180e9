"""Small raised digits: footnote marks and exponents. They are written as such, or `$1,000` with the mark 1 and `10²`
would read as 10001 and 102; variables of formulas (`R2`) cannot be read as numbers and stay as formulas are typed. They
are put where they stand, because word processors draw marks after the line.

A raised digit is told by its drawn box alone: smaller than the letters of its line, its foot well above theirs.
"""

from __future__ import annotations

import bisect
import math
import re
from collections.abc import Container, Sequence
from itertools import chain, pairwise
from typing import TypeVar

from qwen_batch.patterns import late
from qwen_batch.read.page.chars import PageChars
from qwen_batch.read.page.raised_lone import foot_of, host_of, lone_marks
from qwen_batch.read.page.raised_spans import RISE, Span, is_raised, measure, stands_on

FAR_RISE, FAR_SMALLER = 0.5, 0.75  # of its own height, and of the tallest letter's: a number between blanks
MAX_DIGITS = 3
REACH = 8  # characters before a digit that tell whether it belongs to a formula
LATE = 4.0  # times the letters' height that a mark stands left of what was drawn before it; an index less far
RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_RUN = re.compile(r"[0-9]+")
_LINE = re.compile(r"[^\r\n\x02]*[^\r\n\x02\s][^\r\n\x02]*")
_HIGH = "\"'”’)]»"  # signs that say nothing of where the line is
_SKIPPED = "0123456789,;" + _HIGH
# Indices and powers of formulas stay as formulas are usually typed, R2; but for units, m².
_UNITS = "(?:k|c|d|m|µ)?m|ft|yd|mi|in|s"
_VARIABLE = late(rf"(?<![^\W\d_])(?!(?:{_UNITS})[0-9]*\Z)(?:[A-Za-z\u0391-\u03d6]{{1,2}}|sin|cos|tan|log)[0-9]*\Z")
_NUMBER_GOES_ON = late(r"[.,]?[0-9]")

_T = TypeVar("_T", int, float)


def with_raised(chars: PageChars) -> PageChars:
    """The same characters with raised digits as such; those that were drawn late stand in their place. The places of
    white space have to be infinite."""
    found: list[int] = []
    moves: dict[int, list[int]] = {}  # before which character which others come
    spans = [match.span() for match in _LINE.finditer(chars.text)] if _RUN.search(chars.text) else []
    starts = [start for start, _ in spans]
    measured: dict[int, Span] = {}
    for first, after in [match.span() for match in _RUN.finditer(chars.text)]:
        number = bisect.bisect_right(starts, first) - 1
        if not _is_suspect(chars, first, after, *spans[number]):
            continue
        span = measured.get(number) or measured.setdefault(number, measure(chars, *spans[number]))
        raised = _raised(chars, first, after, span)
        found += raised
        if raised and (_is_late(chars, raised[0], span) or _begins(chars, raised[0], span)):
            moves.setdefault(_place(chars, raised, span), []).extend(raised)
    marks = list(lone_marks(chars))
    feet = [foot_of(chars, *span) for span in spans] if marks else []
    for mark in marks:
        foot, reach = chars.bottom[mark[0]], 3 * (chars.bottom[mark[0]] - chars.top[mark[0]])
        near = [
            measured.get(number) or measured.setdefault(number, measure(chars, *spans[number]))
            for number in [number for number, other in enumerate(feet) if abs(other - foot) < reach]
            if not spans[number][0] <= mark[0] < spans[number][1]
        ]
        if host := host_of(chars, mark, near):
            found += mark
            moves.setdefault(_place(chars, mark, host), []).extend(mark)
    return _rewritten(chars, found, moves) if found else chars


def _is_suspect(chars: PageChars, first: int, after: int, start: int, end: int) -> bool:
    """Whether a run of digits differs in height from what stands beside it: a quick look that spares most."""
    bottom, top, text = chars.bottom, chars.top, chars.text
    step = RISE * (bottom[first] - top[first])
    if after - first > 1 and abs(bottom[first] - bottom[after - 1]) > step:
        return True
    before = first - 1
    while before >= start and text[before] in _SKIPPED:
        before -= 1
    if before >= start and not text[before].isspace():
        return bottom[first] < bottom[before] - step
    while after < end and not text[after].isalnum():
        after += 1
    if after < end:
        return bottom[first] < bottom[after] - step
    return before > start and chars.x0[first] < chars.x0[start]


def _raised(chars: PageChars, first: int, after: int, span: Span) -> list[int]:
    """The raised digits of a run; none where more than a few are, or where what stands beside them is raised too."""
    raised = [number for number in range(first, after) if is_raised(chars, number, span)]
    if span.base == math.inf or not 0 < len(raised) <= MAX_DIGITS or raised[-1] - raised[0] >= len(raised):
        return []
    before = _before(chars, raised[0], span)
    behind = raised[-1] + 1
    while behind < span.end and not chars.text[behind].isalnum():
        behind += 1
    if before >= span.start and not chars.text[before].isspace():
        return raised if stands_on(chars, before, span) else []
    if _is_late(chars, raised[0], span):
        return raised
    if behind == span.end or not stands_on(chars, behind, span):
        return []
    is_plain = _begins(chars, raised[0], span) or _is_far_up(chars, raised, span)
    return raised if is_plain and not _NUMBER_GOES_ON().match(chars.text, raised[-1] + 1) else []


def _before(chars: PageChars, mark: int, span: Span) -> int:
    """What a mark follows, other marks and closing signs left out."""
    before = mark - 1
    while before >= span.start and (
        chars.text[before] in _HIGH
        or (chars.text[before] in ",;" and before > span.start and is_raised(chars, before - 1, span))
        or (chars.text[before].isdecimal() and is_raised(chars, before, span))
    ):
        before -= 1
    return before


def _is_far_up(chars: PageChars, mark: Sequence[int], span: Span) -> bool:
    """Whether a number between blanks is a mark for sure: values that are filled in may be small and stand higher."""
    height = chars.bottom[mark[0]] - chars.top[mark[0]]
    is_high = chars.bottom[mark[0]] < span.base - FAR_RISE * height
    return is_high and height < FAR_SMALLER * span.height and len(mark) < MAX_DIGITS


def _is_late(chars: PageChars, mark: int, span: Span) -> bool:
    """Whether a mark was drawn after letters that stand right of it."""
    before = [number for number in range(span.start, mark) if chars.x0[number] != math.inf]
    return bool(before) and chars.x0[mark] < chars.x0[before[-1]] - LATE * span.height


def _begins(chars: PageChars, mark: int, span: Span) -> bool:
    return chars.text[span.start : mark].isspace() or mark == span.start


def _place(chars: PageChars, mark: Sequence[int], span: Span) -> int:
    """Before which character of a line a mark comes: at the end of a word, or at the line's beginning."""
    middle = (chars.x0[mark[0]] + chars.x1[mark[-1]]) / 2
    moved = set(mark)
    place = next((number for number in range(span.start, span.end) if number not in moved), span.start)
    first = place
    for number in range(place, span.end):
        if number not in moved and chars.x0[number] != math.inf and (chars.x0[number] + chars.x1[number]) / 2 < middle:
            place = number + 1
    if place > first:
        while place < span.end and not chars.text[place].isspace():
            place += 1
    return place


def _is_of_variable(chars: PageChars, mark: int, place: int, marks: Container[int]) -> bool:
    """Whether a raised digit stands right behind the variable of a formula, though pdfium may begin a line with it."""
    while place > 0 and (chars.text[place - 1].isspace() or place - 1 in marks):
        place -= 1
    if not _VARIABLE().search(chars.text, max(0, place - REACH), place):
        return False
    return abs(chars.x0[mark] - chars.x1[place - 1]) < chars.bottom[mark] - chars.top[mark]


def _rewritten(chars: PageChars, found: Sequence[int], moves: dict[int, list[int]]) -> PageChars:
    letters = [*chars.text, " "]
    places = {number: place for place, late in moves.items() for number in late}
    marks = frozenset(found)
    for number in found:
        if not _is_of_variable(chars, number, places.get(number, number), marks):
            letters[number] = letters[number].translate(RAISED)
    if not moves:
        return chars._replace(text="".join(letters[:-1]))
    return _moved(chars, "".join(letters), moves)


def _moved(chars: PageChars, text: str, moves: dict[int, list[int]]) -> PageChars:
    """Characters in another order: `text` has a blank more than they, to stand between a mark and its note. They are
    moved in pieces, since nearly all stay."""
    moved = sorted(number for numbers in moves.values() for number in numbers)
    blank = len(chars.text)
    order: list[slice] = []
    for start, place in pairwise((0, *sorted({*moves, blank}))):
        ends = [start, *(end for number in moved if start <= number < place for end in (number, number + 1)), place]
        order += map(slice, ends[::2], ends[1::2])
        order += [slice(number, number + 1) for number in moves.get(place, ())]
        if place < blank and not chars.text[place].isspace():
            order.append(slice(blank, blank + 1))
    x0, top = (_ordered([*places, math.inf], order) for places in (chars.x0, chars.top))
    x1, bottom = (_ordered([*places, -math.inf], order) for places in (chars.x1, chars.bottom))
    numbers = _ordered([*chars.numbers, chars.numbers[-1]], order)
    return PageChars("".join(map(text.__getitem__, order)), x0, top, x1, bottom, numbers)


def _ordered(places: list[_T], order: Sequence[slice]) -> list[_T]:
    return list(chain.from_iterable(map(places.__getitem__, order)))
