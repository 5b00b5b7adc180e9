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


def test_numbers_go_on_over_pages_and_on_a_short_last_one() -> None:
    pages = [page(1, *numbers(range(1, 29))), page(2, *numbers(range(29, 57))), page(3, *numbers(range(57, 60)))]
    text = [line("The court finds it so.", 40, 110)]
    whole = [page(one.page_number, *one.lines, *text) for one in pages]
    result = clean_document(document(*whole), CleanSteps(headers_footers=False))
    assert [removal.text for removal in result.removed] == [str(n) for n in range(1, 60)]


def test_numbers_go_on_from_the_left_margin_to_the_right_one() -> None:
    text = line("The court finds it so.", 40, 110)
    assert len(clean(*numbers(range(1, 29)), *numbers(range(29, 57), x0=560), text).removed) == 56


def test_numbers_that_do_not_go_on_stay() -> None:
    first = page(1, *numbers(range(1, 29)), line("The court finds it so.", 40, 110))
    for kept in (numbers(range(31, 34)), numbers(range(29, 32), x0=100.0), numbers(range(29, 30))):
        result = clean_document(document(first, page(2, *kept, line("And it", 40, 110))), CleanSteps())
        assert len(result.removed) == 28


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


PROSE = "of the goods which the seller has brought to the place that is named in it"


def close(texts: list[str], leading: float = 28.0) -> list[Line]:
    """Lines with their numbers a space before them."""
    return [line(text, 66 + leading * n, 72) for n, text in enumerate(texts)]


def test_numbers_close_before_prose_are_taken_out_and_those_of_a_short_last_page() -> None:
    whole = [page(1, *close([f"{n} {PROSE}" for n in range(1, 26)]))]
    last = page(2, *close([f"1 {PROSE}", "2 and that is all.", "3", "4", "5"]))
    result = clean_document(document(*whole, last), CleanSteps())
    assert not any(char.isdigit() for char in result.text)
    assert [removal.text for removal in result.removed] == [*map(str, range(1, 26)), *map(str, range(1, 6))]


def test_numbers_at_every_fifth_line_are_taken_out() -> None:
    poem = [f"The {word} of the morning" for word in "abcdefghijklmnopqrstuvwxy"]
    left = [f"{n} {text}" if n % 5 == 0 else text for n, text in enumerate(poem, 1)]
    assert not any(char.isdigit() for char in clean(*close(left, 14.0)).text)
    right = [
        line(f"{text}   {30 + n}" if n % 5 == 0 else text, 66 + 14 * n, 72, x1=540) for n, text in enumerate(poem, 1)
    ]
    assert [removal.text for removal in clean(*right).removed] == ["35", "40", "45", "50", "55"]


def test_short_items_that_count_keep_their_numbers() -> None:
    items = [f"{n} {word * n}" for n, word in enumerate("abcdefghijklmnopqrstuvwxy", 1)]
    assert clean(*close(items)).removed == ()
    steps = [f"{n} The {word} of it is brought to the place that is named" for n, word in enumerate("abcdefghijklm", 5)]
    assert clean(*close(steps)).removed == ()
