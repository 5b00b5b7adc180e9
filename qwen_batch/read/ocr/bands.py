"""Where the picture of a page is cut for the detector of lines, which would take 370 MB for all of it at once.

Cuts run through white rows, so that no line is cut and little need be looked at twice; what is white all around is
left out. Where no row is white (a photograph, a ruled table), bands overlap further instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

STEP = 32  # the detector takes multiples of this many pixels
ROWS = 320  # of a band, at most
FLAT = 24  # levels of grey; a row with less contrast is white
QUIET = 64  # white pixels that are kept around what is drawn; with 32, 0.6 % of the words of a dense table were lost
GAP = 8  # white rows through which a cut may run
OVERLAP = 64  # rows that a band sees beyond a cut
WHITE_OVERLAP = 32  # and beyond a white one; without any, the detector misses lines beside it

Flags = npt.NDArray[np.bool_]


class Band(NamedTuple):
    """A part of a picture, in pixels: the rows and columns to look at, and the rows for which that is the answer."""

    upper: int
    lower: int
    left: int
    right: int
    start: int
    end: int


def cut_into_bands(picture: npt.NDArray[np.uint8]) -> Iterator[Band]:
    """All that is drawn in a picture (rows, columns, 3), both multiples of STEP, from the top down."""
    for upper, lower, start, end in _cut_rows(_drawn_rows(picture)):
        left, right = _around(_drawn_columns(picture[upper:lower]))
        yield Band(upper, lower, left, right, start, end)


def _drawn_rows(picture: npt.NDArray[np.uint8]) -> Flags:
    """Where there is contrast within a row."""
    rows = picture.reshape(len(picture), -1)
    flags: Flags = rows.max(axis=1) - rows.min(axis=1) >= FLAT
    return flags


def _drawn_columns(picture: npt.NDArray[np.uint8]) -> Flags:
    """Where there is contrast within a column."""
    columns = picture.reshape(len(picture), -1)  # colours apart: reducing two axes at once takes ten times as long
    high, low = columns.max(axis=0).reshape(-1, 3).max(axis=1), columns.min(axis=0).reshape(-1, 3).min(axis=1)
    flags: Flags = high - low >= FLAT
    return flags


def _cut_rows(drawn: Flags) -> Iterator[tuple[int, int, int, int]]:
    """Rows to look at, from and to, and rows to answer for, from and to."""
    place, overlap = 0, 0
    while (ahead := drawn[place:]).any():
        start = max(place, place + int(ahead.argmax()) - QUIET)
        upper = max(0, start - overlap)
        end, overlap = _end_of_band(drawn, start, upper + ROWS)
        yield *_rounded(upper, end + overlap, len(drawn)), start, end
        place = end


def _end_of_band(drawn: Flags, start: int, limit: int) -> tuple[int, int]:
    """The row before which a band ends, and how many more it sees."""
    runs = list(_white_runs(drawn[start:limit]))
    for first, after in runs:
        if start + first > start + QUIET and after - first >= 2 * QUIET:
            return start + first + QUIET, 0  # much white follows, which nobody need look at
    if limit >= len(drawn):
        return len(drawn), 0
    last = limit - start - WHITE_OVERLAP
    cuts = [cut for first, after in runs if after - first >= GAP and ROWS // 4 <= (cut := (first + after) // 2) <= last]
    return (start + cuts[-1], WHITE_OVERLAP) if cuts else (limit - OVERLAP, OVERLAP)


def _white_runs(drawn: Flags) -> Iterator[tuple[int, int]]:
    """First and after the last of each run of white rows."""
    edges = np.flatnonzero(np.diff(np.concatenate(([True], drawn, [True])).astype(np.int8)))
    yield from zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)


def _around(drawn: Flags) -> tuple[int, int]:
    """The columns that hold all that is drawn, and some white."""
    places = np.flatnonzero(drawn)
    if not len(places):
        return 0, STEP
    return _rounded(max(0, int(places[0]) - QUIET), min(len(drawn), int(places[-1]) + 1 + QUIET), len(drawn))


def _rounded(start: int, end: int, size: int) -> tuple[int, int]:
    """The same or a little more, a multiple of STEP long."""
    length = -(-(end - start) // STEP) * STEP
    start = min(start, size - length)
    return start, start + length
