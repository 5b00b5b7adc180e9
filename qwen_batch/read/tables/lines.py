"""From lines that strips of white divide to the rows of a table: what names the columns, and which lines go on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from qwen_batch.read.page.words import Row, Word, em_of, middle_of
from qwen_batch.read.tables.grids import Rule
from qwen_batch.read.tables.rivers import SPACE, Strip, narrowed, placed_cells
from qwen_batch.records import Span

MIN_BANDS = 2
HANGING = 0.6  # ems that a line of a label may begin further right than the first
SAME_INDENT = 0.2  # ems
ROW_WHITE = 1.25  # times the closest leading: the next row begins
Placed = tuple[tuple[str, ...], list[tuple[int, int]]]  # the cells, and which of them are wide, as placed_cells says


class Columns(NamedTuple):
    """How a table is divided."""

    strips: tuple[Strip, ...]  # of white, between columns

    @property
    def dividers(self) -> list[float]:
        return [(start + end) / 2 for start, end in self.strips]

    def of(self, word: Word) -> int:
        return sum(divider < (word.x0 + word.x1) / 2 for divider in self.dividers)

    def below(self, rule: Rule) -> list[int]:
        """The columns that a rule covers; the outer ones have no end."""
        ends = [-float("inf"), *(place for strip in self.strips for place in strip), float("inf")]
        sides = list(zip(ends[::2], ends[1::2], strict=True))
        inner = [(max(left, rule.start), min(right, rule.end)) for left, right in sides]
        return [column for column, (left, right) in enumerate(inner) if right - left > 0]


def head_rows(
    lines: Sequence[Row], columns: Columns, inner: Sequence[Rule]
) -> tuple[list[tuple[str, ...]], list[Span]]:
    """The rows of a head: names over several columns, told by the `inner` rules below them or by crossing the white,
    stay apart; the other lines are joined."""
    narrow = Columns(tuple(narrowed(strip, lines) for strip in columns.strips))
    rows: list[tuple[str, ...]] = []
    spans: list[Span] = []
    joinable = False
    heights = [*(middle_of(line[0]) for line in lines), float("inf")]
    for line, (here, after) in zip(lines, pairwise(heights), strict=True):
        below = [rule for rule in inner if here < rule.place < after]
        cells, wide = _named(line, narrow, below)
        if joinable and not wide:
            rows[-1] = _joined(rows[-1], cells)
        else:
            spans += [Span(len(rows), first, 1, count) for first, count in wide]
            rows.append(cells)
        joinable = not wide and not below
    return rows, spans


def _named(line: Row, columns: Columns, below: Sequence[Rule]) -> Placed:
    """The cells of a line; words above one rule are one cell, as wide as the columns that the rule covers."""
    covered = {rule: columns.below(rule) for rule in below}
    groups = {rule: [word for word in line if _is_over(word, rule)] for rule in below if len(covered[rule]) > 1}
    grouped = {id(word) for words in groups.values() for word in words}
    rest = [word for word in line if id(word) not in grouped]
    cells, wide = placed_cells(rest, columns.dividers) if rest else (("",) * (len(columns.strips) + 1), [])
    named = list(cells)
    for rule, words in groups.items():
        if words:
            named[covered[rule][0]] = " ".join(word.text for word in words)
            wide.append((covered[rule][0], len(covered[rule])))
    return tuple(named), sorted(wide)


def _is_over(word: Word, rule: Rule) -> bool:
    return rule.start <= (word.x0 + word.x1) / 2 <= rule.end


def _joined(upper: Sequence[str], lower: Sequence[str]) -> tuple[str, ...]:
    return tuple("\n".join(filter(None, pair)) for pair in zip(upper, lower, strict=True))


def body_rows(bands: Sequence[Sequence[Row]], columns: Columns, titled: bool = False) -> Iterator[Placed]:
    """The rows of a body, `bands` of lines between its rules. Where rules part all rows, what is between two rules is
    one; elsewhere a line goes on with the one above if its words would not have fitted there.

    `titled`: a line of the first column alone that begins with a capital letter entitles what follows.
    """
    placed = [[placed_cells(line, columns.dividers) for line in band] for band in bands]
    if _are_rows(placed):
        for band in placed:
            row = band[0][0]
            for cells, _ in band[1:]:
                row = _joined(row, cells)
            yield row, []
        return
    limits = _right_limits(bands, columns)
    if all(map(_are_set_low, bands, placed)):
        for band in placed:
            yield from _ended_by_labels(band)
        return
    for lines, band in zip(bands, placed, strict=True):
        yield from _lines_joined(lines, band, columns, limits, titled)


def _are_rows(bands: Sequence[Sequence[Placed]]) -> bool:
    """Whether each band is a row: several have more lines than one, and the first column never has more than one."""
    if len(bands) < MIN_BANDS or any(wide for band in bands for _, wide in band):
        return False
    most = max(sum(bool(cells[0]) for cells, _ in band) for band in bands)
    return most == 1 and 2 * sum(len(band) > 1 for band in bands) >= len(bands)


def _are_set_low(lines: Sequence[Row], placed: Sequence[Placed]) -> bool:
    """Whether rows, which white parts, have their labels in their last line: the lines above, with which they begin,
    have one cell, all the same."""
    if placed[0][0][0]:
        return False
    steps = [middle_of(lower[0]) - middle_of(upper[0]) for upper, lower in pairwise(lines)]
    last = [step > ROW_WHITE * min(steps) for step in steps] + [True]
    if sum(last) < MIN_BANDS:
        return False
    rest = [cells for cells, _ in placed if not cells[0]]
    filled = {tuple(map(bool, cells)) for cells in rest}
    is_one = len(filled) == 1 and sum(next(iter(filled))) == 1 and not any(wide for _, wide in placed)
    is_text = all(any(char.isalpha() for char in "".join(cells)) for cells in rest)
    return is_one and is_text and all(cells[0] for (cells, _), is_last in zip(placed, last, strict=True) if is_last)


def _ended_by_labels(placed: Sequence[Placed]) -> Iterator[Placed]:
    above: tuple[str, ...] | None = None
    for cells, _ in placed:
        above = _joined(above, cells) if above else cells
        if cells[0]:
            yield above, []
            above = None


def _right_limits(bands: Sequence[Sequence[Row]], columns: Columns) -> list[float]:
    """How far the words of each column reach; without end where each of its lines is one word, so that none goes on."""
    limits = [0.0] * (len(columns.strips) + 1)
    are_words = [True] * len(limits)
    for line in (line for band in bands for line in band):
        places = [columns.of(word) for word in line]
        for word, column, before in zip(line, places, [-1, *places[:-1]], strict=True):
            limits[column] = max(limits[column], word.x1)
            are_words[column] = are_words[column] and column != before
    return [float("inf") if is_word else limit for limit, is_word in zip(limits, are_words, strict=True)]


def _lines_joined(
    lines: Sequence[Row], placed: Sequence[Placed], columns: Columns, limits: Sequence[float], titled: bool
) -> Iterator[Placed]:
    current: Placed | None = None
    lasts: dict[int, Word] = {}  # the last word of each cell of the current row
    indent = _indent([line[0] for line in lines if columns.of(line[0]) == 0])
    for line, (cells, wide) in zip(lines, placed, strict=True):
        firsts = {columns.of(word): word for word in reversed(line)}
        goes_on = _hangs(firsts, lasts, cells, indent) or (current and _go_on(current[0], firsts, lasts, limits))
        is_title = titled and list(firsts) == [0] and firsts[0].text[0].isupper()
        if current and not wide and not current[1] and goes_on and not is_title:
            current = _joined(current[0], cells), []
        else:
            if current:
                yield current
            current, lasts = (cells, wide), {}
        lasts |= {columns.of(word): word for word in line}
    if current:
        yield current


def _indent(labels: Row) -> float:
    """Where lines of labels begin that hang; nowhere if they begin in several places, as centred ones do."""
    if not labels:
        return float("inf")
    em = em_of(labels)
    left = min(word.x0 for word in labels)
    hanging = [word.x0 for word in labels if word.x0 >= left + HANGING * em]
    return min(hanging) if hanging and max(hanging) < min(hanging) + SAME_INDENT * em else float("inf")


def _hangs(firsts: dict[int, Word], lasts: dict[int, Word], cells: Sequence[str], indent: float) -> bool:
    """Whether a line begins as far right as those that hang and with a small letter, and has words in cells that go
    on."""
    if 0 not in firsts or not firsts[0].text[0].islower() or firsts[0].x0 < indent:
        return False
    return all(column in lasts and any(map(str.isalpha, cells[column])) for column in firsts)


def _go_on(current: Sequence[str], firsts: dict[int, Word], lasts: dict[int, Word], limits: Sequence[float]) -> bool:
    """Whether the cells of a line, by their first words, are the rest of those above it, of which one is whole."""
    return len(firsts) < len(lasts) and all(
        column in lasts
        and any(char.isalpha() for char in current[column])
        and not current[column].endswith(":")
        and lasts[column].x1 + (word.x1 - word.x0) + SPACE * em_of([word]) > limits[column]
        for column, word in firsts.items()
    )
