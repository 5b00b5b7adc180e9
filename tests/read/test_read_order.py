"""Lines come in the order in which they are read, also where they were drawn in another."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from qwen_batch.read.page.order import cut_by_places, in_reading_order
from qwen_batch.records import Line

TWO_COLUMNS = [
    Line("title", (72, 40, 500, 50), 10.0),
    *(Line(f"left {n}", (72, 80 + 12 * n, 280, 90 + 12 * n), 10.0) for n in range(12)),
    *(Line(f"right {n}", (320, 80 + 12 * n, 520, 90 + 12 * n), 10.0) for n in range(12)),
    Line("foot", (72, 700, 500, 710), 10.0),
]


def test_an_order_that_makes_sense_is_kept() -> None:
    drawn = [*TWO_COLUMNS[13:25], *TWO_COLUMNS[:13], TWO_COLUMNS[-1]]  # odd, but not jumping about
    assert in_reading_order(drawn) == tuple(drawn)


def test_a_page_drawn_at_random_is_cut_into_columns() -> None:
    drawn = list(TWO_COLUMNS)
    random.Random(7).shuffle(drawn)
    assert in_reading_order(drawn) == tuple(TWO_COLUMNS)


def test_a_form_drawn_in_layers_is_read_row_by_row() -> None:
    rows = [
        [
            Line(f"{row}.{column}", (72 + 150 * column, 80 + 30 * row, 120 + 150 * column, 90 + 30 * row), 10.0)
            for column in range(3)
        ]
        for row in range(8)
    ]
    notes = [Line(f"note {row}", (72, 92 + 30 * row, 500, 102 + 30 * row), 10.0) for row in range(8)]
    drawn = [line for column in range(3) for line in (cells[column] for cells in rows)]
    layers = [*reversed(drawn), *notes]
    wanted = [line.text for cells, note in zip(rows, notes, strict=True) for line in (*cells, note)]
    assert [line.text for line in in_reading_order(layers)] == wanted


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 700), st.integers(1, 200)), max_size=60))
def test_no_line_is_lost_or_doubled(places: list[tuple[int, int, int]]) -> None:
    lines = [Line(str(n), (x, y, x + width, y + 10), 10.0) for n, (x, y, width) in enumerate(places)]
    assert sorted(line.text for line in in_reading_order(lines)) == sorted(line.text for line in lines)


def test_recognised_columns_of_prose_may_stand_close_together() -> None:
    lines = [
        *(Line(f"left {n}", (72, 80 + 12 * n, 300, 90 + 12 * n), 10.0) for n in range(12)),
        *(Line(f"right {n}", (308, 83 + 12 * n, 520, 93 + 12 * n), 10.0) for n in range(12)),
    ]
    drawn = list(lines)
    random.Random(7).shuffle(drawn)
    assert cut_by_places(drawn) == tuple(lines)


def test_recognised_labels_close_to_their_values_are_read_row_by_row() -> None:
    rows = [
        (
            Line(f"{n}:", (72, 80 + 12 * n, 150, 90 + 12 * n), 10.0),
            Line("v", (158, 81 + 12 * n, 520, 91 + 12 * n), 10.0),
        )
        for n in range(12)
    ]
    assert cut_by_places([line for row in rows[::-1] for line in row]) == tuple(line for row in rows for line in row)
