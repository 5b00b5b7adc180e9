"""Chinese and Japanese that is written from the top down, in columns from right to left."""

from __future__ import annotations

from collections.abc import Sequence

from qwen_batch.read.page.order import cut_by_places
from qwen_batch.records import BBox, Line

SHARE = 0.6  # of a page's characters in tall lines
MIN_CHARS = 20
TALL = 2.0  # times as high as wide


def is_written_down(lines: Sequence[Line]) -> bool:
    """Whether most of a page's text is set in such columns."""
    num_chars = sum(len(line.text) for line in lines)
    tall = sum(len(line.text) for line in lines if line.bbox and _is_tall(line.bbox) and _is_cjk(line.text))
    return num_chars >= MIN_CHARS and tall >= SHARE * num_chars


def in_columns(lines: Sequence[Line], width: float) -> tuple[Line, ...]:
    """The lines in reading order: turned so that columns are rows, cut there, and turned back."""
    turned = [Line(str(number), _turned(line.bbox, width)) for number, line in enumerate(lines) if line.bbox]
    return tuple(lines[int(line.text)] for line in cut_by_places(turned))


def _turned(box: BBox, width: float) -> BBox:
    x0, top, x1, bottom = box
    return top, width - x1, bottom, width - x0


def _is_tall(box: BBox) -> bool:
    return box[3] - box[1] > TALL * (box[2] - box[0])


def _is_cjk(text: str) -> bool:
    return 2 * sum("\u2e80" <= char <= "\u9fff" or "\uff00" <= char <= "\uffef" for char in text) > len(text)
