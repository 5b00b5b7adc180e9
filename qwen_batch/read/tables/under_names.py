"""Tables without a rule below their names: numbers under them, or short words flush with them.

Most of what stands in columns is none: prose, author blocks, code, answers to choose from. In the shared corpus and 200
other files a row of words is taken for names twice, each time rightly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from qwen_batch.read.page.words import LEAST_EM, PIECE_GAP, Row, Word, em_of, is_numeric, middle_of, pieces_of
from qwen_batch.read.tables.bodies import ends_in_prose, table_of
from qwen_batch.read.tables.columns import are_two
from qwen_batch.read.tables.grids import Rule
from qwen_batch.read.tables.lines import Columns
from qwen_batch.read.tables.names import MAX_HEAD_LINES, Head, body_of, head_of, may_be_names
from qwen_batch.records import BBox, Table

MIN_NAMES = 3
FEW_WORDS = 3.0  # of a name, on average
SIDE = 3.0  # ems that rows may stand out beside their names
NUMERIC = 0.7  # of the filled cells of a column of numbers
MIN_ROWS = 3  # below one column of numbers, or of words alone
MIN_FILLED, MIN_FILLED_WORDS = 0.5, 0.6  # of the cells of full rows, with numbers and without
HEAD_SHIFT, FLUSH = 3.0, 1.5  # points that an amount, and words, may stand beside their name
MAX_WORDS = 4.0  # of a line of a cell, on average


def find_under_names(rows: Sequence[Row], rules: Sequence[Rule], boxes: Sequence[BBox]) -> Iterator[Table]:
    """The tables among rows, from the top down; nothing is looked for in `boxes`."""
    after = 0
    for number, row in enumerate(rows[:-1]):
        if number < after or not _may_be_head(row, boxes):
            continue
        head = head_of(rows[max(0, number + 1 - MAX_HEAD_LINES) : number + 1])
        if head is None:
            continue
        below = rows[number + 1 :]
        body, strips = body_of(head, below, (), _stands_within(head.lines))
        if not body:
            continue
        columns = Columns(tuple(strips))
        table = table_of(head.lines, body, columns, rules)
        is_sound = _are_under_names(table, head, body, columns) or _are_words(table, head, body, below[len(body) :])
        if is_sound and not are_two(table, table.header_rows, strips):
            after = number + 1 + len(body)
            yield table


def _may_be_head(row: Row, boxes: Sequence[BBox]) -> bool:
    """Whether a row is a few names, each with a capital letter or none; quick for lines of prose."""
    if len(row) < MIN_NAMES or row[0].text[0].islower():
        return False
    least = PIECE_GAP * LEAST_EM
    if sum(right.x0 - left.x1 > least for left, right in pairwise(row)) < MIN_NAMES - 1:
        return False
    pieces = pieces_of(row)
    if len(pieces) < MIN_NAMES or len(row) > FEW_WORDS * len(pieces) or not may_be_names(pieces):
        return False
    if any(piece[0].text[0].islower() for piece in pieces):
        return False
    middle = middle_of(row[0])
    return not any(box[1] < middle < box[3] and box[0] < row[-1].x1 and row[0].x0 < box[2] for box in boxes)


def _stands_within(lines: Sequence[Row]) -> Callable[[Row], bool]:
    """What asks of a row whether it stands out only a little beside the names."""
    beside = SIDE * em_of(lines[-1])
    left, right = min(line[0].x0 for line in lines) - beside, max(line[-1].x1 for line in lines) + beside
    return lambda row: left < row[0].x0 and row[-1].x1 < right


def _are_under_names(table: Table, head: Head, body: Sequence[Row], columns: Columns) -> bool:
    """Whether a table has two columns of numbers, or one below each other, flush with their names or centred under
    them, and rows that all have some."""
    names: dict[int, list[Word]] = {}
    for word in (word for line in head.lines for word in line):
        names.setdefault(columns.of(word), []).append(word)
    rows = [row for row in table.rows[table.header_rows :] if sum(map(bool, row)) > 1]
    numeric = [
        column
        for column, cells in enumerate(zip(*rows, strict=True))
        if any(map(is_number, cells)) and sum(map(is_numeric, cells)) >= NUMERIC * sum(map(bool, cells))
    ]
    flush = [column for column in numeric if column in names and _are_flush(names[column], column, body, columns)]
    cells = sum(map(bool, (cell for row in rows for cell in row)))
    with_numbers = sum(any(is_number(row[column]) for column in numeric) for row in rows)
    enough = len(flush) >= 2 or (len(flush) == 1 and len(rows) >= MIN_ROWS)
    return enough and with_numbers >= NUMERIC * len(rows) and cells >= MIN_FILLED * len(rows) * len(table.rows[0])


def _are_flush(name: Sequence[Word], column: int, body: Sequence[Row], columns: Columns) -> bool:
    """Whether the numbers of a column begin, end, or have their middle where its name has."""
    x0, x1 = min(word.x0 for word in name), max(word.x1 for word in name)
    cells = [[word for word in row if columns.of(word) == column] for row in body]
    sides = [(cell[0].x0, cell[-1].x1) for cell in cells if cell]
    return any(
        all(abs(place) < HEAD_SHIFT for place in places)
        for places in zip(
            *((left - x0, right - x1, (left + right - x0 - x1) / 2) for left, right in sides), strict=True
        )
    )


def is_number(text: str) -> bool:
    return is_numeric(text) and any(map(str.isdigit, text))


def _are_words(table: Table, head: Head, body: Sequence[Row], after: Sequence[Row]) -> bool:
    """Whether a few short words stand in each row, every one of them where a name begins or ends."""
    sides = [(piece[0].x0, piece[-1].x1) for piece in pieces_of(head.lines[-1])]
    pieces = [piece for row in body for piece in pieces_of(row)]
    for x0, x1 in ((piece[0].x0, piece[-1].x1) for piece in pieces):
        if not any(abs(x0 - left) < FLUSH or abs(x1 - right) < FLUSH for left, right in sides):
            return False
    names = [" ".join(word.text for word in piece) for piece in pieces_of(head.lines[-1])]
    if len({*names}) < len(names):
        return False
    rows = [row for row in table.rows[table.header_rows :] if sum(map(bool, row)) > 1]
    cells = sum(map(bool, (cell for row in rows for cell in row)))
    if len(rows) < MIN_ROWS or cells < MIN_FILLED_WORDS * len(rows) * len(table.rows[0]):
        return False
    return sum(map(len, pieces)) <= MAX_WORDS * len(pieces) and not ends_in_prose(body, after)
