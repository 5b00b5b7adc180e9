"""Line numbers of pleadings go; numbers that mean something stay."""

from __future__ import annotations

from clean_helpers import document, line, page

from qwen_batch.clean import clean_document
from qwen_batch.records import CleanDocument, CleanSteps, Line


def numbers(values: range, x0: float = 74.0, leading: float = 24.0) -> list[Line]:
    return [line(str(value), 66 + leading * place, x0) for place, value in enumerate(values)]


def clean(*lines: Line) -> CleanDocument:
    return clean_document(document(page(1, *lines)), CleanSteps())


def test_numbers_down_the_margin_are_taken_out() -> None:
    text = [line(f"The court finds that the {word} is valid.", 66 + 24 * n, 110) for n, word in enumerate("abcdef")]
    result = clean(*numbers(range(1, 29)), *text)
    assert "28" not in result.text
    assert "The court finds that the a is valid." in result.text
    assert {removal.reason for removal in result.removed} == {"line_number"}
    assert len(result.removed) == 28


def test_every_fifth_line_may_be_numbered() -> None:
    result = clean(*numbers(range(5, 30, 5), leading=120), line("Be it enacted that", 66, 110))
    assert result.text == "Be it enacted that"


def test_other_numbers_stay() -> None:
    for kept in (
        numbers(range(1, 9)),  # a short list
        numbers(range(3, 31)),  # begins in the middle
        numbers(range(1, 29), x0=300.0),  # in the middle of the page
        numbers(range(1, 15), leading=12.0),  # covers a small part of the page
        [line(str(n), 66 + 24 * n + (9 if n % 3 else 0), 74) for n in range(1, 25)],  # not evenly
    ):
        assert clean(*kept, line("Items of the list", 40, 110)).removed == ()


def transcript(texts: list[str], first: int = 1) -> list[Line]:
    return [line(f"{first + n}      {text}", 66 + 28 * n, 72) for n, text in enumerate(texts)]


def test_numbers_before_the_text_of_a_transcript_are_taken_out() -> None:
    texts = [f"Q. Did you see {word}?" for word in "abcdefghijklmnopqrstuvwxy"]
    result = clean_document(document(page(1, *transcript(texts)), page(2, *transcript(texts))), CleanSteps())
    assert result.text.split()[:6] == ["Q.", "Did", "you", "see", "a?", "Q."]
    assert [removal.text for removal in result.removed] == [str(n) for n in range(1, 26)] * 2


def test_numbered_rows_and_lists_keep_their_numbers() -> None:
    rows = [f"Item {word}   12.50" for word in "abcdefghijklmnopqrstuvwxy"]
    texts = [f"Item {word}" for word in "abcdefghijklmnopqrstuvwxy"]
    for pages in (
        [page(1, *transcript(rows)), page(2, *transcript(rows))],  # a table
        [page(1, *transcript(texts))],  # on one page alone
        [page(1, *transcript(texts)), page(2, *transcript(texts, 26))],  # goes on
    ):
        assert clean_document(document(*pages), CleanSteps()).removed == ()
