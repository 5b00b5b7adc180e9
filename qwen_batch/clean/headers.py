"""Running headers and footers: lines that say the same at the same place on page after page.

Four rules. A text that repeats (numbers hidden) at one place on half of the pages, on half of the odd or even pages,
or on a run of pages, is a running line. So is a line at one place with a number apart that counts with the pages,
whatever else it says. So is an outermost line, set apart, that all pages but the first have, or all odd or all even
ones. And a place near the edge, set apart from the body, whose text is mostly taken up again on a neighbouring page
is a running slot: there the chapter changes while the place does not.
A heading of the body repeats neither its place nor its neighbour's words.
"""

from __future__ import annotations

import dataclasses
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from qwen_batch.clean.edges import EdgeLine, edge_lines, mask, remove_lines
from qwen_batch.records import Page, Removal

MIN_PAGES = 3
MIN_RUN = 4  # pages of a section with a running line of its own
RUN_SPREAD = 2.2  # pages that such a run may span for each of its lines: every other page
PLACE_TOLERANCE = 8.0  # points
SLOT_TOLERANCE = 1.5  # points
SLOT_MIN_PAGES = 5
SLOT_MATCHED = 0.6  # share of a slot's lines that a neighbour takes up
SLOT_GAP = 0.6  # of the font size: space between a slot and the body beyond ordinary leading
SHORT_GAP = 1.0  # of the font size: the same, where two pages must do as evidence
TRACKING = 0.6  # share of lines in which a number counts with the pages
_NUMBER = re.compile(r"\d+")
_PAGE_NUMBER_APART = re.compile(r"^(\d{1,4})\s{3,}|\s{3,}(\d{1,4})$")
_WORD = re.compile(r"[^\W\d_]{2,}|[\u3400-\u9fff]")


def remove_headers(pages: Sequence[Page]) -> tuple[tuple[Page, ...], tuple[Removal, ...]]:
    """Take out what the format itself sets aside, and running headers and footers of at least three pages."""
    pages, set_aside = _without_asides(pages)
    if len(pages) < MIN_PAGES:
        return tuple(pages), set_aside
    lines = [line for line in edge_lines(pages) if mask(line.text).strip(" #-–—.|/()[]")]
    found = list(_repeated(lines, len(pages)))
    found += _numbered(lines, min(MIN_PAGES, len(pages)))
    found += _outermost(lines, len(pages))
    taken = {(line.page_index, line.line_index) for line in found}
    rest = [line for line in lines if (line.page_index, line.line_index) not in taken]
    found += _slotted(rest, len(pages))
    found.sort(key=lambda line: -line.offset)  # on a page of few lines one counts for both edges: the nearer one wins
    kept, removed = remove_lines(pages, [(line, _reason(line)) for line in found])
    return kept, (*set_aside, *removed)


def _without_asides(pages: Sequence[Page]) -> tuple[Sequence[Page], tuple[Removal, ...]]:
    if not any(line.aside for page in pages for line in page.lines):
        return pages, ()
    removed = [Removal(page.page_number, line.text, line.aside) for page in pages for line in page.lines if line.aside]
    kept = [dataclasses.replace(page, lines=tuple(line for line in page.lines if not line.aside)) for page in pages]
    return kept, tuple(removed)


def _reason(line: EdgeLine) -> str:
    return {"top": "header", "bottom": "footer", "side": "margin"}[line.edge]


def _repeated(lines: Sequence[EdgeLine], num_pages: int) -> Iterator[EdgeLine]:
    """Lines whose masked text stands at one place on enough pages."""
    groups: dict[tuple[str, str], list[EdgeLine]] = defaultdict(list)
    for line in lines:
        groups[line.edge, mask(line.text)].append(line)
    for group in groups.values():
        for cluster in _clusters(group, PLACE_TOLERANCE):
            if _is_running({line.page_index for line in cluster}, num_pages) and _is_one_line(cluster):
                yield from cluster


def _clusters(group: Iterable[EdgeLine], tolerance: float) -> Iterator[list[EdgeLine]]:
    """Lines whose distance from the edge is about the same."""
    cluster: list[EdgeLine] = []
    for line in sorted(group, key=lambda item: item.offset):
        if cluster and line.offset - cluster[-1].offset > tolerance:
            yield cluster
            cluster = []
        cluster.append(line)
    if cluster:
        yield cluster


def _is_running(indices: set[int], num_pages: int) -> bool:
    count = len(indices)
    if count < MIN_PAGES:
        return False
    if 2 * count >= num_pages:
        return True
    parities = {index % 2 for index in indices}
    if len(parities) == 1 and 2 * count >= len(range(parities.pop(), num_pages, 2)):
        return True
    return count >= MIN_RUN and max(indices) - min(indices) + 1 <= RUN_SPREAD * count


def _is_one_line(cluster: Sequence[EdgeLine]) -> bool:
    """False for lines that only look alike because numbers are hidden, such as `Section 4` at the top of pages."""
    if len({line.text for line in cluster}) < 0.8 * len(cluster):
        return True
    offsets: dict[int, set[int]] = defaultdict(set)
    for line in cluster:
        for number in _NUMBER.findall(line.text):
            if len(number) < 8:
                offsets[int(number) - line.page_index].add(line.page_index)
    pages = {line.page_index for line in cluster}
    if not offsets:  # roman numerals, or words alone
        return True
    return max(len(tracked) for tracked in offsets.values()) >= TRACKING * len(pages)


def _numbered(lines: Sequence[EdgeLine], needed: int) -> Iterator[EdgeLine]:
    """Lines at one place with a page number apart at an end, whatever else they say: `2   The parties`."""
    groups: dict[tuple[str, int], list[EdgeLine]] = defaultdict(list)
    for line in lines:
        if match := _PAGE_NUMBER_APART.search(line.text):
            groups[line.edge, int(match[1] or match[2]) - line.page_index].append(line)
    for group in groups.values():
        for cluster in _clusters(group, SLOT_TOLERANCE):
            if len({line.page_index for line in cluster}) >= needed:
                yield from cluster


def _outermost(lines: Sequence[EdgeLine], num_pages: int) -> Iterator[EdgeLine]:
    """Outermost lines, set apart, that all pages but the first, or all odd or all even ones, have at one place.

    Two pages are then enough. Heads that mirror left and right count as the same.
    """
    groups: dict[tuple[str, str], list[EdgeLine]] = defaultdict(list)
    for line in lines:
        if line.row == 0 and line.inner_gap >= SHORT_GAP * line.size:
            groups[line.edge, " ".join(sorted(line.text.split()))].append(line)
    wanted = [set(range(1, num_pages)), set(range(0, num_pages, 2)), set(range(1, num_pages, 2))]
    for group in groups.values():
        for cluster in _clusters(group, SLOT_TOLERANCE):
            have = {line.page_index for line in cluster}
            if len(have) >= 2 and any(pages <= have for pages in wanted if pages):
                yield from cluster


def _slotted(lines: Sequence[EdgeLine], num_pages: int) -> Iterator[EdgeLine]:
    """Lines of places where most of what is said is said again on a page nearby."""
    alike: dict[tuple[str, str], list[EdgeLine]] = defaultdict(list)
    for line in lines:
        alike[line.edge, mask(line.text)].append(line)
    steady = [line for group in alike.values() if len(group) < MIN_PAGES or _is_one_line(group) for line in group]
    for edge in ("top", "bottom"):
        for cluster in _clusters((line for line in steady if line.edge == edge), SLOT_TOLERANCE):
            slot = list({line.page_index: line for line in cluster}.values())
            slot.sort(key=lambda line: line.page_index)
            if len(slot) < max(SLOT_MIN_PAGES, num_pages // 4) or len(slot) < 0.9 * len(cluster):
                continue
            if _median([line.inner_gap / max(line.size, 1.0) for line in slot]) < SLOT_GAP:
                continue
            if sum(_is_taken_up(slot, position) for position in range(len(slot))) >= SLOT_MATCHED * len(slot):
                yield from slot


def _median(values: Sequence[float]) -> float:
    """As in `statistics`, which loads decimals and fractions."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return (ordered[half] + ordered[-half - 1]) / 2 if ordered else 0.0


def _is_taken_up(slot: Sequence[EdgeLine], position: int) -> bool:
    """Whether one of the two lines before or after in the slot shares half of the words."""
    words = set(_WORD.findall(slot[position].text.casefold()))
    for other in (*slot[max(0, position - 2) : position], *slot[position + 1 : position + 3]):
        theirs = set(_WORD.findall(other.text.casefold()))
        smaller = min(len(words), len(theirs))
        if words and words == theirs:
            return True
        if smaller >= 2 and 2 * len(words & theirs) >= smaller:
            return True
    return False
