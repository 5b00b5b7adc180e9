"""Where full lines end.

The margin is that of lines with the same left edge, on the page or on any; or the longest line around.
"""

from __future__ import annotations

from collections.abc import Sequence

from qwen_batch.clean.blocks import corrected
from qwen_batch.clean.rows import Row, iter_runs

MAX_WRAP_COLUMNS = 140  # a text file with longer lines is not wrapped by hand
MIN_WRAP_COLUMNS = 40
EDGE_BIN = 2.5  # points
EDGE_SHARE = 0.1  # of the lines that begin at the same place
SHARP_SHARE = 0.3  # the same, where they end exactly at one place
INNER_STEPS = 5  # of 0.7 ems: how much further in a first line may begin and still tell where lines end
EDGE_SUPPORT = 3  # lines that end at the same place make a margin
NARROW = 0.4  # of the page: a lone line shorter than this is measured by the margin to its right

Places = dict[int, int]  # where lines end, in steps of EDGE_BIN -> how many do
Ends = dict[tuple[int, int], Places]  # (left edge, font size) -> places where lines end, how often
Margins = dict[tuple[int, int], float]  # the same -> where full lines end, as far as the document as a whole tells


def margins_everywhere(rows: Sequence[Row]) -> Margins:
    """The margins of a whole document."""
    ends = _ends_by_left(rows)
    return {key: _margin(_nearby(ends, key), key[1]) for key in ends}


def _ends_by_left(rows: Sequence[Row]) -> Ends:
    ends: Ends = {}
    for row in rows:
        places = ends.setdefault((_left(row), round(row.size)), {})
        place = round(row.x1 / EDGE_BIN)
        places[place] = places.get(place, 0) + 1
    return ends


def printed_rights(rows: Sequence[Row], everywhere: Margins, width: float) -> list[float]:
    """Where full lines end: the margin that lines with the same left edge share, on this page or on any; or the
    longest line around."""
    here = _ends_by_left(rows)
    nearby = {key: _nearby(here, key) for key in here}
    margins = {
        key: _sharp_margin(places) or max(_margin(places, key[1]), everywhere[key]) for key, places in nearby.items()
    }
    column = max((row.x1 for row in rows), default=0.0) - min((row.x0 for row in rows), default=0.0)
    ends = sorted(margins.values())
    rights: list[float] = []
    for row, near in zip(rows, _local_rights(rows), strict=True):
        margin = margins[_left(row), round(row.size)]
        if not margin and near - row.x0 < NARROW * column:
            margin = next((end for end in ends if end > near), 0.0)
        rights.append(max(near, margin))
    return corrected(rows, rights, width) if rows else rights


def _left(row: Row) -> int:
    return round(row.x0 / (0.7 * row.size))


def _nearby(ends: Ends, key: tuple[int, int]) -> Places:
    """Where lines end that begin at a place or, as the first lines of paragraphs do, a little further in."""
    left, size = key
    nearby: Places = {}
    for step in range(-1, INNER_STEPS):
        for place, count in ends.get((left + step, size), {}).items():
            nearby[place] = nearby.get(place, 0) + count
    return nearby


def _sharp_margin(nearby: Places) -> float:
    """The place where many lines end exactly, as in justified text; 0: there is none."""
    needed = max(EDGE_SUPPORT, SHARP_SHARE * sum(nearby.values()))
    for place in sorted(nearby, reverse=True):
        if nearby[place] + nearby.get(place - 1, 0) >= needed:
            return place * EDGE_BIN
    return 0.0


def _margin(nearby: Places, size: int) -> float:
    """The furthest place around which at least three lines and a tenth of all end; 0: there is none.

    A tenth, because over a long document some lines overrun by chance. Around, because Chinese lines end within an em
    of their margin, and ragged lines often do.
    """
    needed = max(EDGE_SUPPORT, EDGE_SHARE * sum(nearby.values()))
    window = range(1 + round(size / EDGE_BIN))
    for place in sorted(nearby, reverse=True):
        if sum([nearby.get(place - step, 0) for step in window]) >= needed:
            return place * EDGE_BIN
    return 0.0


def _local_rights(rows: Sequence[Row]) -> list[float]:
    """End of the longest line in the run of lines of one size and one leading that each line belongs to."""
    rights: list[float] = []
    for start, end in iter_runs(rows):
        rights += [max(row.x1 for row in rows[start:end])] * (end - start)
    return rights


def typed_rights(rows: Sequence[Row]) -> list[float]:
    """The wrap column of a text file; without one every line is as long as it wants to be, and nothing is joined."""
    widths = sorted(row.x1 for row in rows)
    wrap = widths[len(widths) * 9 // 10] if widths else 0.0
    if not MIN_WRAP_COLUMNS <= wrap <= MAX_WRAP_COLUMNS:
        return [float("inf")] * len(rows)
    return [max(wrap, right) for right in _local_rights(rows)]
