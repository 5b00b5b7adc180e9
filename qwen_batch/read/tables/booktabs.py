"""Tables with horizontal rules only: one above the head, one below it, one at the foot, perhaps some between the rows.

This is the form of scientific papers and annual reports (the LaTeX package `booktabs` gave it a name). The rules say
where a table begins and ends and which rows are its head; its columns are divided by white space. Prose between rules
(running heads, footnotes, sections, frames) has no head of several pieces, no strips of white, or no short entries.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from qwen_batch.read.page.words import Row, Word, em_of, is_caption, middle_of, pieces_of, rows_of
from qwen_batch.read.tables.columns import MAX_LEADING
from qwen_batch.read.tables.grids import MIN_EDGE, SAME_ENDS, Rule, groups_by_ends
from qwen_batch.read.tables.lines import Columns, body_rows, head_rows
from qwen_batch.read.tables.rivers import narrowed, placed_cells, rivers
from qwen_batch.records import BBox, Span, Table

TRIMMED = 11.0  # points between pieces of one rule; columns of text are further apart
MIN_WIDTH = 60.0  # points of a table's rules
MAX_RULES = 400  # of a page, more are a drawing
RIVER = 0.6  # ems of white between columns; words of prose are closer
CLEAR = 0.6  # ems of white beside a table
MAX_CLOSED = 0.6  # of a table's height: every other row may be shaded
MAX_HEAD_LINES = 6
MIN_ENTRIES = 3  # lines with digits
MAX_HEAD_WORDS = 6.0  # of a piece, on average
SHORT = 3.5  # words of a line of the column with the shortest entries, on average
MAX_WHITE = 1.5  # ems between a rule and the text of a body
MAX_BOX_WHITE = 3.0  # the same within a box, which leaves no doubt
MIN_ROWS = 2  # of the body that stand in columns
MIN_SHARE = 0.3  # of the lines of the body; the others go on with a cell
MIN_STRIPES = 3
STRIPE = 1.0  # points that the heights of stripes may differ
MAX_CROSSING = 0.25  # of the lines of the body: titles of parts of the table


class Frame(NamedTuple):
    """Rules of one width below each other."""

    x0: float
    x1: float
    places: tuple[float, ...]  # from the top down
    inner: tuple[Rule, ...]  # shorter ones between them
    is_boxed: bool = False


class Band(NamedTuple):
    """What stands between two rules of a frame."""

    top: float
    bottom: float
    rows: list[Row]


def find_frames(rules: Sequence[Rule], edges: Sequence[BBox]) -> list[Frame]:
    """Where a page has three level rules or more of the same width below each other; what is open below or above a
    boxed table of that width is one more. `edges`: the strokes that were merged into rules."""
    if not 3 <= len(rules) <= MAX_RULES:
        return []
    sides = [edge for edge in edges if edge[3] - edge[1] > max(MIN_EDGE, edge[2] - edge[0])]
    wide = (rule for rule in sorted({*rules, *_untrimmed(rules)}) if rule.end - rule.start >= MIN_WIDTH)
    frames: list[Frame] = []
    for group in groups_by_ends(wide):
        if len(group) < 3:
            continue
        left, right = min(rule.start for rule in group) - SAME_ENDS, max(rule.end for rule in group) + SAME_ENDS
        near = [side for side in sides if left <= side[0] <= right]
        if whole := _frame(group, rules, near):
            parts = _open_parts(group, near) if whole.is_boxed else ()
            frames += [whole, *filter(None, (_frame(part, rules, near) for part in parts if len(part) > 2))]
    return frames


def _untrimmed(rules: Sequence[Rule]) -> Iterator[Rule]:
    """The rules of a height as one, where small gaps mark the columns."""
    start: Rule | None = None
    for rule, after in pairwise([*sorted(rules), Rule(float("inf"), 0.0, 0.0)]):
        start = start or rule
        if after.place != rule.place or after.start - rule.end > TRIMMED:
            yield Rule(rule.place, start.start, rule.end)
            start = None


def _frame(group: Sequence[Rule], rules: Sequence[Rule], sides: Sequence[BBox]) -> Frame | None:
    places = sorted({rule.place for rule in group})
    if len(places) < 3:
        return None
    x0, x1 = min(rule.start for rule in group), max(rule.end for rule in group)
    between = (rule for rule in rules if rule.place not in places and places[0] < rule.place < places[-1])
    inner = (rule for rule in between if x0 - SAME_ENDS <= rule.start and rule.end <= x1 + SAME_ENDS)
    frame = Frame(x0, x1, tuple(places), tuple(inner))
    return frame._replace(is_boxed=_is_boxed(frame, sides))


def _open_parts(group: Sequence[Rule], sides: Sequence[BBox]) -> Iterator[list[Rule]]:
    """The runs of rules that no upright one parts or closes."""
    parted = _parted(group, sides)
    part = [group[0]]
    for number, lower in enumerate(group[1:]):
        if number in parted:
            yield part
            part = []
        part.append(lower)
    yield part


def _parted(group: Sequence[Rule], sides: Sequence[BBox]) -> set[int]:
    """The rules that an upright one goes from towards the next."""
    places = [rule.place for rule in group]
    found: set[int] = set()
    for x, top, _, bottom in sides:
        first, after = bisect.bisect_left(places, top) - 1, bisect.bisect_left(places, bottom)
        for number in range(max(0, first), min(after, len(group) - 1)):
            upper, lower = group[number : number + 2]
            is_between = min(bottom, lower.place) - max(top, upper.place) > SAME_ENDS
            if is_between and upper.start - SAME_ENDS <= x <= upper.end + SAME_ENDS:
                found.add(number)
    return found


def _is_boxed(frame: Frame, sides: Sequence[BBox]) -> bool:
    """Whether upright rules close the frame at its sides. Shaded rows do so here and there; rules between columns of
    a table that is open at both sides may stand."""
    top, bottom = frame.places[0], frame.places[-1]
    near = [side for side in sides if min(side[3], bottom) > max(side[1], top)]
    inside = [side for side in near if frame.x0 - SAME_ENDS <= side[0] <= frame.x1 + SAME_ENDS]
    left = [side for side in inside if side[0] < frame.x0 + SAME_ENDS]
    right = [side for side in inside if side[0] > frame.x1 - SAME_ENDS]
    closed = min(sum(side[3] - side[1] for side in each) for each in (left, right))
    return len(inside) > len(left) + len(right) > 0 or closed > MAX_CLOSED * (bottom - top)


def find_booktabs(frames: Sequence[Frame], words: Sequence[Word]) -> list[Table]:
    """The tables within frames, from a page's words."""
    return [table for frame in frames for table in _tables(_bands(frame, words), frame)]


def _bands(frame: Frame, words: Sequence[Word]) -> list[Band]:
    """The bands that hold something; one that has no columns, because words lead out of it, has no rows."""
    found: list[Band] = []
    bounds = list(pairwise(frame.places))
    for top, bottom in bounds + _unshaded(bounds):
        level = [word for word in words if top < middle_of(word) < bottom]
        inside = [word for word in level if frame.x0 <= (word.x0 + word.x1) / 2 <= frame.x1]
        if inside:
            leads_out = any(_leads_out(word, frame) for word in level)
            found.append(Band(top, bottom, [] if leads_out else rows_of(inside)))
    if len(found) > len(bounds) and not _are_stripes(found):
        found.pop()
    return found


def _unshaded(bounds: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Where the last row may stand below stripes, of which every other is shaded."""
    heights = [bottom - top for top, bottom in bounds]
    even = len(heights) >= MIN_STRIPES and max(heights) - min(heights) <= STRIPE
    return [(bounds[-1][1], bounds[-1][1] + heights[-1])] if even else []


def _are_stripes(bands: Sequence[Band]) -> bool:
    """Whether all bands have one row, and the last one as many pieces as the first."""
    first, last = bands[0].rows, bands[-1].rows
    return all(len(band.rows) == 1 for band in bands) and len(pieces_of(first[0])) == len(pieces_of(last[0])) > 1


def _leads_out(word: Word, frame: Frame) -> bool:
    """Whether a word crosses a side of the frame, or stands so close to it that it belongs to what is inside."""
    clear = CLEAR * em_of([word])
    if frame.x0 <= (word.x0 + word.x1) / 2 <= frame.x1:
        return word.x0 < frame.x0 - SAME_ENDS or word.x1 > frame.x1 + SAME_ENDS
    is_standing = len(word.text) > 1 and word.bottom - word.top > 2 * (word.x1 - word.x0)
    return frame.x0 - clear < word.x1 and word.x0 < frame.x1 + clear and not is_standing


def _tables(bands: Sequence[Band], frame: Frame) -> Iterator[Table]:
    """From the top down, each as large as can be."""
    start = 0
    while start + 1 < len(bands):
        found = next(_candidates(bands, start, frame), None) if _is_head(bands[start].rows) else None
        if found is None:
            start += 1
            continue
        table, start = found
        yield table


def _candidates(bands: Sequence[Band], start: int, frame: Frame) -> Iterator[tuple[Table, int]]:
    """Tables whose head is the band `start`, the largest first, and the band after each."""
    stop = start + 1
    while stop < len(bands) and bands[stop].top == bands[stop - 1].bottom and _may_be_body(bands[stop], frame):
        stop += 1
    for end in range(stop, start + 1, -1):
        if table := _as_table(bands[start], bands[start + 1 : end], frame):
            yield table, end


def _may_be_body(band: Band, frame: Frame) -> bool:
    """Whether text fills a band from rule to rule, and does not entitle the next table."""
    if not band.rows or is_caption(band.rows[0]):
        return False
    em = em_of(band.rows[0])
    ink = [min(word.top for word in band.rows[0]), max(word.bottom for word in band.rows[-1])]
    white = max(ink[0] - band.top, band.bottom - ink[1])
    steps = (middle_of(lower[0]) - middle_of(upper[0]) for upper, lower in pairwise(band.rows))
    return (
        white <= (MAX_BOX_WHITE if frame.is_boxed else MAX_WHITE) * em and max(steps, default=0.0) <= MAX_LEADING * em
    )


def _is_head(rows: Sequence[Row]) -> bool:
    """A few lines, one of them at least of several short pieces, and not all of them numbers."""
    pieces = [piece for row in rows for piece in pieces_of(row)]
    if not 0 < len(rows) <= MAX_HEAD_LINES or all(len(pieces_of(row)) < 2 for row in rows):
        return False
    if sum(map(len, pieces)) > MAX_HEAD_WORDS * len(pieces):
        return False
    return any(any(char.isalpha() for char in word.text) for piece in pieces for word in piece)


def _as_table(head: Band, bands: Sequence[Band], frame: Frame) -> Table | None:
    body = [band.rows for band in bands]
    columns = _find_columns([row for rows in body for row in rows])
    if columns is None:
        return None
    rows, spans = head_rows(head.rows, columns, [rule for rule in frame.inner if head.top < rule.place < head.bottom])
    num_heads = len(rows)
    if max(sum(map(bool, row)) for row in rows) < 2 or any(_lists_numbers(cell) for row in rows for cell in row):
        return None
    if frame.is_boxed:  # lines that go on alone in their cell reach further than those beside others
        columns = Columns(tuple(narrowed(strip, [row for rows in body for row in rows]) for strip in columns.strips))
    for row, wide in body_rows(body, columns):
        spans += [Span(len(rows), first, 1, count) for first, count in wide]
        rows.append(row)
    box = (frame.x0 - SAME_ENDS, head.top, frame.x1 + SAME_ENDS, bands[-1].bottom)
    return Table(tuple(rows), box, tuple(spans), num_heads, tuple(columns.dividers))


def _lists_numbers(head: str) -> bool:
    """Whether what would be the name of a column is entries below each other."""
    return sum(any(char.isdigit() for char in line) for line in head.split("\n")) >= MIN_ENTRIES


def _find_columns(rows: Sequence[Row]) -> Columns | None:
    """How the lines of a body are divided; None where it is no body of a table."""
    level = [row for row in rows if len(pieces_of(row)) > 1]
    if len(level) < max(MIN_ROWS, MIN_SHARE * len(rows)):
        return None
    columns = Columns(tuple(rivers(level, RIVER, 0.0)))
    placed = [placed_cells(row, columns.dividers) for row in rows]
    if not columns.strips or sum(bool(wide) for _, wide in placed) > MAX_CROSSING * len(rows):
        return None
    texts = zip(*(cells for cells, wide in placed if not wide), strict=True)
    lengths = [[len(cell.split()) for cell in column if cell] for column in texts]
    shortest = min((sum(each) / len(each) for each in lengths if each), default=0.0)
    return columns if shortest <= SHORT else None
