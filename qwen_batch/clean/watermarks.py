"""Watermarks: large words that lie over the text, slanted ones that stand again and again, and images.

A logo at the edge is no watermark, nor is a figure or a background: an image that is one covers the middle of a page,
lies at the same place of most pages, and text shows through it or stands on it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Iterator, Sequence

from qwen_batch.clean.removals import without_lines
from qwen_batch.records import BBox, Line, Page, Picture, Removal

REASON = "watermark"
LARGE = 2.0  # times the font size of the body
LARGER = 1.4
SLANT = 1.6  # times its font size that a slanted line is both high and wide
MIN_LETTERS = 3  # an initial is large as well
MIN_OVER = 2  # lines that it lies over
MIN_REPEATED = 3
MOST = 0.5  # of the pages
STEP = 8.0  # points that the same place may differ
MIN_ON = 3  # lines that stand on an image
BACKGROUND = 0.9  # of the page
PICTURE = "watermark_image"
Place = tuple[str, int, int]  # what is there, and where, in steps
INNER = 0.2  # of a line's height, at its top and foot: boxes of neighbouring lines touch


def remove_watermarks(pages: Sequence[Page]) -> tuple[tuple[Page, ...], tuple[Removal, ...]]:
    """Take out words that are printed over other words."""
    body = _body_size(pages)
    repeated = _repeated(pages)
    slanted = Counter(line.text.strip() for page in pages for line in page.lines if is_slanted(line))

    def reason(page_index: int, number: int) -> str | None:
        page = pages[page_index]
        line = page.lines[number]
        is_pattern = slanted[line.text.strip()] >= MIN_REPEATED and is_slanted(line)
        return REASON if is_pattern or _lies_over(line, page, body, repeated) else None

    kept, removals = without_lines(pages, reason)
    return kept, (*removals, *_pictures(pages))


def _repeated(pages: Sequence[Page]) -> frozenset[Place | None]:
    """Texts and places of the lines that most pages have."""
    counts = Counter(place for page in pages for place in {_place(line) for line in page.lines} if place)
    return frozenset(place for place, count in counts.items() if count >= max(MIN_REPEATED, len(pages) * MOST))


def _place(line: Line) -> Place | None:
    return line.bbox and (line.text.strip(), round(line.bbox[0] / STEP), round(line.bbox[1] / STEP))


def _pictures(pages: Sequence[Page]) -> Iterator[Removal]:
    """Images that are watermarks: nothing is taken from the text, but a reader must know."""
    found = [(page, picture) for page in pages for picture in page.pictures if _may_be_watermark(picture, page)]
    groups: Counter[Place] = Counter(_picture_place(picture) for _, picture in found)
    for page, picture in found:
        if groups[_picture_place(picture)] > max(1, len(pages) * MOST):
            yield Removal(page.page_number, "", PICTURE)


def _may_be_watermark(picture: Picture, page: Page) -> bool:
    """Whether text shows through the image or stands on it. One that cannot be seen through and fills the page is a
    background, or the picture of a scanned page."""
    x0, top, x1, bottom = picture.bbox
    covered = (x1 - x0) * (bottom - top) / ((page.width or math.inf) * (page.height or math.inf))
    on = sum(line.bbox is not None and _overlap(picture.bbox, line.bbox) for line in page.lines)
    return on >= MIN_ON and (picture.see_through or covered < BACKGROUND)


def _picture_place(picture: Picture) -> Place:
    return picture.content, round(picture.bbox[0] / STEP), round(picture.bbox[1] / STEP)


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


def _lies_over(line: Line, page: Page, body: float, repeated: Container[Place | None]) -> bool:
    """Whether it is large, and over some lines of text; or larger, on most pages, and over a line that changes."""
    if line.bbox is None or not line.font_size or line.font_size < LARGER * body or _num_letters(line) < MIN_LETTERS:
        return False
    others = [other for other in page.lines if other is not line and other.bbox and other.text.strip()]
    below = [other for other in others if other.bbox and _overlap(line.bbox, other.bbox)]
    if line.font_size >= LARGE * body and len(below) >= MIN_OVER:
        return True
    return _place(line) in repeated and any(_place(other) not in repeated for other in below)


def _overlap(box: BBox, other: BBox) -> bool:
    inner = INNER * (other[3] - other[1])
    across = min(box[2], other[2]) > max(box[0], other[0])
    return across and min(box[3], other[3] - inner) > max(box[1], other[1] + inner)


def _num_letters(line: Line) -> int:
    return sum(char.isalpha() for char in line.text)
