"""A table without upright rules that goes on at the top of the next page, where a few rows alone would be no table."""

from __future__ import annotations

from collections.abc import Sequence

from qwen_batch.read.page.words import Row, em_of, is_numeric, middle_of
from qwen_batch.read.tables.columns import MAX_LEADING, make_table
from qwen_batch.read.tables.rivers import placed_cells
from qwen_batch.records import BBox, Table

MAX_ABOVE = 4  # rows of running heads
SIDE = 2.0  # ems that rows may stand out to the left and right
NUMERIC = 0.7  # of the filled cells of a column of numbers


def continued(rows: Sequence[Row], upper: Table) -> Table | None:
    """The rows at the top of a page that stand in the columns of the table that ends the page before."""
    numeric = _numeric_columns(upper)
    for start in range(min(MAX_ABOVE + 1, len(rows))):
        heads = _repeated_head(rows[start:], upper)
        end = _end_of_body(rows, start + heads, upper, numeric)
        if end > start + heads:
            table = make_table(rows[start : start + heads], rows[start + heads : end], upper.dividers)
            return table._replace(header_rows=heads, bbox=_as_wide(table.bbox, upper.bbox))
    return None


def _as_wide(box: BBox | None, upper: BBox | None) -> BBox | None:
    """The box of rows in the columns of the table above: rules may reach further than the words of either."""
    return (min(box[0], upper[0]), box[1], max(box[2], upper[2]), box[3]) if box and upper else box


def _numeric_columns(table: Table) -> list[int]:
    columns = list(zip(*table.rows[table.header_rows :], strict=True))
    filled = [[cell for cell in column if cell] for column in columns]
    shares = (sum(map(is_numeric, cells)) >= NUMERIC * len(cells) if cells else False for cells in filled)
    return [column for column, is_number in enumerate(shares) if is_number and column]


def _repeated_head(rows: Sequence[Row], upper: Table) -> int:
    """How many rows say the head again; all of it or nothing."""
    heads = upper.rows[: upper.header_rows]
    said = [placed_cells(row, upper.dividers)[0] for row in rows[: len(heads)]]
    return len(heads) if heads and said == list(heads) else 0


def _end_of_body(rows: Sequence[Row], start: int, upper: Table, numeric: Sequence[int]) -> int:
    """The row after the last that fits; a label may take one line more than its numbers."""
    end = start
    for index in range(start, len(rows)):
        row = rows[index]
        if index > start and middle_of(row[0]) - middle_of(rows[index - 1][0]) > MAX_LEADING * em_of(row):
            break
        cells, wide = placed_cells(row, upper.dividers)
        if wide or not _is_between(row, upper):
            break
        if _fits(cells, numeric):
            end = index + 1
        elif any(cells[1:]) or index > end:
            break
    return end


def _is_between(row: Row, upper: Table) -> bool:
    allowed = SIDE * em_of(row)
    left, _, right, _ = upper.bbox or (0.0, 0.0, 0.0, 0.0)
    return row[0].x0 > left - allowed and row[-1].x1 < right + allowed


def _fits(cells: Sequence[str], numeric: Sequence[int]) -> bool:
    numbers = [cells[column] for column in numeric if cells[column]]
    if numeric:
        return bool(numbers) and all(map(is_numeric, numbers)) and sum(map(bool, cells)) > 1
    return all(cells)
