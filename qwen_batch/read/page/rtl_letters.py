"""Letters that run from right to left: most files have none, and need nothing of page/bidi.py."""

from __future__ import annotations

import re
import unicodedata

# No letter that runs from right to left, in common use, is outside. Two ranges: sets of more take four times as long
# to compile.
_MAY_BE_RTL = re.compile("[\u0590-\u08ff\ufb1d-\ufeff]")


def has_rtl_letters(text: str) -> bool:
    return any(map(is_rtl_letter, _MAY_BE_RTL.findall(text)))


def is_rtl_letter(char: str) -> bool:
    return unicodedata.bidirectional(char) in ("R", "AL")
