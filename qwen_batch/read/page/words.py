"""The words of a PDF page and the rows in which they stand."""

from __future__ import annotations

import functools
import math
import operator
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import compress, pairwise, starmap
from typing import NamedTuple

from qwen_batch.patterns import late
from qwen_batch.read.page.chars import DIVIDED, PageChars

WORD_GAP = 0.6  # of the height of letters
LEAST_GAP = 2.4  # points
PIECE_GAP = 0.9  # ems between pieces of a row
SAME_ROW = 0.35  # ems
EM, LEAST_EM = 1.3, 6.0  # heights of the tallest letters; points
MIN_LEVEL = 6  # numbers of a page beside another: two in each row of a table
LEVEL = 6.0  # points: more than SAME_ROW is for letters of 17 points
MIN_FLUSH = 3  # numbers at the ends of lines below each other
FLUSH = 2.0  # points
LONGEST_NAME = 3  # letters of what stands for a number without digits, or is a currency
_BREAKS = ("\r", "\n", "")
WORD = re.compile(r"\S+")
_WORD_OF_LINE = re.compile(rf"[^\s{DIVIDED}]+{DIVIDED}?|{DIVIDED}")
_SIGNS = "[0-9.,%()$€£¥+\\-–—−*†‡/△▲ ]"  # of numbers
_CURRENCY = "(?:EUR|USD|GBP|CHF|CAD|AUD|JPY|CNY|RMB|US\\$|元|円)"
_ANY_CASE = f"(?i:{_CURRENCY})"  # sets of signs are compiled faster where case counts
_NUMBER = rf"(?:{_ANY_CASE} ?)?{_SIGNS}*[0-9]{_SIGNS}*{_ANY_CASE}?|[–—…-]|\.\.\.|(?i:n/?a|x|\([xz]\)|nil)"
_SIGN = "[$€£¥%)]"
_IS_NUMBER = late(_NUMBER)  # pages without tables ask only `numbers_of`
_IS_SIGN = late(rf"{_SIGN}|{_CURRENCY}")
_IS_EITHER = re.compile(rf"{_NUMBER}|{_SIGN}|{_ANY_CASE}")
_CAPTION = late(r"(?:table|tabelle|tableau|tabla|figure|fig\.|abbildung|abb\.|表|图|圖)\s*[\dA-Z]", re.IGNORECASE)


class Word(NamedTuple):
    """A word and its place."""

    text: str
    x0: float
    top: float
    x1: float
    bottom: float


Row = list[Word]


class Numbers(NamedTuple):
    """How the numbers of a page stand: what tells, quickly, that it cannot have tables without rules."""

    level: bool  # beside each other, enough of them for rows
    flush: bool  # below each other at the ends of lines


def numbers_of(page: PageChars) -> Numbers:
    """Much quicker than looking for tables, which most pages do not have."""
    text = page.text.replace(DIVIDED, "-")
    are_numeric = list(map(_may_be_number, text.split()))
    if sum(are_numeric) < MIN_FLUSH:
        return Numbers(False, False)
    spans = [match.span() for match in compress(WORD.finditer(text), are_numeric)]
    middles = sorted(min(page.top[start:end]) + max(page.bottom[start:end]) for start, end in spans)
    level = [False, *(after - before <= 2 * LEVEL for before, after in pairwise(middles)), False]
    is_level = sum(above or below for above, below in pairwise(level)) >= MIN_LEVEL
    last = [(start, end) for start, end in spans if text[end : end + 1] in _BREAKS]
    is_flush = _flush([page.x1[end - 1] for _, end in last]) or _flush([page.x0[start] for start, _ in last])
    return Numbers(is_level, is_flush)


@functools.lru_cache(maxsize=8192)
def _may_be_number(word: str) -> bool:
    """Whether a word is a number, or a sign that stands beside one."""
    return (len(word) <= LONGEST_NAME or not word.isalpha()) and _IS_EITHER.fullmatch(word) is not None


def _flush(places: Sequence[float]) -> bool:
    counts = Counter(round(place / FLUSH) for place in places if place != math.inf)
    return any(count + counts.get(place + 1, 0) >= MIN_FLUSH for place, count in counts.items())


def words_of(page: PageChars) -> list[Word]:
    """The words of a page, line by line."""
    slices = list(starmap(slice, _spans(page)))
    texts = map(page.text.replace(DIVIDED, "-").__getitem__, slices)
    x0, top, x1, bottom = (map(side.__getitem__, slices) for side in (page.x0, page.top, page.x1, page.bottom))
    fields = zip(texts, map(min, x0), map(min, top), map(max, x1), map(max, bottom), strict=True)
    return list(map(functools.partial(tuple.__new__, Word), fields))  # no Python for each word


def _spans(page: PageChars) -> Iterator[tuple[int, int]]:
    """Start and end of each word. Wide gaps part them as blanks do, hyphens that end a line end them."""
    gaps = _gaps(page)
    place = 0
    for match in _WORD_OF_LINE.finditer(page.text):
        begin, after = match.span()
        while place < len(gaps) and gaps[place] < after:
            if gaps[place] > begin:
                yield begin, gaps[place]
                begin = gaps[place]
            place += 1
        yield begin, after


def _gaps(page: PageChars) -> list[int]:
    """The characters with a wide gap before them, which is not white space, in their order."""
    sides = zip(page.x0[1:], page.x1, strict=False)
    wide = [number for number, (start, end) in enumerate(sides, 1) if LEAST_GAP < start - end < math.inf]
    return [
        number
        for number in wide
        if page.x0[number] - page.x1[number - 1] > WORD_GAP * max(_height(page, number), _height(page, number - 1))
    ]


def _height(page: PageChars, number: int) -> float:
    return page.bottom[number] - page.top[number]


def rows_of(words: Sequence[Word]) -> list[Row]:
    """Words whose middles are level, from the top down, each row from the left."""
    rows: list[Row] = []
    size, before = 0.0, 0.0  # of the last row; where the middle of the last word is
    for word in sorted(words, key=lambda item: item.top + item.bottom):
        middle = middle_of(word)
        em = max(LEAST_EM, EM * (word.bottom - word.top))
        if rows and middle - before < SAME_ROW * size:
            rows[-1].append(word)
            size = max(size, em)
        else:
            rows.append([word])
            size = em
        before = middle
    return [sorted(row, key=operator.attrgetter("x0")) for row in rows]


def middle_of(word: Word) -> float:
    return (word.top + word.bottom) / 2


def em_of(row: Row) -> float:
    """About an em: the tallest letters with what hangs below."""
    return max(LEAST_EM, EM * max([word.bottom - word.top for word in row]))


def pieces_of(row: Row, gap_ems: float = PIECE_GAP) -> list[Row]:
    """Words that stand close together."""
    pieces: list[Row] = [[row[0]]]
    gap = gap_ems * em_of(row)
    for before, word in pairwise(row):
        if word.x0 - before.x1 > gap:
            pieces.append([])
        pieces[-1].append(word)
    return pieces


def is_numeric(text: str) -> bool:
    return _IS_NUMBER().fullmatch(text) is not None


def is_sign(text: str) -> bool:
    """A sign of currency, or what else stands beside a number as a word of its own."""
    return _IS_SIGN().fullmatch(text) is not None


def is_caption(row: Row) -> bool:
    """Whether a row entitles a table or a figure."""
    return _CAPTION().match(" ".join(word.text for word in row)) is not None
