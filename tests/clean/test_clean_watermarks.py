"""What is printed over the text goes, and is named; large words that stand alone stay."""

from __future__ import annotations

import pytest
from clean_helpers import body, document, line, page

from qwen_batch.clean import clean_document
from qwen_batch.records import CleanDocument, CleanSteps, Line

TEXT = body([f"The court finds that the clause {word} is valid." for word in "abcdefghij"], 300.0)
SLANTED = Line("DRAFT", (150.0, 280.0, 400.0, 530.0), 90.0)


def clean(*pages: tuple[Line, ...], watermarks: bool = True) -> CleanDocument:
    made = [page(number, *lines) for number, lines in enumerate(pages, 1)]
    return clean_document(document(*made), CleanSteps(watermarks=watermarks))


@pytest.mark.parametrize(
    "mark", [SLANTED, Line("COPY ONLY", (90.0, 320.0, 300.0, 410.0), 90.0)], ids=["slanted", "flat"]
)
def test_large_words_over_the_text_are_taken_out_and_named(mark: Line) -> None:
    result = clean((*TEXT[:4], mark, *TEXT[4:]))
    assert mark.text not in result.text
    assert [(removal.text, removal.reason) for removal in result.removed] == [(mark.text, "watermark")]
    assert result.warnings == (f"printed over the text: {mark.text}",)


def test_small_slanted_words_go_where_they_stand_again_and_again() -> None:
    tiles = [Line("internal use", (x, 600.0, x + 50, 650.0), 12.0) for x in (80.0, 240.0, 400.0)]
    assert clean((*TEXT, *tiles)).text == clean(TEXT).text
    assert clean((*TEXT, tiles[0])).text.endswith("internal use")


def test_titles_and_initials_stay() -> None:
    title = line("Lease", 60.0, size=40.0)
    initial = Line("W", (72.0, 300.0, 100.0, 336.0), 36.0)
    alone = Line("DRAFT", (150.0, 60.0, 250.0, 160.0), 40.0)  # on a cover page, over nothing
    for kept in (title, initial, alone):
        assert clean((kept, *TEXT)).removed == ()


def test_switched_off() -> None:
    assert clean((SLANTED, *TEXT), watermarks=False).removed == ()
