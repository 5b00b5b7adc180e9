"""All lines of text in a picture, found and read within a small, fixed amount of memory.

rapidocr itself looks for lines in the page as a whole and reads six of them at once: 850 MB for a letter page, and
half a second to import. Here the page goes through detection in bands, and lines are read one by one. Detection is
differentiable binarisation (Liao et al., AAAI 2020).
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import NamedTuple

import cv2
import numpy as np

from qwen_batch.read.ocr.bands import STEP, cut_into_bands
from qwen_batch.read.ocr.gutter import part_at_gutters
from qwen_batch.read.ocr.reading import are_upside_down, line_width, read_line
from qwen_batch.read.ocr.sessions import Floats, Pixels, model, normalised, run

cv2.setNumThreads(1)  # there is a reading process for each core

DETECTION_SIDE = 1280  # pixels of the longer side of the picture in which lines are looked for
INK = 0.3  # probability from which on a pixel belongs to a line
MIN_LINE = 0.5  # mean probability in a line's box
MAX_LINES = 1000
MIN_SHORT_SIDE = 3.0  # pixels of detection
GROWTH = 1.6  # the detector finds the cores of lines: area * GROWTH / perimeter is added on each side
TALL = 1.5  # times as high as wide: text that runs up or down
BANDS_BETWEEN, LINES_BETWEEN = 3, 32  # after which free memory is given back


class SeenLine(NamedTuple):
    """A line as it was recognised."""

    box: Floats  # (4, 2): corners, in pixels, clockwise from the top left
    text: str
    score: float  # mean over its characters

    @property
    def corners(self) -> list[list[float]]:
        found: list[list[float]] = self.box.tolist()
        return found


def as_pixels(data: bytearray, width: int, height: int) -> Pixels:
    """A picture of which each row follows the one before, without a copy."""
    return np.frombuffer(data, np.uint8).reshape(height, width, 3)


class SeenPage(NamedTuple):
    """All lines of text in a picture, in no particular order."""

    lines: list[SeenLine]
    quarters: int  # turns clockwise, 0 to 3, after which most of the text stands upright


def read_page(picture: Pixels) -> SeenPage:
    """All lines of text in a picture, and which way most of them run."""
    boxes = part_at_gutters(picture, find_boxes(picture))
    crops = [cut_out(picture, box) for box in boxes]
    tall = [_is_tall(box) for box in boxes]
    turned = [False, False]
    for way in (False, True):
        chosen = [number for number, is_tall in enumerate(tall) if is_tall is way]
        if chosen and are_upside_down([crops[number] for number in chosen]):
            turned[way] = True
            for number in chosen:
                crops[number] = cv2.rotate(crops[number], cv2.ROTATE_180)
    order = sorted(range(len(crops)), key=lambda number: line_width(crops[number]), reverse=True)
    texts: dict[int, tuple[str, float]] = {}
    for place, number in enumerate(order):  # the widest first: the rest fits into its memory
        if place % LINES_BETWEEN == 0:
            _give_back()
        texts[number] = read_line(crops[number])
    _give_back()
    quarters = _quarters(tall, [texts[number][0] for number in range(len(boxes))], turned)
    return SeenPage([SeenLine(box, *texts[number]) for number, box in enumerate(boxes)], quarters)


def _quarters(tall: Sequence[bool], texts: Sequence[str], turned: Sequence[bool]) -> int:
    """By the letters of tall and of wide lines, and by whether either are upside down."""
    letters = sum((-1 if is_tall else 1) * len(text) for is_tall, text in zip(tall, texts, strict=True))
    if letters >= 0:
        return 2 if turned[False] else 0
    return 1 if turned[True] else 3


def _ink_map(picture: Pixels) -> Floats:
    """For each pixel of the picture, made smaller, the probability that it lies in a line of text."""
    height, width = picture.shape[:2]
    scale = min(1.0, DETECTION_SIDE / max(height, width))
    rows, columns = (max(STEP, round(side * scale / STEP) * STEP) for side in (height, width))
    small = cv2.resize(picture, (columns, rows), interpolation=cv2.INTER_LINEAR)
    ink = np.zeros((rows, columns), np.float32)
    for number, band in enumerate(cut_into_bands(small)):
        if number % BANDS_BETWEEN == 0:
            _give_back()
        seen = run(model("det"), normalised(small[band.upper : band.lower, band.left : band.right]))[0, 0]
        kept = slice(band.start - band.upper, band.end - band.upper)
        ink[band.start : band.end, band.left : band.right] = seen[kept]
    return ink


def find_boxes(picture: Pixels) -> list[Floats]:
    """The corners of each line, (4, 2), in pixels, clockwise from the top left."""
    height, width = picture.shape[:2]
    ink = _ink_map(picture)
    mask = cv2.dilate((ink > INK).astype(np.uint8), np.ones((2, 2), np.uint8))
    contours = cv2.findContours(mask, cv2.RETR_LIST, cv2.CHAIN_APPROX_SIMPLE)[0]
    scale = np.array([width / ink.shape[1], height / ink.shape[0]], np.float32)
    limits = np.array([width, height], np.float32)
    boxes: list[Floats] = []
    for contour in contours[:MAX_LINES]:
        center, (wide, high), angle = cv2.minAreaRect(contour)
        if min(wide, high) < MIN_SHORT_SIDE or _mean_ink(ink, cv2.boxPoints((center, (wide, high), angle))) < MIN_LINE:
            continue
        more = wide * high * GROWTH / (wide + high)  # both sides together
        corners = cv2.boxPoints((center, (wide + more, high + more), angle))
        boxes.append(np.clip(np.round(_clockwise(corners) * scale), 0, limits).astype(np.float32))
    return [box for box in boxes if min(_sides(box)) > MIN_SHORT_SIDE]


def _mean_ink(ink: Floats, corners: Floats) -> float:
    """Mean probability inside a box."""
    rows, columns = ink.shape
    left, upper = (max(0, math.floor(low)) for low in corners.min(axis=0))
    right, lower = (math.ceil(high) + 1 for high in corners.max(axis=0))
    right, lower = min(right, columns), min(lower, rows)
    mask = np.zeros((lower - upper, right - left), np.uint8)
    cv2.fillPoly(mask, [(corners - np.array([left, upper], np.float32)).astype(np.int32)], 1)
    return float(cv2.mean(ink[upper:lower, left:right], mask)[0])


def _clockwise(corners: Floats) -> Floats:
    """Corners of a rectangle in the order top left, top right, bottom right, bottom left, however it slopes."""
    across, down = np.abs(corners[1] - corners[0])
    if across < down:
        corners = np.roll(corners, 1, axis=0)
    upper, lower = sorted((corners[:2], corners[2:]), key=lambda side: float(side[:, 1].sum()))
    upper, lower = upper[np.argsort(upper[:, 0])], lower[np.argsort(-lower[:, 0])]
    return np.concatenate([upper, lower])


def _sides(box: Floats) -> tuple[int, int]:
    """Width and height of a box, in whole pixels."""
    wide = max(np.linalg.norm(box[0] - box[1]), np.linalg.norm(box[2] - box[3]))
    high = max(np.linalg.norm(box[0] - box[3]), np.linalg.norm(box[1] - box[2]))
    return int(wide), int(high)


def _is_tall(box: Floats) -> bool:
    wide, high = _sides(box)
    return high >= TALL * wide


def cut_out(picture: Pixels, box: Floats) -> Pixels:
    """What a box holds, put level; tall boxes are turned by a quarter."""
    wide, high = _sides(box)
    level = np.array([[0, 0], [wide, 0], [wide, high], [0, high]], np.float32)
    change = cv2.getPerspectiveTransform(box, level)
    crop: Pixels = cv2.warpPerspective(
        picture, change, (wide, high), flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE
    )
    return cv2.rotate(crop, cv2.ROTATE_90_COUNTERCLOCKWISE) if _is_tall(box) else crop


def _give_back() -> None:
    """Let the system have the memory that is free, where the C library can do that.

    It would be left in pieces that fit no other picture: 40 MB on a letter page.
    """
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)
