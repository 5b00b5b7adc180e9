"""Tables without rules: rows of short, mostly numeric cells that stand in columns.

A block is a run of rows of which most have at least three pieces. Its columns are divided where no row of its body
has ink (the rivers of white; cf. Nurminen's thesis of 2013, which tabula and pdfplumber follow). Numbers are asked
for: prose in columns, tables of contents, code and address blocks also leave rivers, and must stay text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from qwen_batch.read.page.words import Row, em_of, is_caption, is_numeric, is_sign, middle_of, pieces_of
from qwen_batch.read.table_heads import count_header_rows, is_data
from qwen_batch.read.tables.rivers import Strip, beside_pieces, is_within_phrases, placed_cells, rivers, without_signs
from qwen_batch.records import BBox, Span, Table

MIN_ROWS = 4  # of the body
MIN_COLUMNS = 3
MIN_NUMERIC = 0.5  # of the cells of the body, the first column left out
MAX_LEADING = 2.6  # ems from row to row
MAX_WORDS = 8.0  # of a cell, on average
HEAD_ROWS = 6  # above the body
MIN_BELOW_NAMES = 3  # rows of a body whose columns all have names
CENTRED = 1.0  # ems that the middle of a title may be off
MIN_FEW, MIN_FEW_NUMBERS = 2, 6  # rows of a body, and numbers in it, below names of more than MIN_COLUMNS columns
FLUSH = 2.0  # points that the ends of a sum and of its column may differ
NEAR = 0.8  # times the white below: a line goes on with what stands above
APART = 1.3  # times the widest white in two tables: they stand side by side


def find_columns(rows: Sequence[Row]) -> list[Table]:
    """The unruled tables of three columns or more, from the rows of a page."""
    return [table for block in _blocks(rows) for table in _tables_of(block)]


def _is_body(row: Row) -> bool:
    """A row of a table: at least two numbers, most of what stands to the right of its first piece."""
    numbers = sum(is_numeric(word.text) for word in row)
    right = [word.text for piece in pieces_of(row)[1:] for word in piece]
    named = sum(not is_sign(text) for text in right)
    return numbers >= 2 and len(right) >= 2 and 2 * sum(map(is_numeric, right)) >= named


def _blocks(rows: Sequence[Row]) -> Iterator[tuple[list[Row], list[Row]]]:
    """(rows of heads, rows from the first to the last of the body) of each run of rows that are close together."""
    body: list[int] = []
    taken = 0
    for index, row in enumerate(rows):
        if not _is_body(row):
            continue
        if body and not _are_close(rows[body[-1] : index + 1]):
            yield from _block(rows, body, taken)
            taken, body = _end(rows, body), []
        body.append(index)
    yield from _block(rows, body, taken)


def _are_close(rows: Sequence[Row]) -> bool:
    """Whether rows follow each other: three at most between two of the body, without a wide gap."""
    steps = (middle_of(after[0]) - middle_of(before[0]) for before, after in pairwise(rows))
    return len(rows) <= 5 and all(step < MAX_LEADING * em_of(rows[0]) for step in steps)


def _block(rows: Sequence[Row], body: Sequence[int], taken: int) -> Iterator[tuple[list[Row], list[Row]]]:
    if len(body) < MIN_FEW:
        return
    first = rows[body[0]]
    start = body[0] - 1 if _is_below_head(rows, body[0] - 1, first, taken) else body[0]
    head = start
    while head > max(taken, start - HEAD_ROWS) and _is_head(rows[head - 1], rows[head], first):
        head -= 1
    if head < start and head > taken and _ends_caption(rows[head - 1 : head + 2]):
        head += 1
    is_named = any(len(pieces_of(row)) == len(pieces_of(first)) for row in rows[head:start])
    end = _end(rows, body)
    if is_named:
        is_table = len(body) >= MIN_BELOW_NAMES or _are_few(rows[start - 1], rows[body[0] : end])
    else:
        is_table = len(body) >= MIN_ROWS or (_are_years(first) and _are_few(first, rows[body[1] : end]))
    if is_table:
        yield list(rows[head:start]), list(rows[start:end])


def _end(rows: Sequence[Row], body: Sequence[int]) -> int:
    """Where a body ends: below a sum that stands alone, or beside its label, flush with the last column."""
    last, after = rows[body[-1]], body[-1] + 1
    if len(body) < MIN_FEW or after == len(rows):
        return after
    *label, total = pieces_of(rows[after])
    steps = [middle_of(rows[place][0]) - middle_of(rows[place - 1][0]) for place in (after - 1, after)]
    is_sum = len(label) < 2 and all(is_numeric(word.text) or is_sign(word.text) for word in total)
    is_below = abs(total[-1].x1 - last[-1].x1) < FLUSH and steps[1] < APART * steps[0]
    is_labelled = all(abs(words[0].x0 - last[0].x0) < em_of(last) for words in label)
    return after + (is_sum and is_below and is_labelled)


def _are_years(row: Row) -> bool:
    return not is_data([word.text for piece in pieces_of(row)[1:] for word in piece])


def _are_few(names: Row, rows: Sequence[Row]) -> bool:
    """Whether the rows stand below the names of their columns, and each of their pieces below (or above) one."""
    columns = pieces_of(names)
    if len(columns) <= MIN_COLUMNS:
        return False
    pieces = [piece for row in rows for piece in pieces_of(row)]
    under = [[column for column in columns if _are_level(column, piece)] for piece in pieces]
    numbers = sum(all(is_numeric(word.text) for word in piece) for piece in pieces)
    full = max(map(len, map(pieces_of, rows)), default=0)
    return numbers >= MIN_FEW_NUMBERS and full == len(columns) and all(len(over) == 1 for over in under)


def _are_level(above: Row, below: Row) -> bool:
    """Whether some of one stands above the other."""
    return above[0].x0 < below[-1].x1 and below[0].x0 < above[-1].x1


def _ends_caption(rows: Sequence[Row]) -> bool:
    """Whether the second of three rows goes on with a caption: closer to it than to the head below."""
    caption, row, below = (middle_of(words[0]) for words in rows)
    return is_caption(rows[0]) and len(pieces_of(rows[1])) == 1 and row - caption < NEAR * (below - row)


def _is_below_head(rows: Sequence[Row], title: int, first: Row, taken: int) -> bool:
    """Whether a row entitles the first part of a table: it stands between a head and the `first` row of numbers."""
    if title <= taken or len(pieces_of(rows[title])) > 1 or _is_head(rows[title], first, first):
        return False
    head, em = rows[title - 1], em_of(first)
    is_close = middle_of(first[0]) - middle_of(rows[title][0]) < MAX_LEADING * em
    is_left = abs(rows[title][0].x0 - first[0].x0) < 2 * em and rows[title][-1].x1 < first[-1].x1
    return is_close and is_left and len(pieces_of(head)) >= MIN_COLUMNS and _is_head(head, rows[title], first)


def _is_head(row: Row, below: Row, first: Row) -> bool:
    if is_caption(row):
        return False
    close = middle_of(below[0]) - middle_of(row[0]) < MAX_LEADING * em_of(row)
    inside = row[0].x0 >= first[0].x0 - 3 * em_of(first) and row[-1].x1 <= first[-1].x1 + 3 * em_of(first)
    return close and inside and (len(pieces_of(row)) >= 2 or row[0].x0 > first[0].x0 + 2 * em_of(row))


def _tables_of(block: tuple[list[Row], list[Row]]) -> list[Table]:
    """One table, or two that stand side by side."""
    heads, body = block
    level = [row for row in body if _is_body(row)]
    full = [row for row in level if len(pieces_of(row)) >= MIN_COLUMNS]  # a sum may stand below two columns
    level = full if len(full) >= MIN_ROWS else level
    strips = [strip for strip in rivers(level) if not is_within_phrases(level, strip)]
    strips = beside_pieces(without_signs(strips, level), [*body, *heads])  # the names count first
    dividers = [(start + end) / 2 for start, end in strips]
    if len(dividers) + 1 < MIN_COLUMNS:
        return []
    heads = [*without_titles(heads, level, strips)]
    table = make_table(heads, body, dividers)
    right = [cell for row in table.rows[len(heads) :] for cell in row[1:] if cell]
    words = sum(len(cell.split()) for cell in right)
    if (
        not right
        or sum(is_numeric(cell) for cell in right) < MIN_NUMERIC * len(right)
        or words > MAX_WORDS * len(right)
    ):
        return []
    if not are_two(table, len(heads), strips):
        return [table]
    middle = len(dividers) // 2
    head_sides, body_sides = _sides(heads, dividers[middle]), _sides(body, dividers[middle])
    both = zip(head_sides, body_sides, (dividers[:middle], dividers[middle + 1 :]), strict=True)
    return [make_table(own_heads, own_body, own) for own_heads, own_body, own in both]


def without_titles(heads: Sequence[Row], body: Sequence[Row], strips: Sequence[Strip]) -> Sequence[Row]:
    """The heads but for lines above the names that are centred on the table, rather than on the columns right of its
    first one: these entitle it."""
    names = [number for number, row in enumerate(heads) if len(pieces_of(row)) > 1]
    left, right = min(row[0].x0 for row in body), max(row[-1].x1 for row in body)
    number = 0
    while names and number < names[0]:
        row = heads[number]
        middle = (row[0].x0 + row[-1].x1) / 2
        off = abs(middle - (left + right) / 2)
        if off > min(CENTRED * em_of(row), abs(middle - (strips[0][1] + right) / 2)):
            break
        number += 1
    return heads[number:]


def _sides(rows: Sequence[Row], divider: float) -> tuple[list[Row], list[Row]]:
    """What stands to the left and to the right of a place, row by row."""
    left = [[word for word in row if word.x0 < divider] for row in rows]
    right = [[word for word in row if word.x0 >= divider] for row in rows]
    return [row for row in left if row], [row for row in right if row]


def are_two(table: Table, num_heads: int, strips: Sequence[Strip]) -> bool:
    """Whether both halves have labels followed by numbers, with more white between them than elsewhere."""
    half = len(table.rows[0]) // 2
    if len(table.rows[0]) != 2 * half:
        return False
    columns = [[cell for cell in column if cell] for column in zip(*table.rows[num_heads:], strict=True)]
    kinds = [2 * sum(map(is_numeric, column)) > len(column) for column in columns]
    widths = [end - start for start, end in strips]
    middle = widths.pop(half - 1)
    return kinds == [False, *[True] * (half - 1)] * 2 and middle > APART * max(widths)


def make_table(heads: Sequence[Row], body: Sequence[Row], dividers: Sequence[float]) -> Table:
    """Rows in their columns."""
    placed = [placed_cells(row, dividers) for row in (*heads, *body)]
    cells = [row for row, _ in placed]
    spans = tuple(Span(row, start, 1, count) for row, (_, wide) in enumerate(placed) for start, count in wide)
    num_heads = max(len(heads), count_header_rows(cells, spans))
    return Table(tuple(cells), _bbox([*heads, *body]), spans, num_heads, tuple(dividers))


def _bbox(rows: Sequence[Row]) -> BBox:
    words = [word for row in rows for word in row]
    return (
        min(word.x0 for word in words) - 1,
        min(word.top for word in words) - 2,
        max(word.x1 for word in words) + 1,
        max(word.bottom for word in words) + 2,
    )


def overlap(table: Table, other: Table) -> bool:
    """Whether tables share some of their place."""
    if table.bbox is None or other.bbox is None:
        return False
    a, b = table.bbox, other.bbox
    return min(a[2], b[2]) > max(a[0], b[0]) and min(a[3], b[3]) > max(a[1], b[1])
