"""Running headers and footers: lines that say the same at the same place on page after page.

Four rules. A text that repeats (numbers hidden) at one place on half of the pages, on half of the odd or even pages,
or on a run of pages, is a running line. So is a line at one place with a number apart that counts with the pages,
whatever else it says. So is an outermost line, set apart, that all pages but the first have, or all odd or all even
ones. And a place near the edge, set apart from the body, whose text is mostly taken up again on a neighbouring page
is a running slot: there the chapter changes while the place does not.

What the body says is no running line, however often it is said: what stands far from the edge, or goes on at the
leading of the body. A text of the body's size, or one that differs from page to page (numbers, or a slot), is weak
evidence: every line further out has to be running too. One that differs must not look like a heading, which is larger
than the body and close above it; one that does not differ may be the title of each page (`titles.py`).
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from qwen_batch.clean.edges import EdgeLine, edge_lines, mask, remove_lines
from qwen_batch.clean.titles import without_titles
from qwen_batch.records import Page, Removal

MIN_PAGES = 3
MIN_RUN = 4  # pages of a section with a running line of its own
RUN_SPREAD = 2.2  # pages that such a run may span for each of its lines: every other page
PLACE_TOLERANCE = 8.0  # points
SLOT_TOLERANCE = 1.5  # points
SLOT_MIN_PAGES = 5
SLOT_MATCHED = 0.6  # share of a slot's lines that a neighbour takes up
SLOT_DENSE = 0.7  # share of the pages from its first to its last that a slot has
SLOT_GAP = 0.6  # of the font size: space between a running line and the body beyond ordinary leading
ZONE = 0.2  # of the page's height, from an edge: running lines of the corpus end at 0.18
SMALL_SIZE = 0.95  # of the body's font size: what is smaller is not the body's, however close
HEADING_SIZE = 1.05  # of the body's font size: a heading is larger
HEADING_GAP = 2.0  # of the font size: a heading is closer to its text
SHORT_GAP = 1.0  # of the font size: the same, where two pages must do as evidence, and for whole sentences
TRACKING = 0.6  # share of lines in which a number counts with the pages
_NUMBER = re.compile(r"\d+")
_PAGE_NUMBER_APART = re.compile(r"^(\d{1,4})\s{3,}|\s{3,}(\d{1,4})$")
_COLUMN_GAP = re.compile(r"\S\s{3,}\S")  # between what stands at the left and at the right
_WORD = re.compile(r"[^\W\d_]{2,}|[\u3400-\u9fff]")


def remove_headers(pages: Sequence[Page]) -> tuple[tuple[Page, ...], tuple[Removal, ...]]:
    """Take out what the format itself sets aside, and running headers and footers of at least three pages."""
    pages, set_aside = _without_asides(pages)
    if len(pages) < MIN_PAGES:
        return tuple(pages), set_aside
    lines = [line for line in edge_lines(pages) if mask(line.text).strip(" #-–—.|/()[]") and _in_zone(line, pages)]
    body_size = _body_size(pages)
    same, counting = _repeated(lines, len(pages))
    found = [*_numbered(lines, min(MIN_PAGES, len(pages))), *_outermost(lines, len(pages))]
    found += [line for line in same if not _could_be_body(line, body_size)]
    weak = [line for line in same if _could_be_body(line, body_size)]
    found += _without_open_rows([*weak, *_without_headings(counting, body_size)], lines, found)
    slotted = _without_headings(_slotted(lines, found, len(pages)), body_size)
    found += _without_open_rows(slotted, lines, found)
    found = without_titles(_without_flow(found, body_size), pages, body_size)
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


def _in_zone(line: EdgeLine, pages: Sequence[Page]) -> bool:
    return line.edge == "side" or line.offset <= ZONE * (pages[line.page_index].height or float("inf"))


def _body_size(pages: Sequence[Page]) -> float:
    """The font size of the middle letter."""
    letters: Counter[float] = Counter()
    for page in pages:
        for line in page.lines:
            letters[line.font_size or 0.0] += len(line.text)
    half = letters.total() / 2
    for size in sorted(letters):
        half -= letters[size]
        if half <= 0:
            return size
    return 0.0


def _could_be_body(line: EdgeLine, body_size: float) -> bool:
    """Whether a line is no smaller than the body, and more than a rule of signs."""
    return line.edge != "side" and line.size >= SMALL_SIZE * body_size and bool(_WORD.search(line.text))


def _without_headings(clusters: Iterable[Sequence[EdgeLine]], body_size: float) -> list[EdgeLine]:
    """The lines of all clusters but those that look like headings: larger than the body, and close above it."""
    return [line for cluster in clusters if not _is_heading(cluster, body_size) for line in cluster]


def _is_heading(cluster: Sequence[EdgeLine], body_size: float) -> bool:
    if cluster[0].edge != "top" or all(_COLUMN_GAP.search(line.text) for line in cluster):
        return False
    is_large = _median([line.size for line in cluster]) > HEADING_SIZE * body_size
    return is_large and _relative_gap(cluster) < HEADING_GAP


def _relative_gap(cluster: Sequence[EdgeLine]) -> float:
    return _median([line.inner_gap / max(line.size, 1.0) for line in cluster])


def _without_open_rows(
    weak: Sequence[EdgeLine], lines: Sequence[EdgeLine], found: Sequence[EdgeLine]
) -> list[EdgeLine]:
    """Lines that have none but running lines further out."""
    running = {(line.page_index, line.edge, line.row) for line in (*found, *weak)}
    outermost: dict[tuple[int, str], int] = {}  # row that is none
    for line in lines:
        if (line.page_index, line.edge, line.row) not in running:
            place = line.page_index, line.edge
            outermost[place] = min(line.row, outermost.get(place, line.row))
    return [line for line in weak if line.row <= outermost.get((line.page_index, line.edge), line.row)]


def _without_flow(found: list[EdgeLine], body_size: float) -> list[EdgeLine]:
    """Lines but for those that mostly go on, at the leading of the body, in a line that is not running."""
    while flow := _flow(found, body_size):
        found = [line for line in found if (line.edge, mask(line.text)) not in flow]
    return found


def _flow(found: Sequence[EdgeLine], body_size: float) -> set[tuple[str, str]]:
    """Edge and masked text of the lines that end the running ones towards the body, and are part of it."""
    innermost: dict[tuple[int, str], int] = defaultdict(int)
    groups: dict[tuple[str, str], list[EdgeLine]] = defaultdict(list)
    for line in found:
        if _could_be_body(line, body_size):
            groups[line.edge, mask(line.text)].append(line)
        innermost[line.page_index, line.edge] = max(line.row, innermost[line.page_index, line.edge])
    flow: set[tuple[str, str]] = set()
    for key, group in groups.items():
        ends = [line for line in group if line.row == innermost[line.page_index, line.edge]]
        enough = SHORT_GAP if key[1].endswith((".", "。")) else SLOT_GAP
        if 2 * len(ends) >= len(group) and _relative_gap(ends) < enough:
            flow.add(key)
    return flow


def _repeated(lines: Sequence[EdgeLine], num_pages: int) -> tuple[list[EdgeLine], list[list[EdgeLine]]]:
    """Lines whose masked text stands at one place on enough pages: those that say the same, and those that count."""
    same: list[EdgeLine] = []
    counting: list[list[EdgeLine]] = []
    groups: dict[tuple[str, str], list[EdgeLine]] = defaultdict(list)
    for line in lines:
        groups[line.edge, mask(line.text)].append(line)
    for group in groups.values():
        for cluster in _clusters(group, PLACE_TOLERANCE):
            if not _is_running({line.page_index for line in cluster}, num_pages):
                continue
            if _says_the_same(cluster):
                same += cluster
            elif _is_one_line(cluster):
                counting.append(cluster)
    return same, counting


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


def _says_the_same(cluster: Sequence[EdgeLine]) -> bool:
    return len({line.text for line in cluster}) < 0.8 * len(cluster)


def _is_one_line(cluster: Sequence[EdgeLine]) -> bool:
    """False for lines that only look alike because numbers are hidden, such as `Section 4` at the top of pages."""
    if _says_the_same(cluster):
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


def _slotted(lines: Sequence[EdgeLine], found: Sequence[EdgeLine], num_pages: int) -> Iterator[list[EdgeLine]]:
    """Lines of places where most of what is said is said again on a page nearby."""
    taken = {(line.page_index, line.line_index) for line in found}
    alike: dict[tuple[str, str], list[EdgeLine]] = defaultdict(list)
    for line in lines:
        if (line.page_index, line.line_index) in taken:
            continue
        alike[line.edge, mask(line.text)].append(line)
    steady = [line for group in alike.values() if len(group) < MIN_PAGES or _is_one_line(group) for line in group]
    for edge in ("top", "bottom"):
        for cluster in _clusters((line for line in steady if line.edge == edge), SLOT_TOLERANCE):
            slot = list({line.page_index: line for line in cluster}.values())
            slot.sort(key=lambda line: line.page_index)
            if len(slot) < max(SLOT_MIN_PAGES, num_pages // 4) or len(slot) < 0.9 * len(cluster):
                continue
            if not _is_dense(slot, found) or _relative_gap(slot) < SLOT_GAP:
                continue
            if sum(_is_taken_up(slot, position) for position in range(len(slot))) >= SLOT_MATCHED * len(slot):
                yield slot


def _is_dense(slot: Sequence[EdgeLine], found: Sequence[EdgeLine]) -> bool:
    """Whether most pages from its first to its last have a running line at its place."""
    first, last = slot[0].page_index, slot[-1].page_index
    lowest, highest = min(line.offset for line in slot), max(line.offset for line in slot)
    have = {line.page_index for line in slot}
    have |= {
        line.page_index
        for line in found
        if line.edge == slot[0].edge
        and first <= line.page_index <= last
        and lowest - SLOT_TOLERANCE <= line.offset <= highest + SLOT_TOLERANCE
    }
    return len(have) >= SLOT_DENSE * (last - first + 1)


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
