"""Footnotes stay in the text, apart from the paragraph that they interrupt."""

from __future__ import annotations

import pytest
from clean_helpers import LEADING, body, document, line, page

from qwen_batch.clean import clean_document
from qwen_batch.records import CleanSteps, Line

FIRST = [
    "The seller delivers the goods.",
    "They were ordered from the seller",
    "as the annex has it, and the buyer who",
]
SECOND = ["has paid for them may keep them."]
REST = ["Another paragraph begins here and has a few", "more words than the first one had."]
NOTE = ["1 See the annex, which lists all of the goods", "that are sold."]
RIGHT = 300.0


def notes(texts: list[str], top: float = 700.0) -> tuple[Line, ...]:
    return tuple(line(text, top + 9 * number, size=8.0) for number, text in enumerate(texts))


def filler(top: float) -> tuple[Line, ...]:
    """A paragraph that reaches down the page."""
    return body([f"The parties agree upon number {word} of the" for word in "abcdefghij"], top, x1=RIGHT)


def two_pages(*at_foot: Line) -> tuple[tuple[Line, ...], tuple[Line, ...]]:
    started = body([*FIRST, "next line is full as well, and so it goes"], 640.0, x1=RIGHT)
    full = Line(started[-1].text, (72.0, started[-1].bbox[1], RIGHT, started[-1].bbox[3]), 10.0)  # type: ignore[index]
    return (*filler(72.0), *started[:-1], full, *at_foot), (*body(SECOND), *body(REST, 72 + 3 * LEADING, x1=RIGHT))


def clean(*lines: tuple[Line, ...], footnotes: bool = True) -> list[str]:
    pages = [page(number, *each) for number, each in enumerate(lines, 1)]
    return clean_document(document(*pages), CleanSteps(footnotes=footnotes)).text.split("\n\n")


def test_a_paragraph_goes_on_over_the_notes_and_the_page() -> None:
    paragraphs = clean(*two_pages(*notes(NOTE)))
    whole = next(text for text in paragraphs if text.startswith("The seller"))
    assert whole.endswith("so it goes has paid for them may keep them.")
    assert "1 See the annex, which lists all of the goods that are sold." in paragraphs
    assert paragraphs.index(whole) == 1 + paragraphs.index(
        "1 See the annex, which lists all of the goods that are sold."
    )


def test_raised_marks_are_marks() -> None:
    two = notes(["¹ The goods are listed in the annex, on page", "9 and on those that follow it.¹²", "² Compare 4."])
    first, second = "¹ The goods are listed in the annex, on page 9 and on those that follow it.¹²", "² Compare 4."
    assert f"{first}\n{second}" in clean(*two_pages(*two))


def test_notes_stay_on_their_page() -> None:
    pages = [page(number, *each) for number, each in enumerate(two_pages(*notes(NOTE)), 1)]
    result = clean_document(document(*pages), CleanSteps())
    assert "1 See the annex" in result.pages[0].text
    assert "has paid" in result.pages[1].text
    second = result.page_starts[1]
    assert result.text[second:].startswith("has paid")
    assert result.removed == ()


def test_switched_off_they_stand_where_they_are_printed() -> None:
    paragraphs = clean(*two_pages(*notes(NOTE)), footnotes=False)
    assert next(text for text in paragraphs if text.startswith("The seller")).endswith("so it goes")


def test_each_note_is_a_paragraph_of_its_own() -> None:
    two = notes([*NOTE, "2 Compare section 4.", "* By its agent."])
    assert "\n2 Compare section 4.\n* By its agent." in "\n\n".join(clean(*two_pages(*two)))


def test_a_number_within_a_note_begins_none() -> None:
    two = notes(["1 The goods are listed in the annex, on page", "9 and on the pages that follow it."])
    assert "1 The goods are listed in the annex, on page 9 and on the pages that follow it." in clean(*two_pages(*two))


@pytest.mark.parametrize(
    "small",
    [
        notes(["See the annex, which lists all"]),
        tuple(line(text, 700.0 + 12 * number) for number, text in enumerate(NOTE)),
    ],
    ids=["no mark", "as large as the text"],
)
def test_other_lines_at_the_foot_are_no_notes(small: tuple[Line, ...]) -> None:
    assert next(text for text in clean(*two_pages(*small)) if text.startswith("The seller")).endswith("so it goes")


def test_small_print_at_the_head_of_a_page_stays_there() -> None:
    paragraphs = clean((*notes(NOTE, 40.0), *filler(72.0)))
    assert paragraphs[0] == "1 See the annex, which lists all of the goods that are sold."


def test_notes_of_a_column_that_are_drawn_first() -> None:
    """So the Federal Register is: the notes of all columns, then the columns. A note goes on in the next column."""
    left = (
        line("3 The note of the left column, which", 700.0, size=8.0, x1=300),
        line("is not over when the", 709.0, size=8.0, x1=300),
    )
    right = (line("column is. It is now.", 709.0, 320.0, 8.0), line("4 Two.", 718.0, 320.0, 8.0))
    columns = (*filler(72.0), *body(["Right column begins here and", "goes on"], 72.0, 320.0, 540.0))
    paragraphs = clean((*left, *right, *columns))
    assert paragraphs[-1] == "3 The note of the left column, which is not over when the column is. It is now.\n4 Two."


def test_a_note_goes_on_at_the_foot_of_the_next_column() -> None:
    def column(texts: list[str], x0: float, top: float, size: float = 10.0) -> tuple[Line, ...]:
        lines = (line(text, top + 12 * number, x0, size, x0 + 200) for number, text in enumerate(texts))
        return tuple(lines)

    left = column(
        [f"The left column, line {word}, goes on" for word in "abcdefghijklmnopqrstuvwxyzabcdefghijkl"], 72, 72
    )
    right = column(
        [f"The right column, line {word}, goes on" for word in "abcdefghijklmnopqrstuvwxyzabcdefghij"], 320, 72
    )
    note = column(["12 The size of the order varies with its", "parameters, such as the airplane’s"], 72, 640, 8.0)
    rest = column(["altitude and airspeed.", "13 More than ten degrees."], 320, 640, 8.0)
    whole = "12 The size of the order varies with its parameters, such as the airplane’s altitude and airspeed."
    assert f"{whole}\n13 More than ten degrees." in "\n\n".join(clean((*left, *note, *right, *rest)))
