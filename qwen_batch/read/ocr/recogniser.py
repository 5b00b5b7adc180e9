"""Text of pages that are images, by PP-OCR models on this machine (the extra `ocr`: rapidocr, which carries them).

Nothing is fetched. The models are loaded at the first page and kept for the life of the process.
"""

from __future__ import annotations

import functools
import importlib.util
import resource
import time
from collections.abc import Callable
from typing import NamedTuple

from qwen_batch.read.page.file import PdfPage
from qwen_batch.read.page.order import cut_by_places
from qwen_batch.read.page.turn import turned_box
from qwen_batch.records import BBox, Line

DPI = 200
MAX_SIDE = 2000  # pixels; larger pages are rendered coarser
MARGIN = 0.12  # of a box's height: the models draw boxes around lines that overlap those above and below
MIN_SCORE = 0.5  # a line that is recognised with less confidence is noise
MODULES = ("rapidocr", "onnxruntime")


class Recognised(NamedTuple):
    """Lines in reading order, with their places on the page as it is turned to be read."""

    lines: tuple[Line, ...]
    confidence: float  # 0 to 1, mean over characters
    quarters: int = 0  # turns clockwise that make the page upright


class Recogniser:
    """Reads pages that are images, where the extra is installed, until its time is over."""

    def __init__(self, seconds: float, pictures: bool = False) -> None:
        """`pictures`: also those beside the text of a page."""
        self._seconds_left = seconds
        self._pictures = pictures
        self._has_read = False

    @property
    def advice(self) -> str:
        """What to do about a document whose text was not read."""
        if self._has_read:
            return "OCR found none either: look at the pages, or scan them again"
        if not _is_installed():
            return "install the extra `ocr` and leave input.ocr at auto, or recognise the text first"
        if self._seconds_left <= 0:
            return "leave input.ocr at auto, or recognise the text first"
        return "so little is drawn that OCR was not tried: look at the pages"

    def read(self, page: PdfPage) -> Recognised | None:
        """What the picture of a pdfium page says; None: it cannot be read now."""
        return self._timed(functools.partial(recognise, page))

    def read_area(self, page: PdfPage, area: BBox) -> Recognised | None:
        """What a picture beside the text of a page says; None: it is not asked for, or cannot be read now."""
        return self._timed(functools.partial(recognise_area, page, area)) if self._pictures else None

    def _timed(self, recognise_it: Callable[[], Recognised]) -> Recognised | None:
        if self._seconds_left <= 0 or not _is_installed():
            return None
        _take_extra_memory()
        start = time.monotonic()
        found = recognise_it()
        self._has_read = True
        self._seconds_left -= time.monotonic() - start
        return found


@functools.cache
def _take_extra_memory() -> None:
    """Reading processes keep some of their address space for this (read/worker.py)."""
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


@functools.cache
def _is_installed() -> bool:
    return all(importlib.util.find_spec(name) is not None for name in MODULES)


def recognise_area(page: PdfPage, area: BBox) -> Recognised:
    """What an area of a pdfium page says, with places on the page."""
    found = recognise(page, area)
    size = area[2] - area[0], area[3] - area[1]
    turned = size[::-1] if found.quarters % 2 else size
    lines = [
        line._replace(bbox=_moved(turned_box(line.bbox, turned, -found.quarters % 4), area))
        for line in found.lines
        if line.bbox
    ]
    return Recognised(tuple(lines), found.confidence)


def _moved(box: BBox, area: BBox) -> BBox:
    return box[0] + area[0], box[1] + area[1], box[2] + area[0], box[3] + area[1]


def recognise(page: PdfPage, area: BBox | None = None) -> Recognised:
    """What the picture of a pdfium page says; of an area, with places in it."""
    from qwen_batch.read.ocr.frame import find_frame  # what only pages that are images need
    from qwen_batch.read.ocr.picture import as_pixels, read_page

    scale = min(DPI / 72, MAX_SIDE / max(*page.size, 1.0))
    picture = page.render(scale)
    pixels = as_pixels(picture.data, picture.width, picture.height)
    if area:
        first_x, first_y, last_x, last_y = (round(side * scale) for side in area)
        pixels = pixels[first_y:last_y, first_x:last_x].copy()
    height, width = pixels.shape[:2]
    seen = read_page(pixels)
    frame = find_frame([line.corners for line in seen.lines], seen.quarters, width, height)
    lines: list[Line] = []
    weights: list[tuple[float, int]] = []
    for line in seen.lines:
        text, score = line.text, line.score
        if score < MIN_SCORE or not text.strip():
            continue
        x0, top, x1, bottom = (side / scale for side in frame.place(line.corners))
        margin = MARGIN * (bottom - top)
        place = (x0, top + margin, x1, bottom - margin)
        lines.append(Line(text.strip(), place, _evened(min(bottom - top - 2 * margin, x1 - x0))))
        weights.append((score, len(text)))
    total = sum(count for _, count in weights)
    mean = sum(score * count for score, count in weights) / total if total else 0.0
    return Recognised(cut_by_places(lines), round(mean, 3), seen.quarters)


def _evened(size: float) -> float:
    """Heights of recognised boxes differ from line to line; font sizes on a page do not so much."""
    return float(max(4, 2 * round(size / 2)))
