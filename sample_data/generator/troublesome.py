"""Small files, each with one trouble, and two good ones beside them."""

from __future__ import annotations

import io
import json
import random

from PIL import Image, ImageDraw, ImageFont
from reportlab.lib.utils import ImageReader  # type: ignore[import-untyped]
from reportlab.pdfgen.canvas import Canvas  # type: ignore[import-untyped]

from generator.draw import contract_pdf, sheets_pdf
from generator.layout import PAPER
from generator.markup import Contract, parse_contract

PASSWORD = "open-sesame"
SCAN_DPI = 100
SCAN_SIZE = (int(8.27 * SCAN_DPI), int(11.69 * SCAN_DPI))  # A4 in pixels
SCAN_TILT = 0.6  # degrees
SCAN_NOISE = 0.0015  # share of pixels that are specks

LETTER = """\
---
font: Helvetica
footer: ["", "", ""]
---
# Settlement Agreement

Ardent Tile Works GmbH, Kassel, and Bellamy Interiors Ltd, Bristol, settle their dispute about order 88-2041 as follows.

1.1 Bellamy Interiors Ltd pays EUR 18,400 by 30 June 2025. If it pays later, it owes interest at 9 per cent a year.

1.2 Ardent Tile Works GmbH withdraws its claim before the Bristol County Court. The pattern "Wave 7" remains its design.

1.3 Neither party tells others about the content of this settlement.

Kassel and Bristol, 19 May 2025
"""

SCANNED_LINES = """\
DELIVERY NOTE                         No. 20817

Pomeroy Timber Yard, 6 Canal Side, Gloucester

To: Whitlock Joinery, 31 Mill Road, Stroud
Date: 3 April 2025

 24   planed oak boards, 2400 x 200 x 27 mm
 10   birch plywood sheets, 2440 x 1220 x 18 mm
  6   boxes of brass screws, 4 x 40 mm

Total: GBP 1,386.20, payable within 14 days.
Late payment: 2 % a month.

Received in good order:   R. Whitlock
"""

GOOD_TEXT = """\
LETTER OF ENGAGEMENT

This letter of 7 February 2025 sets out the terms on which Quillfeather Translations, of Norwich, works for
Abernathy Seeds Ltd, of Perth.

1. Quillfeather translates the seed catalogue 2025, about 62,000 words, from English into German by 30 April 2025.

2. The fee is GBP 0.11 a word, payable within 21 days of the invoice. For each week of delay for which it is
responsible, Quillfeather allows a reduction of 3 per cent of the fee, up to 15 per cent.

3. Copyright in the translation passes to Abernathy on full payment. Quillfeather may keep its glossary.

4. Disputes go to the Sheriff Court at Perth. Scots law applies.
"""

HTML_PAGE = """\
<!DOCTYPE html>
<html><head><title>404 Not Found</title></head>
<body><h1>Not Found</h1>
<p>The contract that you asked for has moved. Please log in again to download it.</p>
</body></html>
"""


def troublesome_files(good: Contract) -> dict[str, bytes]:
    """File name -> content. `good` is the contract that is copied beside the others."""
    good_pdf = contract_pdf(good)
    letter = contract_pdf(parse_contract("encrypted", LETTER), user_password=PASSWORD)
    return {
        "good.pdf": good_pdf,
        "good.txt": GOOD_TEXT.encode(),
        "truncated.pdf": good_pdf[: len(good_pdf) * 3 // 5],
        "encrypted.pdf": letter,
        "image_only.pdf": _image_pdf(_scan()),
        "blank.pdf": sheets_pdf([[]], PAPER["a4"], "Blank page"),
        "zero_bytes.pdf": b"",
        "html_named.pdf": HTML_PAGE.encode(),
        "bad_lines.jsonl": _bad_lines(),
    }


def _bad_lines() -> bytes:
    """Line by line: good, broken JSON, not an object, no text, an id that was there before, bad UTF-8, good."""
    first = {
        "id": "L-1",
        "text": "The kettle leaks at the seam. I bought it on 2 May 2025 for EUR 39.90. Please replace it.",
    }
    last = {"id": "L-7", "text": "Thank you, the new kettle arrived on 16 May 2025 and holds water.", "priority": 1}
    lines = [
        json.dumps(first).encode(),
        b'{"id": "L-2", "text": "this record ends too ea',
        b'["L-3", "a list is not a record"]',
        b'{"id": "L-4", "metadata": {"channel": "chat"}}',
        b'{"id": "L-1", "text": "The same id as the first line, with another text."}',
        b'{"id": "L-6", "text": "Gr\xfc\xdfe: Latin-1 bytes in a UTF-8 file"}',
        json.dumps(last).encode(),
    ]
    return b"\n".join(lines) + b"\n"


def _scan() -> bytes:
    """A page as a scanner gives it: slightly turned, speckled, grey. JPEG bytes."""
    page = Image.new("L", SCAN_SIZE, 246)
    draw = ImageDraw.Draw(page)
    font = ImageFont.load_default(size=19)
    for number, line in enumerate(SCANNED_LINES.splitlines()):
        draw.text((85, 110 + 38 * number), line, fill=40, font=font)
    page = page.rotate(SCAN_TILT, resample=Image.Resampling.BILINEAR, fillcolor=246)
    chance = random.Random(7)
    for _ in range(int(SCAN_SIZE[0] * SCAN_SIZE[1] * SCAN_NOISE)):
        page.putpixel((chance.randrange(SCAN_SIZE[0]), chance.randrange(SCAN_SIZE[1])), chance.randrange(90, 200))
    buffer = io.BytesIO()
    page.save(buffer, "JPEG", quality=45)
    return buffer.getvalue()


def _image_pdf(jpeg: bytes) -> bytes:
    buffer = io.BytesIO()
    canvas = Canvas(buffer, pagesize=PAPER["a4"], invariant=1)
    canvas.drawImage(ImageReader(io.BytesIO(jpeg)), 0, 0, *PAPER["a4"])
    canvas.showPage()
    canvas.save()
    return buffer.getvalue()
