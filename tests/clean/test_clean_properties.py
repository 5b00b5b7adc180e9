"""What holds of cleaning whatever the pages are: nothing is lost in silence, nothing invented, nothing left to do."""

from __future__ import annotations

from collections import Counter

from clean_helpers import LEADING, TOP, document, line, page, text_document
from hypothesis import example, given
from hypothesis import strategies as st

from qwen_batch.clean import clean_document
from qwen_batch.records import CleanDocument, CleanSteps, Document, Line, Page

WORDS = (
    "the Buyer pays 30 days net distribu- tion co- worker pay- day self- employed (a) 1.1 1. 第一条 甲方应 付款。 合同 "
    "Acme NDA - 12 – • item A.B e.g. x2 www.a-b.org/c- d Section 4 Page 7 of 9 ﬁnal ２０２４ ﬀ end. End:"
)
TEXTS = st.lists(st.sampled_from(WORDS.split()), min_size=1, max_size=12).map(" ".join)
PAGES = st.lists(
    st.lists(st.tuples(TEXTS, st.sampled_from([72.0, 72.0, 90.0]), st.booleans()), max_size=12), max_size=5
)


def printed(pages: list[list[tuple[str, float, bool]]], head: str = "") -> Document:
    made: list[Page] = []
    for number, rows in enumerate(pages, 1):
        lines = [line(head, 30.0)] if head else []
        for place, (text, x0, full) in enumerate(rows):
            lines.append(line(text, TOP + LEADING * place, x0, x1=540.0 if full else None))
        made.append(page(number, *lines))
    return document(*made)


def letters(text: str) -> Counter[str]:
    """Letters and digits, in the form that cleaning gives them: words may be joined, letters may not go."""
    plain = text.translate({0xFB01: "fi", 0xFB00: "ff", **{0xFF10 + digit: str(digit) for digit in range(10)}})
    return Counter(char for char in plain if char.isalnum())


def everything(raw: Document) -> str:
    return " ".join(line.text for page in raw.pages for line in page.lines)


def kept_and_removed(clean: CleanDocument) -> str:
    return " ".join((clean.text, *(removal.text for removal in clean.removed if removal.reason != "control_character")))


@given(PAGES, st.sampled_from(["", "Acme confidential", "Lease 4"]))
def test_no_letter_is_lost_that_is_not_reported_and_none_invented(
    pages: list[list[tuple[str, float, bool]]], head: str
) -> None:
    raw = printed(pages, head)
    assert letters(kept_and_removed(clean_document(raw, CleanSteps()))) == letters(everything(raw))


@given(PAGES)
def test_no_word_is_invented(pages: list[list[tuple[str, float, bool]]]) -> None:
    """A word of the result is one of the source, or two of it that a line end divided."""
    raw = printed(pages)
    text = everything(raw).translate({0xFB01: "fi", 0xFB00: "ff", **{0xFF10 + d: str(d) for d in range(10)}})
    parts = set(text.split())
    joined = {before + after for before in parts for after in parts}
    joined |= {before.removesuffix("-") + after for before in parts for after in parts}
    chinese = {word for word in clean_document(raw, CleanSteps()).text.split() if not word.isascii()}
    assert set(clean_document(raw, CleanSteps()).text.split()) - chinese <= parts | joined


@given(PAGES)
def test_the_pages_hold_the_words_of_the_text(pages: list[list[tuple[str, float, bool]]]) -> None:
    clean = clean_document(printed(pages), CleanSteps())
    assert letters("".join(each.text for each in clean.pages)) == letters(clean.text)


def paragraphs(text: str) -> list[str]:
    return [part for part in text.split("\n") if part]


@given(PAGES)
@example([[("the Buyer pays", 72.0, True), ("30 days net.", 72.0, False)]])
def test_cleaning_twice_is_cleaning_once(pages: list[list[tuple[str, float, bool]]]) -> None:
    """Clean text is whole paragraphs: said to be that, it comes out as it went in, and nothing more is removed."""
    once = clean_document(printed(pages), CleanSteps())
    whole = Page(1, tuple(Line(part) for part in paragraphs(once.text)), paragraphs=True)
    twice = clean_document(document(whole), CleanSteps())
    assert paragraphs(twice.text) == paragraphs(once.text)
    assert twice.removed == ()


@given(st.text(st.characters(codec="utf-8"), max_size=300))
def test_any_characters_at_all_are_cleaned_to_a_fixed_point(text: str) -> None:
    once = clean_document(text_document(text), CleanSteps()).text
    assert clean_document(text_document(once), CleanSteps()).text == once
