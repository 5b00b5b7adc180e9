"""Pages to a PDF file, the same bytes each time (`invariant`): no clock, no random identifier."""

from __future__ import annotations

import io
from collections.abc import Sequence

from reportlab.lib.pdfencrypt import StandardEncryption  # type: ignore[import-untyped]
from reportlab.pdfgen.canvas import Canvas  # type: ignore[import-untyped]

from generator.layout import PAPER, Rule, Sheet, Text, lay_out
from generator.markup import Contract
from generator.typeface import iter_runs, text_width

FILL_AND_STROKE = 2  # text rendering mode of PDF
WIDEST_WORD_SPACE, WIDEST_CHARACTER_SPACE = 1.0, 0.1  # added at most, in font sizes; a wider line stays ragged
OWNER_PASSWORD = "owner-of-the-sample"  # any; only the user password opens the file


def contract_pdf(contract: Contract, user_password: str = "") -> bytes:
    """The contract as a PDF file; encrypted when a password is given."""
    title = next(block.lines[0] for block in contract.blocks if block.kind == "title")
    return sheets_pdf(lay_out(contract), PAPER[contract.style.paper], title, user_password)


def sheets_pdf(sheets: Sequence[Sheet], paper: tuple[float, float], title: str, user_password: str = "") -> bytes:
    """Draw pages; `paper` is width and height in points."""
    lock = StandardEncryption(user_password, ownerPassword=OWNER_PASSWORD, strength=128) if user_password else None
    buffer = io.BytesIO()
    canvas = Canvas(buffer, pagesize=paper, invariant=1, pageCompression=1, encrypt=lock)
    canvas.setTitle(title)
    canvas.setAuthor("qwen-batch sample data")
    for sheet in sheets:
        for item in sheet:
            _draw_rule(canvas, item) if isinstance(item, Rule) else _draw_text(canvas, item)
        canvas.showPage()
    canvas.save()
    return buffer.getvalue()


def _draw_rule(canvas: Canvas, rule: Rule) -> None:
    canvas.setLineWidth(0.6)
    canvas.line(rule.x0, rule.y0, rule.x1, rule.y1)


def _draw_text(canvas: Canvas, item: Text) -> None:
    canvas.saveState()  # spacing and rendering mode outlive a text object
    line = canvas.beginText(item.x, item.y)
    if item.face.embolden:
        line.setTextRenderMode(FILL_AND_STROKE)
        canvas.setLineWidth(item.size * 0.03)
    if item.stretch is not None:
        _spread(line, item, item.stretch - text_width(item.text, item.face, item.size))
    for font, run in iter_runs(item.text, item.face):
        line.setFont(font, item.size)
        line.textOut(run)
    canvas.drawText(line)
    canvas.restoreState()


def _spread(line: object, item: Text, extra: float) -> None:
    """Share `extra` points out over the spaces (English) or between the characters (Chinese), unless it is too wide."""
    if item.face.chinese is None:
        gaps, set_space, widest = item.text.count(" "), "setWordSpace", WIDEST_WORD_SPACE
    else:
        gaps, set_space, widest = len(item.text) - 1, "setCharSpace", WIDEST_CHARACTER_SPACE
    if gaps and extra / gaps <= widest * item.size:
        getattr(line, set_space)(extra / gaps)
