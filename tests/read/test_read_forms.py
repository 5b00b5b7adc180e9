"""What was filled into a form is part of what the document says."""

from __future__ import annotations

from pathlib import Path

import pytest
from reportlab.pdfgen.canvas import Canvas

from qwen_batch.read.pdf import read_pdf


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
