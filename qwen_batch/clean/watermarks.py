"""Watermarks: large words that lie over the text, or slanted ones that stand again and again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from qwen_batch.clean.removals import without_lines
from qwen_batch.records import BBox, Line, Page, Removal

REASON = "watermark"
LARGE = 2.0  # times the font size of the body
SLANT = 1.6  # times its font size that a slanted line is both high and wide
MIN_LETTERS = 3  # an initial is large as well
MIN_OVER = 2  # lines that it lies over
MIN_REPEATED = 3
INNER = 0.2  # of a line's height, at its top and foot: boxes of neighbouring lines touch


def remove_watermarks(pages: Sequence[Page]) -> tuple[tuple[Page, ...], tuple[Removal, ...]]:
    """Take out words that are printed over other words."""
    body = _body_size(pages)
    slanted = Counter(line.text.strip() for page in pages for line in page.lines if is_slanted(line))

    def reason(page_index: int, number: int) -> str | None:
        page = pages[page_index]
        line = page.lines[number]
        is_pattern = slanted[line.text.strip()] >= MIN_REPEATED and is_slanted(line)
        return REASON if is_pattern or _lies_over(line, page, body) else None

    return without_lines(pages, reason)


def _body_size(pages: Sequence[Page]) -> float:
    sizes: Counter[float] = Counter()
    for page in pages:
        for line in page.lines:
            sizes[round(line.font_size or 0.0, 1)] += len(line.text)
    return sizes.most_common(1)[0][0] if sizes else 0.0


def is_slanted(line: Line) -> bool:
    """Whether a line runs neither across nor up or down the page."""
    if line.bbox is None or line.font_size is None:
        return False
    x0, top, x1, bottom = line.bbox
    return min(x1 - x0, bottom - top) > SLANT * line.font_size > 0 and _num_letters(line) >= MIN_LETTERS


def _lies_over(line: Line, page: Page, body: float) -> bool:
    if line.bbox is None or not line.font_size or line.font_size < LARGE * body or _num_letters(line) < MIN_LETTERS:
        return False
    others = (other.bbox for other in page.lines if other is not line and other.bbox and other.text.strip())
    return sum(_overlap(line.bbox, other) for other in others) >= MIN_OVER


def _overlap(box: BBox, other: BBox) -> bool:
    inner = INNER * (other[3] - other[1])
    across = min(box[2], other[2]) > max(box[0], other[0])
    return across and min(box[3], other[3] - inner) > max(box[1], other[1] + inner)


def _num_letters(line: Line) -> int:
    return sum(char.isalpha() for char in line.text)
