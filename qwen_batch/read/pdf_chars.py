"""The characters of a PDF page, with their places, as pdfium gives them; and the lines that they form.

Coordinates leave here as the reader of the page sees them: points from the top left corner, page rotation applied.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pypdfium2.raw as pdfium

from qwen_batch.records import BBox, Line

ASCENT, DESCENT = 0.8, 0.2  # of the font size; drawn boxes differ from letter to letter, these do not
COLUMN_GAP_EMS = 2.0
FONT_SAMPLES = 5  # of a line
LINE_ENDS = "\r\n"
DIVIDED = "\x02"  # pdfium: a hyphen that ends a line; the line break after it is left out
NOT_CHARACTERS = frozenset("\x00\ufffe\uffff")


class Char(NamedTuple):
    """One character; (x0, top, x1, bottom) is the drawn box, in points from the page's top left corner."""

    text: str
    x0: float
    top: float
    x1: float
    bottom: float
    number: int  # in pdfium's order, from 0

    @property
    def center(self) -> tuple[float, float]:
        return (self.x0 + self.x1) / 2, (self.top + self.bottom) / 2


@dataclass(frozen=True, slots=True)
class Placement:
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


def placement_of(page: Any, width: float, height: float) -> Placement:
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


def read_chars(textpage: Any, placement: Placement) -> list[Char]:
    """All characters in pdfium's order, line ends and the spaces that it sets between words included."""
    left, right, bottom, top = (ctypes.c_double() for _ in range(4))
    unicode_of, box_of = pdfium.FPDFText_GetUnicode, pdfium.FPDFText_GetCharBox
    a, b, c, d, e, f = placement.a, placement.b, placement.c, placement.d, placement.e, placement.f
    chars: list[Char] = []
    for index in range(pdfium.FPDFText_CountChars(textpage)):
        code = unicode_of(textpage, index)
        text = chr(code) if code <= 0x10FFFF else "\ufffd"
        if text in NOT_CHARACTERS:
            continue
        box_of(textpage, index, left, right, bottom, top)
        lx, ly, rx, ry = left.value, bottom.value, right.value, top.value  # placement.box, in line: half of the time
        ax, bx, ay, by = a * lx + b * ly + c, a * rx + b * ry + c, d * lx + e * ly + f, d * rx + e * ry + f
        if ax > bx:
            ax, bx = bx, ax
        if ay > by:
            ay, by = by, ay
        chars.append(Char(text, ax, ay, bx, by, index))
    return chars


def iter_line_chars(chars: Sequence[Char], region: Callable[[Char], int]) -> Iterator[list[Char]]:
    """Cut the characters into lines: at line ends, after a dividing hyphen, and where the region (a table) changes."""
    line: list[Char] = []
    where: int | None = None
    for char in chars:
        if char.text in LINE_ENDS:
            yield line
            line, where = [], None
            continue
        here = where if char.text.isspace() else region(char)
        if where is not None and here != where:
            yield line
            line = []
        line.append(char)
        where = here
        if char.text == DIVIDED:
            yield line
            line, where = [], None
    yield line


def make_line(chars: Sequence[Char], textpage: Any, placement: Placement) -> Line | None:
    """A line with its place, or None when it is blank."""
    drawn = [char for char in chars if not char.text.isspace()]
    if not drawn:
        return None
    tight = (
        min(char.x0 for char in drawn),
        min(char.top for char in drawn),
        max(char.x1 for char in drawn),
        max(char.bottom for char in drawn),
    )
    size, upright, baseline = _font_of(textpage, drawn, placement)
    text = _spaced(chars, size) if upright else "".join(char.text for char in chars)
    text = text.replace(DIVIDED, "-").strip()
    even = (tight[0], baseline - ASCENT * size, tight[2], baseline + DESCENT * size)
    if not upright or not (even[1] <= tight[3] and tight[1] <= even[3]) or tight[3] - tight[1] > 2.5 * size:
        return Line(text, _rounded(tight), round(size, 2))
    return Line(text, _rounded(even), round(size, 2))


def _spaced(chars: Sequence[Char], size: float) -> str:
    """The text; a space much wider than others stands between columns and is written as three."""
    parts: list[str] = []
    end: float | None = None  # of the last drawn character
    for char in chars:
        if char.text.isspace():
            parts.append(char.text)
            continue
        if end is not None and parts[-1].isspace() and char.x0 - end > COLUMN_GAP_EMS * size:
            parts.append("  ")
        parts.append(char.text)
        end = char.x1
    return "".join(parts)


def _font_of(textpage: Any, drawn: Sequence[Char], placement: Placement) -> tuple[float, bool, float]:
    """The largest font size of a line in points, whether its letters stand upright, and its baseline.

    The largest of a few: a word in a smaller font, or a footnote mark, must not make the line look like another.
    """
    step = max(1, len(drawn) // FONT_SAMPLES)
    fonts = [_font_at(textpage, char.number, placement) for char in drawn[step // 2 :: step]]
    return max(fonts, key=lambda font: font[0])


def _font_at(textpage: Any, number: int, placement: Placement) -> tuple[float, bool, float]:
    matrix, x, y = pdfium.FS_MATRIX(), ctypes.c_double(), ctypes.c_double()
    pdfium.FPDFText_GetMatrix(textpage, number, matrix)
    pdfium.FPDFText_GetCharOrigin(textpage, number, x, y)
    size = pdfium.FPDFText_GetFontSize(textpage, number) * math.hypot(matrix.c, matrix.d)
    across = placement.a * matrix.a + placement.b * matrix.b
    down = placement.d * matrix.a + placement.e * matrix.b
    return size, across > abs(down) * 8, placement.point(x.value, y.value)[1]


def _rounded(box: BBox) -> BBox:
    return round(box[0], 2), round(box[1], 2), round(box[2], 2), round(box[3], 2)
