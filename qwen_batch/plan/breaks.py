"""Where a text may be divided, from headings down to the space between two words."""

from __future__ import annotations

import enum
import re
import unicodedata
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass


class Level(enum.IntEnum):
    """How good a place is for the end of a part: the smaller, the better."""

    HEADING = 0  # before a heading
    BLOCK = 1  # at blank lines
    LINE = 2  # between paragraphs
    SENTENCE = 3
    ROW = 4  # between two rows of a table
    GLUED = 5  # between lines that belong together: after a heading, or inside a wrapped sentence
    CLAUSE = 6  # after a comma
    WORD = 7
    CELL = 8  # between two words of a table row


_OF_LINES = (Level.HEADING, Level.BLOCK, Level.LINE, Level.ROW, Level.GLUED)
_FAR = 10_000  # characters
_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003fffd"
_CLOSING = "\"'”’»)\\]」』）》】"
_STOPS = frozenset(".!?…。！？；\"'”’»)]」』）》】")  # what a sentence may end with, white space apart
_LINE = re.compile(r"[^\n]+")
_SENTENCE_END = re.compile(rf"[.!?…]+[{_CLOSING}]*\s+(?=\S)|[。！？；…]+[{_CLOSING}]*\s*(?=\S)")
_CLAUSE_END = re.compile(rf"[,;:][{_CLOSING}]*\s+(?=\S)|[，、：；]+[{_CLOSING}]*(?=\S)")
_WORD_END = re.compile(rf"\s+(?=\S)|(?<=[{_CJK}])(?=[{_CJK}])")

_NUMBER = r"[〇零一二三四五六七八九十百千\d]+"
_HEADING = re.compile(rf"#{{1,6}}\s|第{_NUMBER}[编篇章节條条]|[一二三四五六七八九十]+、")
_NAMED_HEADING = re.compile(
    r"(?i:article|section|chapter|part|clause|schedule|annex|appendix|exhibit)\s+(?:\d+(?:\.\d+)*|[IVXLC]+|[A-Z])"
    r"(?P<after>\s*[.:)–—]|\b)"
)
_NUMBERED_HEADING = re.compile(rf"(?:\d+(?:\.\d+)*[.)]?|[IVX]+\.)\s*[A-Z{_CJK}]")
_MAX_HEADING_CHARS = 80
_TERMINAL = ".!?;,。！？；，、…"

_ABBREVIATION = re.compile(
    r"nos?|inc|co|corp|ltd|llc|plc|mrs?|ms|dr|prof|st|jr|sr|vs?|cf|al|approx|dept|est|figs?|arts?|secs?|paras?|ch|vol|"
    r"eds?|pp?|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec|gen|gov|hon|rev|etc|ca|resp|tel|ext|bros|assn|univ|rd|ave|"
    r"bldg|incl|excl|max|min|refs?|seq|supp"
)


class Breaks:
    """Break positions of one text. A position is the offset at which the next part begins, white space apart.

    Lines are looked at once, as far as somebody has asked.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._positions = {level: array("I") for level in _OF_LINES}
        self._row_starts = array("I")  # of table rows, ascending
        self._row_ends = array("I")
        self._lines = _LINE.finditer(text)
        self._before: _Line | None = None  # the last line that was looked at
        self._end = 0  # how far lines have been looked at

    def between(self, level: Level, low: int, high: int) -> list[int]:
        """Break positions of a level in (low, high], ascending."""
        self._look_at_lines(high)
        if level in self._positions:
            listed = self._positions[level]
            found = listed[bisect_right(listed, low) : bisect_right(listed, high)].tolist()
        else:
            found = list(self._scan(level, low, high))
        return [position for position in found if can_cut(self.text, position)]

    def nearest(self, level: Level, low: int, high: int, target: int) -> int | None:
        """The break position of a level in (low, high] that is nearest to `target`."""
        found = self.between(level, low, high)
        if not found:
            return None
        index = bisect_left(found, target)
        return min(found[max(0, index - 1) : index + 1], key=lambda position: abs(position - target))

    def _look_at_lines(self, high: int) -> None:
        while self._end <= high:
            match = next(self._lines, None)
            self._end = len(self.text) + 1 if match is None else match.end()
            if match is not None and (content := match[0].strip()):
                self._add(_Line(match.start(), content, _opens(content)), match.end())

    def _add(self, line: _Line, end: int) -> None:
        if self._before is not None:
            gap = self.text.count("\n", self._before.start, line.start) > 1
            self._positions[_level_between(self._before, line, gap)].append(line.start)
        if line.is_row:
            self._row_starts.append(line.start)
            self._row_ends.append(end)
        self._before = line

    def _scan(self, level: Level, low: int, high: int) -> Iterator[int]:
        # Sentences and words are many and rarely needed: they are looked for around one place instead of being listed.
        if level is Level.SENTENCE:
            yield from self._scan_sentences(low, high)
            return
        pattern = _CLAUSE_END if level is Level.CLAUSE else _WORD_END
        for match in pattern.finditer(self.text, low, min(high + 1, len(self.text))):
            if low < match.end() <= high and self._in_row(match.end()) == (level is Level.CELL):
                yield match.end()

    def _scan_sentences(self, low: int, high: int) -> Iterator[int]:
        """Line by line; of what is longer than FAR, only what is near."""
        text = self.text
        line_start = max(text.rfind("\n", max(0, low - _FAR), low) + 1, low - _FAR)
        start = low
        while start > line_start and (text[start - 1] in _STOPS or text[start - 1].isspace()):  # an end under way
            start -= 1
        while start < high:
            line_end = text.find("\n", start, high + _FAR)
            line_end = min(high + _FAR, len(text)) if line_end < 0 else line_end
            if not self._in_row(max(start, line_start + 1)):
                yield from (end for end in _sentence_ends(text, line_start, start, line_end) if low < end <= high)
            start = line_start = line_end + 1

    def _in_row(self, position: int) -> bool:
        index = bisect_left(self._row_starts, position) - 1
        return index >= 0 and position < self._row_ends[index]


@dataclass(frozen=True, slots=True)
class _Line:
    start: int
    content: str  # stripped
    opens: bool  # a new section begins here

    @property
    def is_row(self) -> bool:
        return self.content.startswith("|")

    @property
    def is_heading(self) -> bool:
        """Whether this is nothing but a heading, which must stay with what follows."""
        return self.opens and (_is_short(self.content) or bool(_NAMED_HEADING.fullmatch(self.content)))


def _opens(content: str) -> bool:
    if _HEADING.match(content):
        return True
    named = _NAMED_HEADING.match(content)
    if named and named["after"]:
        return True
    if not _is_short(content):
        return False
    return bool(named or _NUMBERED_HEADING.match(content)) or (len(content) > 3 and content.isupper())


def _is_short(content: str) -> bool:
    return 1 < len(content) <= _MAX_HEADING_CHARS and content[-1] not in _TERMINAL and content[0] != "|"


def _level_between(before: _Line, line: _Line, gap: bool) -> Level:
    if before.is_heading:
        return Level.GLUED
    if line.opens:
        return Level.HEADING
    if gap:
        return Level.BLOCK
    if before.is_row and line.is_row:
        return Level.ROW
    wrapped = line.content[0].islower() and before.content[-1] not in _TERMINAL + ":："
    return Level.GLUED if wrapped else Level.LINE


def _sentence_ends(text: str, line_start: int, start: int, end: int) -> Iterator[int]:
    for match in _SENTENCE_END.finditer(text, start, end):
        if text[match.start()] != "." or not _is_abbreviation(text, line_start, match.start(), text[match.end()]):
            yield match.end()


def _is_abbreviation(text: str, line_start: int, dot: int, following: str) -> bool:
    """Whether the full stop at `dot` belongs to the word before it (`No. 5`, `e.g. this`, `J. Smith`, `1. Scope`)."""
    if following.islower():
        return True
    words = text[max(line_start, dot - 24) : dot].split()
    word = words[-1].lstrip("([{\"'“‘").lower() if words else ""
    if _ABBREVIATION.fullmatch(word) or ("." in word.rstrip(".") and word.replace(".", "").isalpha()):
        return True
    if word.isdecimal():
        return not text[line_start : dot - len(word)].strip()
    return len(word) == 1 and word.isalpha() and word.isascii()


def can_cut(text: str, position: int) -> bool:
    """Whether a cut before `text[position]` leaves every character whole: no accent, joiner, variation selector,
    skin tone, conjoining Hangul or second half of a pair is parted from what it belongs to (after UAX 29)."""
    if not 0 < position < len(text):
        return True
    before, after = text[position - 1], text[position]
    if after < "\u0300":
        return not (before == "\r" and after == "\n") and before != "\u200d"
    if before == "\u200d" or after == "\u200d" or "\U0001f3fb" <= after <= "\U0001f3ff":
        return False
    if "\u1160" <= after <= "\u11ff" or ("\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff"):
        return False
    if "\U0001f1e6" <= after <= "\U0001f1ff":
        flags = re.search("[\U0001f1e6-\U0001f1ff]*$", text[max(0, position - 64) : position])
        return flags is None or len(flags[0]) % 2 == 0
    return not unicodedata.category(after).startswith("M")
