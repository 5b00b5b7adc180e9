"""Cells of a sheet, of which only those with text take memory."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Set

from qwen_batch.read.table_heads import count_header_rows
from qwen_batch.records import Span, Table

MAX_WIDTH_SHARE = 50  # places to filled cells, beyond which a table is no rectangle that anyone can read
MAX_PLACES = 1_000_000  # of a table that is filled so thinly


class Grid:
    """Texts by row and column, from 0."""

    def __init__(self) -> None:
        self._rows: dict[int, dict[int, str]] = {}
        self._merged: list[tuple[int, int, int, int]] = []

    def add(self, y: int, x: int, text: str) -> None:
        self._rows.setdefault(y, {})[x] = text

    def repeat(self, y: int, times: int) -> None:
        """The same row that many times; its cells share their memory."""
        row = self._rows[y]
        self._rows.update((each, row) for each in range(y + 1, y + times))

    def merge(self, y: int, x: int, num_rows: int, num_columns: int) -> None:
        """Cells that are shown as one."""
        if num_rows > 1 or num_columns > 1:
            self._merged.append((y, x, num_rows, num_columns))

    def hide(self, rows: Set[int], columns: Set[int]) -> Iterator[tuple[str, int]]:
        """Take out hidden rows and columns; yields ("rows" or "columns", how many of them had text)."""
        if hidden := [y for y in self._rows if y in rows]:
            yield "rows", len(hidden)
        for y in hidden:
            del self._rows[y]
        used = {x for row in self._rows.values() for x in row} & columns
        if used:
            yield "columns", len(used)
        for y, row in self._rows.items():
            if used & row.keys():
                self._rows[y] = {x: text for x, text in row.items() if x not in used}

    def as_table(self, num_heads: int = 0) -> Table | None:
        """Without the rows and columns that hold nothing. None: no cell has text.

        Where no row is said to be a head, the cells tell.
        """
        used = sorted(y for y, row in self._rows.items() if row)
        kept = sorted({x for y in used for x in self._rows[y]})
        if not used:
            return None
        num_filled = sum(len(self._rows[y]) for y in used)
        if len(used) * len(kept) > max(MAX_PLACES, MAX_WIDTH_SHARE * num_filled):
            rows = tuple(("; ".join(text for _, text in sorted(self._rows[y].items())),) for y in used)
            return Table(rows, header_rows=0)
        filled = tuple(tuple(map(self._rows[y].get, kept, [""] * len(kept))) for y in used)
        spans = tuple(self._iter_spans(used, kept))
        heads = sum(y < num_heads for y in used) or count_header_rows(filled, spans)
        return Table(filled, None, spans, heads)

    def _iter_spans(self, used: list[int], kept: list[int]) -> Iterator[Span]:
        """Merged cells with text, in the rows and columns that are left."""
        for y, x, num_rows, num_columns in sorted(self._merged):
            if not self._rows.get(y, {}).get(x):
                continue
            row, column = bisect_left(used, y), bisect_left(kept, x)
            span = Span(row, column, bisect_left(used, y + num_rows) - row, bisect_left(kept, x + num_columns) - column)
            if span.num_rows > 1 or span.num_columns > 1:
                yield span
