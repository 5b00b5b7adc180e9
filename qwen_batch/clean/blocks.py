"""Where lines would end that no margin measures: short lines by themselves, centred or flush right, and columns whose
left edge is also that of lines over the whole width.

An address, a signature or a title is told from narrow prose by how its lines begin and end: none of them begins in
lower case, and none ends with a word that wants another.
"""

from __future__ import annotations

import bisect
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from qwen_batch.clean.markers import is_cjk, is_item_text
from qwen_batch.clean.rows import INDENT, Row, in_one_run, iter_runs
from qwen_batch.clean.words import COMMON

SHORT = 0.4  # of the page: no line of a block is longer
LESS_SHORT = 0.6  # the same where lines are of very different lengths
COLUMN_LINES = 4  # of a column beside others, at least
GOING_ON = 0.3  # of its lines, at least: those that begin in lower case
FILLED = 0.8  # of a column's width, by its lines
SAME_MIDDLE = 0.3  # ems between the middles of centred lines
UNLIKE = 0.5  # ems between the left ends of centred lines that are not equally long
SAME_COLUMN = 0.6  # the same between theirs and the text's
SAME_END = 0.1  # ems between the ends of lines that are flush right
MAX_FLUSH = 6  # lines that end at one place: more are justified
_ADDRESS = re.compile(r"\S*(?:@|://|www\.)|\S+$")
TIGHT = 0.7  # of the usual distance between lines
QUOTED_LINES = 3  # of a quotation, at least
STRAY = 0.1  # of a page's text: lines that begin where less of it does
OPEN = COMMON["en"] | COMMON["de"] | {"a", "an", "in", "at", "on", "as"}


def corrected(rows: Sequence[Row], rights: Sequence[float], width: float) -> list[float]:
    """Where full lines end, `rights` by the margins; set anew for the lines of such blocks. Width: the page's."""
    done = list(rights)
    left = min(min(row.x0 for row in rows), max(0.0, width - max(row.x1 for row in rows)))
    levels = sorted((row.bottom, row.x0) for row in rows)
    for start, end in iter_runs(rows):
        near = max(row.x1 for row in rows[start:end])
        done[start:end] = _of_run(rows[start:end], done[start:end], near, width - left, levels)
    for start, end in _tight_runs(rows):
        near = max(row.x1 for row in rows[start:end])
        if end - start >= QUOTED_LINES and is_prose(rows[start:end], near):
            done[start:end] = [near] * (end - start)
    edges, ends = Counter(_edge(row) for row in rows), Counter(round(row.x1) for row in rows)
    column = _column(rows, rights, width)
    for index, (row, after) in enumerate(pairwise(rows)):
        if not (_is_alone(row, levels) and _is_alone(after, levels)):
            continue
        if _is_centred(row, after, column):
            done[index] = row.x1 + column[1] - column[0] - (row.x1 - row.x0)
        elif (
            _is_flush_right(row, after)
            and edges[_edge(row)] == 1 == edges[_edge(after)]
            and ends[round(row.x1)] <= MAX_FLUSH
            and max(row.x1 - row.x0, after.x1 - after.x0) < SHORT * width
        ):
            done[index] = row.x1 + row.x0 - left
    return done


def _of_run(
    run: Sequence[Row], rights: Sequence[float], near: float, outer: float, levels: Sequence[tuple[float, float]]
) -> Sequence[float]:
    """The same for lines that follow each other, the longest of which ends at `near`."""
    size = run[0].size
    filled = _is_filled(run, near)
    is_short = near - run[0].x0 < (SHORT if filled else LESS_SHORT) * (outer + run[0].x0) and near < outer
    is_measured = max(rights) > near + size
    if len(run) < 2 or (is_measured and len(run) < COLUMN_LINES) or not (is_short or is_measured):
        return rights
    beside = _num_beside(run, near, levels)
    if is_measured:
        return [near] * len(run) if 2 * beside >= len(run) and is_prose(run, near) else rights
    going_on = sum(_continues(before.text, row.text) for before, row in pairwise(run))
    is_block = not going_on or (not filled and len(run) > COLUMN_LINES - 1 and going_on <= GOING_ON * len(run))
    return [outer] * len(run) if is_block and not beside else rights


def _tight_runs(rows: Sequence[Row]) -> Iterator[tuple[int, int]]:
    """Start and end of each run of lines that stand much closer than is usual: quotations in a double-spaced text."""
    start = 0
    for index in range(1, len(rows) + 1):
        if index < len(rows) and in_one_run(rows[index - 1], rows[index]):
            row = rows[index]
            if row.bottom - rows[index - 1].bottom < TIGHT * max(row.leading, rows[start].leading):
                continue
        if index - start > 1:
            yield start, index
        start = index


def _num_beside(run: Sequence[Row], near: float, levels: Sequence[tuple[float, float]]) -> int:
    """How many lines stand to the right of a run."""
    size = run[0].size
    low = bisect.bisect_left(levels, (min(row.bottom for row in run) - size, 0.0))
    high = bisect.bisect_right(levels, (max(row.bottom for row in run) + size, float("inf")))
    return sum(x0 > near for _, x0 in levels[low:high])


def _is_alone(row: Row, levels: Sequence[tuple[float, float]]) -> bool:
    """Whether nothing else stands level with a line."""
    low = bisect.bisect_left(levels, (row.bottom - row.size / 2, 0.0))
    return bisect.bisect_left(levels, (row.bottom + row.size / 2, 0.0)) - low <= 1


def is_prose(run: Sequence[Row], near: float) -> bool:
    """Whether lines fill a column, and many of them go on with a sentence."""
    return _is_filled(run, near) and sum(_begins_lower(row.text) for row in run[1:]) >= GOING_ON * len(run)


def _is_filled(run: Sequence[Row], near: float) -> bool:
    """Whether lines, but for the last, end about where the longest does."""
    return sum(row.x1 - row.x0 for row in run[:-1]) >= FILLED * sum(near - row.x0 for row in run[:-1])


def _continues(before: str, text: str) -> bool:
    """Whether a line goes on with the sentence of the one before, as far as letters tell."""
    return is_cjk(text[0]) or before.rsplit(None, 1)[-1] in OPEN or _begins_lower(text)


def _begins_lower(text: str) -> bool:
    """Numbers left out: `30 days`, but `12 High Street`."""
    first = next((char for char in text if char.isalpha()), "")
    return first.islower() and not is_item_text(text) and not _ADDRESS.match(text)


def _edge(row: Row) -> int:
    return round(row.x0 / row.size)


def _column(rows: Sequence[Row], rights: Sequence[float], width: float) -> tuple[float, float]:
    """Left and right end of the text, stray lines left out; of a page of titles three quarters."""
    amounts: Counter[int] = Counter()
    for row in rows:
        amounts[_edge(row)] += len(row.text)
    least = STRAY * amounts.total()
    inside = [(row.x0, right) for row, right in zip(rows, rights, strict=True) if amounts[_edge(row)] >= least]
    left, right = min((x0 for x0, _ in inside), default=0.0), max((end for _, end in inside), default=0.0)
    return (left, right) if right - left > SHORT * width else (width / 8, 7 * width / 8)


def _is_centred(row: Row, after: Row, column: tuple[float, float]) -> bool:
    """Whether two lines of unlike length stand in the middle of the text, one below the other."""
    middle, below = (row.x0 + row.x1) / 2, (after.x0 + after.x1) / 2
    is_wide = row.x1 - row.x0 > SHORT * (column[1] - column[0])
    return (
        abs(middle - below) < SAME_MIDDLE * row.size
        and abs(row.x0 - after.x0) > UNLIKE * row.size
        and min(row.x0, after.x0) > column[0] + INDENT * row.size
        and abs(2 * middle - sum(column)) < 2 * SAME_COLUMN * row.size
        and not (is_item_text(row.text) or (is_wide and _begins_lower(after.text)))
    )


def _is_flush_right(row: Row, after: Row) -> bool:
    return abs(row.x1 - after.x1) < SAME_END * row.size and abs(row.x0 - after.x0) > INDENT * row.size
