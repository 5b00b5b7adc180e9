"""A picture of text beside the text of a page is not passed over in silence; other pictures are."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from pathlib import Path

import pypdfium2
import pytest
from PIL import Image
from reportlab.lib.pagesizes import letter
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas

from qwen_batch.read.pdf import read_pdf
from qwen_batch.read.pdf_pictures import pictures_alone
from qwen_batch.records import Line, Page

WIDTH, HEIGHT = letter
LETTER = [f"Line {number} of the letter, which somebody wrote with a program." for number in range(12)]
ANNEX = [f"Line {number} of the annex, which somebody else had printed before." for number in range(14)]
PLACE = (72.0, 60.0, 468.0, 380.0)  # from the bottom left: x, y, width, height


def text_picture() -> Image.Image:
    """A page of text as a scanner sees it."""
    data = io.BytesIO()
    canvas = Canvas(data, pagesize=(468, 380))
    for number, line in enumerate(ANNEX):
        canvas.drawString(30, 340 - 20 * number, line)
    canvas.save()
    with pypdfium2.PdfDocument(data.getvalue()) as document:
        image: Image.Image = document[0].render(scale=2).to_pil()
    return image.convert("L")


def photograph() -> Image.Image:
    noise = random.Random(1)
    small = Image.new("L", (24, 20))
    small.putdata([noise.randrange(256) for _ in range(24 * 20)])
    return small.resize((936, 760), Image.Resampling.BICUBIC)


def chart() -> Image.Image:
    """Bars of many heights on white."""
    image = Image.new("L", (936, 760), 255)
    for number in range(10):
        image.paste(0, (40 + 90 * number, 100 + 53 * (number * 7 % 10), 90 + 90 * number, 700))
    return image


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def write(image: Image.Image, place: tuple[float, ...] = PLACE, over: bool = False, bands: int = 1) -> Path:
        canvas = Canvas(str(tmp_path / "letter.pdf"), pagesize=letter)
        x, y, width, height = place
        step = image.height // bands
        for band in range(bands):
            piece = image.crop((0, band * step, image.width, (band + 1) * step))
            canvas.drawImage(ImageReader(piece), x, y + height - (band + 1) * height / bands, width, height / bands)
        for number, line in enumerate(LETTER):
            canvas.drawString(80, (400 if over else HEIGHT - 80) - 18 * number, line)
        canvas.save()
        return tmp_path / "letter.pdf"

    return write


def read_page(path: Path) -> Page:
    (page,) = read_pdf(path, ocr_seconds=0).pages
    return page


@pytest.mark.parametrize("bands", [1, 6])
def test_a_scan_below_a_letter_needs_ocr(write: Callable[..., Path], bands: int) -> None:
    content = read_pdf(write(text_picture(), bands=bands), ocr_seconds=0)
    (page,) = content.pages
    assert [line.text for line in page.lines] == LETTER
    assert page.needs_ocr
    assert content.warnings == ("pages with pictures of text that was not read (need OCR): 1",)


def test_what_lies_a_little_askew_is_seen_too(write: Callable[..., Path]) -> None:
    askew = text_picture().rotate(1.5, resample=Image.Resampling.BICUBIC, fillcolor=255)
    assert read_page(write(askew)).needs_ocr


@pytest.mark.parametrize("draw", [photograph, chart])
def test_photographs_and_charts_are_no_text(write: Callable[..., Path], draw: Callable[[], Image.Image]) -> None:
    assert not read_page(write(draw())).needs_ocr


def test_neither_are_logos_nor_what_has_its_text_over_it(write: Callable[..., Path]) -> None:
    assert not read_page(write(text_picture(), place=(480, 700, 100, 80))).needs_ocr
    assert not read_page(write(text_picture(), over=True)).needs_ocr


def test_parts_make_a_picture_and_far_ones_do_not() -> None:
    size = 600.0, 800.0
    bands = [(50.0, 100.0 + 40 * number, 550.0, 140.0 + 40 * number) for number in range(8)]
    assert pictures_alone(bands, (), size) == [(50.0, 100.0, 550.0, 420.0)]
    assert pictures_alone(bands[::2], (), size) == []
    assert pictures_alone([(-50.0, 0.0, 700.0, 900.0)], (), size) == [(0.0, 0.0, 600.0, 800.0)]
    assert pictures_alone(bands, [Line("A caption over the picture", (60, 200, 300, 212))], size) == []
