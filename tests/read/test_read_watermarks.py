"""Images over the text of a page, and whether the page shows through them."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image
from reportlab.lib.pagesizes import A4
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas

from qwen_batch.read.pdf import read_pdf

CLEAR = Image.new("RGBA", (300, 400), (255, 255, 255, 0))
CLEAR.paste((120, 120, 120, 90), (40, 180, 260, 220))


@pytest.mark.parametrize(
    ("image", "see_through"),
    [(CLEAR, True), (Image.new("RGB", (300, 400), "ivory"), False), (Image.new("RGBA", (300, 400), "ivory"), False)],
    ids=["its own mask", "none", "a mask that hides nothing"],
)
def test_a_mask_of_its_own_lets_the_page_through(tmp_path: Path, image: Image.Image, see_through: bool) -> None:
    canvas = Canvas(str(tmp_path / "made.pdf"), pagesize=A4)
    for number in (1, 2):
        canvas.drawImage(ImageReader(image), 0, 0, *A4, mask="auto")
        canvas.drawString(72, 700, f"Text of page {number}")
        canvas.showPage()
    canvas.save()
    pages = read_pdf(tmp_path / "made.pdf").pages
    assert [picture.see_through for page in pages for picture in page.pictures] == [see_through] * 2
