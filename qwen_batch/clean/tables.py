"""A table that goes on over a page break is one table, on the page where it begins."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from qwen_batch.clean.edges import in_table
from qwen_batch.clean.markers import ends_sentence
from qwen_batch.records import Line, Page, Removal, Table

MAX_HEAD = 6  # rows
MAX_REPEATED = 3  # lines at the edge of a page that the other page has as well
REASON = "repeated_table_head"
SIDE_SHARE = 0.05  # of the page's width: how far the sides of both parts may differ


def join_tables(pages: Sequence[Page]) -> tuple[tuple[Page, ...], tuple[Removal, ...]]:
    """Append a table that opens a page to the one that ends the page before. A head that is repeated is taken out.

    Only where nothing else stands between the two, and both have the same columns at the same place.
    """
    done: list[Page] = []
    removed: list[Removal] = []
    owner = -1  # index of the page whose last table may still grow
    for page in pages:
        above = done[owner] if owner >= 0 else None
        first = _edge_table(page, 0, above)
        upper = _edge_table(above, -1, page) if above else None
        if first is None or upper is None or not _go_together(upper, first, page):
            done.append(page)
        else:
            repeated = _num_repeated(upper, first)
            removed += (Removal(page.page_number, _said(row), REASON) for row in first.rows[:repeated])
            done[owner] = _replaced(done[owner], upper, _appended(upper, first, repeated))
            done.append(_without(page, first))
            if not any(line.text.strip() for line in done[-1].lines):
                continue  # the whole page was a part of the table: it may go on
        owner = len(done) - 1
    return tuple(done), tuple(removed)


def _said(row: Sequence[str]) -> str:
    return " | ".join(" ".join(cell.split()) for cell in row)


def _edge_table(page: Page, end: int, other: Page | None) -> Table | None:
    """The table that the first (0) or the last (-1) line of a page belongs to, but for lines that the other page has at
    the same height: a document of two pages is too short to tell that they are running heads."""
    lines = [line for line in page.lines if line.text.strip()]
    if not lines or not page.tables:
        return None
    free = [line for line in other.lines if line.bbox and not in_table(line, other)] if other else []
    repeated = {_place(line) for line in free[:MAX_REPEATED] + free[-MAX_REPEATED:]}
    rest = [line for line in (lines if end == 0 else lines[::-1])[: MAX_REPEATED + 1] if _place(line) not in repeated]
    if not rest:
        return None
    inside = (table for table in page.tables if in_table(rest[0], page._replace(tables=(table,))))
    return next(inside, None)


def _place(line: Line) -> tuple[str, int]:
    """What a line says, but for numbers, and its height in points."""
    words = "".join(char for char in line.text if not char.isdigit() and not char.isspace())
    return words, round(line.bbox[1] if line.bbox else -1.0)


def _go_together(upper: Table, lower: Table, page: Page) -> bool:
    if upper.bbox is None or lower.bbox is None or len(upper.rows[0]) != len(lower.rows[0]):
        return False
    allowed = SIDE_SHARE * (page.width or 600.0)
    return all(abs(upper.bbox[side] - lower.bbox[side]) <= allowed for side in (0, 2))


def _num_repeated(upper: Table, lower: Table) -> int:
    """Rows of the head that the lower part says again."""
    heads = zip(upper.rows[:MAX_HEAD], lower.rows, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], heads))


def _appended(upper: Table, lower: Table, repeated: int) -> Table:
    """The rows of both; merged cells of the lower part keep their place in it. A row that the break parts is one."""
    rest = lower.rows[repeated:]
    rows, first = upper.rows, repeated
    if rest and _goes_on(upper, lower, repeated):
        rows = (*rows[:-1], tuple("\n".join(filter(None, pair)) for pair in zip(rows[-1], rest[0], strict=True)))
        first += 1
    moved = (span._replace(row=span.row - first + len(rows)) for span in lower.spans if span.row >= first)
    return upper._replace(rows=rows + lower.rows[first:], spans=(*upper.spans, *moved))


def _goes_on(upper: Table, lower: Table, repeated: int) -> bool:
    """Whether the first row of the lower part is the rest of the last one above: it alone has no entry in the first
    column, words in cells that have words above, and one of these did not end there."""
    row, last = lower.rows[repeated], upper.rows[-1]
    body = (*upper.rows[upper.header_rows :], *lower.rows[repeated + 1 :])
    filled = [(above, below) for above, below in zip(last, row, strict=True) if below]
    if row[0] or not filled or not all(other[0] for other in body) or len(upper.rows) <= upper.header_rows:
        return False
    if any(span.row in (repeated, repeated - 1) for span in lower.spans):
        return False
    words = all(
        any(char.isalpha() for char in above) and any(char.isalpha() for char in below) for above, below in filled
    )
    return words and any(not ends_sentence(above) for above, _ in filled)


def _replaced(page: Page, old: Table, new: Table) -> Page:
    return page._replace(tables=tuple(new if table is old else table for table in page.tables))


def _without(page: Page, table: Table) -> Page:
    alone = page._replace(tables=(table,))
    lines = tuple(line for line in page.lines if not in_table(line, alone))
    return page._replace(lines=lines, tables=tuple(other for other in page.tables if other is not table))
