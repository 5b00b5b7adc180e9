"""Pages whose text lies on its side or on its head: they are turned until it stands upright.

pdfium turns the whole page, so that lines, columns, tables, rules and form fields are all found in the frame in which
the text is read, and a page that its /Rotate turns the wrong way is read like one without. What stood upright before,
such as the running head and the page number of a page with a landscape table, is read before that, and keeps its
distance from the edge, so that it is told by the same rules as on other pages.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from qwen_batch.read.page import pdfium
from qwen_batch.read.page.blanks import without_idle_blanks
from qwen_batch.read.page.chars import PageChars, Placement, placement_of, read_chars
from qwen_batch.read.page.file import PdfPage
from qwen_batch.read.page.lines import LineMaker, directions_at, iter_lines
from qwen_batch.read.page.rtl_letters import has_rtl_letters
from qwen_batch.records import BBox, Line, Table

SAMPLES = 40  # characters of a page; the matrix of each is a call of 1 us
MOST = 0.6  # of these: turned alike, they turn the page
EDGE = 0.15  # of the page's height: where running heads and page numbers stand
LEAST_SHOWN = 0.03  # of all characters
_CONTROL = re.compile("[\x03-\x08\x0b\x0c\x0e-\x1f]")
# What pdf_accents looks for: accents by themselves, signs of Hebrew, Arabic and Thai.
_MAY_BE_ACCENT = re.compile("[`^~´ˆ˜¨˝ˇ˘˙˚¸¯˛\u0591-\u05bd\u064b-\u065f\u0670\u0e31-\u0e4e]")


class PageView(NamedTuple):
    """The characters of a page in the frame in which they are read, and what stands upright beside them."""

    textpage: int
    placement: Placement
    chars: PageChars
    size: tuple[float, float]  # width and height of the page in that frame
    above: tuple[Line, ...] = ()  # what stood upright before the page was turned, in the upper half
    below: tuple[Line, ...] = ()
    num_cut: int = 0  # words beyond what is shown of the sheet
    num_unnamed: int = 0  # characters for which their font has no name


def read_upright(page: PdfPage) -> PageView:
    """The characters of a page, which is turned where most of them are. Raises PdfiumError."""
    view = _read_view(page)
    quarters = _turns_to_upright(view)
    if not quarters:
        return _in_order(view)
    standing = _going(view, 0)
    lines = list(_lines(_in_order(view._replace(chars=view.chars.only(standing))))) if any(standing) else []
    _turn(page, quarters)
    turned = _read_view(page)
    if lines:
        turned = turned._replace(chars=turned.chars.only([not other for other in _going(turned, quarters)]))
    middle = view.size[1] / 2
    is_above = [line.bbox is not None and line.bbox[1] + line.bbox[3] < 2 * middle for line in lines]
    placed = [_placed(line, view.size, turned.size, quarters) for line in lines]
    above = tuple(line for line, upper in zip(placed, is_above, strict=True) if upper)
    below = tuple(line for line, upper in zip(placed, is_above, strict=True) if not upper)
    return _in_order(turned)._replace(above=above, below=below)


def with_standing(view: PageView, lines: Sequence[Line], tables: Sequence[Table]) -> tuple[Line, ...]:
    """All lines of a page. What stood upright has no place where a table has the place that it would have."""
    boxes = [table.bbox for table in tables if table.bbox]
    above, below = (
        tuple(line._replace(bbox=None) if _is_over(line, boxes) else line for line in each)
        for each in (view.above, view.below)
    )
    return (*above, *lines, *below)


def _read_view(page: PdfPage) -> PageView:
    size, textpage = page.size, page.load_text()
    placement = placement_of(page.handle, *size)
    drawn = read_chars(textpage, placement)
    chars = _shown(drawn, *size)
    num_cut = len(drawn.text.split()) - len(chars.text.split()) if len(chars.text) < len(drawn.text) else 0
    chars = _mended(page, textpage, chars)
    return PageView(textpage, placement, chars, size, num_unnamed=chars.num_unnamed, num_cut=num_cut)


def _mended(page: PdfPage, textpage: int, chars: PageChars) -> PageChars:
    """With ligatures and accents where a file draws such in ways of its own. Loaded here: most files need it not."""
    if _CONTROL.search(chars.text):
        from qwen_batch.read.page.glyphs import with_glyphs_told
        from qwen_batch.read.page.ligatures import with_ligatures

        chars = with_ligatures(page, textpage, with_glyphs_told(textpage, chars))
    if _MAY_BE_ACCENT.search(chars.text):
        from qwen_batch.read.page.accents import with_accents

        chars = with_accents(chars)
    return chars


def _shown(chars: PageChars, width: float, height: float) -> PageChars:
    """The lines of which something is on what is shown of the sheet; all of them where hardly any is: its box is wrong.

    A line that only runs over the edge is text of the page, however little of it is seen.
    """
    if not chars.text or (
        min(chars.x0) >= 0 <= min(chars.top) and max(chars.x1) <= width and max(chars.bottom) <= height
    ):
        return chars
    across = [0 <= x0 + x1 <= 2 * width for x0, x1 in zip(chars.x0, chars.x1, strict=True)]
    down = [0 <= top + bottom <= 2 * height for top, bottom in zip(chars.top, chars.bottom, strict=True)]
    inside = [x and y and not char.isspace() for x, y, char in zip(across, down, chars.text, strict=True)]
    if sum(inside) < LEAST_SHOWN * len(inside):
        return chars
    for start, end in iter_lines(chars):
        inside[start:end] = [any(inside[start:end])] * (end - start)
    return chars.only(inside)


def _in_order(view: PageView) -> PageView:
    """With right-to-left text as it is read, and blanks nowhere."""
    chars = view.chars
    if has_rtl_letters(chars.text):
        from qwen_batch.read.page.bidi import in_logical_order

        chars = PageChars.of(in_logical_order(chars.chars()))
    return view._replace(chars=without_idle_blanks(chars.without_blanks()))


def _turns_to_upright(view: PageView) -> int:
    """Quarter turns clockwise after which most of the letters stand upright: 0 to 3; 0 where they differ."""
    text, numbers = view.chars.text, view.chars.numbers
    step = max(1, len(text) // SAMPLES)
    letters = [numbers[place] for place in range(step // 2, len(text), step) if not text[place].isspace()]
    directions = Counter(directions_at(view.textpage, view.placement, letters))
    if not directions:
        return 0
    (direction, count), *_ = directions.most_common(1)
    return -direction % 4 if direction is not None and count >= MOST * directions.total() else 0


def _going(view: PageView, direction: int) -> list[bool]:
    """Which characters go into a direction; white space goes nowhere."""
    directions = directions_at(view.textpage, view.placement, view.chars.numbers)
    return [not char.isspace() and going == direction for going, char in zip(directions, view.chars.text, strict=True)]


def _lines(view: PageView) -> Iterator[Line]:
    maker = LineMaker(view.textpage, view.placement, view.chars)
    for start, end in iter_lines(view.chars):
        yield from maker.make(start, end)


def _turn(page: PdfPage, quarters: int) -> None:
    """Show the page turned clockwise; its size and the places of all that is on it change."""
    page.close_text()
    pdfium.FPDFPage_SetRotation(page.handle, (pdfium.FPDFPage_GetRotation(page.handle) + quarters) % 4)


def _placed(line: Line, before: tuple[float, float], after: tuple[float, float], quarters: int) -> Line:
    """A line of the page as it was, on the turned page: near the edge at its old distance from it, else where it is."""
    if line.bbox is None:
        return line
    x0, top, x1, bottom = line.bbox
    if bottom <= EDGE * before[1]:
        return line
    if top >= (1 - EDGE) * before[1]:
        shift = after[1] - before[1]
        return line._replace(bbox=(x0, top + shift, x1, bottom + shift))
    return line._replace(bbox=turned_box(line.bbox, before, quarters))


def turned_box(box: BBox, size: tuple[float, float], quarters: int) -> BBox:
    """Where a box stands after the page, whose size is given, was turned clockwise by so many quarters."""
    x0, top, x1, bottom = box
    width, height = size
    if quarters == 1:
        return height - bottom, x0, height - top, x1
    if quarters == 2:
        return width - x1, height - bottom, width - x0, height - top
    if quarters == 3:
        return top, width - x1, bottom, width - x0
    return box


def _is_over(line: Line, boxes: Sequence[BBox]) -> bool:
    if line.bbox is None:
        return False
    x0, top, x1, bottom = line.bbox
    return any(box[0] < x1 and x0 < box[2] and box[1] < bottom and top < box[3] for box in boxes)
