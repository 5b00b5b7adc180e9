"""Text of pages that are images, by PP-OCR models on this machine (the extra `ocr`: rapidocr, which carries them).

Nothing is fetched. The models are loaded at the first page and kept for the life of the process.
"""

from __future__ import annotations

import functools
import importlib.util
import math
import re
import resource
import time
from typing import Any

from qwen_batch.read.order import cut_by_places
from qwen_batch.records import Line

DPI = 200
MAX_PIXELS = 16_000_000  # of a page; larger ones are rendered coarser
MAX_DETECTION_SIDE = 1280  # pixels of the picture in which lines are looked for; they are read at full size
MARGIN = 0.12  # of a box's height: the models draw boxes around lines that overlap those above and below
MIN_SCORE = 0.5  # a line that is recognised with less confidence is noise
# Boxes, which stand for characters that a font does not name; characters of private meaning; controls.
_MEANINGLESS = re.compile("[\ufffd\u25a1\u25a0\u53e3\ue000-\uf8ff\x00-\x1f]")
MIN_CHARS = 20
MAX_MEANINGLESS = 0.3
MODULES = ("rapidocr", "onnxruntime")


def is_garbled(text: str) -> bool:
    """Whether a text layer is none: characters of no meaning, or the same box again and again, as wrong fonts give."""
    shown = "".join(text.split())
    if len(shown) < MIN_CHARS:
        return False
    return len(_MEANINGLESS.findall(shown)) > MAX_MEANINGLESS * len(shown)


class Recogniser:
    """Reads pages that are images, where the extra is installed, until its time is over."""

    def __init__(self, seconds: float) -> None:
        self._seconds_left = seconds

    def read(self, page: Any) -> tuple[tuple[Line, ...], float] | None:
        """Lines and confidence of a pdfium page; None: it cannot be read now."""
        if self._seconds_left <= 0 or not _is_installed():
            return None
        _take_extra_memory()
        start = time.monotonic()
        found = recognise(page)
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


def recognise(page: Any) -> tuple[tuple[Line, ...], float]:
    """Lines of a pdfium page in reading order, with their places, and the mean confidence over characters."""
    width, height = page.get_size()
    scale = min(DPI / 72, math.sqrt(MAX_PIXELS / max(width * height, 1.0)))
    bitmap = page.render(scale=scale, may_draw_forms=False)
    try:
        found = _engine()(bitmap.to_numpy()[:, :, :3])
    finally:
        bitmap.close()
    lines: list[Line] = []
    weights: list[tuple[float, int]] = []
    for box, text, score in zip(_of(found, "boxes"), _of(found, "txts"), _of(found, "scores"), strict=True):
        if score < MIN_SCORE or not text.strip():
            continue
        xs, ys = [float(point[0]) / scale for point in box], [float(point[1]) / scale for point in box]
        margin = MARGIN * (max(ys) - min(ys))
        box_height = max(ys) - min(ys) - 2 * margin
        place = (min(xs), min(ys) + margin, max(xs), max(ys) - margin)
        lines.append(Line(text.strip(), place, _evened(min(box_height, max(xs) - min(xs)))))
        weights.append((float(score), len(text)))
    total = sum(count for _, count in weights)
    mean = sum(score * count for score, count in weights) / total if total else 0.0
    return cut_by_places(lines), round(mean, 3)


def _of(found: Any, name: str) -> Any:
    value = getattr(found, name, None)
    return () if value is None else value


def _evened(size: float) -> float:
    """Heights of recognised boxes differ from line to line; font sizes on a page do not so much."""
    return float(max(4, 2 * round(size / 2)))


@functools.cache
def _engine() -> Any:
    from rapidocr import RapidOCR

    return RapidOCR(
        params={
            "Global.log_level": "critical",
            "EngineConfig.onnxruntime.intra_op_num_threads": 1,  # there is a reading process for each core
            "Det.limit_type": "max",
            "Det.limit_side_len": MAX_DETECTION_SIDE,
        }
    )
