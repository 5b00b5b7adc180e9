"""Which lines of a table's body are one row: those between two rules, those with less white between them, or those
that go on because their first word would not have fitted above."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from qwen_batch.read.page.words import Row, is_numeric, middle_of
from qwen_batch.read.tables.columns import without_titles
from qwen_batch.read.tables.grids import SAME_ENDS, Rule
from qwen_batch.read.tables.lines import ROW_WHITE, Columns, Placed, body_rows, head_rows
from qwen_batch.read.tables.rivers import placed_cells
from qwen_batch.records import Span, Table

HANGING = frozenset("gjpqyQ,;()[]{}|_$@/")
HANGS = 0.23  # of the height of a word with a letter that hangs
TIGHT = 1.2  # times the closest leading: a line goes on
TALL = 0.6  # of the tallest word: lower ones may be signs
NUMERIC = 0.7  # of the filled lines of a column of numbers


def table_of(lines: Sequence[Row], body: Sequence[Row], columns: Columns, rules: Sequence[Rule]) -> Table:
    """The table of a head and a body."""
    lines = without_titles(lines, body, columns.strips)
    words = [word for row in (*lines, *body) for word in row]
    box = (
        min(word.x0 for word in words) - 1,
        min(word.top for word in words) - 2,
        max(word.x1 for word in words) + 1,
        max(word.bottom for word in words) + 2,
    )
    near = [rule for rule in rules if box[0] - SAME_ENDS < (rule.start + rule.end) / 2 < box[2] + SAME_ENDS]
    top, bottom = middle_of(lines[0][0]), middle_of(lines[-1][0])
    rows, spans = head_rows(lines, columns, [rule for rule in near if top < rule.place < bottom])
    num_heads = len(rows)
    for cells, wide in as_rows(body, columns, [rule.place for rule in near]):
        spans += [Span(len(rows), first, 1, count) for first, count in wide]
        rows.append(cells)
    return Table(tuple(rows), box, tuple(spans), num_heads, tuple(columns.dividers))


def base_of(line: Row) -> float:
    """The height on which the letters of a line stand, as far as some word tells that hangs not below it."""
    tallest = max(word.bottom - word.top for word in line)
    words = [word for word in line if word.bottom - word.top > TALL * tallest]
    return min((word.bottom for word in words if HANGING.isdisjoint(word.text)), default=0.0) or min(
        word.bottom - HANGS * (word.bottom - word.top) for word in words
    )


def as_rows(lines: Sequence[Row], columns: Columns, rules: Sequence[float]) -> Iterator[Placed]:
    """The rows of a body, from its lines and the heights of the rules near it."""
    placed = [placed_cells(line, columns.dividers) for line in lines]
    numeric = _numeric_columns(placed)
    for wide in (_between_rules([middle_of(line[0]) for line in lines], rules), *_by_white(lines)):
        groups = [part for group in wide for part in _parted(group, placed, numeric)]
        if 1 < len(groups) < len(lines) and _are_rows(groups, placed, numeric):
            yield from (_joined([placed[number] for number in group]) for group in groups)
            return
    yield from body_rows([lines], columns, titled=True)


def _between_rules(heights: Sequence[float], rules: Sequence[float]) -> list[list[int]]:
    groups = [[0]]
    for number, (upper, lower) in enumerate(pairwise(heights), 1):
        if any(upper < rule < lower for rule in rules):
            groups.append([])
        groups[-1].append(number)
    return groups


def _by_white(lines: Sequence[Row]) -> Iterator[list[list[int]]]:
    """Lines parted by the widest white between them, by what is clearly narrower than that too, and so on."""
    steps = [lower - upper for upper, lower in pairwise(map(base_of, lines))]
    wider = {min((other for other in steps if other > ROW_WHITE * step), default=0.0) for step in steps}
    for least in sorted(wider - {0.0}, reverse=True):
        groups = [[0]]
        for number, step in enumerate(steps, 1):
            if step >= least:
                groups.append([])
            groups[-1].append(number)
        yield groups


def _numeric_columns(placed: Sequence[Placed]) -> list[bool]:
    filled = [[cell for cell in column if cell] for column in zip(*(cells for cells, _ in placed), strict=True)]
    return [bool(cells) and sum(map(is_numeric, cells)) >= NUMERIC * len(cells) for cells in filled]


def _parted(group: list[int], placed: Sequence[Placed], numeric: Sequence[bool]) -> list[list[int]]:
    """Lines that each have a number in the same column are rows, as sums below items are."""
    lines = [placed[number][0] for number in group]
    is_each = any(is_number and all(line[column] for line in lines) for column, is_number in enumerate(numeric))
    return [[number] for number in group] if is_each else [group]


def _are_rows(groups: Sequence[Sequence[int]], placed: Sequence[Placed], numeric: Sequence[bool]) -> bool:
    """Whether each group of lines is one row: it has several cells, one line of numbers, and begins with all of its
    cells, or has its shorter ones in the middle of the others."""
    has_numbers = any(numeric[1:])
    for group in groups:
        lines = [placed[number][0] for number in group]
        if any(placed[number][1] for number in group) and len(group) > 1:
            return False
        counts = [sum(bool(line[column]) for line in lines) for column in range(len(numeric))]
        if len(group) > 1 and sum(map(bool, counts)) < 2:
            return False
        if any(count > 1 for count, is_number in zip(counts, numeric, strict=True) if is_number):
            return False
        if not has_numbers and len(group) > 1 and not _go_on(lines, counts):
            return False
    return True


def _go_on(lines: Sequence[Sequence[str]], counts: Sequence[int]) -> bool:
    """Whether lines of words go on with the first, which has all cells of the row."""
    num_cells = sum(map(bool, counts))
    rests = [[cell for cell in line if cell] for line in lines[1:]]
    are_new = (len(cells) == num_cells and not any(cell[0].islower() for cell in cells) for cells in rests)
    return sum(map(bool, lines[0])) == num_cells and not any(are_new)


def _joined(lines: Sequence[Placed]) -> Placed:
    if len(lines) == 1:
        return lines[0]
    columns = zip(*(cells for cells, _ in lines), strict=True)
    return tuple("\n".join(filter(None, column)) for column in columns), []


def ends_in_prose(body: Sequence[Row], after: Sequence[Row]) -> bool:
    """Whether the next line is as close as the last ones: they are its paragraph."""
    if not after or len(body) < 2:
        return False
    steps = [base_of(lower) - base_of(upper) for upper, lower in pairwise([*body, after[0]])]
    return steps[-1] <= TIGHT * min(steps[:-1])
