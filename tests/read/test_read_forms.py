"""What was filled into a form is part of what the document says."""

from __future__ import annotations

from pathlib import Path

import pytest
from raw_pdf import write_pages
from reportlab.pdfgen.canvas import Canvas

from qwen_batch.read.page.forms import with_fields
from qwen_batch.read.pdf import read_pdf
from qwen_batch.records import Line, Table


@pytest.fixture
def form(tmp_path: Path) -> Path:
    canvas = Canvas(str(tmp_path / "form.pdf"))
    fields = canvas.acroForm
    for number, (label, value) in enumerate([("Name:", "Ana Perez"), ("City:", ""), ("Note:", "copy 2 of 3")]):
        canvas.drawString(72, 700 - 40 * number, label)
        fields.textfield(name=label, value=value, x=150, y=694 - 40 * number, width=200, height=20)
    for number, (label, ticked) in enumerate([("paid", True), ("open", False)]):
        canvas.drawString(72, 560 - 40 * number, label)
        fields.checkbox(name=label, checked=ticked, x=150, y=556 - 40 * number, size=14)
    canvas.save()
    return tmp_path / "form.pdf"


def test_values_stand_after_their_labels(form: Path) -> None:
    lines = [line.text for line in read_pdf(form).pages[0].lines]
    assert lines == ["Name:", "Ana Perez", "City:", "Note:", "copy 2 of 3", "paid", "[x]", "open"]


def test_values_keep_their_place_on_the_page(form: Path) -> None:
    (value,) = [line for line in read_pdf(form).pages[0].lines if line.text == "Ana Perez"]
    assert value.bbox is not None
    assert value.bbox[:2] == pytest.approx((150, 842 - 714), abs=3)


def test_a_password_is_not_told(tmp_path: Path) -> None:
    canvas = Canvas(str(tmp_path / "secret.pdf"))
    canvas.drawString(72, 700, "Password:")
    canvas.acroForm.textfield(name="p", value="hunter2", x=150, y=694, width=200, height=20, fieldFlags="password")
    canvas.save()
    assert [line.text for line in read_pdf(tmp_path / "secret.pdf").pages[0].lines] == ["Password:"]


def test_values_stand_in_the_cells_of_a_table(tmp_path: Path) -> None:
    canvas = Canvas(str(tmp_path / "table.pdf"))
    canvas.grid([72, 172, 272, 372], [640, 670, 700])
    for x, y, text in [(80, 680, "Item"), (180, 680, "Amount:"), (280, 680, "Paid"), (80, 650, "Rent")]:
        canvas.drawString(x, y, text)
    canvas.acroForm.textfield(name="a", value="950.00", x=176, y=644, width=90, height=20)
    canvas.acroForm.textfield(name="b", value="monthly", x=225, y=674, width=45, height=20)
    canvas.acroForm.checkbox(name="c", checked=True, x=300, y=648, size=14)
    canvas.save()
    (page,) = read_pdf(tmp_path / "table.pdf").pages
    assert page.tables[0].rows == (("Item", "Amount: monthly", "Paid"), ("Rent", "950.00", "[x]"))


def test_a_value_that_is_in_no_cell_stays_in_the_text() -> None:
    table = Table((("a", "b"),), (0, 0, 100, 40))
    held, lost = (Line(text, (10, 10, 40, 20)) for text in ("a", "950.00"))
    lines = with_fields([Line("Rent", (0, 10, 9, 20))], [held, lost], [table])
    assert [(line.text, line.bbox is None) for line in lines] == [("Rent", False), ("a", False), ("950.00", True)]


def test_what_was_typed_over_a_page_is_read(tmp_path: Path) -> None:
    typed = "<< /Type /Annot /Subtype /FreeText /Rect [150 690 300 712] /Contents (Ana Perez) /F {flags} >>"
    notes = typed.format(flags=4), typed.format(flags=2).replace("Ana", "Hidden")
    path = write_pages(tmp_path / "typed.pdf", ["BT /F 12 Tf 72 700 Td (Name:) Tj ET"], f"/Annots [{' '.join(notes)}]")
    assert [line.text for line in read_pdf(path).pages[0].lines] == ["Name:", "Ana Perez"]
