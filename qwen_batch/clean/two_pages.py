"""Running lines of documents of two pages.

Two pages prove little: two forms in one file say the same words at the same places. But where a sentence goes on from
the first page to the second, what stands between its halves and is said on both pages is a running line. It is kept
where it parts nothing: above the first page, and below the second.
"""

from __future__ import annotations

from collections.abc import Sequence

from qwen_batch.clean.edges import EdgeLine
from qwen_batch.clean.page_numbers import parse_page_number
from qwen_batch.clean.running import SHORT_GAP, SLOT_TOLERANCE, WORD
from qwen_batch.clean.titles import goes_on
from qwen_batch.records import Line, Page

APART = 1.3  # times the space between the rows next to it


def parting_lines(lines: Sequence[EdgeLine], pages: Sequence[Page]) -> list[EdgeLine]:
    """The lines, of those at the edges, that part a sentence of a document of two pages."""
    if len(pages) != 2:
        return []
    found = [*_repeated(lines, "bottom", 0), *_repeated(lines, "top", 1)]
    first, second = (_text_of(page, index, found) for index, page in enumerate(pages))
    return found if first and second and goes_on(first, second[0]) else []


def _repeated(lines: Sequence[EdgeLine], edge: str, page_index: int) -> list[EdgeLine]:
    """Lines set apart at an edge of a page that the other page has at the same place."""
    apart = [line for line in lines if line.edge == edge and line.row == 0 and WORD().search(line.text)]
    within = {line.page_index: line.inner_gap for line in lines if line.edge == edge and line.row == 1}
    others = {line.text: line.offset for line in apart if line.page_index != page_index}
    return [
        line
        for line in apart
        if line.page_index == page_index
        and line.inner_gap >= max(SHORT_GAP * line.size, APART * within.get(page_index, 0.0))
        and abs(others.get(line.text, float("inf")) - line.offset) <= SLOT_TOLERANCE
    ]


def _text_of(page: Page, page_index: int, found: Sequence[EdgeLine]) -> list[Line]:
    taken = {line.line_index for line in found if line.page_index == page_index}
    return [
        line
        for number, line in enumerate(page.lines)
        if number not in taken and line.bbox and WORD().search(line.text) and not parse_page_number(line.text)
    ]
