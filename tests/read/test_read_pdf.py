"""PDF files: text, places, tables, and files that hold nothing to read."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image
from raw_pdf import write_pages
from reportlab.lib import colors
from reportlab.lib.pagesizes import A4
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import Table, TableStyle

from qwen_batch.errors import DocumentError
from qwen_batch.read import pdf
from qwen_batch.read.items import FileItem, Task
from qwen_batch.read.page.chars import PageChars
from qwen_batch.read.page.file import PdfPage
from qwen_batch.read.page.lines import iter_lines
from qwen_batch.read.page.turn import PageView
from qwen_batch.read.pdf import read_pdf
from qwen_batch.readers import read_and_clean
from qwen_batch.records import CleanSteps, Span

WritePdf = Callable[..., Path]
HELLO = "BT /F 12 Tf 72 700 Td (Hello) Tj ET"


def error_of(path: Path, **settings: object) -> DocumentError:
    with pytest.raises(DocumentError) as caught:
        read_pdf(path, **settings)  # type: ignore[arg-type]
    return caught.value


def test_lines_and_their_places(write_pdf: WritePdf) -> None:
    content = read_pdf(write_pdf([["First line", "Second line"], ["Next page"]]))
    first, second = content.pages[0].lines
    assert [page.text for page in content.pages] == ["First line\nSecond line", "Next page"]
    assert first.font_size == second.font_size == 12
    assert first.bbox is not None
    assert second.bbox is not None
    assert first.bbox[0] == pytest.approx(72, abs=1.5)
    assert first.bbox[3] == pytest.approx(84 + 0.2 * 12, abs=0.1)
    assert second.bbox[3] - first.bbox[3] == pytest.approx(14, abs=0.1)
    assert (content.pages[0].width, content.pages[0].height) == pytest.approx(A4, abs=0.1)


def test_places_on_a_rotated_page(write_pdf: WritePdf) -> None:
    """They are those of the frame in which the text is upright."""
    from pypdf import PdfReader, PdfWriter

    path = write_pdf([["upright"]])
    writer = PdfWriter()
    writer.add_page(PdfReader(path).pages[0].rotate(90))
    writer.write(path)
    (page,) = read_pdf(path).pages
    assert (page.width, page.height) == pytest.approx(A4, abs=0.1)
    box = page.lines[0].bbox
    assert box is not None
    assert box[:2] == pytest.approx((72, 84 - 0.8 * 12), abs=1.0)


def test_a_hyphen_at_a_line_end_ends_the_line(write_pdf: WritePdf) -> None:
    (page,) = read_pdf(write_pdf([["the distribu-", "tion of goods"]])).pages
    assert [line.text for line in page.lines] == ["the distribu-", "tion of goods"]


def test_line_cutting_keeps_all_characters_but_line_ends() -> None:
    text = "ab\r\nc\x02d e"
    places = [0.0] * len(text)
    chars = PageChars(text, places, places, places, places, range(len(text)))
    lines = [text[start:end] for start, end in iter_lines(chars, [int(char == "e") for char in text])]
    assert lines == ["ab", "c\x02", "d ", "e"]


def test_wide_gaps_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "gaps.pdf"
    canvas = Canvas(str(path), pagesize=A4)
    canvas.drawString(72, 700, "Total due")
    canvas.drawString(400, 700, "100.00")
    canvas.save()
    (page,) = read_pdf(path).pages
    assert page.text == "Total due   100.00"


def draw_table(path: Path, rows: list[list[str]], style: list[tuple[object, ...]]) -> None:
    canvas = Canvas(str(path), pagesize=A4)
    canvas.drawString(72, 780, "Before the table")
    table = Table(rows, colWidths=120, rowHeights=24)
    table.setStyle(TableStyle(style))
    table.wrapOn(canvas, 400, 400)
    table.drawOn(canvas, 72, 600)
    canvas.drawString(72, 500, "After the table")
    canvas.save()


ROWS = [["Item", "Amount"], ["Rent", "1,200.00"], ["Water", ""]]


def test_a_stroke_below_the_letters_of_a_cell_is_on_their_line(tmp_path: Path) -> None:
    canvas = Canvas(str(tmp_path / "a.pdf"), pagesize=A4)
    canvas.grid([100, 200, 300], [600, 640, 680])
    for number, text in enumerate(("name", "_x_", "y", "f(x)_1, g")):
        canvas.drawString(105 + 100 * (number % 2), 660 - 40 * (number // 2), text)
    canvas.save()
    (table,) = read_pdf(tmp_path / "a.pdf").pages[0].tables
    assert table.rows == (("name", "_x_"), ("y", "f(x)_1, g"))


def test_a_ruled_table(tmp_path: Path) -> None:
    draw_table(tmp_path / "t.pdf", ROWS, [("GRID", (0, 0), (-1, -1), 0.5, colors.black)])
    (page,) = read_pdf(tmp_path / "t.pdf").pages
    (table,) = page.tables
    assert table.rows == tuple(map(tuple, ROWS))
    assert table.bbox == pytest.approx((72, A4[1] - 672, 312, A4[1] - 600), abs=1)
    assert page.lines[0].text == "Before the table"
    assert page.lines[-1].text == "After the table"


def test_a_merged_cell_stands_in_its_first_place(tmp_path: Path) -> None:
    rows = [["Year", "", "Sum"], ["2020", "2021", "9"], ["1", "2", "3"]]
    draw_table(tmp_path / "t.pdf", rows, [("GRID", (0, 0), (-1, -1), 1, colors.black), ("SPAN", (0, 0), (1, 0))])
    (table,) = read_pdf(tmp_path / "t.pdf").pages[0].tables
    assert table.rows[0] == ("Year", "", "Sum")
    assert (table.spans, table.header_rows) == ((Span(0, 0, 1, 2),), 2)


def test_cells_over_rows_and_columns_make_a_head_of_two_rows(tmp_path: Path) -> None:
    rows = [["Item", "Description", "", "Price"], ["", "Kind", "Name", ""], ["1", "a", "b", "20"], ["", "c", "d", "30"]]
    merged = [("SPAN", (0, 0), (0, 1)), ("SPAN", (1, 0), (2, 0)), ("SPAN", (3, 0), (3, 1)), ("SPAN", (0, 2), (0, 3))]
    draw_table(tmp_path / "t.pdf", rows, [("GRID", (0, 0), (-1, -1), 1, colors.black), *merged])
    (table,) = read_pdf(tmp_path / "t.pdf").pages[0].tables
    assert table.rows == tuple(map(tuple, rows))
    assert set(table.spans) == {Span(0, 0, 2, 1), Span(0, 1, 1, 2), Span(0, 3, 2, 1), Span(2, 0, 2, 1)}
    assert table.header_rows == 2


def test_lines_of_a_cell(tmp_path: Path) -> None:
    rows = [["Item", "Two\nlines"], ["a", "b"]]
    draw_table(tmp_path / "t.pdf", rows, [("GRID", (0, 0), (-1, -1), 1, colors.black)])
    (table,) = read_pdf(tmp_path / "t.pdf").pages[0].tables
    assert table.rows == (("Item", "Two\nlines"), ("a", "b"))


def test_a_frame_is_no_table(tmp_path: Path) -> None:
    draw_table(tmp_path / "t.pdf", [["Only text in a box"]], [("BOX", (0, 0), (-1, -1), 1, colors.black)])
    assert read_pdf(tmp_path / "t.pdf").pages[0].tables == ()


def test_tables_are_not_looked_for_when_they_are_not_wanted(tmp_path: Path) -> None:
    draw_table(tmp_path / "t.pdf", ROWS, [("GRID", (0, 0), (-1, -1), 0.5, colors.black)])
    assert read_pdf(tmp_path / "t.pdf", tables=False).pages[0].tables == ()


def add_image(canvas: Canvas) -> None:
    canvas.drawImage(ImageReader(Image.new("RGB", (50, 70), "navy")), 0, 0, *A4)
    canvas.showPage()


def test_pages_that_cannot_be_read_flag_the_document(tmp_path: Path) -> None:
    path = write_pages(tmp_path / "lost.pdf", [HELLO, HELLO, ""])
    path.write_bytes(path.read_bytes().replace(b"/Kids [4 0 R 6 0 R", b"/Kids [4 0 R null "))
    item = FileItem("lost", path, "lost.pdf")
    clean = read_and_clean(Task(item, (), 10, CleanSteps()))
    assert (clean.text, clean.flags) == ("Hello", ("unread_pages",))
    assert [warning.split(" (")[0] for warning in clean.warnings] == ["pages that could not be read: 2"]
    path.write_bytes(path.read_bytes().replace(b"/Kids [4 0 R ", b"/Kids [null  "))
    error = error_of(path)
    assert error.error_type == "damaged"
    assert str(error).startswith("pages that cannot be read: 1, 2 (")


@pytest.mark.parametrize(
    ("installed", "advice"),
    [(False, "install the extra `ocr` and leave input.ocr at auto"), (True, "leave input.ocr at auto")],
)
def test_an_image_only_file_needs_ocr(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed: bool, advice: str
) -> None:
    monkeypatch.setattr("qwen_batch.read.ocr.recogniser._is_installed", lambda: installed)
    canvas = Canvas(str(tmp_path / "scan.pdf"), pagesize=A4)
    add_image(canvas)
    canvas.save()
    error = error_of(tmp_path / "scan.pdf")
    assert error.error_type == "needs_ocr"
    said = f"image-only: one page and no text that can be read; {advice}, or recognise the text first"
    assert str(error) == said


def test_one_scanned_page_among_others(tmp_path: Path) -> None:
    canvas = Canvas(str(tmp_path / "mixed.pdf"), pagesize=A4)
    canvas.drawString(72, 700, "text")
    canvas.showPage()
    add_image(canvas)
    canvas.save()
    content = read_pdf(tmp_path / "mixed.pdf")
    assert [page.needs_ocr for page in content.pages] == [False, True]
    assert content.warnings == ("pages without text, shown as images (need OCR): 2",)


FILED = "Case 1:23-cv-00456 Document 17 Filed 03/04/24 Page 1 of 2"


def draw_stamped(path: Path, at: float, *texts: str) -> Path:
    """A page that is an image with a line at a height, then pages of text."""
    canvas = Canvas(str(path), pagesize=A4)
    canvas.drawString(72, at, FILED)
    add_image(canvas)
    for text in texts:
        canvas.drawString(72, 700, text)
        canvas.showPage()
    canvas.save()
    return path


@pytest.mark.parametrize("at", [A4[1] - 20, 20])
def test_a_scan_with_a_stamp_is_a_scan(tmp_path: Path, at: float) -> None:
    assert error_of(draw_stamped(tmp_path / "scan.pdf", at)).error_type == "needs_ocr"
    content = read_pdf(draw_stamped(tmp_path / "mixed.pdf", at, "text"))
    assert [page.needs_ocr for page in content.pages] == [True, False]
    assert content.pages[0].text == FILED  # where OCR does not read the page, what is there stays


def test_a_line_within_an_image_is_text(tmp_path: Path) -> None:
    (page,) = read_pdf(draw_stamped(tmp_path / "poster.pdf", 500)).pages
    assert (page.text, page.needs_ocr) == (FILED, False)


def test_blank_pages_are_empty(write_pdf: WritePdf) -> None:
    error = error_of(write_pdf([[], []]))
    assert (error.error_type, str(error)) == ("empty", "2 pages, all blank: nothing is written or drawn on them")


@pytest.mark.parametrize("data", [b"", b"\n\n", b"\0" * 100])
def test_zero_bytes_are_empty(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "zero.pdf").write_bytes(data)
    assert error_of(tmp_path / "zero.pdf").error_type == "empty"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"<!DOCTYPE html><html>", "HTML"),
        (b"PK\x03\x04....", "a zip archive or an office document"),
        (b"Dear reader,\n", "plain text"),
        (b"% A remark on the object 1 0 obj\n", "plain text"),
    ],
)
def test_a_file_of_another_kind(tmp_path: Path, data: bytes, words: str) -> None:
    (tmp_path / "x.pdf").write_bytes(data)
    error = error_of(tmp_path / "x.pdf")
    assert error.error_type == "wrong_type"
    assert f"the content is {words}:" in str(error)


def test_a_file_that_lost_its_first_line(tmp_path: Path) -> None:
    path = write_pages(tmp_path / "headless.pdf", [HELLO], head=b"%\xe2\xe3\xcf\xd3\n")
    assert [page.text for page in read_pdf(path).pages] == ["Hello"]


@pytest.mark.parametrize("box", ["[300 300 300 300]", "[700 900 800 1000]", "[0 0 0 0]"])
def test_a_crop_box_without_any_of_the_sheet_is_none(tmp_path: Path, box: str) -> None:
    (page,) = read_pdf(write_pages(tmp_path / "box.pdf", [HELLO], f"/CropBox {box}")).pages
    assert (page.text, page.width, page.height) == ("Hello", 600, 800)


def test_a_bad_page_does_not_take_the_others_with_it(write_pdf: WritePdf, monkeypatch: pytest.MonkeyPatch) -> None:
    views = iter([pdf.read_upright, None, pdf.read_upright])  # None cannot be called

    def read_upright(page: PdfPage) -> PageView:
        return next(views)(page)  # type: ignore[misc]

    monkeypatch.setattr(pdf, "read_upright", read_upright)
    content = read_pdf(write_pdf([["first"], ["second"], ["third"]]))
    assert [page.text for page in content.pages] == ["first", "", "third"]
    assert content.warnings == ("pages that could not be read: 2 (TypeError: 'NoneType' object is not callable)",)


def test_a_damaged_file(write_pdf: WritePdf) -> None:
    path = write_pdf([["text"]])
    path.write_bytes(path.read_bytes()[:300])
    assert error_of(path).error_type == "damaged"


def test_too_many_pages(write_pdf: WritePdf) -> None:
    error = error_of(write_pdf([["a"], ["b"], ["c"]]), max_pages=2)
    assert error.error_type == "too_many_pages"
    assert "3 pages are more than input.max_pages allows (2)" in str(error)


def test_passwords(write_pdf: WritePdf) -> None:
    path = write_pdf([["hidden text"]], encrypt="Sesame1")
    assert read_pdf(path, ("wrong", "Sesame1")).pages[0].text == "hidden text"
    error = error_of(path)
    assert error.error_type == "encrypted"
    assert "no password was given" in str(error)
    assert "input.passwords" in str(error)
    assert "--password" in str(error)


def test_passwords_are_never_shown(write_pdf: WritePdf) -> None:
    error = error_of(write_pdf([["x"]], encrypt="Sesame1"), passwords=("Wrong1", "Wrong2"))
    assert "none of the 2 passwords fits" in str(error)
    assert "Wrong" not in str(error)


PEAK = """
import sys
from pathlib import Path
from qwen_batch.read.pdf import read_pdf
read_pdf(Path(sys.argv[1]))
status = Path("/proc/self/status").read_text()  # what getrusage tells is that of the parent, where that is larger
print(status.partition("VmHWM:")[2].split()[0])
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_pages_are_let_go_one_by_one(write_pdf: WritePdf) -> None:
    """Their lines are kept, 20 KiB a page of these; a page that stays open takes 55 KiB more."""

    def peak_kib(count: int) -> int:
        line = "The parties agree upon the terms which are set out in the clauses above, and below."
        path = write_pdf([[f"{page} {number}: {line}" for number in range(40)] for page in range(count)])
        return int(subprocess.check_output([sys.executable, "-c", PEAK, str(path)]))

    few, many = 40, 240
    assert (peak_kib(many) - peak_kib(few)) / (many - few) < 45


def test_letters_of_one_width_keep_their_distances(tmp_path: Path) -> None:
    """Drawn word by word, as some programs do, and with spaces."""
    canvas = Canvas(str(tmp_path / "code.pdf"))
    canvas.setFont("Courier", 10)
    canvas.drawString(72, 700, "if  x > 1:   # two")
    canvas.drawString(96, 688, "return")
    canvas.drawString(96 + 6 * 9, 688, "x")
    canvas.setFont("Helvetica", 10)
    canvas.drawString(72, 600, "The end of it.")
    canvas.save()
    first, second, prose = read_pdf(tmp_path / "code.pdf").pages[0].lines
    assert [(line.text, line.code) for line in (first, second)] == [("if  x > 1:   # two", True), ("return   x", True)]
    assert not prose.code
    assert first.bbox is not None
    assert second.bbox is not None
    assert first.bbox[0] == pytest.approx(72, abs=1.0)
    assert second.bbox[0] - first.bbox[0] == pytest.approx(24, abs=1.5)
