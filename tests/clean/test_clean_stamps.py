"""Stamps of courts and numbers of productions go, on documents of any length; titles of cases stay."""

from __future__ import annotations

import pytest
from clean_helpers import body, document, line, page

from qwen_batch.clean import clean_document
from qwen_batch.clean.stamps import is_filing_line
from qwen_batch.records import CleanDocument, CleanSteps

TEXT = body(["The court finds that the clause is valid.", "It so orders."], 300.0)


def clean(*marks: str, top: float = 20.0, stamps: bool = True) -> CleanDocument:
    pages = [page(number, line(mark, top), *TEXT) for number, mark in enumerate(marks, 1)]
    return clean_document(document(*pages), CleanSteps(stamps=stamps))


@pytest.mark.parametrize(
    "text",
    [
        "Case 1:23-cv-00456-ABC   Document 17   Filed 03/04/24   Page 3 of 9",
        "Case 8:16-cv-01261-DOC-KES Document 40 Filed 08/05/16 Page 1 of 4 Page ID #:365",
        "Case: 20-1507 Document: 00117684624 Page: 1 Date Filed: 12/22/2020 Entry ID: 6389",
        "USCA11 Case: 20-12345 Date Filed: 01/02/2021 Page: 1 of 10",
        "Case 19-10412 Doc 85 Filed 03/01/19 Entered 03/01/19 10:11:12 Page 2 of 7",
    ],
)
def test_filing_lines(text: str) -> None:
    assert is_filing_line(text)
    result = clean(text)
    assert [(removal.text, removal.reason) for removal in result.removed] == [(text, "stamp")]


@pytest.mark.parametrize(
    "text",
    [
        "Case No. 8:16-cv-1261 DOC (KESx)",
        "Case law since 1990 is not of one mind",
        "Case 3: the buyer pays on page 4 what was filed",
        "The case 1:23-cv-00456 was filed as document 17, page 3",
    ],
)
def test_other_lines_about_cases_stay(text: str) -> None:
    assert clean(text).removed == ()


def test_numbers_of_a_production_count_with_the_pages() -> None:
    assert [removal.text for removal in clean("ACME000123", "ACME000124").removed] == ["ACME000123", "ACME000124"]
    assert clean("ACME000123", "ACME000129").removed == ()  # of two other things
    assert clean("ACME000123").removed == ()
    assert clean("ACME000123", "ACME000124", stamps=False).removed == ()


def test_a_filing_line_within_the_text_stays() -> None:
    above = body(["One.", "Two.", "Three.", "Four.", "Five."], 20.0)
    quoted = line("Case 1:23-cv-00456-ABC Document 17 Filed 03/04/24 Page 3 of 9", 200.0)
    assert (
        clean_document(document(page(1, *above, quoted, *TEXT, *body(["a", "b", "c"], 500.0))), CleanSteps()).removed
        == ()
    )
