"""Pages that are images: recognised where the extra is installed, named where not."""

from __future__ import annotations

import io
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pypdfium2
import pytest
from PIL import Image
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas

from qwen_batch.clean import clean_document
from qwen_batch.errors import DocumentError
from qwen_batch.read.ocr import recogniser as ocr
from qwen_batch.read.ocr.frame import find_frame
from qwen_batch.read.pdf import read_pdf
from qwen_batch.records import CleanSteps, Document, Line

A_SCAN = ocr.Recognised((Line("A scan.", (72, 72, 200, 84), 12.0),), 0.9)
SAMPLES = Path(__file__).resolve().parents[2] / "sample_data"


def scan(tmp_path: Path, source: Path, pages: int = 1, text: str | None = None, stamp: str = "") -> Path:
    """The first pages of a PDF as images; with `text`, a page of text in front; `stamp`: a line at the top of each."""
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
            if stamp:
                canvas.drawString(72, height - 20, stamp)
            canvas.showPage()
        canvas.save()
    return path


@pytest.fixture
def nda() -> Path:
    return SAMPLES / "contracts" / "mutual_nda.pdf"


def test_without_time_or_the_extra_a_scan_needs_ocr(tmp_path: Path, nda: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = scan(tmp_path, nda)
    monkeypatch.setattr(ocr, "_is_installed", lambda: True)
    with pytest.raises(DocumentError, match=r"leave input\.ocr at auto") as caught:
        read_pdf(path, ocr_seconds=0)
    assert caught.value.error_type == "needs_ocr"
    monkeypatch.setattr(ocr, "_is_installed", lambda: False)
    with pytest.raises(DocumentError, match="install the extra `ocr`"):
        read_pdf(path, ocr_seconds=60)


def test_advice_where_recognition_found_nothing(tmp_path: Path, nda: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ocr, "_is_installed", lambda: True)
    monkeypatch.setattr(ocr, "recognise", lambda page: ocr.Recognised((), 0.0))
    with pytest.raises(DocumentError, match="OCR found none either") as caught:
        read_pdf(scan(tmp_path, nda), ocr_seconds=60)
    assert caught.value.error_type == "needs_ocr"


@pytest.mark.parametrize(("paper", "ink", "is_blank"), [(250, 230, True), (0, 0, True), (255, 200, False)])
def test_a_sheet_on_which_nothing_is_seen_is_blank(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, paper: int, ink: int, is_blank: bool
) -> None:
    monkeypatch.setattr(ocr, "_is_installed", lambda: True)
    monkeypatch.setattr(ocr, "recognise", lambda page: ocr.Recognised((), 0.0))
    sheet = Image.new("L", (600, 800), paper)
    sheet.paste(ink, (100, 100, 140, 110))
    for name, text in (("alone", ""), ("behind", "Typed.")):
        canvas = Canvas(str(tmp_path / f"{name}.pdf"), (600, 800))
        if text:
            canvas.drawString(72, 700, text)
            canvas.showPage()
        canvas.drawImage(ImageReader(sheet), 0, 0, 600, 800)
        canvas.save()
    with pytest.raises(DocumentError, match="nothing is seen on their images" if is_blank else "OCR") as caught:
        read_pdf(tmp_path / "alone.pdf", ocr_seconds=60)
    assert caught.value.error_type == ("empty" if is_blank else "needs_ocr")
    content = read_pdf(tmp_path / "behind.pdf", ocr_seconds=60)
    assert [page.needs_ocr for page in content.pages] == [False, not is_blank]
    assert (not content.warnings) == is_blank


def test_recognised_pages_are_marked_with_their_confidence(
    tmp_path: Path, nda: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ocr, "_is_installed", lambda: True)
    monkeypatch.setattr(ocr, "recognise", lambda page: A_SCAN)
    content = read_pdf(scan(tmp_path, nda, text="Typed."), ocr_seconds=60)
    assert [page.ocr_confidence for page in content.pages] == [None, 0.9]
    assert content.warnings == ("pages read by OCR, with a confidence of 0.90: 2",)
    clean = clean_document(Document("d", "d", "0" * 64, content.pages), CleanSteps())
    assert (clean.text, clean.flags) == ("Typed.\n\nA scan.", ("ocr",))


def as_lines(rows: list[tuple[str, ...]], places: tuple[float, ...]) -> tuple[Line, ...]:
    """Recognised cells of rows below each other, 6 points a letter."""
    return tuple(
        Line(text, (x, 200 + 20 * number, x + 6 * len(text), 212 + 20 * number), 10.0)
        for number, row in enumerate(rows)
        for x, text in zip(places, row, strict=True)
        if text
    )


def test_tables_of_a_scan_are_tables(tmp_path: Path, nda: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        ("Item", "Quantity", "Amount"),
        ("Steel nails", "100", "3.00"),
        ("Hammer", "2", "25.00"),
        ("Saw", "1", "9.50"),
    ]
    title = Line("Delivered in March by the carrier of our choice.", (72, 150, 360, 162), 10.0)
    lines = (title, *as_lines(rows, (72, 250, 350)))
    monkeypatch.setattr(ocr, "_is_installed", lambda: True)
    monkeypatch.setattr(ocr, "recognise", lambda page: ocr.Recognised(lines, 0.9))
    content = read_pdf(scan(tmp_path, nda), ocr_seconds=60)
    (table,) = content.pages[0].tables
    assert table.rows == tuple(rows)
    text = clean_document(Document("d", "d", "0" * 64, content.pages), CleanSteps()).text
    assert text.startswith(f"{title.text}\n\n| Item | Quantity | Amount |\n")
    assert text.count("Hammer") == 1
    assert not read_pdf(scan(tmp_path, nda), ocr_seconds=60, tables=False).pages[0].tables


def test_columns_of_text_on_a_scan_are_no_table(tmp_path: Path, nda: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left, right = "the tenant shall keep it in order", "and the landlord bears what it costs"
    lines = as_lines([(left, right)] * 12, (72, 320))
    monkeypatch.setattr(ocr, "_is_installed", lambda: True)
    monkeypatch.setattr(ocr, "recognise", lambda page: ocr.Recognised(lines, 0.9))
    assert not read_pdf(scan(tmp_path, nda), ocr_seconds=60).pages[0].tables


def test_a_page_that_ocr_is_unsure_of_is_named(tmp_path: Path, nda: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ocr, "_is_installed", lambda: True)
    monkeypatch.setattr(ocr, "recognise", lambda page: A_SCAN._replace(confidence=0.64))
    content = read_pdf(scan(tmp_path, nda), ocr_seconds=60)
    assert content.warnings[1:] == ("pages on which much may be misread (OCR was unsure): 1",)


def test_a_stamp_over_a_scan_does_not_stand_for_its_text(
    tmp_path: Path, nda: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ocr, "_is_installed", lambda: True)
    monkeypatch.setattr(ocr, "recognise", lambda page: A_SCAN)
    (page,) = read_pdf(scan(tmp_path, nda, stamp="Case 1:23-cv-4 Filed 03/04/24 Page 1"), ocr_seconds=60).pages
    assert (page.text, page.needs_ocr) == ("A scan.", False)


def test_when_the_time_is_over_the_rest_needs_ocr(tmp_path: Path, nda: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 1000, 10))
    monkeypatch.setattr(ocr, "_is_installed", lambda: True)
    monkeypatch.setattr(ocr.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(ocr, "recognise", lambda page: A_SCAN)
    content = read_pdf(scan(tmp_path, nda, pages=2), ocr_seconds=5)
    assert [page.needs_ocr for page in content.pages] == [False, True]


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


def drawn(text: str, size: int) -> Any:
    """A black text of one line on white, (height, width, 3)."""
    models = pytest.importorskip("qwen_batch.read.ocr.picture")
    picture = np.full((160, 1600, 3), 255, np.uint8)
    models.cv2.putText(picture, text, (20, 100), models.cv2.FONT_HERSHEY_SIMPLEX, size / 24, (0, 0, 0), 2)
    return picture


@pytest.mark.skipif(find_spec("rapidocr") is None, reason="the extra `ocr` is not installed")
def test_lines_are_read_wherever_they_stand_and_however_they_lie() -> None:
    models = pytest.importorskip("qwen_batch.read.ocr.picture")
    line = drawn("The Supplier shall deliver by 31 March 2026", 28)
    white = np.full_like(line, 255)
    page = np.concatenate([white] * 4 + [line] + [white] * 4)
    for quarters in range(4):  # counterclockwise
        picture = np.rot90(page, quarters).copy()
        (seen,), found = models.read_page(picture)
        assert seen.text == "The Supplier shall deliver by 31 March 2026"
        assert seen.score > 0.95
        assert found == quarters
        frame = find_frame([seen.corners], found, picture.shape[1], picture.shape[0])
        _, top, _, bottom = frame.place(seen.corners)
        assert 690 < top < 730 < bottom < 780


@pytest.mark.skipif(find_spec("rapidocr") is None, reason="the extra `ocr` is not installed")
def test_an_empty_picture_shows_nothing_and_runs_no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    models = pytest.importorskip("qwen_batch.read.ocr.picture")
    monkeypatch.setattr(models, "run", lambda session, values: pytest.fail("a model ran"))
    assert models.read_page(np.full((2000, 1500, 3), 250, np.uint8)) == ([], 0)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("rapidocr") is None, reason="the extra `ocr` is not installed")
def test_a_letter_page_is_read_in_bounded_memory() -> None:
    """The models in their usual way take 850 MB for it."""
    script = (
        "import re, numpy as np\n"
        "from qwen_batch.read.ocr import picture as models\n"
        "page = np.full((2000, 1546, 3), 255, np.uint8)\n"
        "for row in range(60, 1960, 40):\n"
        "    models.cv2.putText(page, 'The quick brown fox jumps over the lazy dog again and again. ' * 2, (60, row),"
        " models.cv2.FONT_HERSHEY_SIMPLEX, 0.6, (0, 0, 0), 1)\n"
        "assert len(models.read_page(page).lines) >= 40\n"
        "print(int(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1]) // 1024)"
    )
    if sys.platform != "linux":
        pytest.skip("reads its memory from /proc")
    peak_mib = int(subprocess.check_output([sys.executable, "-c", script], text=True))
    assert peak_mib < 400


def test_a_page_with_a_frame_alone_is_blank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading the models for a page that shows no letters would cost more than all the others."""
    monkeypatch.setattr(ocr, "recognise", lambda page: pytest.fail("a blank page was given to OCR"))
    canvas = Canvas(str(tmp_path / "framed.pdf"))
    canvas.drawString(72, 700, "Text.")
    canvas.showPage()
    canvas.rect(50, 50, 400, 700)
    canvas.save()
    assert [page.needs_ocr for page in read_pdf(tmp_path / "framed.pdf", ocr_seconds=60).pages] == [False, False]


@pytest.mark.skipif(find_spec("rapidocr") is None, reason="the extra `ocr` is not installed")
def test_a_line_is_read_again_at_its_full_width_only_where_it_is_not_sure(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = pytest.importorskip("qwen_batch.read.ocr.reading")
    scores = {reading.SQUEEZE: reading.SURE, 1.0: 1.0}
    asked: list[float] = []

    def read_at(crop: object, squeeze: float) -> tuple[str, float]:
        asked.append(squeeze)
        return f"at {squeeze}", scores[squeeze]

    monkeypatch.setattr(reading, "_read_at", read_at)
    assert reading.read_line(drawn("a line", 28)) == (f"at {reading.SQUEEZE}", reading.SURE)
    assert asked == [reading.SQUEEZE]
    scores[reading.SQUEEZE] = reading.SURE - 0.01
    assert reading.read_line(drawn("a line", 28)) == ("at 1.0", 1.0)
    scores[1.0] = 0.2
    assert reading.read_line(drawn("a line", 28))[0] == f"at {reading.SQUEEZE}"


@pytest.mark.skipif(find_spec("rapidocr") is None, reason="the extra `ocr` is not installed")
def test_without_its_last_layer_the_model_reads_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = pytest.importorskip("qwen_batch.read.ocr.reading")
    lines = [drawn(text, 28) for text in ("Clause 12.3 (b): 4,500 EUR", "a{b}~c_d", "")]
    reading._reader.cache_clear()
    assert reading._reader().head is not None
    found = [reading.read_line(line) for line in lines]
    monkeypatch.setattr(reading, "cut_off_last_layer", lambda model: None)
    reading._reader.cache_clear()
    assert reading._reader().head is None
    whole = [reading.read_line(line) for line in lines]
    reading._reader.cache_clear()
    assert [text for text, _ in found] == [text for text, _ in whole]
    assert [score for _, score in found] == pytest.approx([score for _, score in whole], abs=1e-3)
