"""Words to lines: hyphenation of English by a few rules, and the line breaking of English and Chinese."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

VOWELS = "aeiouy"
PREFIXES = frozenset(["ad", "al", "ap", "as", "be", "con", "de", "dis", "en", "ex", "in", "inter", "mis", "over"])
PREFIXES |= {"pre", "pro", "re", "sub", "trans", "un", "under"}
SUFFIXES = frozenset(["tion", "sion", "ment", "ments", "tions", "sions", "ness", "less", "ture", "ship"])
NO_TAIL = re.compile(
    "[a-z]?(?:[a-z]ed|[a-z]ings?|ves|ces|les|a?bles?|[cl]?ly|ely|ers?|i?cally)"
)  # would look odd alone
ONSETS = re.compile("b[lr]|c[hklr]|dr|f[lr]|g[hlr]|p[hlr]|qu|s[chklptw]|t[hrw]|w[hr]")  # letters that stay together
MIN_HEAD, MIN_TAIL = 3, 3  # letters on either side of a hyphen; a prefix may be shorter
FULL = 0.985  # a line filled to this share of its width is not improved by a hyphen

CHINESE = "\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef"
NO_LINE_START = "，。、；：？！）》」』〕】”％"
NO_LINE_END = "（《「『〔【“￥"

Measure = Callable[[str], float]  # text -> width in points


@dataclass(frozen=True, slots=True)
class _Unit:
    """The smallest piece that a line may end after without a hyphen being added."""

    text: str
    space_before: bool


def hyphen_points(word: str) -> list[int]:
    """Offsets at which a hyphen may be set, ascending. None for short words, names, and words with other signs."""
    if not re.fullmatch(r"[a-z]{6,}[,.;:)]*", word):
        return []
    bare = word.rstrip(",.;:)")
    inner = range(2, len(bare) - MIN_TAIL + 1)
    return [i for i in inner if _is_point(bare, i)]


def _is_point(word: str, i: int) -> bool:
    """After a known beginning, before a known ending, between two consonants, or before one between vowels."""
    head, tail = word[:i], word[i:]
    if NO_TAIL.fullmatch(tail):
        return False
    if head in PREFIXES or tail in SUFFIXES:
        return tail[0] not in VOWELS
    if len(head) < MIN_HEAD or tail[0] in VOWELS:
        return False
    if head[-1] in VOWELS:
        return head[-2] not in VOWELS and tail[0] != "x" and tail[1] in VOWELS
    onset = tail[1] in VOWELS or (ONSETS.match(tail) is not None and tail[2] in VOWELS)
    pair = head[-1] + tail[0]
    return onset and head[-2] in VOWELS and not ONSETS.match(pair) and pair not in ("ng", "rs", "ns", "ck")


def break_lines(text: str, first_width: float, width: float, measure: Measure) -> list[str]:
    """Fill lines greedily. A line that ends inside a word ends with a hyphen: an added one, or the word's own."""
    lines: list[str] = []
    line = ""
    units = list(_iter_units(text))
    for number, unit in enumerate(units):
        room = width if lines else first_width
        joined = f"{line} {unit.text}" if line and unit.space_before else line + unit.text
        if not line or measure(joined) <= room:
            line = joined
            continue
        head, tail = _split(line, unit, room, measure) if _may_hyphenate(lines, units, number) else ("", unit.text)
        lines.append(f"{line} {head}" if head else line)
        line = tail
    return [*lines, line]


def _may_hyphenate(lines: list[str], units: list[_Unit], number: int) -> bool:
    """Not the last word of a paragraph, not a part of a hyphened word, not three lines in a row."""
    stacked = len(lines) >= 2 and all(line.endswith("-") for line in lines[-2:])
    return not stacked and number < len(units) - 1 and units[number].space_before and units[number + 1].space_before


def _split(line: str, unit: _Unit, room: float, measure: Measure) -> tuple[str, str]:
    if measure(line) < FULL * room:
        for i in reversed(hyphen_points(unit.text)):
            head = unit.text[:i] + "-"
            if measure(f"{line} {head}") <= room:
                return head, unit.text[i:]
    return "", unit.text


def _iter_units(text: str) -> Iterator[_Unit]:
    for word in text.split(" "):
        space = True
        for piece in _pieces(word):
            yield _Unit(piece, space)
            space = False


def _pieces(word: str) -> list[str]:
    """A line may end after a hyphen between letters, and between Chinese characters but not before a closing sign."""
    one = f"[{re.escape(NO_LINE_END)}]*(?:[{CHINESE}]|[^{CHINESE}{re.escape(NO_LINE_START + NO_LINE_END)}]+)"
    pieces = re.findall(f"{one}[{re.escape(NO_LINE_START)}]*|.", word)
    return [part for piece in pieces for part in re.split(r"(?<=[A-Za-z]-)(?=[A-Za-z])", piece)]
