"""Tables without rules: found by the white between their columns, and nothing else is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from conftest import WritePdf
from reportlab.lib.pagesizes import A4
from reportlab.pdfgen.canvas import Canvas

from qwen_batch.read.pdf import read_pdf
from qwen_batch.records import Span

ROWS = [
    ("Region", "2023", "2024", "Change"),
    ("North of the river", "1,204", "1,310", "8.8%"),
    ("South", "845", "(X)", "–"),
    ("East and West", "2,003", "1,998", "-0.2%"),
    ("Total ........", "4,052", "3,308", "*4.1%"),
    ("Of these paid", "12", "14", "16.7%"),
]
LABELS = [72.0, 260.0, 330.0, 400.0]


def draw_rows(canvas: Canvas, rows: Sequence[Sequence[str]], top: float, leading: float) -> None:
    """The first cells flush left, the others flush right."""
    for number, row in enumerate(rows):
        canvas.drawString(LABELS[0], top - leading * number, row[0])
        for place, cell in zip(LABELS[1:], row[1:], strict=True):
            canvas.drawRightString(place + 40, top - leading * number, cell)


@pytest.fixture
def pdf(tmp_path: Path) -> Path:
    """A sentence, an unruled table with numbers flush right, a sentence."""
    canvas = Canvas(str(tmp_path / "a.pdf"), pagesize=A4)
    canvas.setFont("Helvetica", 10)
    canvas.drawString(72, 700, "The table below shows what was sold in both years, by region and in thousands.")
    draw_rows(canvas, ROWS, 670, 13)
    canvas.drawString(72, 560, "What was sold in 2024 is not yet audited, and may change.")
    canvas.save()
    return tmp_path / "a.pdf"


def test_an_unruled_table_is_found_where_it_stands(pdf: Path) -> None:
    (page,) = read_pdf(pdf).pages
    (table,) = page.tables
    assert table.rows == tuple(ROWS)
    assert table.bbox == pytest.approx((71, A4[1] - 678, 441, A4[1] - 602), abs=4)


def test_tables_can_be_switched_off(pdf: Path) -> None:
    assert read_pdf(pdf, tables=False).pages[0].tables == ()


@pytest.mark.parametrize(
    "lines",
    [
        [
            f"{number}.{part} A clause with 30 days, {number * 7} per cent and EUR {number}00"
            for number in range(4)
            for part in range(3)
        ],
        [f"Chapter {number} {'. ' * 30} {number * 12}" for number in range(1, 12)],
        [f"2024-01-{day:02} 12:30:{day:02} INFO worker {day} took {day * 17} ms" for day in range(1, 15)],
        [f"Flat {number}, {number * 3} Long Road, London N{number} 4AB" for number in range(1, 12)],
    ],
    ids=["clauses", "contents", "log", "addresses"],
)
def test_text_with_numbers_is_no_table(write_pdf: WritePdf, lines: list[str]) -> None:
    assert read_pdf(write_pdf([lines])).pages[0].tables == ()


def test_a_head_over_several_columns_says_so(tmp_path: Path) -> None:
    canvas = Canvas(str(tmp_path / "a.pdf"), pagesize=A4)
    canvas.drawString(262, 713, "Sold in each of these years")
    draw_rows(canvas, ROWS, 700, 13)
    canvas.save()
    (table,) = read_pdf(tmp_path / "a.pdf").pages[0].tables
    assert table.rows[0] == ("", "Sold in each of these years", "", "")
    assert (table.spans, table.header_rows) == ((Span(0, 1, 1, 3),), 2)


def test_a_label_that_ends_in_a_number_is_one_cell(tmp_path: Path) -> None:
    canvas = Canvas(str(tmp_path / "a.pdf"), pagesize=A4)
    rows = [
        ("Name", "Number", "Price"),
        *((f"Item {number}", str(number * 3), f"{number}.00") for number in range(1, 9)),
    ]
    for number, row in enumerate(rows):
        for place, cell in zip(LABELS, row, strict=False):
            canvas.drawString(place, 700 - 13 * number, cell)
    canvas.save()
    (table,) = read_pdf(tmp_path / "a.pdf").pages[0].tables
    assert table.rows == tuple(rows)


def test_signs_of_currency_stand_with_their_numbers(tmp_path: Path) -> None:
    canvas = Canvas(str(tmp_path / "a.pdf"), pagesize=A4)
    amounts = [("Cash", "1,204", "1,310"), ("Land", "845", "12"), ("Cars", "(33)", "98"), ("Total", "2,016", "1,420")]
    for number, row in enumerate(amounts):
        canvas.drawString(72, 700 - 13 * number, row[0])
        for place, cell in zip((260, 400), row[1:], strict=True):
            canvas.drawString(place - 60, 700 - 13 * number, "$" if number in (0, 3) else "")
            canvas.drawRightString(place, 700 - 13 * number, cell)
    canvas.save()
    (table,) = read_pdf(tmp_path / "a.pdf").pages[0].tables
    assert table.rows[0] == ("Cash", "$ 1,204", "$ 1,310")
    assert table.rows[2] == ("Cars", "(33)", "98")


def test_a_title_may_stand_between_the_head_and_the_numbers(tmp_path: Path) -> None:
    canvas = Canvas(str(tmp_path / "a.pdf"), pagesize=A4)
    rows = [ROWS[0], ("Sold abroad", "", "", ""), *ROWS[1:4], ("Sold at home", "", "", ""), *ROWS[5:]]
    draw_rows(canvas, rows, 700, 13)
    canvas.save()
    (table,) = read_pdf(tmp_path / "a.pdf").pages[0].tables
    assert (table.rows, table.header_rows) == (tuple(rows), 1)


def _rows_of_numbers(canvas: Canvas, rows: Sequence[Sequence[str]], top: float, *places: float) -> None:
    for number, row in enumerate(rows):
        for place, cell in zip(places, row, strict=True):
            canvas.drawString(place, top - 14 * number, cell)


def test_a_few_rows_at_the_top_of_the_next_page_go_on(tmp_path: Path) -> None:
    head, rows = ("Name", "Number", "Price"), [(f"Item {each}", str(each), f"{each}.00") for each in range(1, 31)]
    canvas = Canvas(str(tmp_path / "a.pdf"), pagesize=A4)
    for page, part in enumerate((rows[:27], rows[27:]), 1):
        canvas.drawString(72, 800, "A running head of the report")
        _rows_of_numbers(canvas, [head, *part], 740, *LABELS[:3])
        if page == 2:
            canvas.drawString(72, 600, "Prose goes on below, in a line of its own.")
        canvas.drawCentredString(300, 40, str(page))
        canvas.showPage()
    canvas.save()
    first, second = read_pdf(tmp_path / "a.pdf").pages
    assert [table.rows for table in first.tables] == [(head, *rows[:27])]
    assert [(table.rows, table.header_rows) for table in second.tables] == [((head, *rows[27:]), 1)]


def test_tables_side_by_side_are_two(tmp_path: Path) -> None:
    left = [("Asset", "Value"), ("Cash", "100"), ("Land", "250"), ("Cars", "30")]
    right = [("Debt", "Amount"), ("Loan", "80"), ("Tax", "(25)"), ("Rent", "3")]
    canvas = Canvas(str(tmp_path / "a.pdf"), pagesize=A4)
    _rows_of_numbers(canvas, left, 700, 72, 170)
    _rows_of_numbers(canvas, right, 700, 330, 430)
    canvas.save()
    assert [table.rows for table in read_pdf(tmp_path / "a.pdf").pages[0].tables] == [tuple(left), tuple(right)]


def test_lines_centred_on_a_table_entitle_it(tmp_path: Path) -> None:
    canvas = Canvas(str(tmp_path / "a.pdf"), pagesize=A4)
    canvas.setFont("Helvetica", 10)
    canvas.drawCentredString(256, 719, "DISCHARGE IN CUBIC FEET")
    canvas.drawCentredString(256, 709, "DAILY MEAN VALUES")
    rows = [("DAY", "OCT", "NOV", "DEC"), *((str(day), f"{day * 71}", f"{day * 89}", "720") for day in range(1, 7))]
    for number, row in enumerate(rows):
        for place, cell in zip((72, 180, 300, 420), row, strict=True):
            canvas.drawString(place, 696 - 13 * number, cell)
    canvas.save()
    (page,) = read_pdf(tmp_path / "a.pdf").pages
    assert [table.rows for table in page.tables] == [tuple(rows)]
    assert [line.text for line in page.lines[:2]] == ["DISCHARGE IN CUBIC FEET", "DAILY MEAN VALUES"]


def test_a_table_in_a_column_of_prose(tmp_path: Path) -> None:
    canvas = Canvas(str(tmp_path / "a.pdf"), pagesize=A4)
    canvas.setFont("Times-Roman", 10)
    rows = [("Metal", "Mass", "Price"), *((f"Metal {each}", f"{each}.25", f"{each * 7}.5") for each in range(1, 6))]
    for number in range(24):
        canvas.drawString(320, 700 - 12 * number, "of what the committee heard from its members in May")
        if not 8 <= number < 8 + len(rows):
            canvas.drawString(72, 700 - 12 * number, "and two of them, who had come from far away, wanted")
    for number, row in enumerate(rows, 8):
        for place, cell in zip((80, 160, 230), row, strict=True):
            canvas.drawString(place, 700 - 12 * number, cell)
    canvas.save()
    assert [table.rows for table in read_pdf(tmp_path / "a.pdf").pages[0].tables] == [tuple(rows)]


@pytest.mark.parametrize(
    "rows",
    [
        [
            ("Item", "Qty", "Price", "Total"),
            ("Apples", "3", "1.00", "3.00"),
            ("Pears", "", "2.50", ""),
            ("Late fee", "1", "(5.00)", "(5.00)"),
            ("", "", "", "(2.00)"),
        ],
        [("Class", "2007", "2008", "2009"), ("Small", "4,921", "5,467", "6,152"), ("Large", "76", "81", "86")],
    ],
    ids=["empty cells and a sum", "years"],
)
def test_two_full_rows_below_the_names_of_their_columns_make_a_table(
    tmp_path: Path, rows: list[tuple[str, ...]]
) -> None:
    canvas = Canvas(str(tmp_path / "a.pdf"), pagesize=A4)
    canvas.drawString(72, 730, "Every fee is listed below.")
    draw_rows(canvas, rows, 700, 16)
    canvas.drawString(72, 600, "What stands below is text again.")
    canvas.save()
    (table,) = read_pdf(tmp_path / "a.pdf").pages[0].tables
    assert (table.rows, table.header_rows) == (tuple(rows), 1)


def test_the_second_line_of_a_caption_is_no_head(tmp_path: Path) -> None:
    canvas = Canvas(str(tmp_path / "a.pdf"), pagesize=A4)
    canvas.drawString(72, 740, "Table 3. What was sold in both years and in all regions that there are,")
    canvas.drawString(160, 727, "in thousands, without duties")
    _rows_of_numbers(canvas, ROWS, 704, *LABELS)
    canvas.save()
    (table,) = read_pdf(tmp_path / "a.pdf").pages[0].tables
    assert table.rows == tuple(ROWS)
