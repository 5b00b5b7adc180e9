"""Tables that begin with the names of their columns are found; what only looks like such a head stays text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from reportlab.lib.pagesizes import A4
from reportlab.pdfgen.canvas import Canvas

from qwen_batch.read.pdf import read_pdf
from qwen_batch.records import Table

PLACES = (72.0, 290.0, 350.0, 430.0)
NAMES = ("Description", "Qty", "Unit price", "Amount")
ITEMS = [
    (("Cordless drill with two batteries, a charger", "and a case for the site"), "2", "129.00", "258.00"),
    (("Delivery",), "1", "15.00", "15.00"),
    (("Service contract for the machines at Leeds,", "twelve months from April"), "12", "40.00", "480.00"),
]
PROSE = [
    "The supplier shall deliver all goods under this agreement within thirty days after the receipt",
    "of a written order, and the buyer shall pay each invoice without delay unless it has given notice",
    "of defects in writing to the other party before the day on which the amount falls due.",
]
HALVES = [
    ("The committee met on the third", "of May and heard what each of"),
    ("its members had to say about it;", "most of them held that the rules"),
    ("should stay as they are, and that", "nothing is won by haste in here,"),
    ("while two of them, who had come", "from far away, wanted to see it"),
]


class Drawing:
    """A page that is written from the top down."""

    def __init__(self, path: Path) -> None:
        self.path = path / "a.pdf"
        self.canvas = Canvas(str(self.path), pagesize=A4)
        self.canvas.setFont("Helvetica", 10)
        self.top = 72.0

    def row(self, cells: Sequence[str], places: Sequence[float] = PLACES, leading: float = 12.0) -> Drawing:
        for place, cell in zip(places, cells, strict=True):
            self.canvas.drawString(place, A4[1] - self.top, cell)
        self.top += leading
        return self

    def text(self, lines: Sequence[str] = PROSE) -> Drawing:
        for line in lines:
            self.row((line,), (72.0,), 13.0)
        return self.gap(12)

    def gap(self, points: float) -> Drawing:
        self.top += points
        return self

    def rule(self, x0: float = 69.0, x1: float = 480.0) -> Drawing:
        self.canvas.line(x0, A4[1] - self.top + 9, x1, A4[1] - self.top + 9)
        return self.gap(4)

    def items(self, white: float = 6.0) -> Drawing:
        for lines, *numbers in ITEMS:
            self.row((lines[0], *numbers))
            for line in lines[1:]:
                self.row((line,), (72.0,))
            self.gap(white)
        return self

    def tables(self) -> tuple[Table, ...]:
        self.canvas.save()
        return read_pdf(self.path).pages[0].tables


@pytest.fixture
def page(tmp_path: Path) -> Drawing:
    return Drawing(tmp_path)


def one_row(lines: Sequence[str], *numbers: str) -> tuple[str, ...]:
    return ("\n".join(lines), *numbers)


@pytest.mark.parametrize("is_ruled", [True, False])
def test_an_item_of_several_lines_is_one_row(page: Drawing, is_ruled: bool) -> None:
    page.text().row(NAMES)
    if is_ruled:
        page.rule()
    (table,) = page.items().gap(12).text().tables()
    assert table.rows == (NAMES, *(one_row(*item) for item in ITEMS))
    assert table.header_rows == 1


def test_one_item_below_a_rule_is_a_table(page: Drawing) -> None:
    item = ("Delivery", "1", "15.00", "15.00")
    (table,) = page.text().row(NAMES).rule().row(item).gap(24).text().tables()
    assert table.rows == (NAMES, item)


def test_one_item_and_its_sums_are_a_table(page: Drawing) -> None:
    item, sums = ("Delivery", "1", "15.00", "15.00"), [("", "", "Subtotal", "15.00"), ("", "", "VAT 20%", "03.00")]
    page.text().row(NAMES).row(item).gap(4)
    for row in [*sums, ("", "", "Total due", "18.00")]:
        page.row(row)
    (table,) = page.gap(24).text().tables()
    assert table.rows == (NAMES, item, *sums, ("", "", "Total due", "18.00"))


def test_a_shade_behind_names_is_a_rule(page: Drawing) -> None:
    page.text()
    page.canvas.setFillColorRGB(0.8, 0.8, 0.8)
    page.canvas.rect(69, A4[1] - page.top - 4, 411, 15, stroke=0, fill=1)
    page.canvas.setFillColorRGB(0, 0, 0)
    (table,) = (
        page.row(("Role", "Who", "Since", "Room"))
        .gap(8)
        .row(("Clerk", "Ann Lee", "May", "hall"))
        .row(("Porter", "Li Wei", "June", "gate"))
        .tables()
    )
    assert table.rows == (
        ("Role", "Who", "Since", "Room"),
        ("Clerk", "Ann Lee", "May", "hall"),
        ("Porter", "Li Wei", "June", "gate"),
    )


def test_words_below_ruled_names_are_a_table(page: Drawing) -> None:
    rows = [
        ("Term", "Meaning"),
        ("Goods", "the machines and parts that Annex A lists"),
        ("Site", "the works of the buyer"),
    ]
    places = (72.0, 190.0)
    page.text().row(rows[0], places).rule().row(rows[1], places).gap(4).row(rows[2], places).gap(4)
    (table,) = page.row(("Day", "any but Sunday"), places).gap(14).text().tables()
    assert table.rows == (*rows, ("Day", "any but Sunday"))


def test_a_table_in_one_of_two_columns_of_text(page: Drawing) -> None:
    rows = [("Name", "Grade", "Note"), ("Alice", "A", "good"), ("Bob", "B", "fair"), ("Carol", "C", "poor")]
    for number, row in enumerate(rows):
        page.row((*row, HALVES[number][1]), (72.0, 142.0, 192.0, 320.0), 13)
        if number == 0:
            page.canvas.line(70, A4[1] - page.top + 9, 250, A4[1] - page.top + 9)
    for left, right in [("", HALVES[0][1]), *HALVES * 3]:
        page.row((left, right), (72.0, 320.0), 13)
    (table,) = page.tables()
    assert table.rows == tuple(rows)


def test_short_words_flush_with_their_names_are_a_table(page: Drawing) -> None:
    rows = [("Name", "Grade", "Note"), ("Alice", "A", "good"), ("Bob", "B", "fair"), ("Carol", "", "poor")]
    page.text()
    for row in rows:
        page.row(row, (72.0, 172.0, 232.0), 16)
    (table,) = page.gap(14).text().tables()
    assert table.rows == tuple(rows)


def test_rules_above_and_below_close_the_smallest_table(page: Drawing) -> None:
    places = (72.0, 140.0)
    page.text().rule(69, 200).row(("One", "Two"), places).rule(69, 200).row(("Three", "Four"), places).rule(69, 200)
    (table,) = page.gap(14).text().tables()
    assert table.rows == (("One", "Two"), ("Three", "Four"))


def test_lines_of_names_are_one_head(page: Drawing) -> None:
    page.text().row(("Unit price", "Delivery time"), (220.0, 330.0)).row(
        ("Product", "(EUR)", "(days)"), (72.0, 220.0, 330.0)
    )
    page.rule()
    for row in (("Pump", "1,200.00", "14"), ("Valve", "80.00", "3")):
        page.row(row, (72.0, 220.0, 330.0))
    (table,) = page.tables()
    assert table.rows[0] == ("Product", "Unit price\n(EUR)", "Delivery time\n(days)")


def test_names_in_lines_of_their_own_between_two_rules(page: Drawing) -> None:
    places = (72.0, 220.0, 330.0)
    page.text().rule().gap(4).row(("Completion",), (330.0,), 6).row(("Degree",), (220.0,), 6)
    page.row(("Institution", "Date"), (72.0, 330.0), 12).rule()
    for row in (("Berkeley", "B.S.", "05/1990"), ("Vermont", "Ph.D.", "05/1996")):
        page.row(row, places)
    (table,) = page.gap(14).text().tables()
    assert table.rows[0] == ("Institution", "Degree", "Completion\nDate")
    assert table.rows[1:] == (("Berkeley", "B.S.", "05/1990"), ("Vermont", "Ph.D.", "05/1996"))


def test_a_running_head_far_above_ruled_names_is_none_of_them(page: Drawing) -> None:
    page.top = 18.0
    page.row(("Annual statement", "Confidential"), (72.0, 420.0), 24).rule().gap(4)
    names, items = ("No", "Name", "City", "Fee"), [(f"{n}", f"Person {n}", "Oslo", f"{n}.00") for n in range(8)]
    page.row(names).rule()
    for item in items:
        page.row(item, leading=15.0)
    (table,) = page.tables()
    assert table.rows == (names, *items)


def test_what_goes_on_between_rules_is_as_wide_as_its_first_part(page: Drawing) -> None:
    """Each page closes its part with a rule."""
    names, rows = ("No", "Name", "City", "Fee"), [(f"{n}", f"Person {n}", "Oslo", f"{n}.00") for n in range(8)]
    for _ in range(2):
        page.top = 72.0
        page.rule(69.0, 540.0).row(names).rule(69.0, 540.0)
        for row in rows:
            page.row(row, leading=15.0)
        page.rule(69.0, 540.0).canvas.showPage()
    page.canvas.save()
    upper, lower = (each.tables[0] for each in read_pdf(page.path).pages)
    assert upper.rows == lower.rows == (names, *rows)
    assert upper.bbox is not None
    assert lower.bbox is not None
    assert (lower.bbox[0], lower.bbox[2]) == (upper.bbox[0], upper.bbox[2])


def test_a_line_that_hangs_goes_on_with_all_its_cells(page: Drawing) -> None:
    rows = [
        ("Income per head in", "It falls by 1.9% at first,"),
        ("Inflation", "It stays at 2.0%"),
        ("Rate", "It falls"),
    ]
    places = (72.0, 250.0)
    page.text().row(("Variable", "Assumption"), places).rule().row(rows[0], places)
    page.row(("constant dollars", "with growth of 1.4%"), (84.0, 250.0))
    for row in rows[1:]:
        page.row(row, places)
    (table,) = page.gap(14).text().tables()
    assert table.rows[1] == ("Income per head in\nconstant dollars", "It falls by 1.9% at first,\nwith growth of 1.4%")
    assert table.rows[2:] == tuple(rows[1:])


def test_centred_labels_in_small_letters_do_not_hang(page: Drawing) -> None:
    rows = [
        ("libertinus", "Libertine Serif", "LM Mono"),
        ("lm", "LM Roman", "LM Mono"),
        ("palatino", "Pagella", "Cursor"),
        ("times", "XITS", "Cursor"),
    ]
    page.text().rule().row(("", "Serif", "Mono"), (72.0, 200.0, 360.0)).rule()
    for row in rows:
        middle = 100 - page.canvas.stringWidth(row[0], "Helvetica", 10) / 2
        page.row(row, (middle, 200.0, 360.0), 13)
    (table,) = page.rule().gap(24).text().tables()
    assert table.rows[1:] == tuple(rows)


def code(page: Drawing) -> None:
    page.canvas.setFont("Courier", 10)
    for line in ("$ git add buggy", "$ git commit now", "$ git push origin"):
        page.rule().row((line,), (72.0,), 9)
    page.rule()


def running_head(page: Drawing) -> None:
    page.row(("Annual report", "Page 12", "14 March", "Draft")).rule().text().text()


def two_columns(page: Drawing) -> None:
    page.row(("Results", "Discussion"), (72.0, 310.0)).rule()
    for left, right in HALVES * 3:
        page.row((left, right), (72.0, 310.0), 13)


def labels(page: Drawing) -> None:
    for row in (("Customer:", "Bayside"), ("Invoice:", "INV-0046"), ("Due:", "June")):
        page.row(row, (72.0, 190.0))
        page.rule()


def form(page: Drawing) -> None:
    for left, right in (("Name", "Date of birth"), ("Street", "Town"), ("Telephone", "E-mail")):
        page.row((left, right), (72.0, 320.0), 22)
        page.rule(72, 300).gap(-4).rule(320, 520).gap(10)


def notes(page: Drawing) -> None:
    page.text().rule(69, 200).text(
        ["1  See the report of the board for 2023, p. 12.", "2  Ibid., p. 14.", "3  12 F.3d 44."]
    )


def authors(page: Drawing) -> None:
    for row in (
        ("Ann Lee", "Li Wei", "Maria Gomez"),
        ("University of Leeds", "Peking", "Lima"),
        ("UK", "China", "Peru"),
    ):
        for place, cell in zip((140, 300, 460), row, strict=True):
            page.canvas.drawCentredString(place, A4[1] - page.top, cell)
        page.gap(13)


def newsletter(page: Drawing) -> None:
    page.row(("News", "Sports", "Weather"), (72.0, 230.0, 390.0), 16)
    for left, right in HALVES * 2:
        page.row((left, right, left), (72.0, 230.0, 390.0), 13)


def choices(page: Drawing) -> None:
    for number in range(1, 5):
        page.text([f"{number}. Which of the following is right?"])
        page.row(("A. one", "B. two", "C. three", "D. four"), (90.0, 200.0, 310.0, 420.0), 16)


@pytest.mark.parametrize("draw", [running_head, two_columns, labels, form, notes, code, authors, newsletter, choices])
def test_what_looks_like_names_is_no_head_of_a_table(page: Drawing, draw: Callable[[Drawing], None]) -> None:
    draw(page)
    assert page.tables() == ()
