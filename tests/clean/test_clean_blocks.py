"""Lists, addresses, signatures, titles and columns: lines that stay apart, and lines that do not."""

from __future__ import annotations

import pytest
from clean_helpers import LEADING, LEFT, TOP, WIDTH, body, document, line, page, width_of

from qwen_batch.clean import clean_document
from qwen_batch.records import CleanSteps, Line

FULL = 540.0


def lines_of(*lines: Line) -> list[str]:
    text = clean_document(document(page(1, *lines)), CleanSteps()).text
    return [each for each in text.split("\n") if each]


def centred(texts: list[str], top: float = TOP) -> tuple[Line, ...]:
    starts = [(WIDTH - width_of(text)) / 2 for text in texts]
    return tuple(line(text, top + LEADING * number, starts[number]) for number, text in enumerate(texts))


@pytest.mark.parametrize(
    "marks",
    [
        ("9. ", "10. ", "11. "),
        ("(9) ", "(10) ", "(11) "),
        ("9) ", "10) ", "11) "),
        ("ix. ", "x. ", "xi. "),
        ("xi) ", "xii) ", "xiii) "),
        ("(aa) ", "(bb) ", "(cc) "),
        ("9 ", "10 ", "11 "),
        ("Article 9 ", "Article 10 ", "Article 11 "),
        ("Artikel 9 ", "Artikel 10 ", "Artikel 11 "),
        ("§ 9 ", "§ 10 ", "§ 11 "),
        ("第九条 ", "第十条 ", "第十一条 "),
        ("\uf0b7 ", "\uf0b7 ", "\uf0b7 "),
        ("☐ ", "☑ ", "☐ "),
    ],
)
def test_items_stay_apart_whatever_their_marks_are(marks: tuple[str, ...]) -> None:
    """Each goes on in a second line."""
    made: list[Line] = []
    for mark in marks:
        made.append(line(f"{mark}The supplier delivers the goods to the", TOP + LEADING * len(made), x1=FULL))
        made.append(line("place that is named there", TOP + LEADING * len(made)))
    whole = [f"{mark}The supplier delivers the goods to the place that is named there" for mark in marks]
    assert lines_of(*made) == whole


def test_short_items_with_bare_numbers_stay_apart() -> None:
    texts = [f"{number} {text}" for number, text in ((9, "No waiver"), (10, "Entire agreement"), (11, "Force majeure"))]
    full = tuple(line(text, TOP + LEADING * number, x1=FULL) for number, text in enumerate(texts))
    assert lines_of(*full) == texts


@pytest.mark.parametrize(
    "texts",
    [
        ["Acme Trading Company", "12 High Street", "London SW1A 1AA", "United Kingdom"],
        ["Sincerely,", "John Doe", "Chief Executive Officer"],
        ["Name: John Doe", "Title: Director", "Date: 1 May 2024"],
        ["By: ____________", "Name: Eva Muster", "Title: Geschäftsführerin"],
        ["Roses are red", "Violets are blue", "Sugar is sweet", "And so are you"],
    ],
)
def test_short_lines_by_themselves_stay_apart(texts: list[str]) -> None:
    """Whether the page has other lines to measure them by or not."""
    prose = body(["The parties agree upon all of the terms of this agreement", "and on no others."], 300.0, x1=FULL)
    assert lines_of(*body(texts)) == texts
    assert lines_of(*body(texts), *prose)[:-1] == texts


def test_narrow_prose_is_joined() -> None:
    assert lines_of(*body(["The notes beside a figure are", "narrow, and yet they are", "prose"], x1=200.0)) == [
        "The notes beside a figure are narrow, and yet they are prose"
    ]
    assert lines_of(*body(["The seller sells to the", "Buyer and the", "Tenant lets"], x1=200.0)) == [
        "The seller sells to the Buyer and the Tenant lets"
    ]


def test_two_signatures_side_by_side_stay_row_by_row() -> None:
    texts = ["For the Buyer:   For the Supplier:", "Acme Inc.   Widget GmbH", "Title: CEO   Title: Director"]
    assert lines_of(*(line(text, TOP + 16 * number, x1=420.0) for number, text in enumerate(texts))) == texts


def test_terms_and_their_meanings_stay_apart() -> None:
    texts = ["Affiliate: whoever controls a party", "or is controlled by it", "Buyer: whoever buys the goods"]
    full = tuple(line(text, TOP + LEADING * number, x1=FULL) for number, text in enumerate(texts))
    assert lines_of(*full) == [f"{texts[0]} {texts[1]}", texts[2]]


def test_centred_lines_of_a_title_stay_apart() -> None:
    texts = ["LOAN AGREEMENT", "between", "Acme Trading Company", "and", "Second Bank"]
    prose = body(["The parties agree upon all of the terms of this agreement", "and on no others."], 300.0, x1=FULL)
    assert lines_of(*centred(texts)) == texts
    assert lines_of(*centred(texts), *prose)[:-1] == texts


def test_a_centred_title_that_is_full_goes_on() -> None:
    texts = [
        "On writ of certiorari to the United States court of appeals for the tenth circuit and",
        "others of the kind",
    ]
    prose = body(["The parties agree upon all of the terms of this agreement", "and on no others."], 300.0, x1=FULL)
    assert lines_of(*centred(texts), *prose)[0] == " ".join(texts)


def test_lines_that_are_flush_right_stay_apart() -> None:
    texts = ["Acme Ltd", "12 Main Street", "Springfield"]
    assert lines_of(*(line(text, TOP + 12 * n, FULL - width_of(text)) for n, text in enumerate(texts))) == texts


def test_a_number_or_a_letter_alone_is_a_heading() -> None:
    heads = (line("II", TOP, 304.0), line("A", TOP + LEADING, 304.5))
    text = body(["The river begins in the mesa on the border", "of two states"], TOP + 2 * LEADING, x1=FULL)
    assert lines_of(*heads, *text) == ["II", "A", "The river begins in the mesa on the border of two states"]


def test_a_column_below_full_lines_with_the_same_left_edge_is_joined() -> None:
    above = body(["The first lines go over the whole width", "of the page and"] * 3 + ["end here."], x1=FULL)
    left = ["The left column is", "narrow and it has", "several lines", "that follow each", "other."]
    below = TOP + 9 * LEADING
    beside = body(left, below, x0=320.0, x1=FULL)
    columns = (*body(left, below, x1=290.0), *beside)
    assert lines_of(*above, *columns)[1:] == [" ".join(left)] * 2


def test_a_divided_word_at_the_margin_goes_on_wherever_the_line_began() -> None:
    """A root sign has parted the line."""
    first = line("a) The differential", TOP, LEFT, x1=240.0)
    root, rest = line("p", TOP - 9, 246.0, x1=256.0), line("det(I) is called the para-", TOP, 256.0, x1=FULL)
    assert lines_of(first, root, rest, line("metrisation F.", TOP + LEADING))[-1] == (
        "det(I) is called the parametrisation F."
    )


def test_gaps_after_sentences_make_no_columns() -> None:
    texts = ["so the court found no likelihood of success here", "in the judgment.   I agree that the denial", "is no"]
    assert lines_of(*body(texts, x1=FULL)) == [" ".join(" ".join(texts).split())]


def test_double_spaced_prose_beside_closer_lines_is_joined() -> None:
    """A page of a pleading: a quotation stands closer than the text around it."""
    quoted = ["so that none of the goods that the buyer sends", "back to the seller is lost on the way by"] * 3
    close = body([*quoted, "sea."], 400.0, 120.0, 480.0)
    texts = [
        "For ease in exposition we refer to this quartet of",
        "executive orders as the orders and to",
        "the order of",
    ]
    texts += ["April as the plan that is", "here."]
    spaced = (
        *(line(text, TOP + 2 * LEADING * n, x1=FULL) for n, text in enumerate(texts[:-1])),
        line("here.", TOP + 96),
    )
    assert lines_of(*spaced, *close) == [" ".join(texts), " ".join((*quoted, "sea."))]


def test_a_first_line_that_begins_far_in_is_the_first_of_its_paragraph() -> None:
    texts = ["In this venue the Chapel renews its claims", "and asserts that the court abused its", "discretion."]
    lines = (line(texts[0], TOP, LEFT + 60, x1=FULL), *body([*texts[1:]] * 3, TOP + LEADING, x1=FULL))
    assert lines_of(*lines)[0].startswith(" ".join(texts[:2]))
    title = line("A title that stands far in", TOP, LEFT + 60)
    assert lines_of(title, *lines[1:])[0] == "A title that stands far in"


def test_a_dash_within_a_sentence_begins_no_item() -> None:
    texts = ["an issue of fact. Of course, this general rule", "— like most general rules — admits of", "exceptions."]
    assert lines_of(*body(texts, x1=FULL)) == [" ".join(texts)]
    assert lines_of(*body(["We need two things:", "— the goods of it", "— the price"], x1=FULL))[1:] == [
        "— the goods of it",
        "— the price",
    ]


def test_a_quotation_in_double_spaced_text_is_one_paragraph() -> None:
    """Its lines begin where the first lines of the other paragraphs do, and end before theirs."""
    texts = ["The supplier shall deliver the goods to the", "place that is named in the order", "and bear the risk"] * 3
    around = tuple(line(text, TOP + 2 * LEADING * n, LEFT + 36 * (not n), x1=FULL) for n, text in enumerate(texts))
    quoted = ["Neither party may assign this without the prior", "consent of the other party, which shall", "not be"]
    tight = body([*quoted, "withheld."], TOP + 20 * LEADING, LEFT + 36, 500.0)
    assert lines_of(*around, *tight) == [" ".join(texts), " ".join((*quoted, "withheld."))]
