"""Running headers and footers: lines that say the same at the same place on page after page.

Five rules. A text that repeats (numbers hidden) at one place on half of the pages, on half of the odd or even pages,
or on a run of pages, is a running line. So is a line at one place with a number apart that counts with the pages,
whatever else it says, and one with any number that counts through left and right pages. So is an outermost line, set
apart, that all pages but the first have, or all odd or all even ones. And a place near the edge, set apart from the
body, whose text is mostly taken up again on a neighbouring page is a running slot: there the chapter changes while the
place does not.

What the body says is no running line, however often it is said: what stands far from the edge, or goes on at the
leading of the body. A text of the body's size, or one that differs from page to page (numbers, or a slot), is weak
evidence: every line further out has to be running too. One that differs must not look like a heading, which is larger
than the body and close above it; one that does not differ may be the title of each page (`titles.py`).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from qwen_batch.clean.edges import EdgeLine, edge_lines, mask, remove_lines
from qwen_batch.clean.running import (
    MIN_PAGES,
    SHORT_GAP,
    SLOT_GAP,
    WORD,
    facing,
    numbered,
    outermost,
    relative_gap,
    repeated,
    slotted,
)
from qwen_batch.clean.sizes import body_size_of, median
from qwen_batch.clean.titles import without_titles
from qwen_batch.clean.two_pages import parting_lines
from qwen_batch.records import Page, Removal

ZONE = 0.2  # of the page's height, from an edge: running lines of the corpus end at 0.18
FAR = 0.3  # the same, where the outermost lines of most pages are as far
SMALL_SIZE = 0.95  # of the body's font size: what is smaller is not the body's, however close
HEADING_SIZE = 1.05  # of the body's font size: a heading is larger
HEADING_GAP = 2.0  # of the font size: a heading is closer to its text
_COLUMN_GAP = re.compile(r"\S\s{3,}\S")  # between what stands at the left and at the right


def remove_headers(pages: Sequence[Page]) -> tuple[tuple[Page, ...], tuple[Removal, ...]]:
    """Take out what the format itself sets aside, and running headers and footers of at least three pages."""
    pages, set_aside = _without_asides(pages)
    all_lines = edge_lines(pages)
    edges = {edge: _usual_edge(edge, all_lines, len(pages)) for edge in ("top", "bottom")}
    lines = [line for line in all_lines if mask(line.text).strip(" #-–—.|/()[]") and _in_zone(line, pages, edges)]
    if len(pages) < MIN_PAGES:
        kept, removed = remove_lines(pages, [(line, _reason(line)) for line in parting_lines(lines, pages)])
        return kept, (*set_aside, *removed)
    body_size = body_size_of(pages)
    same, counting, stamped = repeated(lines, len(pages))
    counting += [cluster for cluster in stamped if all(line.size < SMALL_SIZE * body_size for line in cluster)]
    found = [*numbered(lines, min(MIN_PAGES, len(pages))), *outermost(lines, len(pages)), *facing(lines, counting)]
    found += [line for line in same if not _could_be_body(line, body_size)]
    weak = [line for line in same if _could_be_body(line, body_size)]
    found += _without_open_rows([*weak, *_without_headings(counting, body_size)], lines, found)
    slots = _without_headings(slotted(lines, found, len(pages)), body_size)
    slots = _without_open_rows(slots, lines, found)
    found = without_titles(_without_flow(list(dict.fromkeys([*found, *slots])), body_size), pages, body_size)
    found = _without_opened(found, slots, lines)
    found.sort(key=lambda line: -line.offset)  # on a page of few lines one counts for both edges: the nearer one wins
    kept, removed = remove_lines(pages, [(line, _reason(line)) for line in found])
    return kept, (*set_aside, *removed)


def _without_asides(pages: Sequence[Page]) -> tuple[Sequence[Page], tuple[Removal, ...]]:
    if not any(line.aside for page in pages for line in page.lines):
        return pages, ()
    removed = [Removal(page.page_number, line.text, line.aside) for page in pages for line in page.lines if line.aside]
    kept = [page._replace(lines=tuple(line for line in page.lines if not line.aside)) for page in pages]
    return kept, tuple(removed)


def _reason(line: EdgeLine) -> str:
    return {"top": "header", "bottom": "footer", "side": "margin"}[line.edge]


def _usual_edge(edge: str, lines: Sequence[EdgeLine], num_pages: int) -> float:
    """How far from an edge of the sheet the outermost lines of most pages are, in points: a small page may be printed
    in the middle of a large one."""
    offsets = Counter(round(line.offset) for line in lines if line.edge == edge and line.row == 0)
    place, often = offsets.most_common(1)[0] if offsets else (0, 0)
    return place if 2 * often > num_pages else 0.0


def _in_zone(line: EdgeLine, pages: Sequence[Page], edges: Mapping[str, float]) -> bool:
    height = pages[line.page_index].height or float("inf")
    return line.edge == "side" or line.offset <= max(ZONE * height, min(edges[line.edge] + 1, FAR * height))


def _could_be_body(line: EdgeLine, body_size: float) -> bool:
    """Whether a line is no smaller than the body, and more than a rule of signs."""
    return line.edge != "side" and line.size >= SMALL_SIZE * body_size and bool(WORD().search(line.text))


def _without_headings(clusters: Iterable[Sequence[EdgeLine]], body_size: float) -> list[EdgeLine]:
    """The lines of all clusters but those that look like headings: larger than the body, and close above it."""
    return [line for cluster in clusters if not _is_heading(cluster, body_size) for line in cluster]


def _is_heading(cluster: Sequence[EdgeLine], body_size: float) -> bool:
    if cluster[0].edge != "top" or all(_COLUMN_GAP.search(line.text) for line in cluster):
        return False
    is_large = median([line.size for line in cluster]) > HEADING_SIZE * body_size
    return is_large and relative_gap(cluster) < HEADING_GAP


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


def _without_opened(found: Sequence[EdgeLine], slots: Sequence[EdgeLine], lines: Sequence[EdgeLine]) -> list[EdgeLine]:
    """Lines but for those of slots that have a line further out which was no running line after all."""
    still = set(found)
    closed = _without_open_rows([line for line in slots if line in still], lines, found)
    opened = set(slots) - set(closed)
    return [line for line in found if line not in opened]


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
        if 2 * len(ends) >= len(group) and relative_gap(ends) < enough:
            flow.add(key)
    return flow
