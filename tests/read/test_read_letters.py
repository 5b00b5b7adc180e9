"""Characters that pdfium gives in pieces, in the wrong place, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest
from raw_pdf import stream, with_names, write_objects, write_pages

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


def test_text_beyond_the_edges_is_left_out_and_named(tmp_path: Path) -> None:
    texts = ("72 700", "Shown"), ("640 680", "beside"), ("72 850", "above"), ("-18 660", "over the edge")
    content = " ".join(f"BT /F 12 Tf {place} Td ({text}) Tj ET" for place, text in texts)
    read = read_pdf(write_pages(tmp_path / "cut.pdf", [content, "BT /F 12 Tf 72 700 Td (All) Tj ET"]))
    assert [page.text for page in read.pages] == ["Shown\nover the edge", "All"]
    assert read.warnings == ("pages with text beyond their edges, which is not shown and left out (2 words): 1",)


def test_a_box_that_shows_no_text_is_not_believed(tmp_path: Path) -> None:
    path = write_pages(tmp_path / "off.pdf", ["BT /F 12 Tf 72 700 Td (Text) Tj ET"], "/CropBox [300 100 500 200]")
    assert text_of(path) == "Text"


def on_a_grid(text: str, cell: float) -> str:
    """What draws each letter in the middle of its cell, in Helvetica of 10 points."""
    widths = {"i": 2.22, "l": 2.22, "j": 2.22, "f": 2.78, "t": 2.78, "r": 3.33, "c": 5, "s": 5, "m": 8.33}
    letters = [
        f"1 0 0 1 {72 + cell * number - widths.get(letter, 5.56) / 2:.2f} 700 Tm ({letter}) Tj"
        for number, letter in enumerate(text)
        if letter != " "
    ]
    return f"BT /F 10 Tf {' '.join(letters)} ET"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("vous utilisez les titres", "vous utilisez les titres"),
        ("this is still the title", "this is still the title"),
        ("J F M A J J A S O N D J F", "J F M A J J A S O N D J F"),
    ],
)
def test_letters_on_a_grid_are_words(tmp_path: Path, text: str, wanted: str) -> None:
    assert text_of(write_pages(tmp_path / "grid.pdf", [on_a_grid(text, 6.0)])) == wanted


def draw_bitmaps(path: Path, content: str) -> Path:
    """A page whose font draws a box for each code and names none."""
    codes = range(256)
    boxes = " ".join(f"/g{code} 6 0 R" for code in codes)
    font = (
        f"<< /Type /Font /Subtype /Type3 /FontBBox [0 0 500 700] /FontMatrix [0.001 0 0 0.001 0 0] /FirstChar 0 "
        f"/LastChar 255 /Widths [{'500 ' * 256}] /CharProcs << {boxes} >> /Resources << >> "
        f"/Encoding << /Type /Encoding /Differences [{' '.join(f'{code} /g{code}' for code in codes)}] >> >>"
    )
    page = "<< /Type /Page /Parent 2 0 R /Contents 5 0 R /Resources << /Font << /F 3 0 R >> >> >>"
    pages = "<< /Type /Pages /Kids [4 0 R] /Count 1 /MediaBox [0 0 600 800] >>"
    box = stream("500 0 20 0 480 600 d1 20 0 460 600 re f")
    return write_objects(path, ["<< /Type /Catalog /Pages 2 0 R >>", pages, font, page, stream(content), box])


@pytest.mark.parametrize(
    ("codes", "wanted"),
    [
        (r"su\036cient, the \034rst o\033er.", "suﬃcient, the ﬁrst oﬀer."),
        (r"\020Yes,\021 he said, pages 12\02515", "“Yes,” he said, pages 12–15"),
        (r"M\014 and L\014 here", "M\x0c and L\x0c here"),
        (r"au\031en", "au\ufffden"),
    ],
)
def test_codes_of_fonts_without_names(tmp_path: Path, codes: str, wanted: str) -> None:
    path = draw_bitmaps(tmp_path / "bitmaps.pdf", f"BT /F 10 Tf 72 700 Td ({codes}) Tj ET")
    assert text_of(path) == wanted


def test_codes_of_fonts_with_names_are_lost_letters(tmp_path: Path) -> None:
    path = tmp_path / "named.pdf"
    write_pages(path, [r"BT /F 12 Tf 72 700 Td (De\033nition) Tj ET"], font="/Encoding << /Differences [27 /g27] >>")
    assert text_of(path) == "De\ufffdnition"


def test_names_of_ligatures_tell_their_letters(tmp_path: Path) -> None:
    named = "/Encoding << /BaseEncoding /WinAnsiEncoding /Differences [27 /f_i /f_f_i /f_t /f] >>"
    content = r"BT /F 12 Tf 72 700 Td (\033nd the De\033nition, o\034cial, o\035en; M\033 1) Tj ET"
    path = write_pages(tmp_path / "ligatures.pdf", [content], font=named)
    assert text_of(path) == "ﬁnd the Deﬁnition, oﬃcial, often; Mﬁ 1"


def glyph_numbers(text: str) -> str:
    """A string of a content stream with the numbers of its letters' glyphs in the standard order of the Macintosh."""
    numbers = (ord(char) - 29 if char.isascii() else char.encode("mac_roman")[0] - 30 for char in text)
    return "".join(f"\\{number:03o}" for number in numbers)


@pytest.mark.parametrize(
    "text",
    [
        "les conditions permettant d'en bénéficier sont fournis & ci-dessus",
        "(the) terms of this agreement bind both parties: 42 + 7",
    ],
)
def test_numbers_of_glyphs_are_told(tmp_path: Path, text: str) -> None:
    content = f"BT /F 10 Tf 30 700 Td ({glyph_numbers(text)}) Tj ET"
    assert text_of(draw_bitmaps(tmp_path / "glyphs.pdf", content)) == text


def test_other_numbers_are_left(tmp_path: Path) -> None:
    content = f"BT /F 10 Tf 30 700 Td ({glyph_numbers('xqz wvk jjq zzx kwq vxz qqk')}) Tj ET"
    assert "xqz" not in text_of(draw_bitmaps(tmp_path / "glyphs.pdf", content))
