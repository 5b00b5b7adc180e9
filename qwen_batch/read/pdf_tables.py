"""Ruled tables of a PDF page: drawn lines and text come from pdfium, cells from the geometry in grids.py."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, repeat
from typing import NamedTuple

from qwen_batch.read import pdfium
from qwen_batch.read.grids import MIN_EDGE, SNAP, Rule, close_sides, find_cells, merge_rules
from qwen_batch.read.pdf_chars import DIVIDED, Char, Placement
from qwen_batch.read.table_heads import count_header_rows
from qwen_batch.records import BBox, Picture, Span, Table

MAX_OBJECTS = 20_000  # of a page; more is a drawing
MAX_SEGMENTS = 64  # of one path; rules and boxes have few
MAX_EDGES = 1_500  # of each direction, after merging
MAX_DEPTH = 4  # of form XObjects in one another
MIN_PIXELS = 256  # of an image; a smaller one is a colour
MIN_TILED = 0.82  # of a table's rectangle; a head may lack its first cell
MIN_PLOT_CELLS = 12
MAX_PLOT_FILLED = 0.25
EVEN = 0.1  # of the widest cell
LOWER = 0.55  # of a letter's height: one that stands so much lower is on the next line
STRAIGHT = 0.6  # points that an edge may lean

Matrix = tuple[float, float, float, float, float, float]
IDENTITY: Matrix = (1.0, 0.0, 0.0, 1.0, 0.0, 0.0)
NOWHERE: BBox = (1.0, 1.0, -1.0, -1.0)


class Marks(NamedTuple):
    """What a page shows besides text."""

    edges: tuple[BBox, ...]  # straight horizontal or vertical strokes
    num_objects: int  # of all kinds
    image_area: float  # square points in user space
    pictures: tuple[Picture, ...] = ()  # that cover the middle


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


def read_marks(
    page: int, placement: Placement, want_edges: bool, middle: tuple[float, float] = (math.inf, math.inf)
) -> Marks:
    """Walk through the page's objects, once. `middle`: of the page, as shown."""
    edges: list[BBox] = []
    pictures: list[Picture] = []
    count, area = 0, 0.0
    for kind, item, matrix in islice(_iter_objects(page), MAX_OBJECTS):
        count += 1
        if kind == pdfium.FPDF_PAGEOBJ_IMAGE:
            area += _area(item)
            pictures += _iter_picture(item, matrix, placement, middle)
        elif kind == pdfium.FPDF_PAGEOBJ_PATH and want_edges and _is_drawn(item):
            edges.extend(_iter_edges(item, matrix, placement))
    return Marks(tuple(edges) if count < MAX_OBJECTS else (), count, area, tuple(pictures))


def find_grids(edges: Sequence[BBox], close: bool = True) -> list[Grid]:
    """Tables of at least two rows and two columns, from the top of the page down. `close`: also those whose rows are
    open at the sides."""
    horizontal = sum(edge[2] - edge[0] > edge[3] - edge[1] for edge in edges)
    if horizontal < 3 or len(edges) - horizontal < 2:
        return []
    wide = [edge[2] - edge[0] > edge[3] - edge[1] for edge in edges]
    level = merge_rules({Rule(edge[1], edge[0], edge[2]) for edge, is_wide in zip(edges, wide, strict=True) if is_wide})
    upright = merge_rules(
        {Rule(edge[0], edge[1], edge[3]) for edge, is_wide in zip(edges, wide, strict=True) if not is_wide}
    )
    if max(len(level), len(upright)) > MAX_EDGES:
        return []
    if close:
        upright = merge_rules({*upright, *close_sides(upright, level)})
    grids = [_make_grid(cells) for cells in find_cells(upright, level)]
    return [grid for grid in grids if len(grid.cells) >= 4]


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
    """Put the characters into the cells, with their line ends; None where that makes no table but a frame."""
    if not _is_tiled(grid):
        return None
    texts: list[list[str]] = [[] for _ in grid.cells]
    previous: dict[int, int] = {}
    cell, (left, top, right, bottom) = -1, NOWHERE
    for position, (text, x0, y0, x1, y1, _) in enumerate(chars):
        x, y = (x0 + x1) / 2, (y0 + y1) / 2
        if text.isspace():
            continue
        if not (left <= x <= right and top <= y <= bottom):  # most stand in the cell of the one before
            if not _is_inside(x, y, grid.bbox):
                continue
            cell = grid.cell_at(x, y)
            left, top, right, bottom = grid.cells[cell]
        if cell in previous:
            texts[cell].append(_gap(chars, previous[cell], position))
        texts[cell].append("-" if text == DIVIDED else text)
        previous[cell] = position
    cells = ["".join(text) for text in texts]
    if _is_plot(grid, cells):
        return None
    rows, spans = _as_rows(grid, cells)
    if len(rows) < 2 or len(rows[0]) < 2 or sum(bool(cell) for row in rows for cell in row) < 3:
        return None
    return Table(rows, grid.bbox, spans, count_header_rows(rows, spans))


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


def _iter_objects(page: int) -> Iterator[tuple[int, int, Matrix]]:
    """Kind, handle, and the matrix of the forms around it, of each object; a form itself is none, but what it holds."""
    count = pdfium.FPDFPage_CountObjects(page)
    yield from _iter_with_forms(map(pdfium.FPDFPage_GetObject, repeat(page), range(count)), IDENTITY, 0)


def _iter_with_forms(items: Iterable[int | None], matrix: Matrix, depth: int) -> Iterator[tuple[int, int, Matrix]]:
    for item in items:
        kind = pdfium.FPDFPageObj_GetType(item)
        if kind != pdfium.FPDF_PAGEOBJ_FORM:
            if item:
                yield kind, item, matrix
        elif item and depth < MAX_DEPTH:
            inner = map(pdfium.FPDFFormObj_GetObject, repeat(item), range(pdfium.FPDFFormObj_CountObjects(item)))
            yield from _iter_with_forms(inner, _multiply(_matrix_of(item), matrix), depth + 1)


def _matrix_of(item: int) -> Matrix:
    m = pdfium.FS_MATRIX()
    if not pdfium.FPDFPageObj_GetMatrix(item, m):
        return IDENTITY
    return m.a, m.b, m.c, m.d, m.e, m.f


def _multiply(first: Matrix, second: Matrix) -> Matrix:
    a, b, c, d, e, f = first
    g, h, i, j, k, m = second
    return a * g + b * i, a * h + b * j, c * g + d * i, c * h + d * j, e * g + f * i + k, e * h + f * j + m


def _area(item: int) -> float:
    left, bottom, right, top = (ctypes.c_float() for _ in range(4))
    if not pdfium.FPDFPageObj_GetBounds(item, left, bottom, right, top):
        return 0.0
    return abs((right.value - left.value) * (top.value - bottom.value))


def _iter_picture(item: int, matrix: Matrix, placement: Placement, middle: tuple[float, float]) -> Iterator[Picture]:
    """The image, if it covers the middle of the page; it fills the unit square of its own space."""
    a, b, c, d, e, f = _multiply(_matrix_of(item), matrix)
    corners = [placement.point(e + x, f + y) for x, y in ((0.0, 0.0), (a, b), (c, d), (a + c, b + d))]
    (x0, x1), (top, bottom) = ((min(places), max(places)) for places in zip(*corners, strict=True))
    if x0 <= middle[0] <= x1 and top <= middle[1] <= bottom:
        width, height = ctypes.c_uint(), ctypes.c_uint()
        pdfium.FPDFImageObj_GetImagePixelSize(item, width, height)
        if width.value * height.value < MIN_PIXELS:
            return
        size = pdfium.FPDFImageObj_GetImageDataRaw(item, None, 0)
        content = f"{width.value}x{height.value}, {size} bytes"
        yield Picture((x0, top, x1, bottom), content, bool(pdfium.FPDFPageObj_HasTransparency(item)))


def _is_drawn(item: int) -> bool:
    """False for clip paths and for white shapes, which hide rather than show."""
    fill, stroke = ctypes.c_int(), ctypes.c_int()
    pdfium.FPDFPath_GetDrawMode(item, fill, stroke)
    if stroke.value:
        return True
    red, green, blue, alpha = (ctypes.c_uint() for _ in range(4))
    pdfium.FPDFPageObj_GetFillColor(item, red, green, blue, alpha)
    return bool(fill.value) and alpha.value > 0 and min(red.value, green.value, blue.value) < 250


def _iter_edges(item: int, matrix: Matrix, placement: Placement) -> Iterator[BBox]:
    """The straight strokes of a path; a thin filled box is one stroke along its middle."""
    pieces = _straight_pieces(item, _multiply(_matrix_of(item), matrix), placement)
    if len(pieces) > 1:
        ax, ay, bx, by = zip(*pieces, strict=True)
        x0, top, x1, bottom = min(*ax, *bx), min(*ay, *by), max(*ax, *bx), max(*ay, *by)
        if min(x1 - x0, bottom - top) <= SNAP:
            pieces = [(x0, (top + bottom) / 2, x1, (top + bottom) / 2)]
            if bottom - top > x1 - x0:
                pieces = [((x0 + x1) / 2, top, (x0 + x1) / 2, bottom)]
    for from_x, from_y, to_x, to_y in pieces:
        wide, high = abs(from_x - to_x), abs(from_y - to_y)
        if high <= STRAIGHT < wide:
            yield min(from_x, to_x), (from_y + to_y) / 2, max(from_x, to_x), (from_y + to_y) / 2
        elif wide <= STRAIGHT < high:
            yield (from_x + to_x) / 2, min(from_y, to_y), (from_x + to_x) / 2, max(from_y, to_y)


def _straight_pieces(item: int, matrix: Matrix, placement: Placement) -> list[tuple[float, float, float, float]]:
    """Start and end (x, y, x, y) of each straight piece of a path, as shown on the page."""
    count = pdfium.FPDFPath_CountSegments(item)
    if not 2 <= count <= MAX_SEGMENTS:
        return []
    a, b, c, d, e, f = matrix
    x, y = ctypes.c_float(), ctypes.c_float()
    pieces = []
    start = here = (0.0, 0.0)
    for index in range(count):
        segment = pdfium.FPDFPath_GetPathSegment(item, index)
        pdfium.FPDFPathSegment_GetPoint(segment, x, y)
        there = placement.point(a * x.value + c * y.value + e, b * x.value + d * y.value + f)
        kind = pdfium.FPDFPathSegment_GetType(segment)
        if kind == pdfium.FPDF_SEGMENT_MOVETO:
            start = there
        elif kind == pdfium.FPDF_SEGMENT_LINETO:
            pieces.append((*here, *there))
        here = there
        if pdfium.FPDFPathSegment_GetClose(segment):
            pieces.append((*here, *start))
            here = start
    return pieces
