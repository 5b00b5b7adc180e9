"""Pages that are images: recognised where the extra is installed, named where not."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path

import pypdfium2
import pytest
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas

from qwen_batch.clean import clean_document
from qwen_batch.errors import DocumentError
from qwen_batch.read import ocr
from qwen_batch.read.pdf import read_pdf
from qwen_batch.records import CleanSteps, Document, Line

SAMPLES = Path(__file__).resolve().parents[2] / "sample_data"


def scan(tmp_path: Path, source: Path, pages: int = 1, text: str | None = None) -> Path:
    """The first pages of a PDF as images; with `text`, a page of text in front."""
    path = tmp_path / "scan.pdf"
    with pypdfium2.PdfDocument(source) as document:
        canvas = Canvas(str(path))
        if text:
            canvas.drawString(72, 700, text)
            canvas.showPage()
        for number in range(pages):
            width, height = document[number].get_size()
            image = io.BytesIO()
            document[number].render(scale=2).to_pil().convert("L").save(image, "PNG")
            canvas.setPageSize((width, height))
            canvas.drawImage(ImageReader(image), 0, 0, width, height)
            canvas.showPage()
        canvas.save()
    return path


@pytest.fixture
def nda() -> Path:
    return SAMPLES / "contracts" / "mutual_nda.pdf"


def test_without_time_or_the_extra_a_scan_needs_ocr(tmp_path: Path, nda: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = scan(tmp_path, nda)
    with pytest.raises(DocumentError, match="install the extra `ocr`") as caught:
        read_pdf(path, ocr_seconds=0)
    assert caught.value.error_type == "needs_ocr"
    monkeypatch.setattr(ocr, "_is_installed", lambda: False)
    with pytest.raises(DocumentError):
        read_pdf(path, ocr_seconds=60)


def test_recognised_pages_are_marked_with_their_confidence(
    tmp_path: Path, nda: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ocr, "_is_installed", lambda: True)
    monkeypatch.setattr(ocr, "recognise", lambda page: ((Line("A scan.", (72, 72, 200, 84), 12.0),), 0.9))
    content = read_pdf(scan(tmp_path, nda, text="Typed."), ocr_seconds=60)
    assert [page.ocr_confidence for page in content.pages] == [None, 0.9]
    assert content.warnings == ("pages read by OCR, with a confidence of 0.90: 2",)
    clean = clean_document(Document("d", "d", "0" * 64, content.pages), CleanSteps())
    assert (clean.text, clean.flags) == ("Typed.\n\nA scan.", ("ocr",))


def test_when_the_time_is_over_the_rest_needs_ocr(tmp_path: Path, nda: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 1000, 10))
    monkeypatch.setattr(ocr, "_is_installed", lambda: True)
    monkeypatch.setattr(ocr.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(ocr, "recognise", lambda page: ((Line("A scan.", (72, 72, 200, 84), 12.0),), 0.9))
    content = read_pdf(scan(tmp_path, nda, pages=2), ocr_seconds=5)
    assert [page.needs_ocr for page in content.pages] == [False, True]


@pytest.mark.parametrize(
    ("text", "garbled"),
    [
        ("口口口口 口口口口口 口口口口 口口口口口口 口口口口", True),
        ("\ue001\ue002\ue003 \ue004\ue005 abc " * 4, True),
        ("\ufffd" * 30, True),
        ("人口普查的出口与入口，第一条 甲方应在交货前付款。", False),
        ("□ yes  □ no   Please mark one box for each of the questions.", False),
        ("口口", False),
        ("", False),
    ],
)
def test_garbled_text_layers(text: str, garbled: bool) -> None:
    assert ocr.is_garbled(text) is garbled


@pytest.mark.slow
@pytest.mark.parametrize(("name", "wanted"), [("mutual_nda", 0.95), ("zh_procurement", 0.97)])
def test_real_recognition(tmp_path: Path, name: str, wanted: float) -> None:
    """Words of an English page, characters of a Chinese one: the share that is found."""
    pytest.importorskip("rapidocr")
    source = SAMPLES / "contracts" / f"{name}.pdf"
    (true,) = read_pdf(source).pages[:1]
    (seen,) = read_pdf(scan(tmp_path, source), ocr_seconds=600).pages
    chinese = name.startswith("zh")
    words = [Counter("".join(page.text.split()) if chinese else page.text.split()) for page in (true, seen)]
    assert (words[0] & words[1]).total() >= wanted * words[0].total()
    assert seen.ocr_confidence is not None
    assert seen.ocr_confidence > 0.9


def test_a_page_with_a_frame_alone_is_blank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading the models for a page that shows no letters would cost more than all the others."""
    monkeypatch.setattr(ocr, "recognise", lambda page: pytest.fail("a blank page was given to OCR"))
    canvas = Canvas(str(tmp_path / "framed.pdf"))
    canvas.drawString(72, 700, "Text.")
    canvas.showPage()
    canvas.rect(50, 50, 400, 700)
    canvas.save()
    assert [page.needs_ocr for page in read_pdf(tmp_path / "framed.pdf", ocr_seconds=60).pages] == [False, False]
