"""What is drawn on a PDF page besides text: straight lines, which may rule tables, and images."""

from __future__ import annotations

import ctypes
import functools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, repeat
from typing import Any, NamedTuple

from qwen_batch.read.page import pdfium
from qwen_batch.read.page.chars import Placement
from qwen_batch.read.page.covers import Filled
from qwen_batch.read.tables.grids import SNAP
from qwen_batch.records import BBox, Picture

MAX_OBJECTS = 20_000  # of a page; more is a drawing
MAX_SEGMENTS = 64  # of one path; rules and boxes have few
MAX_DEPTH = 4  # of form XObjects in one another
MIN_IMAGE = 20.0  # points: a smaller one is no picture of text, nor a part of it
STRAIGHT = 0.6  # points that an edge may lean
BOX_SIDES = (4, 5)  # a path may close twice

Matrix = tuple[float, float, float, float, float, float]
PALE = 240  # of 255: all of a colour's parts from here on are nearly white
MAX_FILLED = 200  # boxes of a page; more is a drawing
MIN_FILLED = 3.0  # points of a side: a smaller box covers no letters
OPAQUE = 250  # of 255
FAINT = 32  # of 255: less ink is hardly seen
INKLESS = (pdfium.FPDF_TEXTRENDERMODE_INVISIBLE, pdfium.FPDF_TEXTRENDERMODE_CLIP)
TEXTS_AT_ONCE = 256
LAYER = "OC\0".encode("utf-16-le")  # the name of a mark for a layer (optional content)
MAX_MARKS = 8  # of an object, around each other
IDENTITY: Matrix = (1.0, 0.0, 0.0, 1.0, 0.0, 0.0)


class _Scratch(NamedTuple):
    """What pdfium fills, and the addresses in it: made once, since objects are many."""

    floats: Any  # a matrix, or x and y of each segment of a path
    numbers: Any  # modes of drawing, or a colour
    floats_at: int
    points_at: tuple[list[int], list[int]]
    numbers_at: list[int]


class Marks(NamedTuple):
    """What a page shows besides text."""

    edges: tuple[BBox, ...]  # straight horizontal or vertical strokes
    num_objects: int  # of all kinds
    image_area: float  # square points in user space
    pictures: tuple[Picture, ...] = ()  # that cover the middle
    images: tuple[BBox, ...] = ()  # where the larger ones are shown
    shades: tuple[BBox, ...] = ()  # filled boxes without a line around them; their sides are none of the edges
    inkless: frozenset[int] = frozenset()  # handles of objects of text that are not drawn
    pale: frozenset[int] = frozenset()  # and of those that are nearly white, transparent, or on a layer
    filled: tuple[Filled, ...] = ()  # what may hide text
    texts: tuple[int, ...] = ()  # handles of all objects of text as drawn, where anything is filled


def read_marks(
    page: int, placement: Placement, want_edges: bool, covers_of: Callable[[int, BBox], Iterable[Picture]]
) -> Marks:
    """Walk through the page's objects, once. `covers_of` is asked about each image and its place."""
    edges: list[BBox] = []
    covers: list[Picture] = []
    images: list[BBox] = []
    shades: list[BBox] = []
    filled: list[Filled] = []
    texts: list[int] = []
    count, area = 0, 0.0
    for kind, item, matrix in islice(_iter_objects(page), MAX_OBJECTS):
        count += 1
        if kind == pdfium.FPDF_PAGEOBJ_TEXT:
            texts.append(item)
        elif kind == pdfium.FPDF_PAGEOBJ_IMAGE:
            area += _area(item)
            box = _image_box(item, matrix, placement)
            covers += covers_of(item, box)
            if min(box[2] - box[0], box[3] - box[1]) >= MIN_IMAGE:
                images.append(box)
            if texts and want_edges:
                filled.append(Filled(box, len(texts)))
        elif kind == pdfium.FPDF_PAGEOBJ_PATH and want_edges:
            is_drawn, colour = _paint_of(item)
            strokes, shade = _edges(item, matrix, placement) if is_drawn else ([], [])
            edges += strokes
            shades += shade
            if colour and len(strokes) != 1 and len(filled) < MAX_FILLED and (texts or is_drawn):
                box = shade[0] if shade else _bounds(item, matrix, placement)
                if min(box[2] - box[0], box[3] - box[1]) >= MIN_FILLED:
                    filled.append(Filled(box, len(texts), colour))
    if count >= MAX_OBJECTS:
        edges, shades = [], []
    inkless, pale = _unseen(texts)
    return Marks(
        tuple(edges),
        count,
        area,
        tuple(covers),
        tuple(images),
        tuple(shades),
        inkless,
        pale,
        tuple(filled),
        tuple(texts) if filled else (),
    )


def _unseen(texts: Sequence[int]) -> tuple[frozenset[int], frozenset[int]]:
    """Objects of text without ink, and those of nearly white or faint ink: 0.1 ms a page."""
    modes = map(pdfium.FPDFTextObj_GetTextRenderMode, texts)
    inkless = frozenset(item for item, mode in zip(texts, modes, strict=True) if mode in INKLESS)
    buffer, addresses = _colour_buffer()
    pale: list[int] = []
    for start in range(0, len(texts), TEXTS_AT_ONCE):
        items = texts[start : start + TEXTS_AT_ONCE]
        known = list(map(pdfium.FPDFPageObj_GetFillColor, items, *addresses))
        sides = (buffer[side : 4 * len(items) : 4] for side in range(4))
        pale += [
            item
            for item, is_known, red, green, blue, alpha in zip(items, known, *sides, strict=True)
            if is_known and (alpha < FAINT or min(red, green, blue) >= PALE)
        ]
    return inkless, frozenset((*pale, *_iter_layered(texts)))


def _iter_layered(texts: Sequence[int]) -> Iterator[int]:
    """Objects of text on layers that a reader may switch off. Tagged text has marks, too, but then it has a number."""
    counts = list(map(pdfium.FPDFPageObj_CountMarks, texts))
    if not any(counts):
        return
    name, size = ctypes.create_string_buffer(len(LAYER)), ctypes.c_ulong()
    for item, count in zip(texts, counts, strict=True):
        if count > 1 or (count == 1 and pdfium.FPDFPageObj_GetMarkedContentID(item) < 0):
            for number in range(min(count, MAX_MARKS)):
                mark = pdfium.FPDFPageObj_GetMark(item, number)
                pdfium.FPDFPageObjMark_GetName(mark, name, len(name), ctypes.byref(size))
                if size.value == len(LAYER) and name.raw == LAYER:
                    yield item
                    break


@functools.cache
def _colour_buffer() -> tuple[Any, list[list[int]]]:
    """Red, green, blue and alpha of each of many objects, and the addresses of these."""
    buffer = (ctypes.c_uint * (4 * TEXTS_AT_ONCE))()
    start, width = ctypes.addressof(buffer), ctypes.sizeof(ctypes.c_uint)
    return buffer, [[start + width * (4 * row + side) for row in range(TEXTS_AT_ONCE)] for side in range(4)]


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
    scratch = _scratch()
    if not pdfium.FPDFPageObj_GetMatrix(item, scratch.floats_at):
        return IDENTITY
    a, b, c, d, e, f = scratch.floats[:6]
    return a, b, c, d, e, f


@functools.cache
def _scratch() -> _Scratch:
    floats, numbers = (ctypes.c_float * (2 * MAX_SEGMENTS))(), (ctypes.c_uint * 4)()
    start, width = ctypes.addressof(floats), ctypes.sizeof(ctypes.c_float)
    xs, ys = (list(range(start + side * width, start + ctypes.sizeof(floats), 2 * width)) for side in range(2))
    numbers_at = [ctypes.addressof(numbers) + place * ctypes.sizeof(ctypes.c_uint) for place in range(4)]
    return _Scratch(floats, numbers, start, (xs, ys), numbers_at)


def _multiply(first: Matrix, second: Matrix) -> Matrix:
    a, b, c, d, e, f = first
    g, h, i, j, k, m = second
    return a * g + b * i, a * h + b * j, c * g + d * i, c * h + d * j, e * g + f * i + k, e * h + f * j + m


def _area(item: int) -> float:
    left, bottom, right, top = (ctypes.c_float() for _ in range(4))
    if not pdfium.FPDFPageObj_GetBounds(item, left, bottom, right, top):
        return 0.0
    return abs((right.value - left.value) * (top.value - bottom.value))


def _image_box(item: int, matrix: Matrix, placement: Placement) -> BBox:
    """Where an image is shown; it fills the unit square of its own space."""
    a, b, c, d, e, f = _multiply(_matrix_of(item), matrix)
    corners = [placement.point(e + x, f + y) for x, y in ((0.0, 0.0), (a, b), (c, d), (a + c, b + d))]
    (x0, x1), (top, bottom) = ((min(places), max(places)) for places in zip(*corners, strict=True))
    return x0, top, x1, bottom


def _paint_of(item: int) -> tuple[bool, tuple[int, ...]]:
    """Whether a path is drawn, and the colour that fills it if nothing shows through. Clip paths are not drawn, and
    white shapes hide rather than show."""
    scratch = _scratch()
    if not pdfium.FPDFPath_GetDrawMode(item, *scratch.numbers_at[:2]):
        return False, ()
    fill, stroke = scratch.numbers[:2]
    if not fill or not pdfium.FPDFPageObj_GetFillColor(item, *scratch.numbers_at):
        return bool(stroke), ()
    *colour, alpha = scratch.numbers
    is_drawn = bool(stroke or (alpha > 0 and min(colour) < 250))
    return is_drawn, tuple(colour) if alpha >= OPAQUE else ()


def _bounds(item: int, matrix: Matrix, placement: Placement) -> BBox:
    """The box around a path, as shown on the page."""
    sides = [ctypes.c_float() for _ in range(4)]
    if not pdfium.FPDFPageObj_GetBounds(item, *sides):
        return 0.0, 0.0, 0.0, 0.0
    left, bottom, right, top = (side.value for side in sides)
    a, b, c, d, e, f = matrix
    corners = [
        placement.point(a * x + c * y + e, b * x + d * y + f)
        for x, y in ((left, bottom), (left, top), (right, bottom), (right, top))
    ]
    (x0, x1), (y0, y1) = ((min(places), max(places)) for places in zip(*corners, strict=True))
    return x0, y0, x1, y1


def _edges(item: int, matrix: Matrix, placement: Placement) -> tuple[list[BBox], list[BBox]]:
    """The straight strokes of a path, or the box that it fills; a thin filled box is one stroke along its middle."""
    own = _matrix_of(item)
    pieces = _straight_pieces(item, own if matrix is IDENTITY else _multiply(own, matrix), placement)
    if len(pieces) > 1:
        ax, ay, bx, by = zip(*pieces, strict=True)
        xs, ys = ax + bx, ay + by
        x0, top, x1, bottom = min(xs), min(ys), max(xs), max(ys)
        if min(x1 - x0, bottom - top) <= SNAP:
            pieces = [(x0, (top + bottom) / 2, x1, (top + bottom) / 2)]
            if bottom - top > x1 - x0:
                pieces = [((x0 + x1) / 2, top, (x0 + x1) / 2, bottom)]
    strokes = list(_iter_straight(pieces))
    is_shade = len(pieces) in BOX_SIDES and len(strokes) == 4 and not _is_stroked(item)
    return ([], [(x0, top, x1, bottom)]) if is_shade else (strokes, [])


def _iter_straight(pieces: Iterable[BBox]) -> Iterator[BBox]:
    """The level and the upright ones, from the left and from the top."""
    for from_x, from_y, to_x, to_y in pieces:
        wide, high = abs(from_x - to_x), abs(from_y - to_y)
        if high <= STRAIGHT < wide:
            yield min(from_x, to_x), (from_y + to_y) / 2, max(from_x, to_x), (from_y + to_y) / 2
        elif wide <= STRAIGHT < high:
            yield (from_x + to_x) / 2, min(from_y, to_y), (from_x + to_x) / 2, max(from_y, to_y)


def _is_stroked(item: int) -> bool:
    scratch = _scratch()
    return bool(pdfium.FPDFPath_GetDrawMode(item, *scratch.numbers_at[:2]) and scratch.numbers[1])


def _straight_pieces(item: int, matrix: Matrix, placement: Placement) -> list[tuple[float, float, float, float]]:
    """Start and end (x, y, x, y) of each straight piece of a path, as shown on the page."""
    count = pdfium.FPDFPath_CountSegments(item)
    if not 2 <= count <= MAX_SEGMENTS:
        return []
    segments = list(map(pdfium.FPDFPath_GetPathSegment, repeat(item), range(count)))
    scratch = _scratch()
    deque(map(pdfium.FPDFPathSegment_GetPoint, segments, *scratch.points_at), maxlen=0)
    places = scratch.floats[: 2 * count]
    kinds, closes = map(pdfium.FPDFPathSegment_GetType, segments), map(pdfium.FPDFPathSegment_GetClose, segments)
    a, b, c, d, e, f = matrix
    pieces = []
    start = here = (0.0, 0.0)
    for x, y, kind, closed in zip(places[::2], places[1::2], kinds, closes, strict=True):
        there = placement.point(a * x + c * y + e, b * x + d * y + f)
        if kind == pdfium.FPDF_SEGMENT_MOVETO:
            start = there
        elif kind == pdfium.FPDF_SEGMENT_LINETO:
            pieces.append((*here, *there))
        here = there
        if closed:
            pieces.append((*here, *start))
            here = start
    return pieces
