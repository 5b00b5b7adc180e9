"""Images that cover the middle of a page are told apart; others are not kept."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image
from reportlab.lib.pagesizes import A4
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas

from qwen_batch.clean import clean_document
from qwen_batch.read.pdf import read_pdf
from qwen_batch.records import CleanSteps, Document

SEAL = Image.new("RGBA", (64, 64), (200, 0, 0, 60))


def write(path: Path, *, seal: bool, pages: int = 3, in_form: bool = False, alpha: float = 1.0) -> Path:
    """Pages of a letter with a logo at the edge, and with a seal in the middle."""
    canvas = Canvas(str(path), pagesize=A4)
    if in_form:
        canvas.beginForm("seal")
        canvas.drawImage(ImageReader(SEAL), 0, 0, 150, 150, mask="auto")
        canvas.endForm()
    for number in range(pages):
        canvas.drawImage(ImageReader(SEAL.convert("RGB")), 40, 780, 50, 50)
        for line in range(40):
            canvas.drawString(
                72, 720 - 14 * line, f"Line {line} of page {number} says what line {line * 7 + number} does not"
            )
        if in_form:
            canvas.saveState()
            canvas.translate(150, 270)
            canvas.scale(2, 2)
            canvas.doForm("seal")
            canvas.restoreState()
        elif seal:
            canvas.setFillAlpha(alpha)
            canvas.drawImage(ImageReader(SEAL), 150, 270, 300, 300, mask="auto")
        canvas.showPage()
    canvas.save()
    return path


@pytest.mark.parametrize("in_form", [False, True])
def test_a_seal_over_the_middle_is_kept_with_its_place(tmp_path: Path, in_form: bool) -> None:
    pages = read_pdf(write(tmp_path / "a.pdf", seal=True, in_form=in_form)).pages
    (picture,) = pages[0].pictures
    assert picture.bbox == pytest.approx((150, A4[1] - 570, 450, A4[1] - 270), abs=0.5)
    assert picture.see_through  # by a mask of its own
    assert {each.pictures for each in pages} == {(picture,)}
    clean = clean_document(Document("d", "d.pdf", "0" * 64, pages), CleanSteps())
    assert clean.warnings == ("an image lies over the text, as a watermark does, on 3 of the pages",)


def test_a_logo_at_the_edge_is_not(tmp_path: Path) -> None:
    assert [page.pictures for page in read_pdf(write(tmp_path / "a.pdf", seal=False)).pages] == [(), (), ()]


def test_an_image_that_is_drawn_with_alpha_can_be_seen_through(tmp_path: Path) -> None:
    pages = read_pdf(write(tmp_path / "a.pdf", seal=True, alpha=0.3)).pages
    assert [picture.see_through for page in pages for picture in page.pictures] == [True] * 3
