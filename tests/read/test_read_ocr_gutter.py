"""Lines that the detector joins over a gutter are parted there; other lines are left whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

gutters = pytest.importorskip("qwen_batch.read.ocr.gutter")

EM = 24  # pixels; boxes are 32 high
ROWS = range(100, 700, 40)


def words(picture: Any, top: int, left: int, right: int, space: int = 8) -> None:
    """Black words from left to right, which end elsewhere in each line."""
    place, number = left, top
    while place < right:
        number = number * 31 % 97
        end = min(right, place + 30 + number)
        picture[top + 8 : top + 24, place:end] = 0
        place = end + space


def box(top: int, left: int, right: int) -> Any:
    return np.array([[left, top], [right, top], [right, top + 32], [left, top + 32]], np.float32)


def sides(boxes: Any) -> list[tuple[int, int]]:
    return [(int(box[:, 0].min()), int(box[:, 0].max())) for box in boxes]


def page() -> Any:
    return np.full((1000, 1200, 3), 255, np.uint8)


def test_joined_lines_are_parted_at_a_gutter_as_wide_as_an_em() -> None:
    picture = page()
    for top in ROWS:
        words(picture, top, 100, 580)
        words(picture, top, 580 + EM, 1100)
    joined = [box(top, 94, 1106) for top in ROWS[:10]]
    apart = [part for top in ROWS[10:] for part in (box(top, 94, 592), box(top, 590, 1106))]  # both reach into it
    parted = sides(gutters.part_at_gutters(picture, [*joined, *apart]))
    assert parted == [(94, 580), (604, 1106)] * len(ROWS)


def test_a_line_above_the_columns_is_left_whole() -> None:
    picture = page()
    words(picture, 40, 100, 1100)
    for top in ROWS:
        words(picture, top, 100, 580)
        words(picture, top, 580 + EM, 1100)
    parted = sides(gutters.part_at_gutters(picture, [box(40, 94, 1106), *(box(top, 94, 1106) for top in ROWS)]))
    assert parted[0] == (94, 1106)
    assert len(parted) == 1 + 2 * len(ROWS)


@pytest.mark.parametrize("space", [8, EM])
def test_spaces_between_words_are_no_gutter(space: int) -> None:
    picture = page()
    for top in ROWS:
        words(picture, top, 100, 1100, space)
    boxes = [box(top, 94, 1106) for top in ROWS]
    assert sides(gutters.part_at_gutters(picture, boxes)) == sides(boxes)


def test_labels_and_their_values_are_no_columns() -> None:
    picture = page()
    for top in ROWS:
        words(picture, top, 100, 280)
        words(picture, top, 280 + EM, 1100)
    boxes = [box(top, 94, 1106) for top in ROWS]
    assert sides(gutters.part_at_gutters(picture, boxes)) == sides(boxes)
