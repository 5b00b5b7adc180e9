"""The words of a PDF page and the rows in which they stand."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from qwen_batch.read.pdf_chars import DIVIDED, PageChars, iter_lines

WORD_GAP = 0.6  # of the height of letters
LEAST_GAP = 2.4  # points
PIECE_GAP = 0.9  # ems between pieces of a row
SAME_ROW = 0.35  # ems
WORD = re.compile(r"\S+")
_SIGNS = "[0-9.,%()$€£¥+\\-–—−*†‡/ ]"  # of numbers
_NUMERIC = re.compile(rf"{_SIGNS}*[0-9]{_SIGNS}*|[–—…-]|\.\.\.|n/?a|x|\([xz]\)|nil", re.IGNORECASE)


class Word(NamedTuple):
    """A word and its place."""

    text: str
    x0: float
    top: float
    x1: float
    bottom: float


Row = list[Word]


def words_of(page: PageChars) -> list[Word]:
    """The words of a page, line by line."""
    return [word for start, end in iter_lines(page) for word in _words(page, start, end)]


def _words(page: PageChars, start: int, end: int) -> Iterator[Word]:
    """The words of a line, which wide gaps part as blanks do."""
    x0, x1 = page.x0, page.x1
    for match in WORD.finditer(page.text, start, end):
        begin, after = match.span()
        for number in range(begin + 1, after):
            gap = x0[number] - x1[number - 1]
            if gap > LEAST_GAP and gap > WORD_GAP * max(_height(page, number), _height(page, number - 1)):
                yield _word(page, begin, number)
                begin = number
        yield _word(page, begin, after)


def _height(page: PageChars, number: int) -> float:
    return page.bottom[number] - page.top[number]


def _word(page: PageChars, start: int, end: int) -> Word:
    text = page.text[start:end].replace(DIVIDED, "-")
    tops, bottoms = page.top[start:end], page.bottom[start:end]
    return Word(text, min(page.x0[start:end]), min(tops), max(page.x1[start:end]), max(bottoms))


def rows_of(words: Sequence[Word]) -> list[Row]:
    """Words whose middles are level, from the top down, each row from the left."""
    rows: list[Row] = []
    size = 0.0  # of the last row
    for word in sorted(words, key=lambda item: item.top + item.bottom):
        if rows and middle_of(word) - middle_of(rows[-1][-1]) < SAME_ROW * size:
            rows[-1].append(word)
            size = max(size, em_of([word]))
        else:
            rows.append([word])
            size = em_of([word])
    return [sorted(row, key=lambda word: word.x0) for row in rows]


def middle_of(word: Word) -> float:
    return (word.top + word.bottom) / 2


def em_of(row: Row) -> float:
    """About an em: the tallest letters with what hangs below."""
    return max(6.0, 1.3 * max(word.bottom - word.top for word in row))


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
    return _NUMERIC.fullmatch(text) is not None
