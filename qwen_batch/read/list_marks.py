"""Numbers of list items and headings, as word processors write them."""

from __future__ import annotations

_ROMAN = (
    (1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"), (10, "x"),
    (9, "ix"), (5, "v"), (4, "iv"), (1, "i"),
)  # fmt: skip
MAX_ROMAN = 4000


def as_mark(number: int, style: str) -> str:
    """A number in one of OpenDocument's styles: 1, a, A, i or I; '' where it has none."""
    if not style:
        return ""
    if style in "aA":
        letters = chr(97 + (number - 1) % 26) * ((number - 1) // 26 + 1) if number > 0 else "0"
        return letters.upper() if style == "A" else letters
    if style in "iI" and 0 < number < MAX_ROMAN:
        roman = _roman(number)
        return roman.upper() if style == "I" else roman
    return str(number)


def _roman(number: int) -> str:
    parts = []
    for value, letters in _ROMAN:
        parts.append(letters * (number // value))
        number %= value
    return "".join(parts)
