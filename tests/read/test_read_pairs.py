"""Labels and amounts without rules are tables of two columns; contents, indexes and equations are not."""

from __future__ import annotations

from pathlib import Path

import pytest
from reportlab.lib.pagesizes import A4
from reportlab.pdfgen.canvas import Canvas

from qwen_batch.read.pdf import read_pdf
from qwen_batch.records import Table

Pairs = list[tuple[str, str]]


def tables_of(
    path: Path,
    rows: Pairs,
) -> list[Table]:
    """The tables of a page with labels at the left and what goes with them flush right."""
    canvas = Canvas(str(path), pagesize=A4)
    canvas.setFont("Helvetica", 10)
    canvas.drawString(72, 740, "A sentence in front of the table, which says what it shows.")
    for number, (label, amount) in enumerate(rows):
        canvas.drawString(72, 700 - 14 * number, label)
        canvas.drawRightString(400, 700 - 14 * number, amount)
    canvas.drawString(72, 700 - 14 * len(rows) - 20, "This is the sum of what is owed.")
    canvas.save()
    return list(read_pdf(path).pages[0].tables)


@pytest.mark.parametrize(
    "rows",
    [
        [("Subtotal:", "$127.50"), ("Tax (0%):", "$0.00"), ("Total:", "$127.50")],
        [
            ("Age group", "Share"),
            ("20-29", "0.2650"),
            ("30-39", "0.2046"),
            ("40-49", "0.1477"),
            ("80 and more", "0.03"),
        ],
        [("", "2024"), ("Cash and equivalents", "12"), ("Land", "1,250"), ("Cars", "(30)"), ("Total", "1,232")],
        [("Miete", "1.200,00 €"), ("Strom", "85,40 €"), ("Wasser", "31,00 €"), ("Summe", "1.316,40 €")],
    ],
    ids=["sums", "shares", "year", "euros"],
)
def test_labels_and_amounts_are_a_table(tmp_path: Path, rows: Pairs) -> None:
    (table,) = tables_of(tmp_path / "a.pdf", rows)
    assert table.rows == tuple(rows)


def test_leaders_belong_to_the_label(tmp_path: Path) -> None:
    amounts = {"Rent": "1,200.00", "Power": "85.40", "Sum": "1,285.40"}
    (table,) = tables_of(tmp_path / "a.pdf", [(f"{label} {'.' * 60}", amount) for label, amount in amounts.items()])
    assert [row[1] for row in table.rows] == [*amounts.values()]


@pytest.mark.parametrize(
    "rows",
    [
        [(f"Chapter {number} {'.' * 60}", str(number * 7)) for number in range(1, 9)],
        [(name, str(number * 11)) for number, name in enumerate(("Appeal", "Bond", "Claim", "Damages", "Escrow"), 1)],
        [(f"a + b = {number}", f"({number}.1)") for number in range(1, 7)],
        [("Date: 1 May 2024", "12.50"), ("Dear Sir or Madam,", "3.10")],
    ],
    ids=["contents", "index", "equations", "two lines"],
)
def test_other_numbers_at_line_ends_are_no_table(tmp_path: Path, rows: Pairs) -> None:
    assert tables_of(tmp_path / "a.pdf", rows) == []
