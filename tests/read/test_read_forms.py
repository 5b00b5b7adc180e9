"""What was filled into a form is part of what the document says."""

from __future__ import annotations

from pathlib import Path

import pytest
from raw_pdf import write_pages
from reportlab.pdfgen.canvas import Canvas

from qwen_batch.clean import clean_document
from qwen_batch.read.page.forms import Field, is_held, with_fields
from qwen_batch.read.pdf import read_pdf
from qwen_batch.records import CleanSteps, Document, Line, Table


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
    assert lines == ["Name: Ana Perez", "City:", "Note: copy 2 of 3", "paid   [x]", "open   [ ]"]


def read_lines(path: Path) -> list[str]:
    (page,) = read_pdf(path).pages
    return [line.text for line in page.lines]


def test_values_widen_their_line(form: Path) -> None:
    (value,) = [line for line in read_pdf(form).pages[0].lines if "Ana Perez" in line.text]
    assert value.bbox == pytest.approx((72, 842 - 712, 210, 842 - 698), abs=10)


def test_the_chosen_option_has_its_label_beside_it(tmp_path: Path) -> None:
    canvas = Canvas(str(tmp_path / "pay.pdf"))
    for x, text in [(72, "Pay:"), (180, "cash"), (280, "card")]:
        canvas.drawString(x, 580, text)
    for x, value in [(150, "cash"), (250, "card")]:
        canvas.acroForm.radio(name="pay", value=value, selected=value == "card", x=x, y=575)
    canvas.save()
    assert read_lines(tmp_path / "pay.pdf") == ["Pay:   [ ] cash   [x] card"]


def test_boxes_are_not_shown_where_none_is_ticked(tmp_path: Path) -> None:
    canvas = Canvas(str(tmp_path / "blank.pdf"))
    canvas.drawString(180, 580, "cash")
    canvas.acroForm.checkbox(name="cash", x=150, y=575)
    canvas.save()
    assert read_lines(tmp_path / "blank.pdf") == ["cash"]


def test_a_box_takes_the_place_of_the_sign_that_the_page_draws(tmp_path: Path) -> None:
    canvas = Canvas(str(tmp_path / "signs.pdf"))
    for x, text in [(72, "\u2022"), (90, "gas"), (150, "\u2022"), (168, "diesel")]:
        canvas.drawString(x, 580, text)
    canvas.acroForm.checkbox(name="gas", x=67, y=576, size=14)
    canvas.acroForm.checkbox(name="diesel", checked=True, x=145, y=576, size=14)
    canvas.save()
    assert read_lines(tmp_path / "signs.pdf") == ["[ ] gas", "[x] diesel"]


def test_values_below_a_row_of_labels(tmp_path: Path) -> None:
    canvas = Canvas(str(tmp_path / "row.pdf"))
    for x, label, value in [(72, "First name", "Ana"), (200, "Last name", ""), (330, "Born", "1990")]:
        canvas.drawString(x, 700, label)
        canvas.acroForm.textfield(name=label, value=value, x=x, y=678, width=100, height=18)
    canvas.save()
    assert read_lines(tmp_path / "row.pdf") == ["First name Ana   Last name   Born 1990"]


def test_labels_below_lines_to_write_on(tmp_path: Path) -> None:
    canvas = Canvas(str(tmp_path / "signed.pdf"))
    canvas.drawString(72, 700, "_" * 30 + "   " + "_" * 20)
    for x, label, value in [(72, "(Signature)", "Ana Perez"), (290, "(Date)", "2 May")]:
        canvas.drawString(x, 686, label)
        canvas.acroForm.textfield(name=label, value=value, x=x, y=700, width=110, height=14)
    canvas.save()
    lines = read_lines(tmp_path / "signed.pdf")
    assert lines[-1] == "(Signature) Ana Perez   (Date) 2 May"


def test_a_line_to_write_on_gives_way_to_what_stands_on_it(tmp_path: Path) -> None:
    canvas = Canvas(str(tmp_path / "rule.pdf"))
    canvas.drawString(72, 700, "Dealer: " + "_" * 20 + " Number: " + "_" * 10)
    canvas.acroForm.textfield(name="d", value="Acme", x=118, y=698, width=120, height=16)
    canvas.save()
    (line,) = read_lines(tmp_path / "rule.pdf")
    assert " ".join(line.split()) == "Dealer: Acme Number: " + "_" * 10


def test_several_lines_of_a_value_stay_apart(tmp_path: Path) -> None:
    canvas = Canvas(str(tmp_path / "notes.pdf"))
    canvas.drawString(72, 500, "Notes:")
    value = "line one\nline two"
    canvas.acroForm.textfield(name="n", value=value, x=150, y=450, width=200, height=60, fieldFlags="multiline")
    canvas.drawString(72, 420, "The end.")
    canvas.save()
    content = read_pdf(tmp_path / "notes.pdf")
    cleaned = clean_document(Document("a", "a.pdf", "", content.pages), CleanSteps())
    assert cleaned.pages[0].text == "Notes:\nline one\nline two\nThe end."


def test_several_lines_stand_behind_the_label_to_their_left(tmp_path: Path) -> None:
    """Not behind the line above, though that is nearer."""
    canvas = Canvas(str(tmp_path / "remarks.pdf"))
    for y, text in [(630, "Languages"), (590, "Remarks"), (490, "End of the form")]:
        canvas.drawString(50, y, text)
    canvas.acroForm.textfield(name="a", value="English, German", x=150, y=625, width=150, height=17)
    canvas.acroForm.textfield(
        name="b", value="Line one\nLine two", x=150, y=540, width=250, height=55, fieldFlags="multiline"
    )
    canvas.save()
    lines = ["Languages English, German", "Remarks", "Line one", "Line two", "End of the form"]
    assert read_lines(tmp_path / "remarks.pdf") == lines


def cleaned_text(path: Path) -> str:
    return clean_document(Document("a", "a.pdf", "", read_pdf(path).pages), CleanSteps()).pages[0].text


def test_a_line_ends_after_its_value(tmp_path: Path) -> None:
    canvas = Canvas(str(tmp_path / "lines.pdf"))
    rows = [("Name of the applicant", "Ana Perez"), ("Date of birth", "3 April 1985"), ("Address", "12 Elm Street")]
    for number, (label, value) in enumerate(rows):
        canvas.drawString(72, 700 - 20 * number, label)
        canvas.acroForm.textfield(name=label, value=value, x=260, y=696 - 20 * number, width=250, height=16)
    canvas.save()
    lines = ["Name of the applicant Ana Perez", "Date of birth 3 April 1985", "Address 12 Elm Street"]
    assert cleaned_text(tmp_path / "lines.pdf").split("\n") == lines


def test_prose_goes_on_around_values(tmp_path: Path) -> None:
    canvas = Canvas(str(tmp_path / "prose.pdf"))
    canvas.drawString(72, 700, "This lease is made between the landlord and" + " " * 37 + ", who rents the flat")
    canvas.drawString(72, 686, "above from the day on which the keys are handed over, and pays by the month at the")
    canvas.drawString(72, 672, "beginning of each of them.")
    canvas.acroForm.textfield(name="t", value="Ana Perez", x=315, y=697, width=118, height=14)
    canvas.save()
    text = cleaned_text(tmp_path / "prose.pdf")
    assert "landlord and Ana Perez" in text
    assert text.replace("   ", " ").endswith(
        "rents the flat above from the day on which the keys are handed over, "
        "and pays by the month at the beginning of each of them."
    )


def test_rows_of_fields_below_the_names_of_their_columns(tmp_path: Path) -> None:
    canvas = Canvas(str(tmp_path / "rows.pdf"))
    for x, name, values in [
        (72, "Employer", ("Acme", "Beta")),
        (200, "From", ("2010", "2015")),
        (300, "To", ("2015", "")),
    ]:
        canvas.drawString(x, 700, name)
        for number, value in enumerate(values):
            canvas.acroForm.textfield(name=f"{x}{number}", value=value, x=x, y=678 - 20 * number, width=90, height=16)
    canvas.save()
    assert read_lines(tmp_path / "rows.pdf") == ["Employer   From   To", "Acme   2010   2015", "Beta   2015"]


def test_what_the_page_draws_itself_is_not_said_twice(tmp_path: Path) -> None:
    canvas = Canvas(str(tmp_path / "flat.pdf"))
    canvas.drawString(72, 700, "Name:")
    canvas.drawString(152, 699, "Ana Perez")
    canvas.acroForm.textfield(name="n", value="Ana Perez", x=150, y=694, width=200, height=20)
    canvas.save()
    assert read_lines(tmp_path / "flat.pdf") == ["Name:   Ana Perez"]


def test_a_list_shows_what_is_chosen_and_not_its_code(tmp_path: Path) -> None:
    canvas = Canvas(str(tmp_path / "list.pdf"))
    canvas.drawString(72, 620, "Colour:")
    options = [("Red", "r"), ("Blue", "b")]
    canvas.acroForm.choice(name="c", value="b", options=options, x=150, y=612, width=100, height=20)
    canvas.save()
    assert read_lines(tmp_path / "list.pdf") == ["Colour: Blue"]


def test_hidden_fields_are_not_read(tmp_path: Path) -> None:
    canvas = Canvas(str(tmp_path / "hidden.pdf"))
    canvas.drawString(72, 620, "Total:")
    canvas.acroForm.textfield(name="t", value="0", x=150, y=612, width=100, height=20, annotationFlags="hidden")
    canvas.save()
    assert read_lines(tmp_path / "hidden.pdf") == ["Total:"]


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
    held, lost = (Field(text, (10, 10, 40, 20)) for text in ("a", "950.00"))
    assert (is_held(held, [table]), is_held(lost, [table])) == (True, False)
    lines = with_fields([Line("Rent", (0, 10, 9, 20))], [lost], [table])
    assert [(line.text, line.bbox is None) for line in lines] == [("Rent", False), ("950.00", True)]


def test_what_was_typed_over_a_page_is_read(tmp_path: Path) -> None:
    typed = "<< /Type /Annot /Subtype /FreeText /Rect [150 690 300 712] /Contents (Ana Perez) /F {flags} >>"
    notes = typed.format(flags=4), typed.format(flags=2).replace("Ana", "Hidden")
    path = write_pages(tmp_path / "typed.pdf", ["BT /F 12 Tf 72 700 Td (Name:) Tj ET"], f"/Annots [{' '.join(notes)}]")
    assert [line.text for line in read_pdf(path).pages[0].lines] == ["Name: Ana Perez"]
