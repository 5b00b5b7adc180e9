"""Pictures of pages are cut where nothing is drawn."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from qwen_batch.read.ocr.bands import OVERLAP, ROWS, STEP, WHITE_OVERLAP, Band, cut_into_bands


def page(*drawn: tuple[int, int, int, int], rows: int = 1280, columns: int = 992) -> list[Band]:
    """Bands of a white page on which boxes (first row, last row, first column, last column) are drawn."""
    picture = np.full((rows, columns, 3), 250, np.uint8)
    for top, bottom, left, right in drawn:
        picture[top:bottom:2, left:right:3] = 10
        picture[top + 1 : bottom : 2, left + 1 : right : 3] = 10
    return list(cut_into_bands(picture))


def lines(step: int, height: int, rows: int = 1280) -> list[tuple[int, int, int, int]]:
    return [(top, top + height, 100, 890) for top in range(64, rows - 64 - height, step)]


def test_a_white_page_has_no_bands() -> None:
    assert page() == []


@pytest.mark.parametrize(
    "drawn", [lines(24, 14), lines(40, 20), lines(200, 16), [(0, 1280, 0, 992)], [(1270, 1279, 0, 9)]]
)
def test_every_row_that_is_drawn_on_is_answered_for_once(drawn: list[tuple[int, int, int, int]]) -> None:
    answered = np.zeros(1280, int)
    for band in page(*drawn):
        answered[band.start : band.end] += 1
        assert 0 <= band.upper <= band.start < band.end <= band.lower <= 1280
        assert 0 <= band.left < band.right <= 992
        assert band.lower - band.upper <= ROWS
        assert (band.lower - band.upper) % STEP == (band.right - band.left) % STEP == 0
    assert answered.max() == 1
    for top, bottom, left, right in drawn:
        assert answered[top:bottom].all()
        assert all(band.left <= left and right <= band.right for band in page(*drawn))


def test_cuts_run_between_lines_where_there_is_white() -> None:
    inside = {row for top, bottom, _, _ in lines(24, 14) for row in range(top, bottom)}
    bands = page(*lines(24, 14))
    assert len(bands) > 1
    for before, after in itertools.pairwise(bands):
        assert before.end == after.start
        assert before.end not in inside
        assert before.lower - before.end >= WHITE_OVERLAP <= after.start - after.upper


def test_a_picture_without_white_is_cut_with_more_overlap() -> None:
    bands = page((0, 1280, 0, 992))
    for before, after in itertools.pairwise(bands):
        assert before.lower - before.end >= OVERLAP <= after.start - after.upper


def test_a_logo_on_a_page_is_all_that_is_looked_at() -> None:
    (band,) = page((600, 680, 400, 560))
    assert (band.lower - band.upper) * (band.right - band.left) < 0.06 * 1280 * 992
