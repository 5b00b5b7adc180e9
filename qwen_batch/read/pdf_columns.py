"""Tables without rules: rows of short, mostly numeric cells that stand in columns.

A block is a run of rows of which most have at least three pieces. Its columns are divided where no row of its body
has ink (the rivers of white; cf. Nurminen's thesis of 2013, which tabula and pdfplumber follow). Numbers are asked
for: prose in columns, tables of contents, code and address blocks also leave rivers, and must stay text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from qwen_batch.read.pdf_chars import DIVIDED, PageChars
from qwen_batch.read.pdf_lines import iter_lines
from qwen_batch.read.rtl_letters import has_rtl_letters
from qwen_batch.read.table_heads import count_header_rows
from qwen_batch.records import BBox, Span, Table

MIN_ROWS = 4  # of the body
MIN_COLUMNS = 3
MIN_NUMBERS = 2 * MIN_ROWS  # of a page: two in each row of a body; without them it is not even looked at
MIN_NUMERIC = 0.5  # of the cells of the body, the first column left out
WORD_GAP = 0.6  # of the height of letters
LEAST_GAP = 2.4  # points
PIECE_GAP = 0.9  # ems between pieces of a row
RIVER = 0.35  # ems
MAX_LEADING = 2.6  # ems from row to row
SAME_ROW = 0.35  # ems
LEVEL = 6.0  # points: more than SAME_ROW is for letters of 17 points
MAX_WORDS = 8.0  # of a cell, on average
HEAD_ROWS = 6  # above the body
CROSSED = 0.04  # of the body's rows: a river may be crossed by so many
_WORD = re.compile(r"\S+")
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
Strip = tuple[float, float]  # from the left to the right end, in points


def may_have_columns(page: PageChars) -> bool:
    """Whether a page may have such a table at all: whether enough of its numbers stand level with another.

    This is much quicker than looking for the table, which most pages do not have.
    """
    text = page.text.replace(DIVIDED, "-")
    spans = [match.span() for match in _WORD.finditer(text) if is_numeric(match[0])]
    if len(spans) < MIN_NUMBERS:
        return False
    middles = sorted(min(page.top[start:end]) + max(page.bottom[start:end]) for start, end in spans)
    level = [False, *(after - before <= 2 * LEVEL for before, after in pairwise(middles)), False]
    return sum(above or below for above, below in pairwise(level)) >= MIN_NUMBERS


def find_columns(words: Sequence[Word]) -> list[Table]:
    """The unruled tables of a page, from its words."""
    return [table for block in _blocks(rows_of(words)) if (table := _as_table(block)) is not None]


def words_of(page: PageChars) -> list[Word]:
    """The words of a page, line by line."""
    return [word for start, end in iter_lines(page) for word in _words(page, start, end)]


def _words(page: PageChars, start: int, end: int) -> Iterator[Word]:
    """The words of a line, which wide gaps part as blanks do."""
    x0, x1 = page.x0, page.x1
    for match in _WORD.finditer(page.text, start, end):
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


def pieces_of(row: Row) -> list[Row]:
    """Words that stand close together."""
    pieces: list[Row] = [[row[0]]]
    gap = PIECE_GAP * em_of(row)
    for before, word in pairwise(row):
        if word.x0 - before.x1 > gap:
            pieces.append([])
        pieces[-1].append(word)
    return pieces


def is_numeric(text: str) -> bool:
    return _NUMERIC.fullmatch(text) is not None


def _is_leader(word: Word) -> bool:
    """Dots that lead from a label to its numbers; they belong to the label."""
    return not word.text.strip(".…·_")


def _is_body(row: Row) -> bool:
    """A row of a table: at least two numbers, most of what stands to the right of its first piece."""
    numbers = sum(is_numeric(word.text) for word in row)
    right = [word for piece in pieces_of(row)[1:] for word in piece]
    return numbers >= 2 and len(right) >= 2 and 2 * sum(is_numeric(word.text) for word in right) >= len(right)


def _blocks(rows: Sequence[Row]) -> Iterator[tuple[list[Row], list[Row]]]:
    """(rows of heads, rows from the first to the last of the body) of each run of rows that are close together."""
    body: list[int] = []
    taken = 0
    for index, row in enumerate(rows):
        if not _is_body(row):
            continue
        if body and not _are_close(rows[body[-1] : index + 1]):
            yield from _block(rows, body, taken)
            taken, body = body[-1] + 1, []
        body.append(index)
    yield from _block(rows, body, taken)


def _are_close(rows: Sequence[Row]) -> bool:
    """Whether rows follow each other: three at most between two of the body, without a wide gap."""
    steps = (middle_of(after[0]) - middle_of(before[0]) for before, after in pairwise(rows))
    return len(rows) <= 5 and all(step < MAX_LEADING * em_of(rows[0]) for step in steps)


def _block(rows: Sequence[Row], body: Sequence[int], taken: int) -> Iterator[tuple[list[Row], list[Row]]]:
    if len(body) < MIN_ROWS:
        return
    start = body[0]
    while start > max(taken, body[0] - HEAD_ROWS) and _is_head(rows[start - 1], rows[start], rows[body[0]]):
        start -= 1
    yield list(rows[start : body[0]]), list(rows[body[0] : body[-1] + 1])


def _is_head(row: Row, below: Row, first: Row) -> bool:
    close = middle_of(below[0]) - middle_of(row[0]) < MAX_LEADING * em_of(row)
    inside = row[0].x0 >= first[0].x0 - 3 * em_of(first) and row[-1].x1 <= first[-1].x1 + 3 * em_of(first)
    return close and inside and (len(pieces_of(row)) >= 2 or row[0].x0 > first[0].x0 + 2 * em_of(row))


def _as_table(block: tuple[list[Row], list[Row]]) -> Table | None:
    heads, body = block
    dividers = [(start + end) / 2 for start, end in rivers([row for row in body if _is_body(row)])]
    if len(dividers) + 1 < MIN_COLUMNS:
        return None
    placed = [placed_cells(row, dividers) for row in (*heads, *body)]
    cells = [row for row, _ in placed]
    right = [cell for row in cells[len(heads) :] for cell in row[1:] if cell]
    words = sum(len(cell.split()) for cell in right)
    if (
        not right
        or sum(is_numeric(cell) for cell in right) < MIN_NUMERIC * len(right)
        or words > MAX_WORDS * len(right)
    ):
        return None
    spans = tuple(Span(row, start, 1, count) for row, (_, wide) in enumerate(placed) for start, count in wide)
    return Table(tuple(cells), _bbox([*heads, *body]), spans, max(len(heads), count_header_rows(cells, spans)))


def rivers(rows: Sequence[Row], least_ems: float = RIVER, crossed: float = CROSSED) -> list[Strip]:
    """Where columns divide: the strips that (nearly) no row has ink in."""
    least = least_ems * sorted(em_of(row) for row in rows)[len(rows) // 2]
    inkers = [word for row in rows for word in row if not _is_leader(word)]
    ends = sorted([(word.x0, 1) for word in inkers] + [(word.x1, -1) for word in inkers])
    allowed = int(crossed * len(rows))
    found: list[Strip] = []
    inked, start = 0, None
    for place, step in ends:
        inked += step
        if inked <= allowed and start is None:
            start = place
        elif inked > allowed and start is not None:
            if place - start >= least:
                found.append((start, place))
            start = None
    return found


def placed_cells(row: Row, dividers: Sequence[float]) -> tuple[tuple[str, ...], list[tuple[int, int]]]:
    """The words of each column, and (first column, number of columns) of the pieces that stand over several; these are
    in the first of them."""
    cells: list[list[str]] = [[] for _ in range(len(dividers) + 1)]
    wide: list[tuple[int, int]] = []
    for piece in _pieces_between(row, dividers):
        column = sum(divider < piece[0].x0 + 0.5 for divider in dividers)
        last = sum(divider < piece[-1].x1 - 0.5 for divider in dividers)
        if last > column and not any(map(_is_leader, piece)):
            wide.append((column, last - column + 1))
        cells[column] += [word.text for word in piece]
    return tuple(map(_joined, cells)), wide


def _joined(words: Sequence[str]) -> str:
    text = " ".join(words)
    if not has_rtl_letters(text):
        return text
    from qwen_batch.read.bidi import words_in_order

    return " ".join(words_in_order(words))


def _pieces_between(row: Row, dividers: Sequence[float]) -> Iterator[Row]:
    """Words that belong together: a gap that holds a divider parts them, leaders or not."""
    piece, end = [row[0]], row[0].x1
    for word in row[1:]:
        if not _is_leader(word):
            if any(end - 0.5 <= divider <= word.x0 + 0.5 for divider in dividers):
                yield piece
                piece = []
            end = word.x1
        piece.append(word)
    yield piece


def _bbox(rows: Sequence[Row]) -> BBox:
    words = [word for row in rows for word in row]
    return (
        min(word.x0 for word in words) - 1,
        min(word.top for word in words) - 2,
        max(word.x1 for word in words) + 1,
        max(word.bottom for word in words) + 2,
    )
