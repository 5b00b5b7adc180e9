"""Tables with horizontal rules only are found whole; prose between rules stays prose."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

import pytest
from reportlab.lib.pagesizes import A4
from reportlab.pdfgen.canvas import Canvas

from qwen_batch.clean import clean_document
from qwen_batch.read.pdf import read_pdf
from qwen_batch.records import CleanSteps, Document, Span, Table

PROSE = (
    "The committee met on the third of May and heard what each of its members had to say about it;",
    "most of them held that the rules should stay as they are, and that nothing is won by haste here,",
    "while two of them, who had come from far away, wanted to see the numbers before they would vote.",
)
HALVES = [
    ("The committee met on the third", "of May and heard what each of"),
    ("its members had to say about it;", "most of them held that the rules"),
    ("should stay as they are, and that", "nothing is won by haste in here,"),
    ("while two of them, who had come", "from far away, wanted to see it"),
]
METHODS = [("Direct", "simple and quick", "no guarantees"), ("Iterative", "scales well", "needs a start")]


class Drawing:
    """A page that is written from the top down."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.canvas = Canvas(str(path), pagesize=A4)
        self.canvas.setFont("Times-Roman", 10)
        self.top = 60.0

    def text(self, *texts: str, x0: float = 72.0, leading: float = 12.0) -> Drawing:
        for text in texts:
            self.row((text,), (x0,), leading)
        return self

    def row(self, cells: Sequence[str], places: Sequence[float], leading: float = 13.0) -> Drawing:
        for place, cell in zip(places, cells, strict=True):
            self.canvas.drawString(place, A4[1] - self.top, cell)
        self.top += leading
        return self

    def rule(self, x0: float = 68.0, x1: float = 440.0) -> Drawing:
        height = A4[1] - self.top + 9
        self.canvas.line(x0, height, x1, height)
        self.top += 4
        return self

    def gap(self) -> Drawing:
        self.top += 14
        return self

    def tables(self) -> tuple[Table, ...]:
        self.canvas.save()
        return read_pdf(self.path).pages[0].tables

    def clean(self) -> str:
        self.canvas.save()
        pages = read_pdf(self.path).pages
        return clean_document(Document("d", "d.pdf", "0" * 64, pages), CleanSteps()).text


@pytest.fixture
def page(tmp_path: Path) -> Drawing:
    return Drawing(tmp_path / "a.pdf")


def places(*widths: float) -> tuple[float, ...]:
    return tuple(accumulate(widths, initial=72.0))


def draw(page: Drawing, head: Sequence[str], rows: Sequence[Sequence[str] | None], columns: Sequence[float]) -> None:
    """Rules above and below the head and at the foot; None among the rows is one more."""
    page.rule().row(head, columns).rule()
    for row in rows:
        page.row(row, columns) if row else page.rule()
    page.rule().gap()


def test_words_in_columns_are_rows_with_a_head(page: Drawing) -> None:
    page.text(*PROSE).gap()
    draw(page, ("Method", "Strength", "Weakness"), METHODS, places(90, 140))
    page.text(*PROSE)
    (table,) = page.tables()
    assert table.rows == (("Method", "Strength", "Weakness"), *METHODS)
    assert table.header_rows == 1
    assert table.bbox == pytest.approx((64, 101, 444, 148), abs=1)


def test_the_table_stands_in_the_text_where_it_was(page: Drawing) -> None:
    page.text(*PROSE).gap()
    draw(page, ("Term", "Meaning"), [("Buyer", "who pays for the goods"), ("Seller", "who brings them")], places(90))
    page.text("Signed in the town.")
    prose = " ".join(PROSE)
    markdown = "| Term | Meaning |\n| --- | --- |\n| Buyer | who pays for the goods |\n| Seller | who brings them |"
    assert page.clean() == f"{prose}\n\n{markdown}\n\nSigned in the town."


def test_two_tables_of_one_width_are_two(page: Drawing) -> None:
    draw(page, ("Model", "Time"), [("Base", "0.1"), None, ("Large", "0.9")], places(90))
    page.text("Table 2: the same methods by what they need")
    draw(page, ("Model", "Memory"), [("Base", "12"), ("Large", "40")], places(90))
    assert [table.rows for table in page.tables()] == [
        (("Model", "Time"), ("Base", "0.1"), ("Large", "0.9")),
        (("Model", "Memory"), ("Base", "12"), ("Large", "40")),
    ]


def test_a_head_of_two_lines_and_names_over_several_columns(page: Drawing) -> None:
    columns = places(90, 60, 60, 60)
    page.rule()
    page.row(("First year", "Second year"), (175.0, 295.0)).rule(158, 270).rule(278, 440)
    page.row(("", "Number of", "", "Number of", ""), columns)
    page.row(("Region", "people", "Share", "people", "Share"), columns).rule()
    page.row(("North", "12", "20 %", "14", "22 %"), columns).row(("South", "48", "80 %", "49", "78 %"), columns).rule()
    (table,) = page.tables()
    assert table.rows[:2] == (
        ("", "First year", "", "Second year", ""),
        ("Region", "Number of\npeople", "Share", "Number of\npeople", "Share"),
    )
    assert (table.header_rows, table.spans) == (2, (Span(0, 1, 1, 2), Span(0, 3, 1, 2)))


def test_a_cell_that_goes_on_is_one(page: Drawing) -> None:
    columns = places(80)
    page.rule().row(("Term", "Meaning"), columns).rule()
    page.row(("Buyer", "the person who pays for what is deliv-"), columns).row(
        ("", "ered under this contract"), columns
    )
    page.row(("Goods", "what Annex A lists"), columns).rule().gap()
    assert "| Buyer | the person who pays for what is delivered under this contract |" in page.clean()


def test_rules_between_all_rows_make_rows(page: Drawing) -> None:
    columns = places(80, 150)
    page.rule().row(("Item", "What it is", "Where"), columns).rule()
    page.row(("", "a chair", "the hall"), columns).row(("One", "", ""), columns).row(("", "of oak", ""), columns).rule()
    page.row(("Two", "a table", "the hall,"), columns).row(("", "", "upstairs"), columns).rule()
    (table,) = page.tables()
    assert table.rows[1:] == (("One", "a chair\nof oak", "the hall"), ("Two", "a table", "the hall,\nupstairs"))


def test_beside_a_column_of_prose(page: Drawing) -> None:
    columns = places(60, 70)
    for cells in (None, ("Model", "Speed", "Memory"), None, ("Base", "0.1", "low"), ("Large", "0.9", "high"), None):
        if cells is None:
            page.rule(68, 260)
        else:
            page.row((*cells, "and what they had to say about it all"), (*columns, 290.0))
    (table,) = page.tables()
    assert table.rows == (("Model", "Speed", "Memory"), ("Base", "0.1", "low"), ("Large", "0.9", "high"))


def _sections(page: Drawing) -> None:
    for title in ("1   Delivery", "2   Payment", "3   Term"):
        page.rule().text(title).rule().text(*PROSE).gap()


def _running_heads(page: Drawing) -> None:
    page.rule().row(("Report of the committee", "Page 7"), (72.0, 400.0)).rule()
    for _ in range(6):
        page.text(*PROSE)
    page.rule().text("1 So they say, at least.").rule()


def _columns_of_prose(page: Drawing) -> None:
    page.rule().row(("Report", "Page 7"), (72.0, 260.0)).rule()
    for _ in range(6):
        for half in HALVES:
            page.row(half, (72.0, 260.0))
    page.rule()


def _footnotes(page: Drawing) -> None:
    for _ in range(4):
        page.text(*PROSE).rule(68, 180).row(("1", "So they say, at least."), (72.0, 90.0)).gap()


def _steps(page: Drawing) -> None:
    page.rule().text("Algorithm 1: how to vote").rule()
    page.text("for each member:").text("hear what it has to say", "count", x0=90).text("close").rule()


def _career(page: Drawing) -> None:
    for title in ("Work", "Schools", "Prizes", "Places"):
        page.rule()
        for number in range(3):
            page.row((f"{title} of a town", f"{2010 + number}"), (72.0, 380.0))


def _wider_than_the_rules(page: Drawing) -> None:
    for _ in range(4):
        page.rule(68, 200).row(("The name of whoever signs here", "and the date of signing"), (72.0, 320.0))


@pytest.mark.parametrize(
    "drawn", [_sections, _running_heads, _columns_of_prose, _footnotes, _steps, _career, _wider_than_the_rules]
)
def test_prose_between_rules_is_no_table(page: Drawing, drawn: object) -> None:
    assert callable(drawn)
    drawn(page)
    assert page.tables() == ()


def test_the_last_row_may_stand_below_the_last_stripe(tmp_path: Path) -> None:
    rows = [("Part", "Colour", "Size", "Stock"), *((f"{each}-100", "Red", "Large", "7") for each in "ABCDE")]
    canvas = Canvas(str(tmp_path / "a.pdf"), pagesize=A4)
    for number, row in enumerate(rows):
        if number % 2 == 0:
            canvas.setFillGray(0.9)
            canvas.rect(70, 696 - 14 * number, 400, 14, stroke=0, fill=1)
        canvas.setFillGray(0)
        for place, cell in zip((72, 180, 280, 400), row, strict=True):
            canvas.drawString(place, 700 - 14 * number, cell)
    canvas.drawString(72, 700 - 14 * len(rows) - 20, "All parts are made to order, and may be late.")
    canvas.save()
    assert [table.rows for table in read_pdf(tmp_path / "a.pdf").pages[0].tables] == [tuple(rows)]


def test_below_a_table_in_boxes_a_table_of_that_width_is_one_of_its_own(page: Drawing) -> None:
    """Its labels stand beside the last line of what they name."""
    columns = places(90)
    page.canvas.grid([68, 158, 440], [A4[1] - 51 - 17 * number for number in range(4)])
    for cells in (("Clause", "Text"), ("1", "The goods are delivered"), ("2", "The price is paid")):
        page.row(cells, columns, 17)
    page.gap()
    page.rule().row(("Clause", "Text"), columns).rule()
    for text, label in (("The supplier shall", "1"), ("The buyer shall pay", "2")):
        page.row((text,), (162.0,), 11).row((label, "within thirty days"), columns, 18)
    page.rule()
    assert [table.rows for table in page.tables()] == [
        (("Clause", "Text"), ("1", "The goods are delivered"), ("2", "The price is paid")),
        (
            ("Clause", "Text"),
            ("1", "The supplier shall\nwithin thirty days"),
            ("2", "The buyer shall pay\nwithin thirty days"),
        ),
    ]


def test_a_box_below_a_head_in_cells_holds_rows(page: Drawing) -> None:
    columns = places(90, 120, 120)
    for x in (68, 158, 278, 398, 500):
        page.canvas.line(x, A4[1] - 51, x, A4[1] - (51 if 68 < x < 500 else 258))
    for x in (158, 278, 398):
        page.canvas.line(x, A4[1] - 51, x, A4[1] - 68)
    for y in (51, 68, 258):
        page.canvas.line(68, A4[1] - y, 500, A4[1] - y)
    page.canvas.saveState()
    page.canvas.translate(510, A4[1] - 200)
    page.canvas.rotate(90)
    page.canvas.drawString(0, 0, "B-1191")
    page.canvas.restoreState()
    rows = [(f"DHA{number:03}", "CITIBANK", "AIRFARE", f"{number}11.49") for number in range(1, 15)]
    page.row(("Number", "Payee", "What for", "Amount"), columns, 17)
    for row in rows:
        page.row(row, columns)
    (table,) = page.tables()
    assert table.rows == (("Number", "Payee", "What for", "Amount"), *rows)
    assert table.header_rows == 1


def test_rules_within_a_table_make_no_second_one(page: Drawing) -> None:
    rows = [("Address", "First", "Second"), ("Line 1", "Street", "Street with number"), ("Line 2", "Number", "Town")]
    for row in [*rows, None]:
        page.rule(68, 150)
        page.top -= 4
        page.rule(158, 440)
        if row:
            page.row(row, places(90, 130))
    (table,) = page.tables()
    assert table.rows == tuple(rows)
