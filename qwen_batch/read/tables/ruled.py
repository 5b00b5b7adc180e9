"""Tables within drawn rules: cells from the geometry in tables/grids.py, and the characters in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from qwen_batch.read.page.chars import DIVIDED, Char
from qwen_batch.read.table_heads import count_header_rows
from qwen_batch.read.tables.grids import MIN_EDGE, Rule, Rules, close_sides, find_cells, merge_rules
from qwen_batch.records import BBox, Span, Table

MAX_EDGES = 1_500  # of each direction, after merging
MIN_PLACES = 3  # of rules of each direction: two rows or columns
MIN_TILED = 0.82  # of a table's rectangle; a head may lack its first cell
MIN_PLOT_CELLS = 12
MAX_PLOT_FILLED = 0.25
MAX_CUT = 0.1  # of the words: in the shared corpus and others 0.06 in forms, 0.12 to 1 in drawings
MIN_SHREDS, MAX_SHREDDED = 3, 0.25  # words cut, and the share of places filled: boxes of a form made one grid
TOUCHING = 0.25  # of the height of letters, between two of one word
EVEN = 0.1  # of the widest cell
LOWER = 0.55  # of a letter's height: one that stands so much lower is on the next line
NOWHERE: BBox = (1.0, 1.0, -1.0, -1.0)


class Grid(NamedTuple):
    """The cells of one table, row by row from the top."""

    bbox: BBox
    cells: tuple[BBox, ...]

    def cell_at(self, x: float, y: float) -> int:
        """Index of the cell that holds a point, or of the nearest."""
        for index, (x0, top, x1, bottom) in enumerate(self.cells):
            if top <= y <= bottom and x0 <= x <= x1:
                return index
        return min(range(len(self.cells)), key=lambda i: _distance(self.cells[i], x, y))


def find_grids(rules: Rules, close: bool = True) -> list[Grid]:
    """Tables of at least two rows and two columns, from the top of the page down. `close`: also those whose rows are
    open at the sides."""
    upright = _closed(rules) if close else rules.upright
    if any(len({rule.place for rule in each}) < MIN_PLACES for each in (rules.level, upright)):
        return []
    return [grid for grid in find_boxes(Rules(rules.level, upright)) if _has_rows_and_columns(grid)]


def _closed(rules: Rules) -> list[Rule]:
    """The upright rules of a page with those that are missing at the sides of tables."""
    missing = set(close_sides(rules.upright, rules.level)) if _may_have_boxes(rules) else ()
    return merge_rules({*rules.upright, *missing}) if missing else rules.upright


def _may_have_boxes(rules: Rules) -> bool:
    return bool(rules.upright) and max(map(len, rules)) <= MAX_EDGES


def find_boxes(rules: Rules) -> list[Grid]:
    """The same with boxes that stand in one row or column, as the lines of a listing do."""
    grids = [_make_grid(cells) for cells in find_cells(rules.upright, rules.level)] if _may_have_boxes(rules) else []
    return [grid for grid in grids if len(grid.cells) >= 4]


def _has_rows_and_columns(grid: Grid) -> bool:
    left, top, *_ = grid.cells[0]
    return any(cell[0] != left for cell in grid.cells) and any(cell[1] != top for cell in grid.cells)


def _is_tiled(grid: Grid) -> bool:
    """Whether cells fill the rectangle: boxes of a diagram that touch do not."""
    left, top, right, bottom = grid.bbox
    return sum(map(_size, grid.cells)) >= MIN_TILED * (right - left) * (bottom - top)


def _is_plot(grid: Grid, texts: Sequence[str]) -> bool:
    """Whether the cells are those that the lines behind a plot make: many, of one width, and hardly any filled."""
    widths = [cell[2] - cell[0] for cell in grid.cells]
    is_even = max(widths) - min(widths) <= EVEN * max(widths)
    return len(texts) >= MIN_PLOT_CELLS and is_even and sum(map(bool, texts)) < MAX_PLOT_FILLED * len(texts)


def _size(box: BBox) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])


def fill_grid(grid: Grid, chars: Sequence[Char]) -> Table | None:
    """Put the characters into the cells, with their line ends; None where that makes no table but a frame, or where
    its sides go through words, as those of a drawing do."""
    if not _is_tiled(grid):
        return None
    texts: list[list[str]] = [[] for _ in grid.cells]
    previous = [-1] * len(texts)  # the last character of each cell
    cell, (left, top, right, bottom) = -1, NOWHERE
    last, num_cut = -2, 0
    for position, (text, x0, y0, x1, y1, _) in enumerate(chars):
        if text.isspace():
            continue
        x, y = (x0 + x1) / 2, (y0 + y1) / 2
        if not (left <= x <= right and top <= y <= bottom):  # most stand in the cell of the one before
            here = grid.cell_at(x, y) if _is_inside(x, y, grid.bbox) else -1
            if last == position - 1 and here != cell and _touch(chars[last], chars[position]):
                num_cut += 1
            cell, last = here, position
            left, top, right, bottom = grid.cells[cell] if cell >= 0 else NOWHERE
            if cell < 0:
                continue
        if (before := previous[cell]) >= 0 and (gap := _gap(chars, before, position)):
            texts[cell].append(gap)
        texts[cell].append("-" if text == DIVIDED else text)
        previous[cell] = last = position
    cells = ["".join(text) for text in texts]
    if (num_cut and num_cut >= MAX_CUT * sum(len(cell.split()) for cell in cells)) or _is_plot(grid, cells):
        return None
    rows, spans = _as_rows(grid, cells)
    if len(rows) < 2 or len(rows[0]) < 2 or sum(bool(cell) for row in rows for cell in row) < 3:
        return None
    if num_cut >= MIN_SHREDS and sum(map(bool, cells)) < MAX_SHREDDED * len(rows) * len(rows[0]):
        return None
    return Table(rows, grid.bbox, spans, count_header_rows(rows, spans))


def _touch(before: Char, after: Char) -> bool:
    """Whether two characters are parts of a word on one line."""
    heights = sorted((before.bottom - before.top, after.bottom - after.top))
    is_level = min(before.bottom, after.bottom) - max(before.top, after.top) > heights[0] / 2
    return is_level and abs(after.x0 - before.x1) < TOUCHING * heights[1]


def _is_inside(x: float, y: float, box: BBox) -> bool:
    return box[0] <= x <= box[2] and box[1] <= y <= box[3]


def _gap(chars: Sequence[Char], before: int, after: int) -> str:
    """What stands between two characters of a cell: nothing, a space, or a line end."""
    divider, _, top, _, bottom, _ = chars[before]
    _, _, y0, _, y1, _ = chars[after]
    lower = min(y0 - top, y1 - bottom)  # both ends: a stroke or a comma stands lower than the letter before it
    if divider == DIVIDED or lower > LOWER * max(bottom - top, 6.0):
        return "\n"
    return " " if after - before > 1 else ""


def _as_rows(grid: Grid, texts: Sequence[str]) -> tuple[tuple[tuple[str, ...], ...], tuple[Span, ...]]:
    """A rectangle of cells; a merged cell, for want of rules within it, stands in its first place. Rows and columns
    without text are left out."""
    tops = sorted({cell[1] for cell in grid.cells})
    lefts = sorted({cell[0] for cell in grid.cells})
    text_at = {(cell[1], cell[0]): text for cell, text in zip(grid.cells, texts, strict=True)}
    tops = [top for top in tops if any(text_at.get((top, left)) for left in lefts)]
    lefts = [left for left in lefts if any(text_at.get((top, left)) for top in tops)]
    rows = tuple(tuple(text_at.get((top, left), "") for left in lefts) for top in tops)
    found = (_span_of(cell, tops, lefts) for cell in grid.cells if text_at[cell[1], cell[0]])
    return rows, tuple(span for span in found if span.num_rows > 1 or span.num_columns > 1)


def _span_of(cell: BBox, tops: Sequence[float], lefts: Sequence[float]) -> Span:
    x0, top, x1, bottom = cell
    num_rows = sum(top <= other < bottom - MIN_EDGE / 2 for other in tops)
    num_columns = sum(x0 <= other < x1 - MIN_EDGE / 2 for other in lefts)
    return Span(tops.index(top), lefts.index(x0), num_rows, num_columns)


def _make_grid(cells: Sequence[BBox]) -> Grid:
    ordered = tuple(sorted(((c[0], c[1], c[2], c[3]) for c in cells), key=lambda cell: (cell[1], cell[0])))
    box = (
        min(cell[0] for cell in ordered),
        min(cell[1] for cell in ordered),
        max(cell[2] for cell in ordered),
        max(cell[3] for cell in ordered),
    )
    return Grid(box, ordered)


def _distance(box: BBox, x: float, y: float) -> float:
    return max(box[0] - x, 0, x - box[2]) + max(box[1] - y, 0, y - box[3])
