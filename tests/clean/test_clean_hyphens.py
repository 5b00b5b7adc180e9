"""What becomes of a hyphen at a line end."""

from __future__ import annotations

import pytest
from clean_helpers import body, document, page

from qwen_batch.clean import clean_document
from qwen_batch.clean.hyphens import Vocabulary, join_texts
from qwen_batch.records import CleanSteps


@pytest.mark.parametrize(
    ("before", "after", "joined"),
    [
        ("the distribu-", "tion of goods", "the distribution of goods"),
        ("on each pay-", "day of the month", "on each pay-day of the month"),
        ("encourage a co-", "worker to leave", "encourage a co-worker to leave"),
        ("in a co-", "herent way", "in a coherent way"),
        ("reduced by one-", "sixth of it", "reduced by one-sixth of it"),
        ("all thir-", "teen of them", "all thirteen of them"),
        ("four-", "teen days", "fourteen days"),
        ("a self-", "employed person", "a self-employed person"),
        ("pre-", "and post-sale", "pre- and post-sale"),
    ],
)
def test_hyphens_at_line_ends(before: str, after: str, joined: str) -> None:
    assert join_texts(before, after, Vocabulary(["She gets her pay within 12 days."])) == joined


def test_a_list_goes_on_over_a_page_break() -> None:
    first = page(1, *body(["The Contractor shall do all of this:", "(a) watch the cameras;"]))
    second = page(2, *body(["(b) patrol the grounds."]))
    text = clean_document(document(first, second), CleanSteps()).text
    assert text.endswith("(a) watch the cameras;\n(b) patrol the grounds.")
