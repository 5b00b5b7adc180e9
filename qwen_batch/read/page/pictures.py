"""Pictures of text on pages that have text besides: a scanned annex below a letter, a form printed into a notice.

A large picture without text over it is looked at coarsely, without any model: where a page is cut into upright strips,
lines of text make short rows of ink with white between them in some strips beside each other. Scanned and printed
pages make 7 to 38 such rows in three strips or more, a class diagram 18, 1, 8, 2, 15 in turn, a drawing 1 to 8.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from qwen_batch.read.page.file import Picture
from qwen_batch.records import BBox, Line

LARGE = 0.25  # of the page
PART = 0.02  # of the page: a smaller image is no part of a large one, as scanners save them in bands
MAX_PARTS = 100
TOUCHING = 2.0  # points between such parts
COVER_CHARS = 20  # within a picture: that many make it a background, or a scan that has its text already
LOOK_SCALE = 1.0  # pixels a point
STRIPS = 8
STRIPS_BESIDE = 3  # with lines; a diagram has them here and there
CONTRAST = 64  # levels of grey between paper and ink
PAPER = 32  # levels within which a blank sheet may vary, in each colour
LINE_HEIGHT = (3, 22)  # pixels from the top to the foot of a line
MIN_LINES = 5  # of a strip
INKED = 0.85  # of a strip's rows, at most


def pictures_alone(images: Sequence[BBox], lines: Sequence[Line], size: tuple[float, float]) -> list[BBox]:
    """Large pictures without text over them; images that continue each other are one picture."""
    area = size[0] * size[1]
    parts = [box for box in (_within(image, size) for image in images) if _area(box) >= PART * area]
    if not parts or len(parts) > MAX_PARTS or sum(map(_area, parts)) < LARGE * area:
        return []
    return [box for box in _joined(parts) if _area(box) >= LARGE * area and _num_chars(lines, box) < COVER_CHARS]


def _within(box: BBox, size: tuple[float, float]) -> BBox:
    """What of an image lies on the page."""
    return max(0.0, box[0]), max(0.0, box[1]), min(size[0], box[2]), min(size[1], box[3])


def _area(box: BBox) -> float:
    return max(0.0, box[2] - box[0]) * max(0.0, box[3] - box[1])


def _joined(parts: Sequence[BBox]) -> list[BBox]:
    """Parts below each other, of one width, as one."""
    joined: list[BBox] = []
    for box in sorted(parts, key=lambda part: part[1]):
        for number, (x0, top, x1, bottom) in enumerate(joined):
            if abs(x0 - box[0]) <= TOUCHING and abs(x1 - box[2]) <= TOUCHING and box[1] - bottom <= TOUCHING:
                joined[number] = (x0, top, x1, max(bottom, box[3]))
                break
        else:
            joined.append(box)
    return joined


def _num_chars(lines: Sequence[Line], box: BBox) -> int:
    inside = (line for line in lines if line.bbox and _holds(box, line.bbox))
    return sum(len(line.text) for line in inside)


def _holds(box: BBox, other: BBox) -> bool:
    x, y = (other[0] + other[2]) / 2, (other[1] + other[3]) / 2
    return box[0] <= x <= box[2] and box[1] <= y <= box[3]


def shows_lines(picture: Picture, box: BBox) -> bool:
    """Whether lines of text, level or upright, a little askew or not, are seen in a part of a page, rendered in
    LOOK_SCALE."""
    left, top, right, bottom = (round(side * LOOK_SCALE) for side in box)
    across, down = (left, min(right, picture.width)), (top, min(bottom, picture.height))
    green = memoryview(picture.data)[1::3]  # of each pixel, row by row
    return _has_lines(green, (across, 1), (down, picture.width)) or _has_lines(
        green, (down, picture.width), (across, 1)
    )


def is_uniform(picture: Picture) -> bool:
    """Whether nothing is seen on a page: it is all paper, or all black."""
    colours = (bytes(memoryview(picture.data)[place::3]) for place in range(3))
    return all(max(colour) - min(colour) < PAPER for colour in colours)


def _has_lines(pixels: memoryview, along: tuple[tuple[int, int], int], across: tuple[tuple[int, int], int]) -> bool:
    """Whether lines run along an axis. Each is given by its first pixel and the one after its last, and by the distance
    from pixel to pixel."""
    (first, after), step = along
    places, stride = across
    beside = 0  # strips with lines
    for start, end in pairwise(first + (after - first) * number // STRIPS for number in range(STRIPS + 1)):
        rows = (pixels[row * stride + start * step : row * stride + end * step : step] for row in range(*places))
        inked = [max(row) - min(row) >= CONTRAST for row in map(bytes, rows) if row]
        lines = sum(LINE_HEIGHT[0] <= height <= LINE_HEIGHT[1] for height in _runs(inked))
        beside = beside + 1 if lines >= MIN_LINES and sum(inked) <= INKED * len(inked) else 0
        if beside >= STRIPS_BESIDE:
            return True
    return False


def _runs(flags: Sequence[bool]) -> Iterator[int]:
    """Lengths of the runs of true."""
    length = 0
    for flag in (*flags, False):
        if flag:
            length += 1
        elif length:
            yield length
            length = 0


def with_picture(lines: Sequence[Line], box: BBox, seen: Sequence[Line]) -> tuple[Line, ...]:
    """The lines of a page, and those of a picture after the last that stands above it."""
    above = [number for number, line in enumerate(lines) if line.bbox and _is_above(line.bbox, box)]
    below = [number for number, line in enumerate(lines) if line.bbox and line.bbox[1] >= (box[1] + box[3]) / 2]
    place = above[-1] + 1 if above else min(below, default=len(lines))
    return (*lines[:place], *seen, *lines[place:])


def _is_above(line: BBox, box: BBox) -> bool:
    return line[3] <= (box[1] + box[3]) / 2 and line[0] < box[2] and box[0] < line[2]
