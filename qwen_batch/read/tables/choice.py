"""Which of the tables that were found at one place of a page is kept."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from qwen_batch.read.page.words import is_numeric
from qwen_batch.read.table_heads import is_data
from qwen_batch.read.tables.columns import MIN_ROWS, overlap
from qwen_batch.records import Table

FULLER = 1.2  # times the filled cells found by numbers alone: what stands between rules is right
NAMED = 0.6  # times the same, where only what stands between rules has a whole head
STRAY = 0.35  # of the cells of a column
SAME_TOP = 4.0  # points


def better(framed: Sequence[Table], free: Sequence[Table]) -> list[Table]:
    """Tables between rules and tables by their numbers alone; where both are, those between rules if they have more, or
    alone have a name for each column."""
    kept: list[Table] = []
    for table in framed:
        over = [other for other in free if overlap(table, other) and len(other.rows) - other.header_rows >= MIN_ROWS]
        factor = NAMED if _is_named(table) and all(_is_nameless_part(other, table) for other in over) else FULLER
        if num_filled(table) >= factor * sum(map(num_filled, over)):
            kept.append(table)
    return [*kept, *(table for table in free if not any(overlap(table, other) for other in kept))]


def _is_named(table: Table) -> bool:
    """Whether the head names all columns."""
    heads = table.rows[: table.header_rows]
    return bool(heads) and not all(map(is_data, heads)) and all(map(any, zip(*heads, strict=True)))


def _is_nameless_part(table: Table, whole: Table) -> bool:
    """Whether a table without a head has no more columns than another, and is no wider."""
    if table.header_rows or table.bbox is None or whole.bbox is None or len(table.rows[0]) > len(whole.rows[0]):
        return False
    return whole.bbox[0] <= table.bbox[0] and table.bbox[2] <= whole.bbox[2]


def with_named(found: Sequence[Table], named: Sequence[Table], within: Sequence[Table]) -> list[Table]:
    """The tables of a page with those that begin with names; these replace such `within` rules that lack their head,
    and such found by numbers alone that have no more columns and numbers: their lines are joined to rows."""
    kept = list(found)
    for table in named:
        over = [other for other in kept if overlap(table, other)]
        are_beside = any(top_of(lower) < bottom_of(upper) for upper, lower in pairwise(sorted(over, key=top_of)))
        if not are_beside and all(_replaces(table, other, other in within) for other in over):
            kept = [other for other in kept if other not in over] + [table]
    return kept


def _replaces(table: Table, other: Table, is_within: bool) -> bool:
    higher = top_of(other) - top_of(table)
    if _num_numbers(table) < _num_numbers(other) or higher < (SAME_TOP if is_within else -SAME_TOP):
        return False
    return is_within or len(table.rows[0]) >= _num_columns(other)


def _num_columns(table: Table) -> int:
    """Those with a name, or with more than a stray cell."""
    columns = list(zip(*table.rows, strict=True))
    return sum(any(column[: table.header_rows]) or sum(map(bool, column)) > STRAY * len(column) for column in columns)


def _num_numbers(table: Table) -> int:
    """Those that belong to a label."""
    return sum(is_numeric(cell) for row in table.rows for cell in row[1:])


def with_rest(tables: Sequence[Table], rest: Table | None) -> list[Table]:
    """The tables of a page with the rest of one from the page before, unless it has been found as a larger one."""
    over = [table for table in tables if rest and overlap(table, rest)]
    if rest is None or any(len(table.rows) > len(rest.rows) for table in over):
        return list(tables)
    return [*(table for table in tables if table not in over), rest]


def is_part(table: Table, whole: Table) -> bool:
    return overlap(table, whole) and num_filled(table) < num_filled(whole)


def num_filled(table: Table) -> int:
    return sum(bool(cell) for row in table.rows for cell in row)


def top_of(table: Table) -> float:
    return table.bbox[1] if table.bbox else 0.0


def bottom_of(table: Table) -> float:
    return table.bbox[3] if table.bbox else 0.0
