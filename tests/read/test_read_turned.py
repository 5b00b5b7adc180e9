"""Text that lies on its side or on its head is read as if it stood upright."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pypdf import PdfReader, PdfWriter
from reportlab.lib.pagesizes import letter
from reportlab.pdfgen.canvas import Canvas

from qwen_batch.read.page.turn import turned_box
from qwen_batch.read.pdf import read_pdf
from qwen_batch.records import Page

WIDTH, HEIGHT = letter
BODY = [f"Line {number} of a text that runs along the longer side of the page" for number in range(1, 15)]
HEAD, FOOT = "Supply Agreement", "Acme plc"


def draw_turned(canvas: Canvas, degrees: int, draw: Callable[[Canvas], None]) -> None:
    """Draw with the writing turned counterclockwise by so many degrees."""
    canvas.saveState()
    canvas.translate({90: WIDTH, 180: WIDTH}.get(degrees, 0), {180: HEIGHT, 270: HEIGHT}.get(degrees, 0))
    canvas.rotate(degrees)
    draw(canvas)
    canvas.restoreState()


def draw_body(canvas: Canvas) -> None:
    canvas.setFont("Helvetica", 11)
    for number, line in enumerate(BODY):
        canvas.drawString(80, 480 - 15 * number, line)


def draw_table(canvas: Canvas) -> None:
    canvas.setFont("Helvetica", 11)
    canvas.drawString(80, 520, "Table 1")
    for row in range(4):
        for column in range(3):
            canvas.rect(80 + 100 * column, 440 - 20 * row, 100, 20)
            canvas.drawString(84 + 100 * column, 446 - 20 * row, f"r{row}c{column}")


def read_page(path: Path, page_number: int = 1) -> Page:
    return read_pdf(path).pages[page_number - 1]


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def write(degrees: int, rotate: int = 0, draw: Callable[[Canvas], None] = draw_body) -> Path:
        canvas = Canvas(str(tmp_path / "drawn.pdf"), pagesize=letter)
        draw_turned(canvas, degrees, draw)
        canvas.save()
        writer = PdfWriter(clone_from=PdfReader(tmp_path / "drawn.pdf"))
        writer.pages[0].rotate(rotate)
        writer.write(tmp_path / "turned.pdf")
        return tmp_path / "turned.pdf"

    return write


@pytest.mark.parametrize("rotate", [0, 90, 180, 270])
@pytest.mark.parametrize("degrees", [0, 90, 180, 270])
def test_text_is_read_in_its_own_frame(write: Callable[..., Path], degrees: int, rotate: int) -> None:
    page = read_page(write(degrees, rotate))
    assert [line.text for line in page.lines] == BODY
    assert (page.width, page.height) == ((HEIGHT, WIDTH) if degrees in (90, 270) else (WIDTH, HEIGHT))
    first = page.lines[0].bbox
    assert first is not None
    assert first[0] == pytest.approx(80, abs=2)
    assert page.lines[1].bbox is not None
    assert page.lines[1].bbox[1] - first[1] == pytest.approx(15, abs=0.1)


@pytest.mark.parametrize("degrees", [90, 180, 270])
def test_tables_are_found_in_that_frame(write: Callable[..., Path], degrees: int) -> None:
    (table,) = read_page(write(degrees, draw=draw_table)).tables
    assert table.rows == tuple(tuple(f"r{row}c{column}" for column in range(3)) for row in range(4))


@pytest.mark.parametrize("degrees", [90, 270])
def test_an_upright_head_keeps_its_distance_from_the_edge(tmp_path: Path, degrees: int) -> None:
    canvas = Canvas(str(tmp_path / "mixed.pdf"), pagesize=letter)
    for page_number in (1, 2):
        canvas.setFont("Helvetica", 9)
        canvas.drawString(72, HEIGHT - 40, HEAD)
        canvas.drawRightString(WIDTH - 72, HEIGHT - 40, FOOT)
        canvas.drawCentredString(WIDTH / 2, 36, str(page_number))
        draw_turned(canvas, degrees if page_number == 2 else 0, draw_body)
        canvas.showPage()
    canvas.save()
    upright, turned = read_page(tmp_path / "mixed.pdf", 1), read_page(tmp_path / "mixed.pdf", 2)
    assert [line.text for line in turned.lines] == [f"{HEAD}   {FOOT}", *BODY, "2"]
    head, number = turned.lines[0].bbox, turned.lines[-1].bbox
    places = {line.text: line.bbox for line in upright.lines}
    assert head == places[f"{HEAD}   {FOOT}"]
    old = places["1"]
    assert turned.height is not None
    assert number is not None
    assert old is not None
    assert turned.height - number[3] == pytest.approx(HEIGHT - old[3], abs=0.1)


def test_a_few_turned_words_stay_apart(tmp_path: Path) -> None:
    canvas = Canvas(str(tmp_path / "stamp.pdf"), pagesize=letter)
    draw_turned(canvas, 90, lambda canvas: canvas.drawString(250, 20, "RECEIVED 12 MAY"))
    draw_body(canvas)
    canvas.save()
    page = read_page(tmp_path / "stamp.pdf")
    assert [line.text for line in page.lines] == ["RECEIVED 12 MAY", *BODY]
    assert (page.width, page.height) == letter


def test_boxes_turn_with_their_page() -> None:
    box, size = (10.0, 20.0, 30.0, 25.0), (200.0, 100.0)
    assert turned_box(box, size, 0) == box
    quarter = turned_box(box, size, 1)
    assert quarter == (75.0, 10.0, 80.0, 30.0)
    half = turned_box(quarter, (100.0, 200.0), 1)
    assert half == turned_box(box, size, 2)
    assert turned_box(half, size, 1) == turned_box(box, size, 3)
    assert turned_box(turned_box(box, size, 3), (100.0, 200.0), 1) == box
