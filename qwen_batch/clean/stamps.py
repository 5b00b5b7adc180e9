"""Stamps that courts and parties put on every page: filing lines, and numbers that count through a production."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from qwen_batch.clean.edges import EdgeLine, edge_lines, remove_lines
from qwen_batch.patterns import late
from qwen_batch.records import Page, Removal

REASON = "stamp"
OUTER_ROWS = 2  # at the top and at the bottom of a page
MIN_LABELS = 3
MAX_CHARS = 160
PLACE_TOLERANCE = 8.0  # points
_CASE = re.compile(r"(?:[A-Z]\w+ )?(?:Case|CASE)(?: No\.?)?:?\s+\S*\d")
_LABELS = late(
    r"\b(?:Case|Doc(?:ument)?|Dkt|ECF|Page\s?ID|Pages?|Pg|Date Filed|Filed|Entered|Entry ID|RESTRICTED|USDC)\b"
    r"(?:\s?[:#]+\s?|\s+(?:No\.?\s+|ID\s+)?)#?[\d:/]",
    re.I,
)
_NUMBERED = re.compile(r"([A-Z][A-Z0-9&]*(?:[-_. ][A-Z0-9&]+)*?[-_. ]?)(\d{4,10})")


def remove_stamps(pages: Sequence[Page]) -> tuple[tuple[Page, ...], tuple[Removal, ...]]:
    """Take out lines at the edge that say themselves that a court put them there, on any number of pages; and marks
    that count with the pages at one place, on at least two."""
    outer = [line for line in edge_lines(pages) if line.edge != "side" and line.row < OUTER_ROWS]
    found = [line for line in outer if is_filing_line(line.text)]
    found += _counting(outer)
    return remove_lines(pages, [(line, REASON) for line in found])


def is_filing_line(text: str) -> bool:
    """`Case 1:23-cv-00456 Document 17 Filed 03/04/24 Page 1 of 9` and its like."""
    plain = " ".join(text.split())
    return len(plain) <= MAX_CHARS and bool(_CASE.match(plain)) and len(_LABELS().findall(plain)) >= MIN_LABELS


def _counting(lines: Sequence[EdgeLine]) -> list[EdgeLine]:
    """`ACME000123` on one page and `ACME000124`, at the same place, on the next; on all pages but one at most."""
    groups: dict[tuple[str, str, int], list[EdgeLine]] = defaultdict(list)
    for line in lines:
        if match := _NUMBERED.fullmatch(line.text.strip()):
            groups[line.edge, match[1], int(match[2]) - line.page_index].append(line)
    return [line for group in groups.values() if _is_run(group) for line in group]


def _is_run(group: Sequence[EdgeLine]) -> bool:
    offsets = [line.offset for line in group]
    return len({line.page_index for line in group}) >= 2 and max(offsets) - min(offsets) <= PLACE_TOLERANCE
