"""Page numbers: lines at the edge that hold nothing but a number that counts with the pages."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from qwen_batch.clean.edges import EdgeLine, edge_lines, remove_lines
from qwen_batch.clean.sizes import body_size_of
from qwen_batch.patterns import late
from qwen_batch.records import Page, Removal

REASON = "page_number"
MIN_PAGES = 3  # over which a bare number must count
PLACE_TOLERANCE = 6.0  # points
CENTRE_SHARE, FOOT_SHARE = 0.02, 0.12  # of the page: how far from its centre and its foot the number of an only page is
YEARS = (1800, 2100)
BODY_SIZE = 0.95  # of the body's font size: what is smaller is no part of it
MOST_SHIFTED = 30  # pages: between a page number and the count of pages, where the form leaves a doubt
FOOT_GAP = 1.5  # of the font size: between it and the text
MOST_STEPS = 0.8  # from page to page that chapters' page numbers must count
_N = r"(?P<n>\d{1,5}|[ivxlc]{1,8})"
PAGE_WORDS = r"(?:page|pages|pg\.?|p\.|seite|s\.|página|pagina|pág\.|strona|str\.|стр\.?|страница|sida|頁|페이지)"
# Forms that say themselves that they are page numbers, in small letters: patterns for both take half as long again to
# compile.
_EXPLICIT = tuple(
    re.compile(pattern)
    for pattern in (
        rf"[-–—•·~|*]{{1,2}}\s*{_N}\s*[-–—•·~|*]{{1,2}}",
        rf"{PAGE_WORDS}\s*[-:]?\s*{_N}(?:\s*(?:of|/|de|von|di|z|из|sur)\s*\d+)?",
        rf"{_N}\s*(?:of|/)\s*\d{{1,5}}",
    )
)
_IN_CHINESE = (  # all of them end with the word for page
    late(rf"第?\s*{_N}\s*[页頁](?:\s*[,，/、]?\s*[共总]\s*\d+\s*[页頁])?"),
    late(rf"[共总]\s*\d+\s*[页頁]\s*[,，/、]?\s*第\s*{_N}\s*[页頁]"),
)
_OF_CHAPTER = re.compile(r"(?:page\s+)?([A-Z]{1,3}|[0-9]{1,2})\s?[-–]\s?([0-9]{1,3})", re.IGNORECASE)
_BARE = re.compile(rf"[\[(（]?\s*{_N}\s*[\])）]?\.?")
_ROMAN = {"i": 1, "v": 5, "x": 10, "l": 50, "c": 100}


class _Numbered(NamedTuple):
    line: EdgeLine
    value: int
    explicit: bool

    @property
    def shift(self) -> int:
        """The same for all pages of a run of page numbers."""
        return self.value - self.line.page_index


def parse_page_number(text: str) -> tuple[int, bool] | None:
    """(number, whether the form says that it is a page number) of a line that holds nothing else."""
    plain = " ".join(text.lower().split())
    if len(plain) > 40:
        return None
    in_chinese = [pattern() for pattern in _IN_CHINESE] if plain.endswith(("页", "頁")) else []
    for pattern in (*_EXPLICIT, *in_chinese):
        if match := pattern.fullmatch(plain):
            return _value(match["n"]), True
    if match := _BARE.fullmatch(plain):
        return _value(match["n"]), False
    return None


def is_year(value: int) -> bool:
    """Whether a bare number is more likely a year than a page: years that follow each other count as pages do."""
    return YEARS[0] <= value <= YEARS[1]


def _value(text: str) -> int:
    if text.isdigit():
        return int(text)
    digits = [_ROMAN[char] for char in text]
    return sum(
        -digit if any(later > digit for later in digits[place + 1 : place + 2]) else digit
        for place, digit in enumerate(digits)
    )


def remove_page_numbers(pages: Sequence[Page]) -> tuple[tuple[Page, ...], tuple[Removal, ...]]:
    """Take page numbers out. A bare number must count over three pages (two in a document of two)."""
    lines = edge_lines(pages)
    numbered = [
        _Numbered(line, *parsed) for line in lines if line.edge != "side" and (parsed := parse_page_number(line.text))
    ]
    body_size = body_size_of(pages)
    numbered = [item for item in numbered if not _says_a_year(item, body_size)]
    needed = min(MIN_PAGES, len(pages))
    shifts = _counting(numbered, needed)
    found = [
        (item.line, REASON)
        for item in numbered
        if (item.explicit and (item.shift in shifts or item.shift == 1))
        or (len(pages) > 1 and item.shift in shifts and (item.line.row == 0 or _place(item.line) in shifts[item.shift]))
    ]
    found += [(line, REASON) for line in _by_chapter(lines, len(pages))]
    if len(pages) == 1:
        found += [(item.line, REASON) for item in numbered if _is_foot(item, pages[0])]
    return remove_lines(pages, found)


def _says_a_year(item: _Numbered, body_size: float) -> bool:
    """Whether a number is a year that the page is about: no smaller than the body, and far from the count of pages."""
    is_far = abs(item.shift) > MOST_SHIFTED
    return not item.explicit and is_year(item.value) and is_far and item.line.size >= BODY_SIZE * body_size


def _is_foot(item: _Numbered, page: Page) -> bool:
    """Whether the only page has its number by itself at the centre of its foot, far below its text."""
    box = page.lines[item.line.line_index].bbox
    if (
        box is None
        or item.value != 1
        or item.line.edge != "bottom"
        or item.line.row
        or not page.width
        or not page.height
    ):
        return False
    is_centred = abs(box[0] + box[2] - page.width) < 2 * CENTRE_SHARE * page.width
    is_low = item.line.offset < FOOT_SHARE * page.height and item.line.inner_gap >= FOOT_GAP * item.line.size
    return is_centred and is_low and math.isfinite(item.line.inner_gap) and item.line.text.strip() == "1"


def _by_chapter(lines: Sequence[EdgeLine], num_pages: int) -> list[EdgeLine]:
    """Outermost lines such as `3-14` or `A-2`: they count with the pages, and begin anew in each chapter."""
    places: dict[tuple[str, int], list[tuple[EdgeLine, str, int]]] = defaultdict(list)
    for line in lines:
        if line.row == 0 and line.edge != "side" and (match := _OF_CHAPTER.fullmatch(line.text.strip())):
            places[line.edge, round(line.offset / PLACE_TOLERANCE)].append((line, match[1], int(match[2])))
    found: list[EdgeLine] = []
    for items in places.values():
        steps = [
            after[2] - before[2] == after[0].page_index - before[0].page_index
            if after[1] == before[1]
            else after[2] == 1
            for before, after in pairwise(items)
        ]
        if len(items) >= max(MIN_PAGES, num_pages / 2) and sum(steps) >= MOST_STEPS * len(steps):
            found += [line for line, _, _ in items]
    return found


def _counting(numbered: Sequence[_Numbered], needed: int) -> dict[int, set[int]]:
    """Shifts that hold over enough pages at one place: shift -> places, in steps of PLACE_TOLERANCE from an edge."""
    pages_at: dict[tuple[int, str, int], set[int]] = defaultdict(set)
    for item in numbered:
        pages_at[item.shift, item.line.edge, _place(item.line)].add(item.line.page_index)
    shifts: dict[int, set[int]] = defaultdict(set)
    for (shift, edge, place), at_place in pages_at.items():
        if len(at_place | pages_at.get((shift, edge, place + 1), set())) >= needed:
            shifts[shift] |= {place, place + 1}
    return dict(shifts)


def _place(line: EdgeLine) -> int:
    return int(line.offset // PLACE_TOLERANCE)
