"""The names of a table's columns, and the rows that leave the white between them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from qwen_batch.read.page.words import Row, em_of, is_caption, is_numeric, is_sign, middle_of, pieces_of
from qwen_batch.read.table_heads import is_data
from qwen_batch.read.tables.bodies import TIGHT, base_of
from qwen_batch.read.tables.columns import MAX_LEADING
from qwen_batch.read.tables.rivers import SPACE, Strip, placed_cells, rivers

HEAD_LEADING = 1.6  # ems between the lines of names
BELOW_NAMES = 3.4  # ems from names to the first row
MAX_HEAD_LINES = 4
MAX_BAND_LINES = 8  # between two rules
MAX_NAME_WORDS = 5.0  # on average
WHITE = 0.5  # ems between columns, at least
FLUSH = 2.0  # points
APART = 0.75  # ems between two names at least; more than a blank between letters of one width
MANY = 5  # rows with a word at the same place: a column begins there
_SIGNS = frozenset("#%№€$£¥(")
_YEAR = re.compile(r"\b(19|20)\d\d\b")


class Head(NamedTuple):
    """Lines of names, and the white between them."""

    lines: list[Row]
    strips: list[Strip]


def head_of(above: Sequence[Row]) -> Head | None:
    """The names that end with the last line above; None where these are none."""
    lines: list[Row] = []
    strips: list[Strip] = []
    for row in reversed(above[-MAX_HEAD_LINES:]):
        if lines and base_of(lines[0]) - base_of(row) > HEAD_LEADING * em_of(row):
            break
        both = rivers([row, *lines], WHITE, 0.0)
        is_over = len(pieces_of(row)) > 1 or (bool(strips) and row[0].x0 > strips[0][0])
        if is_caption(row) or not is_over:
            break
        if lines and len(both) < len(strips):
            lines.insert(0, row)  # it stands over several columns
            break
        lines.insert(0, row)
        strips = both
    if not strips or not _are_names(lines, strips):
        return None
    return Head(lines, strips)


def head_between(lines: Sequence[Row]) -> Head | None:
    """The names that stand alone between two rules, in however many lines; None where these are none."""
    if not 0 < len(lines) <= MAX_BAND_LINES or any(map(is_caption, lines)):
        return None
    strips = rivers(lines, WHITE, 0.0)
    widest = max((end - start for start, end in strips), default=0.0)
    is_apart = widest > APART * max(map(em_of, lines))
    return Head(list(lines), strips) if is_apart and _are_names(lines, strips) else None


def _are_names(lines: Sequence[Row], strips: Sequence[Strip]) -> bool:
    """Whether a head has a few words for each column but the first, and is no row of data."""
    dividers = [(start + end) / 2 for start, end in strips]
    cells = [placed_cells(row, dividers)[0] for row in lines]
    names = [" ".join(filter(None, column)) for column in zip(*cells, strict=True)]
    if len(names) == 2 and sum(map(all, cells)) > 1:  # labels and what they say
        return False
    if not all(names[1:]) or any(map(is_data, cells)) or not all(is_name(name) for name in names if name):
        return False
    return sum(len(name.split()) for name in names) <= MAX_NAME_WORDS * len(names)


def is_name(text: str) -> bool:
    """Whether a text may name a column: words, a year, a sign of a number or of a currency."""
    if text in _SIGNS or text[0] == "(" or _YEAR.search(text):
        return True
    letters = sum(map(str.isalpha, text))
    return (
        2 * letters > len(text.replace(" ", "")) and (text[0].isalnum() or text[0] in _SIGNS) and text[-1] not in ":;,"
    )


def may_be_names(pieces: Sequence[Row]) -> bool:
    """Whether pieces may be the last line of names."""
    return len(pieces) > 1 and all(is_name(" ".join(word.text for word in piece)) for piece in pieces)


def body_of(
    head: Head, below: Sequence[Row], ends: Sequence[float], is_inside: Callable[[Row], bool]
) -> tuple[list[Row], list[Strip]]:
    """The rows that leave white between the columns, to the last that has several cells or goes on with such.

    `ends`: heights of rules as wide as that below the names.
    """
    strips = head.strips
    lefts = [piece[0].x0 for line in head.lines for piece in pieces_of(line)[1:]]
    taken: list[Row] = []
    kept = (0, strips)
    above = head.lines[-1]
    pitch = float("inf")
    for row in below:
        step = base_of(row) - base_of(above)
        if step > (MAX_LEADING if taken else BELOW_NAMES) * em_of(row) or not is_inside(row) or is_caption(row):
            break
        is_below = any(middle_of(above[0]) < place < middle_of(row[0]) for place in ends)
        narrow = _narrowed(strips, row, lefts)
        if narrow is None:
            if not (taken and _is_sum(row, taken)):
                break
            narrow = strips
        is_full = len(_columns_of(row, narrow)) > 1 or _is_sum(row, taken)
        if taken and is_below and not _is_row_like(row, taken):
            break
        is_rest = bool(taken) and kept[0] == len(taken) and step <= TIGHT * pitch and _goes_on(row, taken)
        if taken:
            pitch = min(pitch, step)
        lefts += [piece[0].x0 for piece in pieces_of(row)[1:]]
        taken.append(row)
        strips = narrow
        if is_full or is_rest:
            kept = (len(taken), strips)
        above = row
    return taken[: kept[0]], kept[1]


def _is_row_like(row: Row, taken: Sequence[Row]) -> bool:
    """Whether what follows below a rule is still of the table: a sum, or a row whose cells stand flush with others."""
    pieces = pieces_of(row)
    if len(pieces) < 2:
        return False
    sides = [(piece[0].x0, piece[-1].x1) for line in taken for piece in pieces_of(line)]
    flush = [
        any(abs(piece[0].x0 - x0) < FLUSH or abs(piece[-1].x1 - x1) < FLUSH for x0, x1 in sides) for piece in pieces
    ]
    return all(flush) or _is_sum(row, taken)


def _goes_on(row: Row, taken: Sequence[Row]) -> bool:
    """Whether a line starts where a piece of one above does."""
    return any(abs(row[0].x0 - piece[0].x0) < FLUSH for line in taken[-4:] for piece in pieces_of(line))


def _is_sum(row: Row, taken: Sequence[Row]) -> bool:
    """Whether a row is an amount flush with those above, alone or behind a label."""
    if not taken:
        return False
    pieces = pieces_of(row)
    last = max((line[-1] for line in taken), key=lambda word: word.x1)
    is_amount = all(is_numeric(word.text) or is_sign(word.text) for word in pieces[-1])
    return len(pieces) <= 2 and is_amount and is_numeric(last.text) and abs(row[-1].x1 - last.x1) < FLUSH


def _columns_of(row: Row, strips: Sequence[Strip]) -> set[int]:
    dividers = [(start + end) / 2 for start, end in strips]
    return {sum(divider < (word.x0 + word.x1) / 2 for divider in dividers) for word in row}


def _narrowed(strips: Sequence[Strip], row: Row, lefts: Sequence[float]) -> list[Strip] | None:
    """What a row leaves of the white between columns; None where it leaves too little of a strip: that of a blank will
    do before a word flush with those above, at one of `lefts`."""
    em = em_of(row)
    narrow: list[Strip] = []
    for start, end in strips:
        sides = [start, *(min(max(x, start), end) for word in row for x in (word.x0, word.x1)), end]
        widest = max(zip(sides[::2], sides[1::2], strict=True), key=lambda gap: gap[1] - gap[0])
        num_flush = sum(abs(left - widest[1]) < FLUSH / 2 for left in lefts)
        least = WHITE if not num_flush else SPACE if num_flush < MANY else 0.0
        if widest != (start, end) and widest[1] - widest[0] <= least * em:
            return None
        narrow.append(widest)
    return narrow
