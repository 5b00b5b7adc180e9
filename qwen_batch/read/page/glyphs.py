"""Text of fonts that tell no characters, only the numbers of their glyphs.

Programs that write TrueType fonts without a table of characters leave these numbers, and pdfium gives them as if they
were characters. In the fonts that most offices use they follow the standard order of the Macintosh (Apple's and
Microsoft's `post` table, format 1): 3 is the blank, 36 is A, 68 is a, and from 98 on come the accented letters.
"""

from __future__ import annotations

import math
import re

from qwen_batch.read.page import pdfium
from qwen_batch.read.page.chars import PageChars
from qwen_batch.read.page.garbled import LIKELY, bits_of

BLANK = "\x03"
MIN_BLANKS = 3
MIN_WORDS = 6  # distinct ones of three letters or more
PLAIN, ACCENTED = range(3, 98), range(98, 187)  # numbers of glyphs
_WORD = re.compile(r"[^\W\d_]{3,}")
_ORDER = {
    **{number: chr(number + 29) for number in PLAIN},
    **{number: bytes((number + 30,)).decode("mac_roman") for number in ACCENTED},
}


def with_glyphs_told(textpage: int, chars: PageChars) -> PageChars:
    """The same characters; where those without one make words as numbers of glyphs, as what these are."""
    if chars.text.count(BLANK) < MIN_BLANKS:
        return chars
    unnamed = [
        place
        for place, number in enumerate(chars.numbers)
        if ord(chars.text[place]) in _ORDER and pdfium.FPDFText_HasUnicodeMapError(textpage, number) == 1
    ]
    told = {place: _ORDER[ord(chars.text[place])] for place in unnamed}
    words = "".join(told.values())
    if len(set(_WORD.findall(words))) < MIN_WORDS or (bits_of(words) or -math.inf) < LIKELY:
        return chars
    text = "".join(told.get(place, char) for place, char in enumerate(chars.text))
    return chars._replace(text=text)
