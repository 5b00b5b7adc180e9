"""Accents and vowel signs that a file draws by themselves: they belong to the letter over or under which they stand.

Fonts without accented letters (the older ones of TeX) draw an accent and a letter over each other; pdfium gives both,
often with a blank, a line end or other letters between. Signs of Arabic and Thai, which pdfium takes for lines of their
own where they stand high, are treated the same way.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

from qwen_batch.read.page.chars import PageChars

_COMBINING = {
    **dict(zip("`´^ˆ~˜¨˝", "\u0300\u0301\u0302\u0302\u0303\u0303\u0308\u030b", strict=True)),
    **dict(zip("ˇ˘˙˚¸¯˛", "\u030c\u0306\u0307\u030a\u0327\u0304\u0328", strict=True)),
}
_BELOW = "¸˛"
_ACCENT = re.compile("[`^~´ˆ˜¨˝ˇ˘˙˚¸¯˛]")
_PLAIN = re.compile("(?<=\\S)[`^~]|[`^~](?=\\S)")  # signs of code, too, so that only letters near them are asked
# Signs of Thai beside a blank, of Hebrew and Arabic beside a line end: elsewhere they stand at their letter.
_THAI, _RTL = "\u0e31\u0e34-\u0e3a\u0e47-\u0e4e", "\u0591-\u05bd\u064b-\u065f\u0670"
_SIGN = re.compile(f"(?<=\\s)[{_THAI}]|[{_THAI}](?=\\s)|(?<=[\r\n])[{_RTL}]|[{_RTL}](?=[\r\n])")
_THAI_VOWELS = "\u0e31\u0e34\u0e35\u0e36\u0e37\u0e38\u0e39"
_DOTTED = str.maketrans("ıȷ", "ij")
BESIDE = 12  # characters on both sides that are looked at first
MAX_FAR = 200  # accents of a page for which all of its characters are looked at
OVERLAP, SIGN_OVERLAP = 0.5, 0.25  # of the narrower one; signs of Thai stand to the right of their letter
RISE, SIGN_RISE = 0.5, 1.5  # of a letter's height: how far an accent, or the second of two signs, may stand over it
BLANK = 0.3  # of a letter's height: a wider gap is a blank


def with_accents(chars: PageChars) -> PageChars:
    """Letters with the accents that were drawn for them; what separated their words because of those is gone."""
    text = chars.text
    marks = [match.start() for match in _ACCENT.finditer(text)]
    if not text.isascii():
        marks += [match.start() for match in _SIGN.finditer(text)]
    held: dict[int, list[int]] = {}
    taken = set(marks)
    for number, mark in enumerate(sorted(marks)):
        near = range(max(0, mark - BESIDE), min(len(text), mark + BESIDE + 1))
        base = _base(chars, mark, near)
        if base is None and number < MAX_FAR and not _PLAIN.match(text, mark):
            base = _base(chars, mark, _over(chars, mark))
        if base is not None:
            held.setdefault(_after_vowels(text, base, taken), []).append(mark)
    return _put_together(chars, held) if held else chars


def _after_vowels(text: str, place: int, marks: set[int]) -> int:
    """In Thai, the vowel over a letter stands before its tone."""
    while place + 1 < len(text) and place + 1 not in marks and text[place + 1] in _THAI_VOWELS:
        place += 1
    return place


def _over(chars: PageChars, mark: int) -> list[int]:
    """All characters above and below an accent."""
    left, right = chars.x0[mark], chars.x1[mark]
    sides = zip(chars.x0, chars.x1, strict=True)
    return [place for place, (x0, x1) in enumerate(sides) if x0 < right and left < x1]


def _base(chars: PageChars, mark: int, places: Iterable[int]) -> int | None:
    """The place of the letter at which an accent stands, if it is among some."""
    found = [(_distance(chars, place, mark), place) for place in places if _is_at(chars, mark, place)]
    return min(found)[1] if found else None


def _distance(chars: PageChars, place: int, mark: int) -> float:
    across = chars.x0[place] + chars.x1[place] - chars.x0[mark] - chars.x1[mark]
    return abs(across) + abs(chars.top[place] + chars.bottom[place] - chars.top[mark] - chars.bottom[mark])


def _is_at(chars: PageChars, mark: int, place: int) -> bool:
    """Whether a letter stands under an accent, or over a cedilla."""
    shared = min(chars.x1[mark], chars.x1[place]) - max(chars.x0[mark], chars.x0[place])
    if shared <= 0 or not chars.text[place].isalpha() or chars.text[place] in _COMBINING:
        return False
    narrower = min(chars.x1[mark] - chars.x0[mark], chars.x1[place] - chars.x0[place])
    if shared < (OVERLAP if chars.text[mark] in _COMBINING else SIGN_OVERLAP) * narrower:
        return False
    top, bottom = chars.top[place], chars.bottom[place]
    rise, middle = RISE * (bottom - top), chars.top[mark] + chars.bottom[mark]
    if chars.text[mark] in _BELOW:
        return bottom - rise <= chars.top[mark] <= bottom + rise
    if chars.text[mark] in _COMBINING:
        return middle <= top + bottom and top - rise <= chars.bottom[mark]
    return top - SIGN_RISE * (bottom - top) <= middle / 2 <= bottom + rise


def _put_together(chars: PageChars, held: dict[int, list[int]]) -> PageChars:
    marks = {mark for each in held.values() for mark in each}
    blanks = _idle_blanks(chars, marks)
    places: list[int] = []
    text: list[str] = []
    for place, char in enumerate(chars.text):
        if place in marks or blanks.get(place, " ") == "":
            continue
        letters = blanks.get(place, char)
        at = [place]
        if place in held:
            letters = _with_marks(char, [chars.text[mark] for mark in held[place]])
            at = [place, *held[place]] if len(letters) > 1 else at
        places += at[: len(letters)]
        text.append(letters)
    return chars.at(places)._replace(text="".join(text))


def _with_marks(letter: str, marks: Sequence[str]) -> str:
    ordered = sorted(marks, key=lambda mark: mark not in _THAI_VOWELS)
    signs = "".join(_COMBINING.get(mark, mark) for mark in ordered)
    return unicodedata.normalize("NFC", letter.translate(_DOTTED) + signs)


def _idle_blanks(chars: PageChars, marks: set[int]) -> dict[int, str]:
    """What becomes of the white space beside accents: nothing within a word, a blank within a line."""
    text, done = chars.text, {}
    for mark in sorted(marks):
        before, after = mark, mark
        while before >= 0 and (before in marks or _is_between(text[before])):
            before -= 1
        while after < len(text) and (after in marks or _is_between(text[after])):
            after += 1
        between = [place for place in range(before + 1, after) if text[place].isspace()]
        if before < 0 or after == len(text) or not between or not _are_in_line(chars, before, after):
            continue
        height = max(chars.bottom[place] - chars.top[place] for place in (before, after))
        gap = max(chars.x0[after] - chars.x1[before], chars.x0[before] - chars.x1[after])
        done.update(dict.fromkeys(between, ""))
        if gap > BLANK * height:
            done[between[0]] = " "
    return done


def _is_between(char: str) -> bool:
    """Whether it has no place in a line of its own."""
    return char.isspace() or unicodedata.category(char) == "Mn"


def _are_in_line(chars: PageChars, before: int, after: int) -> bool:
    lower, upper = (min(chars.bottom[before], chars.bottom[after]), max(chars.top[before], chars.top[after]))
    heights = [chars.bottom[place] - chars.top[place] for place in (before, after)]
    return lower - upper > 0.5 * min(heights)
