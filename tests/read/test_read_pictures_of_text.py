"""A picture of text beside the text of a page is not passed over in silence; other pictures are."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pypdfium2
import pytest
from PIL import Image
from reportlab.lib.pagesizes import letter
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas

from qwen_batch.read.ocr import recogniser as ocr
from qwen_batch.read.page.pictures import pictures_alone, with_picture
from qwen_batch.read.pdf import read_pdf
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
    assert content.warnings == ("pages with pictures of text that was not read (input.ocr: all reads it): 1",)


def test_what_lies_a_little_askew_is_seen_too(write: Callable[..., Path]) -> None:
    askew = text_picture().rotate(1.5, resample=Image.Resampling.BICUBIC, fillcolor=255)
    assert read_page(write(askew)).needs_ocr


def test_it_is_read_where_that_is_asked_for(write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    seen = ocr.Recognised(tuple(Line(text, PLACE) for text in ANNEX), 0.9)
    monkeypatch.setattr(ocr, "_is_installed", lambda: True)
    monkeypatch.setattr(ocr, "recognise_area", lambda page, area: seen)
    path = write(text_picture())
    assert read_pdf(path, ocr_seconds=60).pages[0].needs_ocr
    (page,) = read_pdf(path, ocr_seconds=60, ocr_pictures=True).pages
    assert [line.text for line in page.lines] == [*LETTER, *ANNEX]
    assert (page.needs_ocr, page.ocr_confidence) == (False, 0.9)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("rapidocr") is None, reason="the extra `ocr` is not installed")
@pytest.mark.parametrize("degrees", [0, 90, 180])
def test_real_recognition_of_an_area(write: Callable[..., Path], degrees: int) -> None:
    place = PLACE if degrees != 90 else (72.0, 40.0, 361.0, 445.0)
    path = write(text_picture().rotate(degrees, expand=True), place=place)
    (page,) = read_pdf(path, ocr_seconds=600, ocr_pictures=True).pages
    assert [line.text for line in page.lines] == [*LETTER, *ANNEX]
    for line in page.lines[len(LETTER) :]:
        assert line.bbox is not None
        assert place[0] < line.bbox[0] < line.bbox[2] < place[0] + place[2]
        assert HEIGHT - place[1] - place[3] < line.bbox[1] < line.bbox[3] < HEIGHT - place[1]


def test_the_place_of_a_picture_in_the_order() -> None:
    above, below = Line("above", (72, 80, 300, 92)), Line("below", (72, 600, 300, 612))
    beside = Line("beside", (400, 80, 500, 92))
    box, seen = (72.0, 200.0, 350.0, 500.0), (Line("seen", (80, 210, 300, 222)),)
    assert with_picture([above, below], box, seen) == (above, *seen, below)
    assert with_picture([beside, above, below], box, seen) == (beside, above, *seen, below)
    assert with_picture([below], box, seen) == (*seen, below)
    assert with_picture([], box, seen) == seen


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
