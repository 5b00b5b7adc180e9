"""Ligatures that a font's own encoding names by their letters, `f_i` or `f_f_i`: pdfium knows no such name.

So it gives their codes, which mean nothing. The names stand in the copy that pdfium makes of the page, whose objects
are not packed and whose entries stand in the order of the alphabet.
"""

from __future__ import annotations

import ctypes
import re
from typing import TYPE_CHECKING

from qwen_batch.read.page import pdfium
from qwen_batch.read.page.content import copied_page

if TYPE_CHECKING:
    from qwen_batch.read.page.file import PdfPage

NAME_BYTES = 256
_FONT = re.compile(rb"/BaseFont/(?:[A-Z]{6}\+)?([^\s/<>\[\]()]+)/Encoding ?(?:(\d+) \d+ R|(<<[^>]*>>))")
_DIFFERENCES = re.compile(rb"/Differences ?\[([^\]]*)\]")
_ENTRY = re.compile(rb"/([^\s/]+)|(\d+)")
_LIGATURE = re.compile(r"[A-Za-z](?:_[A-Za-z])+")

Named = dict[tuple[str, str], str]  # letters of a ligature by its font and its code


def named_ligatures(page: PdfPage) -> Named:
    """Those of a page's fonts; a code that two fonts of one name use for different ones is left out."""
    copy = copied_page(page.file, page.index)
    named: Named = {}
    clashes: set[tuple[str, str]] = set()
    for font, number, encoding in _FONT.findall(copy):
        for code, name in _differences(encoding or _object(copy, number)):
            key, letters = (font.decode("latin-1"), chr(code)), name.replace("_", "")
            if _LIGATURE.fullmatch(name) and named.setdefault(key, letters) != letters:
                clashes.add(key)
    return {key: letters for key, letters in named.items() if key not in clashes}


def font_of(textpage: int, number: int) -> str:
    """The name of a character's font, without the letters for a part of a font; empty where it has none."""
    name = ctypes.create_string_buffer(NAME_BYTES)
    pdfium.FPDFText_GetFontInfo(pdfium.address_of(textpage), number, name, ctypes.c_ulong(NAME_BYTES), None)
    return name.value.decode("latin-1")


def _object(copy: bytes, number: bytes) -> bytes:
    start = copy.find(b"\n%b 0 obj" % number)
    return copy[start : copy.find(b"endobj", start)] if start >= 0 else b""


def _differences(encoding: bytes) -> list[tuple[int, str]]:
    """Codes and names: a number is the code of the name after it, each further name has the next one."""
    found, code = [], 0
    listed = _DIFFERENCES.search(encoding)
    for name, number in _ENTRY.findall(listed[1] if listed else b""):
        if number:
            code = int(number)
        elif code < 256:
            found.append((code, name.decode("latin-1")))
            code += 1
    return found
