"""The lines that the characters of a PDF page form, and which way they go."""

from __future__ import annotations

import ctypes
import functools
import math
import operator
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise, repeat
from typing import NamedTuple

from qwen_batch.read.page import pdfium
from qwen_batch.read.page.chars import DIVIDED, PageChars, Placement, matrices_of
from qwen_batch.records import BBox, Line

ASCENT, DESCENT = 0.8, 0.2  # of the font size; drawn boxes differ from letter to letter, these do not
COLUMN_GAP_EMS = 2.0
TOUCHING = 0.1  # points
TALL = 2.5  # font sizes: no line of upright text is so high
FONT_SAMPLES = 5  # of a line
STRAIGHT = 8.0  # times as far along an axis as across it: seven degrees
FIXED_PITCH = 1  # flag of a font (ISO 32000-1, table 123)
MAX_SPACES = 80  # in a row
# Fonts of one width that do not say so; TeX's never do.
_TYPED_FONT = re.compile(rb"Courier|Mono|Consolas|Typewriter|Menlo|Inconsolata|(?:^|\+)(?:CM|SF|LM)(?:TT|Mono)", re.I)
_INFINITE = math.inf
_LINE = re.compile(r"([^\r\n\x02]*\x02?)[\r\n]?")
_BLANKS = re.compile(r"\s+")
_WORD = re.compile(r"\S+")


class _Spot(NamedTuple):
    """A word: its characters, its direction, and in points its place across that and its length along it."""

    start: int
    end: int
    way: int | None  # as in directions_at
    low: float
    high: float
    length: float


def iter_lines(chars: PageChars, regions: Sequence[int] | None = None) -> Iterator[tuple[int, int]]:
    """Start and end of each line: cut at line ends, after a dividing hyphen, and where the region (a table) changes."""
    for match in _LINE.finditer(chars.text):
        start, end = match.span(1)
        if start == end:
            continue
        if regions is None:
            yield start, end
            continue
        where: int | None = None
        for number in range(start, end):
            if chars.text[number].isspace():
                continue
            if where is not None and regions[number] != where:
                yield start, number
                start = number
            where = regions[number]
        yield start, end


class LineMaker:
    """Makes lines of a page's characters."""

    def __init__(self, textpage: int, placement: Placement, chars: PageChars) -> None:
        self._textpage = textpage
        self._placement = placement
        self._a, self._b, self._d, self._e = placement.a, placement.b, placement.d, placement.e
        self._chars = chars
        self._name, self._flags = ctypes.create_string_buffer(64), ctypes.c_int()
        self._font_at = ctypes.byref(self._name), ctypes.c_ulong(len(self._name)), ctypes.byref(self._flags)
        self._x, self._y = ctypes.c_double(), ctypes.c_double()
        self._origin_at = ctypes.byref(self._x), ctypes.byref(self._y)
        self._page_at = pdfium.address_of(textpage)

    def make(self, start: int, end: int) -> list[Line]:
        """A line with its place; none when it is blank, several when pdfium took lines of two directions for one."""
        line, tall = self._make(start, end)
        if not tall or len(pieces := list(self._pieces(start, end))) < 2:
            return [line] if line else []
        return [piece for each in pieces if (piece := self._make(*each)[0])]

    def _pieces(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Start and end of each run of words that go one way, beside each other."""
        words = [self._spot(*match.span()) for match in _WORD.finditer(self._chars.text, start, end)]
        if any(word.way == 0 and word.end - word.start > 1 and word.high - word.low > word.length for word in words):
            return  # written from the top down
        begin = start
        for before, word in pairwise(words):
            if not _are_beside(before, word):
                yield begin, before.end
                begin = word.start
        yield begin, end

    def _spot(self, start: int, end: int) -> _Spot:
        """Where a word stands, seen in the direction in which it goes."""
        chars = self._chars
        (way,) = directions_at(self._textpage, self._placement, chars.numbers[start : start + 1])
        x0, top, x1, bottom = (
            min(chars.x0[start:end]),
            min(chars.top[start:end]),
            max(chars.x1[start:end]),
            max(chars.bottom[start:end]),
        )
        low, high, length = (x0, x1, bottom - top) if way in (1, 3) else (top, bottom, x1 - x0)
        return _Spot(start, end, way, low, high, length)

    def _make(self, start: int, end: int) -> tuple[Line | None, bool]:
        """A line, None when it is blank; and whether it is too tall for one line of upright text."""
        chars = self._chars
        lefts = chars.x0[start:end]
        drawn = [number for number, left in enumerate(lefts, start) if left != _INFINITE]
        if not drawn:
            return None, False
        tight = (
            min(lefts),
            min(chars.top[start:end]),
            max(chars.x1[start:end]),
            max(chars.bottom[start:end]),
        )
        size, upright, baseline = self._font_of(drawn)
        code = upright and self._is_typed(drawn)
        text = chars.text[start:end]
        if code:
            text, left, right = self._as_typed(start, end)
            tight = (left, tight[1], right, tight[3])
        elif upright:
            text = self._spaced(start, end, size)
        text = text.replace(DIVIDED, "-").strip()
        even = (tight[0], baseline - ASCENT * size, tight[2], baseline + DESCENT * size)
        tall = tight[3] - tight[1] > TALL * size
        if not upright or not (even[1] <= tight[3] and tight[1] <= even[3]) or tall:
            return Line(text, _rounded(tight), round(size, 2)), tall
        return Line(text, _rounded(even), round(size, 2), code=code), False

    def _is_typed(self, drawn: Sequence[int]) -> bool:
        """Whether the letters of a line are all of one width, as far as their fonts say."""
        step = max(1, len(drawn) // FONT_SAMPLES)
        return all(self._has_one_width(self._chars.numbers[number]) for number in drawn[step // 2 :: step])

    def _has_one_width(self, number: int) -> bool:
        pdfium.FPDFText_GetFontInfo(self._page_at, number, *self._font_at)
        return bool(self._flags.value & FIXED_PITCH) or _is_typed_font(self._name.value)

    def _as_typed(self, start: int, end: int) -> tuple[str, float, float]:
        """The text with as many spaces between words as letters would fit there, and where its first and last letter
        begin and end, as wide as all are."""
        text, words = self._chars.text, [match.span() for match in _WORD.finditer(self._chars.text, start, end)]
        x0, x1 = self._chars.x0, self._chars.x1
        middles = [((x0[first] + x1[first]) / 2, (x0[after - 1] + x1[after - 1]) / 2) for first, after in words]
        steps = sum(after - first - 1 for first, after in words)
        left, right = x0[words[0][0]], x1[words[-1][1] - 1]
        pitch = sum(last - first for first, last in middles) / steps if steps else right - left
        if pitch <= 0:
            return text[start:end], left, right
        parts = [text[slice(*words[0])]]
        for (_, last), (first, _), word in zip(middles, middles[1:], words[1:], strict=False):
            spaces = round((first - last) / pitch) - 1
            parts += (" " * min(max(spaces, 1), MAX_SPACES), text[slice(*word)])
        return "".join(parts), middles[0][0] - pitch / 2, middles[-1][1] + pitch / 2

    def _spaced(self, start: int, end: int, size: float) -> str:
        """The text; a space much wider than others stands between columns and is written as three."""
        text, x0, x1 = self._chars.text, self._chars.x0, self._chars.x1
        parts: list[str] = []
        done = start
        for match in _BLANKS.finditer(text, start, end):
            before, after = match.start() - 1, match.end()
            if start <= before and after < end and x0[after] - x1[before] > COLUMN_GAP_EMS * size:
                parts += (text[done:after], "  ")
                done = after
        return "".join((*parts, text[done:end]))

    def _font_of(self, drawn: Sequence[int]) -> tuple[float, bool, float]:
        """The largest font size of a line in points, whether its letters stand upright, and its baseline.

        The largest of a few: a word in a smaller font, or a footnote mark, must not make the line look like another.
        """
        step = max(1, len(drawn) // FONT_SAMPLES)
        numbers = [self._chars.numbers[number] for number in drawn[step // 2 :: step]]
        matrices = matrices_of(self._page_at, numbers)
        heights = map(math.hypot, matrices[2::6], matrices[3::6])
        sizes = list(map(operator.mul, map(pdfium.FPDFText_GetFontSize, repeat(self._page_at), numbers), heights))
        largest = sizes.index(max(sizes))
        a, b = matrices[6 * largest : 6 * largest + 2]
        upright = self._a * a + self._b * b > STRAIGHT * abs(self._d * a + self._e * b)
        pdfium.FPDFText_GetCharOrigin(self._page_at, numbers[largest], *self._origin_at)
        return sizes[largest], upright, self._placement.point(self._x.value, self._y.value)[1]


@functools.lru_cache(maxsize=256)
def _is_typed_font(name: bytes) -> bool:
    return _TYPED_FONT.search(name) is not None


def directions_at(textpage: int, placement: Placement, numbers: Sequence[int]) -> list[int | None]:
    """Where the writing of some characters goes: 0 to the right, 1 down, 2 to the left, 3 up; None: slanted."""
    matrices = matrices_of(pdfium.address_of(textpage), numbers)
    pairs = list(zip(matrices[::6], matrices[1::6], strict=True))
    known = {pair: _direction(placement, *pair) for pair in set(pairs)}
    return list(map(known.__getitem__, pairs))


def _direction(placement: Placement, a: float, b: float) -> int | None:
    across = placement.a * a + placement.b * b
    down = placement.d * a + placement.e * b
    if abs(across) > STRAIGHT * abs(down):
        return 0 if across > 0 else 2
    if abs(down) > STRAIGHT * abs(across):
        return 1 if down > 0 else 3
    return None


def _are_beside(before: _Spot, word: _Spot) -> bool:
    """Whether words stand in one line; slanted ones are left as they are."""
    if before.way != word.way or word.way is None:
        return before.way == word.way
    return min(before.high, word.high) > max(before.low, word.low) - TOUCHING


def _rounded(box: BBox) -> BBox:
    return round(box[0], 2), round(box[1], 2), round(box[2], 2), round(box[3], 2)
