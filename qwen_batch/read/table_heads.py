"""How many rows of a table name its columns, as far as merged cells and numbers tell."""

from __future__ import annotations

from collections.abc import Sequence

from qwen_batch.records import Span

MAX_HEADER_ROWS = 6
MANY_NUMBERS = 0.5  # of a row's filled cells: such a row is no head, but for years


def count_header_rows(rows: Sequence[Sequence[str]], spans: Sequence[Span]) -> int:
    """Rows at the top that name the columns; 0 where the first row is already data.

    The first one; and further ones as long as a cell reaches down into them, or a cell over several columns stands
    above them and wants its parts named.
    """
    if not rows or is_data(rows[0]):
        return 0
    last = min(MAX_HEADER_ROWS, len(rows) - 1)
    count = 1
    while count < last and _reaches_on(rows, spans, count):
        count += 1
    return min(count, max(last, 1))


def _reaches_on(rows: Sequence[Sequence[str]], spans: Sequence[Span], count: int) -> bool:
    if any(span.row < count < span.row + span.num_rows for span in spans):
        return True
    over = [span for span in spans if span.row == count - 1 and span.num_columns > 1]
    return bool(over) and not is_data(rows[count])


def is_data(row: Sequence[str]) -> bool:
    """Whether a row is mostly numbers, but for years: no head."""
    filled = [cell for cell in row if cell]
    return sum(map(_is_amount, filled)) > MANY_NUMBERS * len(filled) if filled else False


def _is_amount(cell: str) -> bool:
    """A number that is no year."""
    digits = sum(char.isdigit() for char in cell)
    is_year = cell.isdigit() and len(cell) == 4 and cell[:2] in ("19", "20")
    return 2 * digits >= len("".join(cell.split())) > 0 and not is_year
