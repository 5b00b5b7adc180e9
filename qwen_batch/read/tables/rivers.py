"""The strips of white that divide the columns of a table without rules, and the cells between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from qwen_batch.read.page.rtl_letters import has_rtl_letters
from qwen_batch.read.page.words import Row, Word, em_of, is_numeric, is_sign, pieces_of

RIVER = 0.35  # ems
CROSSED = 0.04  # of the body's rows: a river may be crossed by so many
PHRASE = 0.6  # ems: words that are nowhere further apart than this are no columns
SPACE = 0.2  # ems between words, at least
MOST = 0.7  # of a strip's width
Strip = tuple[float, float]  # from the left to the right end, in points


def rivers(rows: Sequence[Row], least_ems: float = RIVER, crossed: float = CROSSED) -> list[Strip]:
    """Where columns divide: the strips that (nearly) no row has ink in."""
    least = least_ems * sorted(em_of(row) for row in rows)[len(rows) // 2]
    inkers = [word for row in rows for word in row if not is_leader(word)]
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


def is_within_phrases(rows: Sequence[Row], strip: Strip) -> bool:
    """Whether a strip of white is but the blank between two words that stand together in all rows, as in "Item 1"."""
    for row in rows:
        left = [word for word in row if word.x1 <= strip[0] + 0.5]
        right = [word for word in row if word.x0 >= strip[1] - 0.5]
        if left and right and (right[0].x0 - left[-1].x1 > PHRASE * em_of(row) or is_numeric(left[-1].text)):
            return False
    return True


def placed_cells(row: Row, dividers: Sequence[float]) -> tuple[tuple[str, ...], list[tuple[int, int]]]:
    """The words of each column, and (first column, number of columns) of the pieces that stand over several; these are
    in the first of them."""
    cells: list[list[str]] = [[] for _ in range(len(dividers) + 1)]
    wide: list[tuple[int, int]] = []
    for piece in _pieces_between(row, dividers):
        column = sum(divider < piece[0].x0 + 0.5 for divider in dividers)
        last = sum(divider < piece[-1].x1 - 0.5 for divider in dividers)
        if last > column and not any(map(is_leader, piece)):
            wide.append((column, last - column + 1))
        cells[column] += [word.text for word in piece]
    return tuple(map(_joined, cells)), wide


def _joined(words: Sequence[str]) -> str:
    text = " ".join(words)
    if not has_rtl_letters(text):
        return text
    from qwen_batch.read.page.bidi import words_in_order

    return " ".join(words_in_order(words))


def _pieces_between(row: Row, dividers: Sequence[float]) -> Iterator[Row]:
    """Words that belong together: a gap that holds a divider parts them, leaders or not."""
    piece, end = [row[0]], row[0].x1
    for word in row[1:]:
        if not is_leader(word):
            if any(end - 0.5 <= divider <= word.x0 + 0.5 for divider in dividers):
                yield piece
                piece = []
            end = word.x1
        piece.append(word)
    yield piece


def narrowed(strip: Strip, lines: Sequence[Row]) -> Strip:
    """The widest part of a strip of white without the words of these lines, from the lowest up; a line that fills the
    strip has a word that stands over two columns."""
    for line in reversed(lines):
        sides = [strip[0], *(min(max(x, strip[0]), strip[1]) for word in line for x in (word.x0, word.x1)), strip[1]]
        widest = max(zip(sides[::2], sides[1::2], strict=True), key=lambda gap: gap[1] - gap[0])
        if widest[1] - widest[0] >= SPACE * em_of(line):
            strip = widest
    return strip


def without_signs(strips: Sequence[Strip], rows: Sequence[Row]) -> list[Strip]:
    """The strips but those that only part signs of currency from their numbers."""
    ends = [-float("inf"), *(place for strip in strips for place in strip), float("inf")]
    columns = zip(ends[::2], ends[1::2], strict=True)
    inside = [
        {word.text for row in rows for word in row if left <= word.x0 <= word.x1 <= right} for left, right in columns
    ]
    signs = [bool(texts) and all(map(is_sign, texts)) for texts in inside]
    after = [signs[column + 1] and inside[column + 1] <= {"%", ")"} for column in range(len(strips))]
    before = [signs[column] and not inside[column] <= {"%", ")"} for column in range(len(strips))]
    return [strip for column, strip in enumerate(strips) if not (after[column] or before[column])]


def beside_pieces(strips: Sequence[Strip], rows: Sequence[Row]) -> list[Strip]:
    """What is left of strips of white beside pieces of rows that are wider than the column they stand in, from the
    lowest up. Pieces over several columns, and those that are alone in their row, take nothing."""
    left = list(strips)
    named = (_units(row, strips) for row in reversed(rows))
    for pieces in named:
        for piece in pieces if len(pieces) > 1 else ():
            x0, x1 = piece[0].x0, piece[-1].x1
            touched = [number for number, (start, end) in enumerate(left) if x0 < end and start < x1]
            if any(x0 <= left[number][0] and left[number][1] <= x1 for number in touched):
                continue
            for number in touched:
                start, end = left[number]
                rest = max((start, x0), (x1, end), key=lambda side: side[1] - side[0])
                if rest[1] - rest[0] >= SPACE * em_of(piece):
                    left[number] = rest
    return left


def _units(row: Row, strips: Sequence[Strip]) -> list[Row]:
    """The pieces of a row, parted where a strip of white goes through a gap of theirs."""
    units: list[Row] = []
    for piece in pieces_of(row, PHRASE):
        units.append([piece[0]])
        for before, word in pairwise(piece):
            common = (min(word.x0, end) - max(before.x1, start) - MOST * (end - start) for start, end in strips)
            if max(common, default=-1.0) > 0:
                units.append([])
            units[-1].append(word)
    return units


def is_leader(word: Word) -> bool:
    """Dots that lead from a label to its numbers; they belong to the label."""
    return not word.text.strip(".…·_")
