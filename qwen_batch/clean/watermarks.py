"""Watermarks: large words that lie over the text or say what watermarks say, slanted ones that stand again and again,
and images.

A logo at the edge is no watermark, nor is a figure or a background: an image that is one covers the middle of a page,
lies at the same place of most pages, and text shows through it or stands on it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Iterator, Sequence

from qwen_batch.clean.markers import is_cjk
from qwen_batch.clean.removals import without_lines
from qwen_batch.clean.sizes import body_size_of
from qwen_batch.records import BBox, Line, Page, Picture, Removal

REASON = "watermark"
LARGE = 2.0  # times the font size of the body
LARGER = 1.4
SLANT = 1.6  # times its font size that a slanted line is both high and wide
MIN_LETTERS = 3  # an initial is large as well
MIN_OVER = 2  # lines that it lies over
MIN_REPEATED = 3
MAX_TILES = 2  # different texts that a page is tiled with; the labels of an axis are more
MAX_OVER = 3  # different texts over the others; more are lines of a slanted page, or of a poster
LEAST_ADVANCE, MOST_ADVANCE = 0.25, 1.5  # ems that a letter goes on: the boxes of fields, or of lines misread, differ
SAME_SIZE = 0.01  # relative
MOST = 0.5  # of the pages
STEP = 8.0  # points that the same place may differ
MIN_ON = 3  # lines that stand on an image
LONG = 0.4  # of the page's width: lines that go through the only page's watermark, where a figure's labels are short
SINGLE = 3.0  # times the font size of the body: words that may say on one page alone what the page is
CENTRE = (0.25, 0.75)  # of the page's height
FOOT = 0.85  # of the page's height: what stands beneath is no text of the page's own
_WORDS = (  # as they are printed over drafts and copies, without their spaces
    "draft finaldraft draftcopy copy certifiedcopy uncontrolledcopy duplicate void cancelled canceled sample specimen "
    "confidential strictlyconfidential secret topsecret internaluseonly donotcopy notforrelease notfordistribution "
    "obsolete superseded unofficial informationonly forreviewonly preliminary entwurf kopie muster ungültig "
    "vertraulich strengvertraulich storniert vorabzug brouillon copie spécimen confidentiel annulé borrador copia "
    "confidencial anulado 草稿 草案 样本 样稿 副本 复印件 机密 绝密 保密 内部资料 作废 仅供参考 征求意见稿 見本 写し "
    "社外秘 사본 견본 대외비"
)
WORDS = frozenset(_WORDS.split())
BACKGROUND = 0.9  # of the page
PICTURE = "watermark_image"
Place = tuple[str, int, int]  # what is there, and where, in steps
INNER = 0.2  # of a line's height, at its top and foot: boxes of neighbouring lines touch


def remove_watermarks(pages: Sequence[Page]) -> tuple[tuple[Page, ...], tuple[Removal, ...]]:
    """Take out words that are printed over other words."""
    body = body_size_of(pages)
    repeated = _repeated(pages)
    repeated -= _headings(pages, repeated, body)
    tiles = [[number for number, line in enumerate(page.lines) if is_slanted(line)] for page in pages]
    slanted = Counter(
        page.lines[number].text.strip() for page, of_page in zip(pages, tiles, strict=True) for number in of_page
    )
    found = [_of_page(page, of_page, body, repeated, slanted) for page, of_page in zip(pages, tiles, strict=True)]
    kept, removals = without_lines(pages, lambda page_index, number: REASON if number in found[page_index] else None)
    return kept, (*removals, *_pictures(pages))


def _of_page(
    page: Page, tiles: Sequence[int], body: float, repeated: Container[Place | None], slanted: Counter[str]
) -> set[int]:
    """The lines of a page that are watermarks; `tiles`: those that are slanted."""
    is_tiled = len({page.lines[number].text.strip() for number in tiles}) <= MAX_TILES
    patterns = {
        number
        for number in tiles
        if slanted[page.lines[number].text.strip()] >= MIN_REPEATED
        and (is_tiled or _place(page.lines[number]) in repeated)
    }
    large = [number for number, line in enumerate(page.lines) if (line.font_size or 0.0) >= LARGER * body]
    over = {number for number in large if _lies_over(page.lines[number], page, body, repeated)}
    if len({page.lines[number].text.strip() for number in over}) > MAX_OVER:
        over = {number for number in over if _place(page.lines[number]) in repeated}
    return patterns | over | set(_pieces(page, over, body))


def _pieces(page: Page, over: Container[int], body: float) -> Iterator[int]:
    """Lines as large as a watermark of the page: letters of it that were read apart."""
    sizes = [line.font_size or 0.0 for number, line in enumerate(page.lines) if number in over]
    for number, line in enumerate(page.lines):
        size = line.font_size or 0.0
        if size >= SINGLE * body and any(abs(size - other) <= SAME_SIZE * other for other in sizes):
            yield number


def _repeated(pages: Sequence[Page]) -> frozenset[Place | None]:
    """Texts and places of the lines that most pages have."""
    counts = Counter(place for page in pages for place in {_place(line) for line in page.lines} if place)
    return frozenset(place for place, count in counts.items() if count >= max(MIN_REPEATED, len(pages) * MOST))


def _headings(pages: Sequence[Page], repeated: Container[Place | None], body: float) -> set[Place | None]:
    """Those of large level lines that lie over no other line on any page, and on most have their text beneath, as
    `Certificate` has: what is printed across pages misses none of their text, or stands where it has ended."""
    counts: Counter[Place | None] = Counter()
    below: Counter[Place | None] = Counter()
    crossing: set[Place | None] = set()
    for page in pages:
        for line in page.lines:
            place = _place(line)
            if place not in repeated or (line.font_size or 0.0) < LARGE * body:
                continue
            counts[place] += 1
            below[place] += _has_text_beneath(line, page, body)
            if not _is_level(line) or _below(line, page):
                crossing.add(place)
    return {place for place, count in counts.items() if 2 * below[place] > count and place not in crossing}


def _is_level(line: Line) -> bool:
    return line.bbox is not None and line.bbox[3] - line.bbox[1] <= SLANT * (line.font_size or 0.0)


def _has_text_beneath(line: Line, page: Page, body: float) -> bool:
    """Whether smaller text than it stands beneath it, and not at the foot of the page."""
    foot = FOOT * (page.height or math.inf)
    return any(
        other.bbox is not None
        and line.bbox is not None
        and line.bbox[3] <= (other.bbox[1] + other.bbox[3]) / 2 < foot
        and (other.font_size or 0.0) < LARGE * body
        for other in page.lines
    )


def _place(line: Line) -> Place | None:
    return line.bbox and (line.text.strip(), round(line.bbox[0] / STEP), round(line.bbox[1] / STEP))


def _pictures(pages: Sequence[Page]) -> Iterator[Removal]:
    """Images that are watermarks: nothing is taken from the text, but a reader must know."""
    found = [(page, picture) for page in pages for picture in page.pictures if _may_be_watermark(picture, page)]
    groups: Counter[Place] = Counter(_picture_place(picture) for _, picture in found)
    for page, picture in found:
        is_alone = len(pages) == 1 and picture.see_through and _is_crossed(picture, page)
        if is_alone or groups[_picture_place(picture)] > max(1, len(pages) * MOST):
            yield Removal(page.page_number, "", PICTURE)


def _may_be_watermark(picture: Picture, page: Page) -> bool:
    """Whether text shows through the image or stands on it. One that cannot be seen through and fills the page is a
    background, or the picture of a scanned page."""
    x0, top, x1, bottom = picture.bbox
    covered = (x1 - x0) * (bottom - top) / ((page.width or math.inf) * (page.height or math.inf))
    on = sum(line.bbox is not None and _overlap(picture.bbox, line.bbox) for line in page.lines)
    return on >= MIN_ON and (picture.see_through or covered < BACKGROUND)


def _is_crossed(picture: Picture, page: Page) -> bool:
    boxes = [line.bbox for line in page.lines if line.bbox and _overlap(picture.bbox, line.bbox)]
    return sum(box[2] - box[0] >= LONG * (page.width or math.inf) for box in boxes) >= MIN_ON


def _picture_place(picture: Picture) -> Place:
    return picture.content, round(picture.bbox[0] / STEP), round(picture.bbox[1] / STEP)


def is_slanted(line: Line) -> bool:
    """Whether a line runs neither across nor up or down the page."""
    if line.bbox is None or line.font_size is None:
        return False
    x0, top, x1, bottom = line.bbox
    return (
        min(x1 - x0, bottom - top) > SLANT * line.font_size > 0
        and _num_letters(line) >= MIN_LETTERS
        and _fits(line, MOST_ADVANCE)
    )


def _fits(line: Line, most: float = math.inf) -> bool:
    """Whether a text of its size fills its box from corner to corner, each letter going on at most so far."""
    if line.bbox is None or not line.font_size:
        return False
    length = math.hypot(line.bbox[2] - line.bbox[0], line.bbox[3] - line.bbox[1])
    letters = sum(1 + is_cjk(char) for char in line.text.strip())
    return LEAST_ADVANCE * letters <= length / line.font_size <= most * letters + 1


def _lies_over(line: Line, page: Page, body: float, repeated: Container[Place | None]) -> bool:
    """Whether a line, larger than the body, is large and over some lines of text; or on most pages, and over a line
    that changes. In the middle of the page it may lie below the text: if it is on most pages, or says what watermarks
    say."""
    if line.bbox is None or not line.font_size or _num_letters(line) < MIN_LETTERS:
        return False
    if not _fits(line):
        return False
    below = _below(line, page)
    if line.font_size >= LARGE * body and len(below) >= MIN_OVER:
        return True
    if line.font_size >= LARGE * body and _is_central(line, page):
        says_so = line.font_size >= SINGLE * body and "".join(line.text.casefold().split()) in WORDS
        if says_so or _place(line) in repeated:
            return True
    return _place(line) in repeated and any(_place(other) not in repeated for other in below)


def _below(line: Line, page: Page) -> list[Line]:
    """The lines of text that a line lies over."""
    others = [other for other in page.lines if other is not line and other.bbox and len(other.text.strip()) > 1]
    return [other for other in others if line.bbox and other.bbox and _overlap(line.bbox, other.bbox)]


def _is_central(line: Line, page: Page) -> bool:
    if line.bbox is None or page.height is None:
        return False
    middle = (line.bbox[1] + line.bbox[3]) / 2 / page.height
    return CENTRE[0] < middle < CENTRE[1]


def _overlap(box: BBox, other: BBox) -> bool:
    inner = INNER * (other[3] - other[1])
    across = min(box[2], other[2]) > max(box[0], other[0])
    return across and min(box[3], other[3] - inner) > max(box[1], other[1] + inner)


def _num_letters(line: Line) -> int:
    """A Chinese word may have two; each counts for two."""
    return sum(char.isalpha() + is_cjk(char) for char in line.text)
