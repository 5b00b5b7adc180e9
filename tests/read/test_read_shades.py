"""Shaded text within ruled cells makes no columns; shaded rows and cells still part."""

from __future__ import annotations

from pathlib import Path

from reportlab.lib.pagesizes import A4
from reportlab.pdfgen.canvas import Canvas

from qwen_batch.read.pdf import read_pdf
from qwen_batch.read.tables.marks import Marks
from qwen_batch.read.tables.shades import table_edges

ROWS = [("Substance", "to air\nkg/year"), ("Ammonia", "10 000"), ("Inorganic\ncompounds", "500")]


def draw_shaded(path: Path, inset: float) -> Path:
    """Cells of 120 by 30 points within thin filled boxes, with each line of text shaded."""
    canvas = Canvas(str(path), pagesize=A4)
    canvas.setFont("Helvetica", 9)
    for number, row in enumerate(ROWS):
        top = 700.0 - 30 * number
        for column, cell in enumerate(row):
            left = 80.0 + 120 * column
            canvas.setFillGray(0.9)
            canvas.rect(left, top - 30, 120, 30, stroke=0, fill=1)
            for line in range(2):
                canvas.rect(left + inset, top - 14 - 13 * line, 120 - 2 * inset, 12, stroke=0, fill=1)
            canvas.setFillGray(0)
            for line, text in enumerate(cell.split("\n")):
                canvas.drawString(left + 8, top - 11 - 13 * line, text)
    canvas.setFillGray(0)
    for number in range(4):
        canvas.rect(80, 700 - 30 * number, 240, 0.5, stroke=0, fill=1)
    for number in range(3):
        canvas.rect(80 + 120 * number, 610, 0.5, 90, stroke=0, fill=1)
    canvas.save()
    return path


def test_shaded_lines_of_text_are_no_cells(tmp_path: Path) -> None:
    (table,) = read_pdf(draw_shaded(tmp_path / "shaded.pdf", 5.0)).pages[0].tables
    assert table.rows == tuple(ROWS)


def test_shades_from_side_to_side_of_a_cell_divide_it() -> None:
    edges = tuple((0.0, y, 200.0, y) for y in (0.0, 20.0, 80.0)) + tuple((x, 0.0, x, 80.0) for x in (0.0, 100.0, 200.0))
    row, text = (0.0, 20.0, 100.0, 40.0), (8.0, 40.0, 92.0, 52.0)
    found = table_edges(Marks(edges, 0, 0.0, shades=(row, text)))
    assert (0.0, 40.0, 100.0, 40.0) in found
    assert not any(edge[1] == 52.0 for edge in found)
