"""Ligatures, quotes and dashes that a font draws without saying what they are: pdfium gives their codes, as controls.

Fonts of bitmaps, which TeX made for a long time, have no names; most of them follow the Cork encoding (T1 of LaTeX),
whose first codes are told here where letters stand beside them. Other fonts number their ligatures as they like: their
own names for them tell the letters, and a code between two letters that has none is a letter that is lost, marked so.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence

from qwen_batch.read.page import pdfium
from qwen_batch.read.page.chars import PageChars
from qwen_batch.read.page.file import PdfPage
from qwen_batch.read.page.glyph_names import font_of, named_ligatures

LOST = "\ufffd"
_SMALL = "a-z\u00df-\u00ff"
_BEFORE = rf"(?:^|(?<=[\s(\[,.;:{_SMALL}A-Z-]))"
_AFTER = rf"(?=[\s)\],.;:{_SMALL}-]|$)"
_IN_WORD = rf"(?:(?<=[{_SMALL}A-Z])[\x1b-\x1f]{_AFTER}|{_BEFORE}[\x1b-\x1f](?=[{_SMALL}]))"
_QUOTE = r"(?:(?:^|(?<=[\s(]))[\x10\x12](?=\w)|(?<=[\w.,;:!?])\x11(?=[\s).,;:]|$))"
_DASH = r"(?:(?<=[\w ])[\x15\x16](?=[\w ]))"
_CORK = re.compile(f"{_IN_WORD}|{_QUOTE}|{_DASH}", re.MULTILINE)
_CODES = dict(zip("\x10\x11\x12\x15\x16\x1b\x1c\x1d\x1e\x1f", "“”„–—ﬀﬁﬂﬃﬄ", strict=True))
_SINGLE = dict(zip(("ff", "fi", "fl", "ffi", "ffl"), "ﬀﬁﬂﬃﬄ", strict=True))
_CONTROL = r"[\x03-\x08\x0b\x0c\x0e-\x1f]"
_BESIDE = re.compile(rf"(?<=[{_SMALL}A-Z]){_CONTROL}|{_CONTROL}(?=[{_SMALL}A-Z])")
_LOST = re.compile(rf"(?<=[{_SMALL}]){_CONTROL}(?=[{_SMALL}])")


def with_ligatures(page: PdfPage, textpage: int, chars: PageChars) -> PageChars:
    """The same characters, with letters and signs for the codes of those that their fonts do not name."""
    letters = list(chars.text)
    for match in _CORK.finditer(chars.text):
        if not _has_name(textpage, chars.numbers[match.start()]):
            letters[match.start()] = _CODES[match[0]]
    untold = [match.start() for match in _BESIDE.finditer(chars.text) if letters[match.start()] == match[0]]
    if untold:
        _name(letters, untold, page, textpage, chars)
    for match in _LOST.finditer(chars.text):
        if letters[match.start()] == match[0]:
            letters[match.start()] = LOST
    places = [place for place, each in enumerate(letters) for _ in each]
    return (chars.at(places) if len(places) > len(letters) else chars)._replace(text="".join(letters))


def _name(letters: list[str], places: Sequence[int], page: PdfPage, textpage: int, chars: PageChars) -> None:
    """Put what their fonts' own names say for the codes at some places."""
    named = named_ligatures(page)
    for place in places if named else ():
        name = named.get((font_of(textpage, chars.numbers[place]), letters[place]), letters[place])
        letters[place] = _SINGLE.get(name, name)


def _has_name(textpage: int, number: int) -> bool:
    """Whether the font of a character has a name; fonts of bitmaps have none."""
    return bool(pdfium.FPDFText_GetFontInfo(pdfium.address_of(textpage), number, None, ctypes.c_ulong(0), None) > 1)
