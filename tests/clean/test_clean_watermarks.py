"""What is printed over the text goes, and is named; large words that stand alone stay."""

from __future__ import annotations

import pytest
from clean_helpers import body, document, line, page

from qwen_batch.clean import clean_document
from qwen_batch.records import CleanDocument, CleanSteps, Line, Picture

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


def test_slanted_labels_of_charts_stay_though_each_chart_has_them() -> None:
    labels = [
        Line(f"{month}-99", (x, top, x + 26, top + 19), 10.0)
        for top in (450.0, 550.0, 650.0)
        for month, x in (("Jan", 80.0), ("Feb", 140.0), ("Mar", 200.0))
    ]
    assert clean((*TEXT, *labels)).removed == ()


def test_fields_of_several_lines_are_not_slanted() -> None:
    fields = [Line("The clause is valid. " * 20, (288.0, top, 600.0, top + 110), 10.0) for top in (430.0, 540.0, 650.0)]
    short = [Line("Option", (72.0, top, 168.0, top + 72), 10.0) for top in (430.0, 540.0, 650.0)]
    assert clean((*TEXT, *fields, *short)).removed == ()


def test_a_slanted_page_is_text() -> None:
    slanted = [
        Line(f"The clause {word} of the law is valid", (60.0, 100 + 40 * n, 500.0, 400 + 40 * n), 30.0)
        for n, word in enumerate("abcde")
    ]
    assert clean((*TEXT, *slanted)).removed == ()


def test_letters_of_a_watermark_that_were_read_apart_go_with_it() -> None:
    mark = (Line("DRAF", (150.0, 280.0, 340.0, 470.0), 90.0), Line("T", (330.0, 420.0, 390.0, 530.0), 90.0))
    assert clean((*TEXT, *mark)).text == clean(TEXT).text


def test_titles_and_initials_stay() -> None:
    title = line("Lease", 60.0, size=40.0)
    initial = Line("W", (72.0, 300.0, 100.0, 336.0), 36.0)
    alone = Line("DRAFT", (150.0, 60.0, 250.0, 160.0), 40.0)  # on a cover page, over nothing
    for kept in (title, initial, alone):
        assert clean((kept, *TEXT)).removed == ()


BELOW = Line("ACME PILOT", (150.0, 480.0, 450.0, 540.0), 60.0)  # in the middle of the page, but over nothing


def test_large_words_in_the_middle_of_most_pages_go_though_the_text_ends_above() -> None:
    texts = [body([f"The court finds that {word} of page {n} is valid." for word in "abcd"], 72) for n in (1, 2, 3)]
    result = clean(*((*text, BELOW) for text in texts))
    assert [(removal.text, removal.reason) for removal in result.removed] == [(BELOW.text, "watermark")] * 3
    assert clean((*texts[0], BELOW), *texts[1:]).removed == ()


def test_a_heading_in_the_middle_of_most_pages_stays_over_its_text() -> None:
    heading = Line("Certificate of Achievement", (100.0, 240.0, 460.0, 264.0), 24.0)
    texts = [
        body([f"Person {word} of page {n} has completed the course." for word in "abcd"], 320.0) for n in (1, 2, 3)
    ]
    assert clean(*((heading, *text) for text in texts)).removed == ()
    crossed = body(["The court finds that clause a is valid.", "The court finds that clause b is."], 240.0)
    assert len(clean((heading, *crossed, *texts[0]), *((heading, *text) for text in texts[1:])).removed) == 3
    slanted = heading._replace(bbox=(150.0, 200.0, 400.0, 300.0))
    assert len(clean(*((slanted, *text) for text in texts)).removed) == 3


@pytest.mark.parametrize(("text", "goes"), [("DRAFT", True), ("Do not copy", True), ("草稿", True), ("Annex", False)])
def test_large_words_in_the_middle_of_the_only_page_go_if_watermarks_say_them(text: str, goes: bool) -> None:
    mark = BELOW._replace(text=text)
    assert bool(clean((*body(["The court finds that it is valid."] * 4, 72), mark)).removed) == goes


def test_smaller_words_go_where_most_pages_have_them_over_text_that_changes() -> None:
    mark = Line("CONFIDENTIAL", (150.0, 313.0, 400.0, 331.0), 18.0)
    texts = [
        body([f"The court finds that clause {word} of page {n} is valid." for word in "abcd"], 300) for n in (1, 2, 3)
    ]
    result = clean(*((*text, mark) for text in texts))
    assert [(removal.text, removal.reason) for removal in result.removed] == [(mark.text, "watermark")] * 3
    assert result.text == clean(*texts).text
    assert [removal for removal in clean(*([(*TEXT, mark)] * 3)).removed if removal.reason == "watermark"] == []
    assert [removal for removal in clean((*TEXT, mark), TEXT, TEXT).removed if removal.reason == "watermark"] == []


ONLY = CleanSteps(headers_footers=False)  # pages alike would be running heads
MIDDLE = (150.0, 280.0, 450.0, 580.0)
SEAL = Picture(MIDDLE, "300x300, 99 bytes", see_through=False)


@pytest.mark.parametrize(
    "picture",
    [SEAL, SEAL._replace(see_through=True), Picture((0.0, 0.0, 612.0, 792.0), "a", see_through=True)],
    ids=["behind", "clear", "whole page"],
)
def test_an_image_over_the_text_of_most_pages_is_reported(picture: Picture) -> None:
    bare = [
        page(number, *body([f"Clause {number}.{word} holds here." for word in "abcde"], 300)) for number in (1, 2, 3)
    ]
    shown = [each._replace(pictures=(picture,)) for each in bare]
    result = clean_document(document(*shown), ONLY)
    assert result.text == clean_document(document(*bare), ONLY).text
    assert [(removal.page_number, removal.reason) for removal in result.removed] == [
        (number, "watermark_image") for number in (1, 2, 3)
    ]
    assert result.warnings == ("an image lies over the text, as a watermark does, on 3 of the pages",)
    assert clean_document(document(*shown[:1], *bare[1:]), ONLY).warnings == ()  # a figure


@pytest.mark.parametrize(
    "pictures",
    [
        [Picture((0.0, 0.0, 612.0, 792.0), "a", see_through=False)] * 3,  # a background
        [Picture(MIDDLE, f"300x300, {number} bytes", see_through=True) for number in range(3)],  # other images
        [Picture((150.0, 380.0, 450.0, 680.0), "a", see_through=True)] * 3,  # over nothing
    ],
    ids=["background", "figures", "over nothing"],
)
def test_other_images_are_not(pictures: list[Picture]) -> None:
    pages = [
        page(number, *body([f"Clause {number}.{word} holds here." for word in "abcde"], 300)) for number in (1, 2, 3)
    ]
    shown = [each._replace(pictures=(picture,)) for each, picture in zip(pages, pictures, strict=True)]
    assert clean_document(document(*shown), ONLY).warnings == ()


def test_on_one_page_alone_an_image_must_be_clear_and_crossed_by_lines_of_text() -> None:
    clear = SEAL._replace(see_through=True)
    text = body(
        [f"The court finds that the clause {word} of the lease is valid, and so it is." for word in "abcd"], 300
    )
    labels = body(["1990", "2000", "2010", "2020"], 300, x0=200.0)
    reported = [
        bool(clean_document(document(page(1, *lines)._replace(pictures=(picture,))), ONLY).removed)
        for lines, picture in ((text, clear), (text, SEAL), (labels, clear))
    ]
    assert reported == [True, False, False]


def test_switched_off() -> None:
    assert clean((SLANTED, *TEXT), watermarks=False).removed == ()
