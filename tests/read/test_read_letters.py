"""Characters that pdfium gives in pieces, in the wrong place, or not at all."""

from __future__ import annotations

from pathlib import Path

from raw_pdf import with_names

from qwen_batch.read.pdf import read_pdf


def text_of(path: Path) -> str:
    return "\n".join(page.text for page in read_pdf(path).pages)


def test_characters_beyond_the_first_plane_are_whole(tmp_path: Path) -> None:
    names = {ord("A"): "𝐴", ord("N"): "𠮟", ord("E"): "😀"}
    path = with_names(tmp_path / "planes.pdf", "BT /F 12 Tf 72 700 Td (x A= N: E end) Tj ET", names)
    (line,) = read_pdf(path).pages[0].lines
    assert line.text == "x 𝐴= 𠮟: 😀 end"


def test_half_a_character_is_marked(tmp_path: Path) -> None:
    path = with_names(tmp_path / "half.pdf", "BT /F 12 Tf 72 700 Td (x A= 1) Tj ET", {ord("A"): "\ud835"})
    assert text_of(path) == "x \ufffd= 1"
