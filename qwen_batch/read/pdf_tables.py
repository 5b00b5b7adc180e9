"""Ruled tables of a PDF page: drawn lines and text come from pdfium, cells from the geometry in grids.py."""

from __future__ import annotations

import ctypes
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pypdfium2.raw as pdfium

from qwen_batch.read.grids import MIN_EDGE, SNAP, Rule, find_cells, merge_rules
from qwen_batch.read.pdf_chars import DIVIDED, Char, Placement
from qwen_batch.read.table_heads import count_header_rows
from qwen_batch.records import BBox, Picture, Span, Table

MAX_OBJECTS = 20_000  # of a page; more is a drawing
MAX_SEGMENTS = 64  # of one path; rules and boxes have few
MAX_EDGES = 1_500  # of each direction, after merging
MAX_DEPTH = 4  # of form XObjects in one another
MIN_PIXELS = 256  # of an image; a smaller one is a colour
STRAIGHT = 0.6  # points that an edge may lean

Matrix = tuple[float, float, float, float, float, float]
IDENTITY: Matrix = (1.0, 0.0, 0.0, 1.0, 0.0, 0.0)


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

    def cell_of(self, char: Char) -> int:
        """Index of the cell that holds the character, or of the nearest."""
        x, y = char.center
        for index, (x0, top, x1, bottom) in enumerate(self.cells):
            if top <= y <= bottom and x0 <= x <= x1:
                return index
        return min(range(len(self.cells)), key=lambda i: _distance(self.cells[i], x, y))


def read_marks(
    page: Any, placement: Placement, want_edges: bool, middle: tuple[float, float] = (math.inf, math.inf)
) -> Marks:
    """Walk through the page's objects, once. `middle`: of the page, as shown."""
    edges: list[BBox] = []
    pictures: list[Picture] = []
    count, area = 0, 0.0
    for item, matrix in itertools.islice(_iter_objects(page), MAX_OBJECTS):
        count += 1
        kind = pdfium.FPDFPageObj_GetType(item)
        if kind == pdfium.FPDF_PAGEOBJ_IMAGE:
            area += _area(item)
            pictures += _iter_picture(item, matrix, placement, middle)
        elif kind == pdfium.FPDF_PAGEOBJ_PATH and want_edges and _is_drawn(item):
            edges.extend(_iter_edges(item, matrix, placement))
    return Marks(tuple(edges) if count < MAX_OBJECTS else (), count, area, tuple(pictures))


def find_grids(edges: Sequence[BBox]) -> list[Grid]:
    """Tables of at least two rows and two columns, from the top of the page down."""
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
    grids = [_make_grid(cells) for cells in find_cells(upright, level)]
    return [grid for grid in grids if len(grid.cells) >= 4]


def fill_grid(grid: Grid, chars: Sequence[Char]) -> Table | None:
    """Put the characters into the cells, with their line ends; None where that makes no table but a frame."""
    texts: list[list[str]] = [[] for _ in grid.cells]
    previous: dict[int, int] = {}
    cell = 0
    for position, char in enumerate(chars):
        if char.text.isspace() or not _is_inside(char, grid.bbox):
            continue
        if not _is_inside(char, grid.cells[cell]):  # most stand in the cell of the one before
            cell = grid.cell_of(char)
        if cell in previous:
            texts[cell].append(_gap(chars, previous[cell], position))
        texts[cell].append("-" if char.text == DIVIDED else char.text)
        previous[cell] = position
    rows, spans = _as_rows(grid, ["".join(text) for text in texts])
    if len(rows) < 2 or len(rows[0]) < 2 or sum(bool(cell) for row in rows for cell in row) < 3:
        return None
    return Table(rows, grid.bbox, spans, count_header_rows(rows, spans))


def _is_inside(char: Char, box: BBox) -> bool:
    x, y = char.x0 + char.x1, char.top + char.bottom  # twice the middle
    return 2 * box[0] <= x <= 2 * box[2] and 2 * box[1] <= y <= 2 * box[3]


def _gap(chars: Sequence[Char], before: int, after: int) -> str:
    """What stands between two characters of a cell: nothing, a space, or a line end."""
    upper, lower = chars[before], chars[after]
    if upper.text == DIVIDED or lower.center[1] - upper.center[1] > 0.6 * max(upper.bottom - upper.top, 6.0):
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


def _iter_objects(page: Any) -> Iterator[tuple[Any, Matrix]]:
    for index in range(pdfium.FPDFPage_CountObjects(page)):
        yield from _iter_inside(pdfium.FPDFPage_GetObject(page, index), IDENTITY, 0)


def _iter_inside(item: Any, matrix: Matrix, depth: int) -> Iterator[tuple[Any, Matrix]]:
    if not item:
        return
    if pdfium.FPDFPageObj_GetType(item) != pdfium.FPDF_PAGEOBJ_FORM:
        yield item, matrix
        return
    if depth < MAX_DEPTH:
        inner = _multiply(_matrix_of(item), matrix)
        for index in range(pdfium.FPDFFormObj_CountObjects(item)):
            yield from _iter_inside(pdfium.FPDFFormObj_GetObject(item, index), inner, depth + 1)


def _matrix_of(item: Any) -> Matrix:
    m = pdfium.FS_MATRIX()
    if not pdfium.FPDFPageObj_GetMatrix(item, m):
        return IDENTITY
    return m.a, m.b, m.c, m.d, m.e, m.f


def _multiply(first: Matrix, second: Matrix) -> Matrix:
    a, b, c, d, e, f = first
    g, h, i, j, k, m = second
    return a * g + b * i, a * h + b * j, c * g + d * i, c * h + d * j, e * g + f * i + k, e * h + f * j + m


def _area(item: Any) -> float:
    left, bottom, right, top = (ctypes.c_float() for _ in range(4))
    if not pdfium.FPDFPageObj_GetBounds(item, left, bottom, right, top):
        return 0.0
    return abs((right.value - left.value) * (top.value - bottom.value))


def _iter_picture(item: Any, matrix: Matrix, placement: Placement, middle: tuple[float, float]) -> Iterator[Picture]:
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


def _is_drawn(item: Any) -> bool:
    """False for clip paths and for white shapes, which hide rather than show."""
    fill, stroke = ctypes.c_int(), ctypes.c_int()
    pdfium.FPDFPath_GetDrawMode(item, fill, stroke)
    if stroke.value:
        return True
    red, green, blue, alpha = (ctypes.c_uint() for _ in range(4))
    pdfium.FPDFPageObj_GetFillColor(item, red, green, blue, alpha)
    return bool(fill.value) and alpha.value > 0 and min(red.value, green.value, blue.value) < 250


def _iter_edges(item: Any, matrix: Matrix, placement: Placement) -> Iterator[BBox]:
    """The straight strokes of a path; a thin filled box is one stroke along its middle."""
    points = _path_points(item, _multiply(_matrix_of(item), matrix), placement)
    if not points:
        return
    xs = [point[0] for start, end in points for point in (start, end)]
    ys = [point[1] for start, end in points for point in (start, end)]
    x0, top, x1, bottom = min(xs), min(ys), max(xs), max(ys)
    if len(points) > 1 and min(x1 - x0, bottom - top) <= SNAP:
        points = [((x0, (top + bottom) / 2), (x1, (top + bottom) / 2))]
        if bottom - top > x1 - x0:
            points = [(((x0 + x1) / 2, top), ((x0 + x1) / 2, bottom))]
    for (ax, ay), (bx, by) in points:
        wide, high = abs(ax - bx), abs(ay - by)
        if high <= STRAIGHT < wide:
            yield min(ax, bx), (ay + by) / 2, max(ax, bx), (ay + by) / 2
        elif wide <= STRAIGHT < high:
            yield (ax + bx) / 2, min(ay, by), (ax + bx) / 2, max(ay, by)


def _path_points(
    item: Any, matrix: Matrix, placement: Placement
) -> list[tuple[tuple[float, float], tuple[float, float]]]:
    """Start and end of each straight piece of a path, as shown on the page."""
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
            pieces.append((here, there))
        here = there
        if pdfium.FPDFPathSegment_GetClose(segment):
            pieces.append((here, start))
            here = start
    return pieces
