"""Two pages on one sheet are read one after the other; a wide table is one page."""

from __future__ import annotations

from qwen_batch.read.page.chars import Char, PageChars
from qwen_batch.read.page.spreads import pages_on

SHEET = (1200.0, 800.0)
STORY = "The parties agree upon what the annex says"


def chars_of(*lines: tuple[float, float, str]) -> PageChars:
    """Characters of lines, each given by its left end, its top and its text; one is five points wide."""
    found: list[Char] = []
    for x0, top, text in lines:
        for place, char in enumerate(text):
            left = x0 + 5 * place
            found.append(Char(char, left, top, left + 5, top + 10, len(found)))
        found.append(Char("\n", 0.0, 0.0, 0.0, 0.0, len(found)))
    return PageChars.of(found).without_blanks()


def texts(chars: PageChars) -> list[list[str]]:
    return [[line for line in part.text.split("\n") if line.strip()] for part in pages_on(chars, SHEET)]


def test_pages_that_lie_open_are_read_one_after_the_other() -> None:
    rows = [(x0, top + 14.0 * row, f"{STORY} {row}") for row in range(12) for x0, top in ((60.0, 80.0), (660.0, 120.0))]
    assert texts(chars_of(*rows)) == [[f"{STORY} {row}" for row in range(12)]] * 2


def test_pages_of_prose_may_be_level() -> None:
    rows = [(x0, 80 + 14.0 * row, f"{STORY}, page {x0:.0f}") for row in range(12) for x0 in (60.0, 660.0)]
    assert texts(chars_of(*rows)) == [[f"{STORY}, page 60"] * 12, [f"{STORY}, page 660"] * 12]


def test_rows_of_a_wide_table_stay_together() -> None:
    rows = [(x0, 80 + 14.0 * row, f"A number of {row:03} and more") for row in range(14) for x0 in (60.0, 660.0)]
    assert len(texts(chars_of(*rows))) == 1


def test_a_title_over_both_columns_makes_them_one_page() -> None:
    rows = [(x0, 80 + 14.0 * row, f"{STORY} {row}") for row in range(12) for x0 in (60.0, 660.0)]
    assert len(texts(chars_of((500.0, 40.0, "A title in the middle of the sheet, over both columns"), *rows))) == 1


def test_columns_at_other_places_than_those_of_pages_are_one_page() -> None:
    rows = [(x0, 80 + 14.0 * row, f"{STORY} {row}") for row in range(12) for x0 in (200.0, 660.0)]
    assert len(texts(chars_of(*rows))) == 1
