"""The characters of a PDF page, with their places, as pdfium gives them.

Coordinates leave here as the reader of the page sees them: points from the top left corner, page rotation applied.
"""

from __future__ import annotations

import ctypes
import functools
import math
import operator
import re
from collections import deque
from collections.abc import Sequence
from itertools import repeat
from typing import Any, NamedTuple

from qwen_batch.read.page import pdfium
from qwen_batch.records import BBox

LINE_ENDS = "\r\n"
DIVIDED = "\x02"  # pdfium: a hyphen that ends a line; the line break after it is left out
NOT_CHARACTERS = frozenset("\x00\ufffe\uffff")
BOXES_AT_ONCE, BOX_BYTES = 512, 4 * 8
MATRICES_AT_ONCE, MATRIX_BYTES = 80, 6 * 4
_HYPHEN_MARK = re.compile("\ufffe")  # the same as DIVIDED, in the text as a whole
_HALF = re.compile("[\ud800-\udfff]")  # of a character beyond U+FFFF
_SECOND_HALF = re.compile("(?<=[\ud800-\udbff])[\udc00-\udfff]")
_BLANK = re.compile(r"\s")


class Char(NamedTuple):
    """One character; (x0, top, x1, bottom) is the drawn box, in points from the page's top left corner."""

    text: str
    x0: float
    top: float
    x1: float
    bottom: float
    number: int  # in pdfium's order, from 0


class Placement(NamedTuple):
    """Maps user space of a page to what is shown: (x, y) -> (a*x + b*y + c, d*x + e*y + f)."""

    a: float
    b: float
    c: float
    d: float
    e: float
    f: float

    def point(self, x: float, y: float) -> tuple[float, float]:
        return self.a * x + self.b * y + self.c, self.d * x + self.e * y + self.f

    def box(self, left: float, bottom: float, right: float, top: float) -> BBox:
        x0, y0 = self.point(left, bottom)
        x1, y1 = self.point(right, top)
        return min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1)


def placement_of(page: int, width: float, height: float) -> Placement:
    """Ask pdfium where three points of the page fall: rotation and crop box are then taken care of."""
    scale = 64  # pdfium answers in whole pixels; sixty-four to a point keep the error under a hundredth

    def device(x: float, y: float) -> tuple[float, float]:
        dx, dy = ctypes.c_int(), ctypes.c_int()
        size = int(width * scale), int(height * scale)
        pdfium.FPDF_PageToDevice(page, 0, 0, *size, 0, x, y, dx, dy)
        return dx.value / scale, dy.value / scale

    span = 1000.0
    (c, f), (ax, dx), (bx, ey) = device(0, 0), device(span, 0), device(0, span)
    return Placement((ax - c) / span, (bx - c) / span, c, (dx - f) / span, (ey - f) / span, f)


class PageChars(NamedTuple):
    """The characters of a page in pdfium's order, line ends and the spaces that it sets between words included.

    Places stand in lists of their own, in points: most pages need no more than the smallest and the largest of each
    line, and an object for each character would take longer than all the rest.
    """

    text: str
    x0: list[float]
    top: list[float]
    x1: list[float]
    bottom: list[float]
    numbers: Sequence[int]  # pdfium's own
    num_unnamed: int = 0  # further ones, left out, for which their font has no name

    @classmethod
    def of(cls, chars: Sequence[Char]) -> PageChars:
        """The same from single characters."""
        text, x0, top, x1, bottom, numbers = zip(*chars, strict=True) if chars else ((),) * 6
        return cls("".join(text), list(x0), list(top), list(x1), list(bottom), numbers)

    def without_blanks(self) -> PageChars:
        """The places of white space as infinite, so that they are never the smallest, nor the largest."""
        x0, top, x1, bottom = (places.copy() for places in (self.x0, self.top, self.x1, self.bottom))
        for match in _BLANK.finditer(self.text):
            place = match.start()
            x0[place] = top[place] = math.inf
            x1[place] = bottom[place] = -math.inf
        return PageChars(self.text, x0, top, x1, bottom, self.numbers)

    def only(self, chosen: Sequence[bool]) -> PageChars:
        """The chosen characters, and all white space."""
        return self.at([place for place, char in enumerate(self.text) if chosen[place] or char.isspace()])

    def at(self, kept: Sequence[int]) -> PageChars:
        """The characters at some places of these."""
        x0, top, x1, bottom = ([side[place] for place in kept] for side in (self.x0, self.top, self.x1, self.bottom))
        text, numbers = "".join([self.text[place] for place in kept]), [self.numbers[place] for place in kept]
        return PageChars(text, x0, top, x1, bottom, numbers, self.num_unnamed)

    def chars(self, first: int = 0, after: int | None = None) -> list[Char]:
        """All of them, or those of a range, each by itself."""
        sides = self.text, self.x0, self.top, self.x1, self.bottom, self.numbers
        fields = zip(*(side[first:after] for side in sides), strict=True)
        return list(map(functools.partial(tuple.__new__, Char), fields))  # half the time of Char._make


def read_chars(textpage: int, placement: Placement) -> PageChars:
    """The characters of a page and where they are shown."""
    text = _read_text(textpage)
    numbers: Sequence[int] = range(len(text))
    x0, top, x1, bottom = _shown(_read_boxes(textpage, len(text)), placement)
    num_unnamed = 0
    if not NOT_CHARACTERS.isdisjoint(text):
        numbers = [number for number, char in enumerate(text) if char not in NOT_CHARACTERS]
        num_unnamed = len(text) - len(numbers)
        text = "".join(text[number] for number in numbers)
        x0, top, x1, bottom = ([places[number] for number in numbers] for places in (x0, top, x1, bottom))
    chars = PageChars(text, x0, top, x1, bottom, numbers, num_unnamed)
    return _without_halves(chars) if _HALF.search(text) else chars


def _without_halves(chars: PageChars) -> PageChars:
    """With one character for each two that pdfium gives for those beyond U+FFFF: rare ideographs, letters of formulas.

    A half alone is U+FFFD.
    """
    seconds = {match.start() for match in _SECOND_HALF.finditer(chars.text)}
    kept = [place for place in range(len(chars.text)) if place not in seconds]
    text = chars.text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return chars.at(kept)._replace(text=text)


def _read_text(textpage: int) -> str:
    """One character for each of pdfium's."""
    count = pdfium.FPDFText_CountChars(textpage)
    buffer = (ctypes.c_ushort * (2 * count + 2))()
    size = pdfium.FPDFText_GetText(textpage, 0, count, buffer) - 1  # in units of UTF-16
    text = bytes(buffer)[: 2 * max(0, size)].decode("utf-16-le", "surrogatepass")
    if len(text) != count:  # it leaves out what is no character, and then does not tell where
        return "".join(_char_at(textpage, number) for number in range(count))
    return _HYPHEN_MARK.sub(lambda match: _char_at(textpage, match.start()), text)


def _char_at(textpage: int, number: int) -> str:
    code = pdfium.FPDFText_GetUnicode(textpage, number)
    return chr(code) if code <= 0x10FFFF else "\ufffd"


def _read_boxes(textpage: int, count: int) -> memoryview[float]:
    """Left, right, bottom and top of each character in user space, one after the other, as doubles.

    pdfium is called by addresses that are made once, which takes a third of the time of the usual call.
    """
    buffer, addresses = _box_buffer()
    page = pdfium.address_of(textpage)
    boxes = bytearray()
    for start in range(0, count, BOXES_AT_ONCE):
        numbers = range(start, min(start + BOXES_AT_ONCE, count))
        deque(map(pdfium.FPDFText_GetCharBox, repeat(page), numbers, *addresses), maxlen=0)
        boxes += buffer[: BOX_BYTES * len(numbers)]
    return memoryview(boxes).cast("d")


@functools.cache
def _box_buffer() -> tuple[memoryview, list[list[Any]]]:
    """What FPDFText_GetCharBox fills, as bytes, and the addresses in it."""
    buffer = (ctypes.c_double * (4 * BOXES_AT_ONCE))()
    places = range(0, ctypes.sizeof(buffer), BOX_BYTES)
    sides = range(0, BOX_BYTES, BOX_BYTES // 4)
    return memoryview(buffer).cast("B"), [[ctypes.byref(buffer, place + side) for place in places] for side in sides]


def matrices_of(textpage: Any, numbers: Sequence[int]) -> list[float]:
    """The six numbers of the matrix of each of some characters, one after the other. `textpage`: as pdfium.address_of
    gives it."""
    floats, addresses = _matrix_buffer()
    found: list[float] = []
    for start in range(0, len(numbers), MATRICES_AT_ONCE):
        some = numbers[start : start + MATRICES_AT_ONCE]
        deque(map(pdfium.FPDFText_GetMatrix, repeat(textpage), some, addresses), maxlen=0)
        found += floats[: 6 * len(some)].tolist()
    return found


@functools.cache
def _matrix_buffer() -> tuple[memoryview[float], list[Any]]:
    """What FPDFText_GetMatrix fills, and the addresses in it."""
    buffer = (ctypes.c_float * (6 * MATRICES_AT_ONCE))()
    addresses = [ctypes.byref(buffer, MATRIX_BYTES * row) for row in range(MATRICES_AT_ONCE)]
    return memoryview(buffer).cast("B").cast("f"), addresses


def _shown(boxes: memoryview[float], placement: Placement) -> tuple[list[float], list[float], list[float], list[float]]:
    """x0, top, x1, bottom on the page of boxes in user space, straight from the buffer: lists between would take twice
    the time."""
    left, right, bottom, top = (boxes[side::4] for side in range(4))
    a, b, c, d, e, f = placement.a, placement.b, placement.c, placement.d, placement.e, placement.f
    if b == 0 == d:  # upright: half of the work
        xs = _ordered([a * x + c for x in left], [a * x + c for x in right])
        ys = _ordered([e * y + f for y in top], [e * y + f for y in bottom])
        return xs[0], ys[0], xs[1], ys[1]
    ax = [a * x + b * y + c for x, y in zip(left, bottom, strict=True)]
    bx = [a * x + b * y + c for x, y in zip(right, top, strict=True)]
    ay = [d * x + e * y + f for x, y in zip(left, bottom, strict=True)]
    by = [d * x + e * y + f for x, y in zip(right, top, strict=True)]
    x0, x1 = _ordered(ax, bx)
    y0, y1 = _ordered(ay, by)
    return x0, y0, x1, y1


def _ordered(one: list[float], other: list[float]) -> tuple[list[float], list[float]]:
    """Pair by pair, the smaller and the larger."""
    if all(map(operator.le, one, other)):
        return one, other
    return list(map(min, one, other)), list(map(max, one, other))
