"""Text that nobody sees on a page: white on white, without ink, covered, on a layer that is off, or too small.

Objects of text that are nearly white, transparent, without ink or on a layer are known from the walk through the page's
objects, and so are filled boxes and images: they may cover what was written before them, and hide what is written on
them in their own colour. Whether such words are seen is asked of the page as it is drawn, once and only where there
are any: white text on a dark box shows letters, and where nothing but one colour is shown there is nothing to read.
Text without ink over a scan, and text below one, is what text recognition found there, and stays.
"""

from __future__ import annotations

import ctypes
import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence

from qwen_batch.read.page import pdfium
from qwen_batch.read.page.chars import DIVIDED, PageChars
from qwen_batch.read.page.covers import Filled
from qwen_batch.read.page.file import PdfPage, Picture
from qwen_batch.records import Line

SCALE = 1.0  # pixels a point: drawing a page takes 4 ms, and white text of 5 points on a light grey shows
MAX_SIDE = 3_000  # pixels
ALIKE = 48  # levels: ink that differs less from a box may not be seen on it
SEEN = 6  # levels of a colour that letters differ from what is around them, at least
_WORD = re.compile(rf"[^\s{DIVIDED}]+{DIVIDED}?")


def without_hidden(
    page: PdfPage,
    textpage: int,
    chars: PageChars,
    suspects: Collection[int],
    filled: Sequence[Filled],
    texts: Sequence[int],
) -> tuple[PageChars, str]:
    """The characters that are seen, and the others as text. `suspects`: handles of objects of text that may not be
    seen; `filled`: what may cover words that were written before, or be of the colour of those after; `texts`: handles
    of all objects of text as drawn."""
    at = pdfium.address_of(textpage)
    words = [match.span() for match in _WORD.finditer(chars.text)]
    covered = set(_iter_covered(at, chars, words, filled, texts))

    def may_be_hidden(start: int, end: int) -> bool:
        numbers = chars.numbers[start:end]
        return bool(suspects) and all(pdfium.FPDFText_GetTextObject(at, number) in suspects for number in numbers)

    words = [word for word in words if word in covered or may_be_hidden(*word)]
    if not words:
        return chars, ""
    scale = min(SCALE, MAX_SIDE / max(*page.size, 1.0))
    picture = page.render(scale)
    unseen = [(start, end) for start, end in words if _is_blank(picture, chars, start, end, scale)]
    if not unseen:
        return chars, ""
    kept = [True] * len(chars.text)
    for start, end in unseen:
        kept[start:end] = [False] * (end - start)
    return chars.only(kept), " ".join(chars.text[start:end] for start, end in unseen)


def _iter_covered(
    at: int, chars: PageChars, words: Sequence[tuple[int, int]], filled: Sequence[Filled], texts: Sequence[int]
) -> Iterator[tuple[int, int]]:
    """Words that stand on a filled box and were written before it, or in its colour."""
    if not filled:
        return
    by_height = sorted(((chars.top[start] + chars.bottom[start]) / 2, start, end) for start, end in words)
    heights = [height for height, *_ in by_height]
    places: dict[int, int] = {}
    for (x0, top, x1, bottom), num_texts, colour in filled:
        for _, start, end in by_height[bisect_left(heights, top) : bisect_right(heights, bottom)]:
            if x0 <= (chars.x0[start] + chars.x1[end - 1]) / 2 <= x1:
                places = places or {text: place for place, text in enumerate(texts)}
                text = pdfium.FPDFText_GetTextObject(at, chars.numbers[start])
                if places.get(text, len(texts)) < num_texts or (colour and _is_like(text, colour)):
                    yield start, end


def _is_like(text: int, colour: Sequence[int]) -> bool:
    """Whether an object of text has nearly a colour, or none that is known."""
    parts = (ctypes.c_uint * 4)()
    known = pdfium.FPDFPageObj_GetFillColor(text, *(ctypes.addressof(parts) + 4 * side for side in range(4)))
    return not known or all(abs(part - other) < ALIKE for part, other in zip(parts, colour, strict=False))


def _is_blank(picture: Picture, chars: PageChars, start: int, end: int, scale: float) -> bool:
    """Whether one colour is all that is seen where a word stands; False beside the page."""
    left, right = int(min(chars.x0[start:end]) * scale), int(max(chars.x1[start:end]) * scale) + 1
    top, bottom = int(min(chars.top[start:end]) * scale), int(max(chars.bottom[start:end]) * scale) + 1
    left, right, top, bottom = max(0, left), min(right, picture.width), max(0, top), min(bottom, picture.height)
    if left >= right or top >= bottom:
        return False
    rows = [
        picture.data[3 * (row * picture.width + left) : 3 * (row * picture.width + right)] for row in range(top, bottom)
    ]
    colours = (b"".join(row[place::3] for row in rows) for place in range(3))
    return all(max(colour) - min(colour) < SEEN for colour in colours)


def without_specks(lines: Sequence[Line], least: float) -> tuple[list[Line], str]:
    """Lines that are large enough to be seen, and the others as text. `least`: points of the font."""
    specks = [line for line in lines if _is_speck(line, least)]
    return [line for line in lines if line not in specks], " ".join(line.text for line in specks)


def _is_speck(line: Line, least: float) -> bool:
    """Whether a line is too small to be seen. Fonts may name a wrong size: the drawn letters have to agree."""
    is_small = line.font_size is not None and line.font_size < least
    return is_small and line.bbox is not None and line.bbox[3] - line.bbox[1] < 2 * least
