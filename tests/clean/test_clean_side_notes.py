"""Notes in the margin do not part the paragraph beside which they stand."""

from __future__ import annotations

from clean_helpers import LEADING, body, document, line, page

from qwen_batch.clean import clean_document
from qwen_batch.records import CleanSteps, Line

TEXT = [
    "The training of those who create needs both many",
    "means and freedom. From the smallest, the writing of",
    "papers is the core of what they learn, and",
    "the surroundings of it are worth the effort.",
]


def clean(*lines: Line) -> list[str]:
    return clean_document(document(page(1, *lines)), CleanSteps()).text.split("\n\n")


def test_the_paragraph_goes_on_over_a_note_beside_it() -> None:
    text = body(TEXT, x1=330.0)
    note = body(["freedom for", "writing"], 72.0 + LEADING, x0=350.0)
    assert clean(*text[:2], *note, *text[2:]) == [" ".join(TEXT), "freedom for writing"]


def test_a_note_that_was_drawn_last_is_no_next_column_and_text_to_its_left_is_neither() -> None:
    text = body(TEXT, x1=330.0)
    words = ["the freedom of those who", "write, and the means of,"]
    note = body(words, 72.0 + 3 * LEADING, x0=350.0)
    lower = [Line("training " + TEXT[0], text[0].bbox, text[0].font_size), *text[1:]]
    assert clean(*note, *lower) == [" ".join(words), "training " + " ".join(TEXT)]


def test_values_beside_labels_stay_beside_them() -> None:
    labels = body(["Name of the owner", "Place of registration"])
    values = [line(text, 72.0 + LEADING * row, x0=350.0) for row, text in enumerate(("J. Doe", "Oslo"))]
    assert clean(labels[0], values[0], labels[1], values[1]) == [
        "Name of the owner\nJ. Doe\nPlace of registration\nOslo"
    ]
