"""The tables of a PDF page: within rules, between rules, or by the white between their columns."""

from __future__ import annotations

import math
import operator
import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

from qwen_batch.read.page.chars import Char, PageChars
from qwen_batch.read.page.forms import Field, as_chars
from qwen_batch.read.page.words import Row, Word, middle_of, numbers_of, rows_of, words_of
from qwen_batch.read.table_heads import is_data
from qwen_batch.read.tables.choice import better, is_part, num_filled, top_of, with_named, with_rest
from qwen_batch.read.tables.columns import find_columns, overlap
from qwen_batch.read.tables.grids import Rule, Rules, rules_of
from qwen_batch.read.tables.gutters import columns_of
from qwen_batch.read.tables.marks import Marks
from qwen_batch.read.tables.ruled import Grid, fill_grid, find_grids
from qwen_batch.read.tables.shades import table_edges
from qwen_batch.records import BBox, Table

FINER = 1.5  # times the filled cells of ruled tables: an unruled one in their place is right
MAX_CELL_LINES = 10  # of a table whose rows are open at the sides
MAX_FOOT = 3  # rows below a table that goes on on the next page: notes, a page number
_LINE = re.compile(r"\S[^\r\n]{6,58}\S")
FAR, MIN_WIDE = 1.1, 4  # heights of a capital letter to a character, and lines that have so much
MIN_NAMED = 60.0  # points of a rule below names
MAX_LOOKED_AT = 40  # rules of a page
ABOVE, APART = 14.0, 6.0  # points from a rule to the text above it, and between two names
MIN_RULE = 20.0  # points: three as long as this may make a table without upright rules

Filled = tuple[PageChars, Sequence[Field]]  # the fields are those that stand beside no text


class PageTables(NamedTuple):
    """The tables of a page, from the top down, and the one that may go on on the next page."""

    tables: tuple[Table, ...] = ()
    unfinished: Table | None = None


def read_tables(marks: Marks, page: PageChars, filled: Filled | None = None, before: Table | None = None) -> PageTables:
    """Ruled tables, and unruled ones beside them; where rules only frame or stripe them, the columns count.

    `filled`: the page with the values of its fields, for the cells of ruled ones.
    `before`: the unfinished table of the page before.
    """
    edges = table_edges(marks)
    rules = rules_of(edges)
    ruled = _ruled(rules, *(filled or (page, ()))) if rules.upright else []
    overfull = [table for table in ruled if _most_lines(table) > MAX_CELL_LINES]
    have_rules = sum(edge[2] - edge[0] >= MIN_RULE for edge in edges) >= 3
    framer = _finder_within_rules(rules, edges, overfull) if have_rules else None
    numbers = numbers_of(page)
    is_wide = bool(edges) or any(numbers) or _has_wide_lines(page)
    if not is_wide and before is None:
        return PageTables()
    words = words_of(page) if framer or any(numbers) or before else []
    rows = rows_of(words)
    framed = framer(words) if framer else []
    framed = [table for table in framed if not any(is_part(table, other) for other in framed)]
    unruled: list[Table] = []
    columns: list[list[Row]] = []
    free = find_columns(rows) if numbers.level else []
    if numbers.level:
        columns = columns_of(rows)
        free += _within_columns(columns, [*ruled, *framed, *free])
    for table in better(framed, free):
        over = [other for other in ruled if overlap(table, other)]
        if num_filled(table) >= FINER * sum(map(num_filled, over)):
            ruled = [other for other in ruled if other not in over]
            unruled.append(table)
    found = [*ruled, *unruled]
    if rows or _has_wide_lines(page) or _may_have_names(edges, page):
        rows = rows or rows_of(words_of(page))
        within = [table for table in found if table in ruled or table in framed]
        level = rules.level or [Rule(y, x0, x1) for x0, y, x1, bottom in edges if x1 - x0 > bottom - y]
        named = _named(rows, level, [rows, *columns], within)
        found = with_named(found, named, within)
    if numbers.flush:
        found += [table for table in _pairs(rows) if not any(overlap(table, other) for other in found)]
    if before is not None:
        found = with_rest(found, _rest(rows, before))
    found.sort(key=top_of)
    return PageTables(tuple(found), _unfinished(found, rows))


def _within_columns(columns: Sequence[Sequence[Row]], found: Sequence[Table]) -> list[Table]:
    """Tables by their numbers that stand in a column of prose, beside what was found; names, if any, for all columns
    but the first."""
    tables = [table for column in columns for table in find_columns(column)]
    sound = (table for table in tables if not table.header_rows or _has_names(table.rows[: table.header_rows]))
    return [table for table in sound if not any(overlap(table, other) for other in found)]


def _has_names(heads: Sequence[Sequence[str]]) -> bool:
    return not any(map(is_data, heads)) and all(heads[-1][1:])


def _ruled(rules: Rules, page: PageChars, typed: Sequence[Field]) -> list[Table]:
    """The tables within rules. Where closing their sides pours much of a page into a cell, as in forms, the sides stay
    open."""
    grids = find_grids(rules)
    if not grids:
        return []
    heights = list(map(operator.add, page.top, page.bottom))
    found = _filled(grids, page, typed, heights)
    overfull = [table for table in found if _most_lines(table) > MAX_CELL_LINES]
    if not overfull:
        return found
    as_drawn = _filled(find_grids(rules, close=False), page, typed, heights)
    kept = [table for table in found if table not in overfull]
    return kept + [table for table in as_drawn if not any(overlap(table, other) for other in kept)]


def _filled(grids: Sequence[Grid], page: PageChars, typed: Sequence[Field], heights: Sequence[float]) -> list[Table]:
    values = [char for field in typed for char in as_chars(field)]
    made = (fill_grid(grid, [*_around(grid, page, heights), *values]) for grid in grids)
    return [table for table in made if table is not None]


def _most_lines(table: Table) -> int:
    return max(cell.count("\n") + 1 for row in table.rows for cell in row)


def _unfinished(tables: Sequence[Table], rows: Sequence[Row]) -> Table | None:
    """The last table, if no rules close it and nothing but a foot stands below."""
    if not tables or not tables[-1].dividers or tables[-1].bbox is None:
        return None
    bottom = tables[-1].bbox[3]
    return tables[-1] if sum(middle_of(row[0]) > bottom for row in rows) <= MAX_FOOT else None


def _rest(rows: Sequence[Row], before: Table) -> Table | None:
    """Loaded here: most files need it not."""
    from qwen_batch.read.tables.continued import continued

    return continued(rows, before)


def _has_wide_lines(page: PageChars) -> bool:
    """Whether some lines have few characters for their width, as rows of words with white between have."""
    count = 0
    for match in _LINE.finditer(page.text):
        start, end = match.start(), match.end() - 1
        width, height = page.x1[end] - page.x0[start], page.bottom[start] - page.top[start]
        count += FAR * height * (end - start) < width < math.inf
    return count >= MIN_WIDE


def _may_have_names(edges: Sequence[BBox], page: PageChars) -> bool:
    """Whether pieces of text stand beside each other right above a wide level rule."""
    rules = {(round(edge[1]), round(edge[0]), round(edge[2])) for edge in edges if edge[2] - edge[0] >= MIN_NAMED}
    if len(rules) > MAX_LOOKED_AT:
        return True
    placed = sorted(zip(page.bottom, page.x0, page.x1, strict=True)) if rules else []
    for place, start, end in rules:
        first, after = bisect_left(placed, (place - ABOVE,)), bisect_left(placed, (place + 2.0,))
        places = sorted((x0, x1) for _, x0, x1 in placed[first:after] if start <= x0 <= end)
        if any(right[0] - left[1] > APART for left, right in pairwise(places)):
            return True
    return False


def _named(
    rows: Sequence[Row], level: Sequence[Rule], parts: Sequence[Sequence[Row]], within: Sequence[Table]
) -> list[Table]:
    """Loaded here: most files need it not."""
    from qwen_batch.read.tables.named import find_named

    return find_named(rows, level, parts, within)


def _pairs(rows: Sequence[Row]) -> list[Table]:
    """Loaded here: most files need it not."""
    from qwen_batch.read.tables.pairs import find_pairs

    return find_pairs(rows)


def _finder_within_rules(
    rules: Rules, edges: Sequence[BBox], overfull: Sequence[Table]
) -> Callable[[Sequence[Word]], list[Table]] | None:
    """What finds tables with horizontal rules only, from words; below a head in cells, all of such a table may stand in
    a cell of a ruled one, which then is `overfull`. None where the rules make none. Loaded here: most files need it
    not."""
    from qwen_batch.read.tables.booktabs import find_booktabs, find_frames

    frames = find_frames(rules.level, edges)
    open_ones = [frame for frame in frames if not frame.is_boxed]
    boxed = [frame for frame in frames if frame.is_boxed] if overfull else []

    def find(words: Sequence[Word]) -> list[Table]:
        within = [table for table in find_booktabs(boxed, words) if any(overlap(table, other) for other in overfull)]
        return find_booktabs(open_ones, words) + within

    return find if open_ones or boxed else None


def _around(grid: Grid, page: PageChars, heights: Sequence[float]) -> Sequence[Char]:
    """From the first character at the height of a grid to the last: a page may have many small ones.

    `heights`: twice the height at which each character stands.
    """
    top, bottom = 2 * grid.bbox[1], 2 * grid.bbox[3]
    first = next((number for number, height in enumerate(heights) if top <= height <= bottom), None)
    if first is None:
        return ()
    after = next(number for number in range(len(heights), first, -1) if top <= heights[number - 1] <= bottom)
    return page.chars(first, after)
