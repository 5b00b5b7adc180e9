"""PDF files made on the spot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from reportlab.lib.pagesizes import A4
from reportlab.pdfgen.canvas import Canvas

WritePdf = Callable[..., Path]


@pytest.fixture
def write_pdf(tmp_path: Path) -> WritePdf:
    """Writes a PDF with one list of lines for each page, 14 points apart, 12 points large, from (72, 72)."""

    def write(pages: Sequence[Sequence[str]], name: str = "made.pdf", encrypt: str | None = None) -> Path:
        path = tmp_path / name
        canvas = Canvas(str(path), pagesize=A4, encrypt=encrypt)
        for lines in pages:
            canvas.setFont("Helvetica", 12)
            for number, line in enumerate(lines):
                canvas.drawString(72, A4[1] - 84 - 14 * number, line)
            canvas.showPage()
        canvas.save()
        return path

    return write
