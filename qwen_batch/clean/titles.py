"""Titles that stand on every page, as in a bundle of invoices, against running heads.

Both say the same at the same place, so repetition alone decides nothing. A running head stands in the margin, or the
text of one page goes on below it on the next. A line of the body's size within the body's own box, or a larger one,
over which no page's text goes on, is the title of what follows: it stays on every page, as does a larger one where
other pages begin at its place with lines of their own. A larger one in the margin of each page is kept once. Where the
pages are counted through, or text does go on over some breaks, the line is a running head that looks like a title: it
goes, but for its first place where the document says its words nowhere else. A head that is kept once costs a line, a
title that is lost costs what the document is.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence

from qwen_batch.clean.edges import EdgeLine
from qwen_batch.clean.markers import clause_kind, ends_sentence, is_cjk, starts_lower
from qwen_batch.clean.page_numbers import is_year, parse_page_number
from qwen_batch.clean.running import WORD
from qwen_batch.records import Line, Page

BODY_BOX = 0.85  # of the left margin: what is closer to the edge stands in the margin (in the corpus at most 0.82)
LARGER, NEARER = 1.15, 0.7  # of the body's font size, and of the left margin: a title closer to the edge
LARGE = 1.4  # of the body's font size: a title, wherever it stands (running heads of the corpus: 1.26)
BODY_SIZE = 0.95  # the same: what is smaller is a note
LEFT_SHARE = 0.1  # of the letters, that begin at a place which is a margin
STEP = 3.0  # points
RUNS_ON = 0.1  # share of page breaks over which the text goes on; prose runs over most of them
FULL = 0.7  # of the longest line of a page: a line that may go on
COUNTED = 0.6  # of the pages have a number that counts with them
_PIECES = re.compile(r"\s{3,}")


def without_titles(found: Sequence[EdgeLine], pages: Sequence[Page], body_size: float) -> list[EdgeLine]:
    """The lines found at the edges but for those that are titles of their pages."""
    left = _left_margin(pages)
    groups: dict[tuple[str, str], list[EdgeLine]] = defaultdict(list)
    for line in found:
        if line.edge != "side" and line.size >= BODY_SIZE * body_size and WORD().search(line.text):
            groups[line.edge, line.text].append(line)
    groups = {
        key: group
        for key, group in groups.items()
        if len(group) > 1 and (_may_be_title(group, body_size, left) or _is_larger(group, body_size))
    }
    if not groups:
        return list(found)
    kept = _kept_lines(pages, found)
    breaks = _breaks([[line for line in lines if (line.font_size or 0.0) >= BODY_SIZE * body_size] for lines in kept])
    is_counted = _is_counted(found, pages, kept)
    said = " ".join(" ".join(line.text for lines in kept for line in lines).casefold().split())
    stays: set[tuple[int, int]] = set()
    for (edge, text), group in groups.items():
        shift = 0 if edge == "top" else 1
        at = [breaks[line.page_index + shift] for line in group if 0 < line.page_index + shift < len(pages)]
        stands_alone = not is_counted and sum(at) < RUNS_ON * len(at)
        is_said = " ".join(text.split()).casefold() in said
        is_title = stands_alone and _may_be_title(group, body_size, left)
        if is_title or (_is_larger(group, body_size) and _is_among_headings(group, kept, left)):
            stays |= {(line.page_index, line.line_index) for line in group}
        elif not is_said and (_is_within(group, left) or (stands_alone and len(group) >= len(pages))):
            stays.add(min((line.page_index, line.line_index) for line in group))
    return [line for line in found if (line.page_index, line.line_index) not in stays]


def _may_be_title(group: Sequence[EdgeLine], body_size: float, left: float) -> bool:
    size = min(line.size for line in group) / (body_size or 1.0)
    return size > LARGE or _is_within(group, left) or (size > LARGER and _is_within(group, left, NEARER))


def _is_larger(group: Sequence[EdgeLine], body_size: float) -> bool:
    return group[0].edge == "top" and min(line.size for line in group) > LARGER * body_size


def _is_among_headings(group: Sequence[EdgeLine], kept: Sequence[Sequence[Line]], left: float) -> bool:
    """Whether most other pages begin at its place, or above it, with lines of their own: the body begins there."""
    lowest = min(line.offset for line in group) + STEP
    have = {line.page_index for line in group}
    firsts = [_first_words(lines) for index, lines in enumerate(kept) if index not in have]
    return bool(firsts) and _is_within(group, left, NEARER) and 2 * sum(top <= lowest for top in firsts) > len(firsts)


def _first_words(lines: Sequence[Line]) -> float:
    """How far down the first line that is no page number begins."""
    worded = (line for line in lines if WORD().search(line.text) and not parse_page_number(line.text))
    return min((line.bbox[1] for line in worded if line.bbox), default=float("inf"))


def _is_within(group: Sequence[EdgeLine], left: float, share: float = BODY_BOX) -> bool:
    """Whether the lines stand no closer to the edge than the text does to its own."""
    return min(line.offset for line in group) >= share * left


def _left_margin(pages: Sequence[Page]) -> float:
    """Where the leftmost lines begin, in points: the first place at which a share of all letters does."""
    letters: Counter[int] = Counter()
    for page in pages:
        for line in page.lines:
            if line.bbox is not None:
                letters[int(line.bbox[0] // STEP)] += len(line.text)
    needed = LEFT_SHARE * letters.total()
    return next((place * STEP for place in sorted(letters) if letters[place] + letters[place + 1] >= needed), 0.0)


def _kept_lines(pages: Sequence[Page], found: Sequence[EdgeLine]) -> list[list[Line]]:
    taken = {(line.page_index, line.line_index) for line in found}
    return [
        [line for number, line in enumerate(page.lines) if (index, number) not in taken and line.text.strip()]
        for index, page in enumerate(pages)
    ]


def _breaks(pages: Sequence[Sequence[Line]]) -> list[bool]:
    """For each page whether its text goes on from the page before."""
    texts = [[line for line in lines if line.bbox and WORD().search(line.text)] for lines in pages]
    return [
        bool(index and texts[index - 1] and texts[index]) and goes_on(texts[index - 1], texts[index][0])
        for index in range(len(texts))
    ]


def goes_on(before: Sequence[Line], first: Line) -> bool:
    """Whether the last line of a page is full, and the next page begins in the middle of a sentence."""
    last = before[-1]
    if ends_sentence(last.text) or _width(last) < FULL * max(map(_width, before)):
        return False
    if is_cjk(last.text.rstrip()[-1]):
        return is_cjk(first.text.lstrip()[0]) and clause_kind(first.text) is None
    return starts_lower(first.text) and clause_kind(first.text) is None


def _width(line: Line) -> float:
    return line.bbox[2] - line.bbox[0] if line.bbox else 0.0


def _is_counted(found: Sequence[EdgeLine], pages: Sequence[Page], kept: Sequence[Sequence[Line]]) -> bool:
    """Whether page numbers run through the document."""
    texts = [(line.page_index, line.text) for line in found]
    texts += [(index, line.text) for index, lines in enumerate(kept) for line in (*lines[:2], *lines[-2:])]
    have: dict[int, set[int]] = defaultdict(set)
    for index, text in texts:
        for piece in _PIECES.split(text.strip()):
            if (parsed := parse_page_number(piece)) and (parsed[1] or not is_year(parsed[0])):
                have[parsed[0] - index].add(index)
    return any(len(indices) >= COUNTED * len(pages) for indices in have.values())
