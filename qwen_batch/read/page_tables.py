"""The tables of a PDF page: within rules, between rules, or by the white between their columns."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from qwen_batch.read.pdf_chars import Char, PageChars
from qwen_batch.read.pdf_columns import find_columns
from qwen_batch.read.pdf_tables import Grid, Marks, fill_grid, find_grids
from qwen_batch.read.pdf_words import Row, Word, numbers_of, rows_of, words_of
from qwen_batch.records import BBox, Table

FINER = 1.5  # times the filled cells of ruled tables: an unruled one in their place is right
FULLER = 1.2  # times the filled cells found by numbers alone: what stands between rules is right
NAMED = 0.6  # times the same, where only what stands between rules has a whole head
MIN_RULE = 20.0  # points: three as long as this may make a table without upright rules


def read_tables(marks: Marks, page: PageChars) -> tuple[Table, ...]:
    """Ruled tables, and unruled ones beside them; where rules only frame or stripe them, the columns count."""
    grids = find_grids(marks.edges)
    have_rules = sum(edge[2] - edge[0] >= MIN_RULE for edge in marks.edges) >= 3
    find_framed = _finder_within_rules(marks.edges) if have_rules else None
    numbers = numbers_of(page)
    if not grids and not find_framed and not any(numbers):
        return ()
    chars = page.chars() if grids else []
    heights = [char.top + char.bottom for char in chars]
    made = (fill_grid(grid, _around(grid, chars, heights)) for grid in grids)
    ruled = [table for table in made if table is not None]
    words = words_of(page) if find_framed or any(numbers) else []
    rows = rows_of(words) if any(numbers) else []
    framed = find_framed(words) if find_framed else []
    unruled: list[Table] = []
    for table in _better(framed, find_columns(rows) if numbers.level else []):
        over = [other for other in ruled if _overlap(table, other)]
        if _num_filled(table) >= FINER * sum(map(_num_filled, over)):
            ruled = [other for other in ruled if other not in over]
            unruled.append(table)
    found = [*ruled, *unruled]
    if numbers.flush:
        found += [table for table in _pairs(rows) if not any(_overlap(table, other) for other in found)]
    return tuple(sorted(found, key=lambda table: table.bbox[1] if table.bbox else 0.0))


def _pairs(rows: Sequence[Row]) -> list[Table]:
    """Loaded here: most files need it not."""
    from qwen_batch.read.pdf_pairs import find_pairs

    return find_pairs(rows)


def _finder_within_rules(edges: Sequence[BBox]) -> Callable[[Sequence[Word]], list[Table]] | None:
    """What finds tables with horizontal rules only; None where the rules make none. Loaded here: most files need it
    not."""
    from qwen_batch.read.pdf_booktabs import find_booktabs, find_frames

    frames = find_frames(edges)
    return functools.partial(find_booktabs, frames) if frames else None


def _better(framed: Sequence[Table], free: Sequence[Table]) -> list[Table]:
    """Tables between rules and tables by their numbers alone; where both are, those between rules if they have more, or
    alone have a name for each column."""
    kept: list[Table] = []
    for table in framed:
        over = [other for other in free if _overlap(table, other)]
        factor = NAMED if _is_named(table) and all(_is_nameless_part(other, table) for other in over) else FULLER
        if _num_filled(table) >= factor * sum(map(_num_filled, over)):
            kept.append(table)
    return [*kept, *(table for table in free if not any(_overlap(table, other) for other in kept))]


def _is_named(table: Table) -> bool:
    """Whether the head names all columns."""
    heads = table.rows[: table.header_rows]
    return bool(heads) and all(any(column) for column in zip(*heads, strict=True))


def _is_nameless_part(table: Table, whole: Table) -> bool:
    """Whether a table without a head has no more columns than another, and is no wider."""
    if table.header_rows or table.bbox is None or whole.bbox is None or len(table.rows[0]) > len(whole.rows[0]):
        return False
    return whole.bbox[0] <= table.bbox[0] and table.bbox[2] <= whole.bbox[2]


def _around(grid: Grid, chars: Sequence[Char], heights: Sequence[float]) -> Sequence[Char]:
    """From the first character at the height of a grid to the last: a page may have many small ones.

    `heights`: twice the height at which each character stands.
    """
    top, bottom = 2 * grid.bbox[1], 2 * grid.bbox[3]
    level = [number for number, height in enumerate(heights) if top <= height <= bottom]
    return chars[level[0] : level[-1] + 1] if level else ()


def _num_filled(table: Table) -> int:
    return sum(bool(cell) for row in table.rows for cell in row)


def _overlap(table: Table, other: Table) -> bool:
    if table.bbox is None or other.bbox is None:
        return False
    a, b = table.bbox, other.bbox
    return min(a[2], b[2]) > max(a[0], b[0]) and min(a[3], b[3]) > max(a[1], b[1])
