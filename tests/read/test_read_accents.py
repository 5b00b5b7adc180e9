"""An accent that is drawn by itself belongs to its letter, wherever it stands in the file."""

from __future__ import annotations

from pathlib import Path

import pytest
from raw_pdf import write_pages

from qwen_batch.read.page.accents import with_accents
from qwen_batch.read.page.chars import Char, PageChars
from qwen_batch.read.pdf import read_pdf

ENCODED = "/Encoding /WinAnsiEncoding"
DIAERESIS, ACUTE, HAT = r"\250", r"\264", r"\210"


def draw(path: Path, *texts: tuple[float, float, str]) -> str:
    """The text of a page on which pieces are drawn at (x, y), 12 points large."""
    content = " ".join(f"BT /F 12 Tf {x} {y} Td ({text}) Tj ET" for x, y, text in texts)
    (page,) = read_pdf(write_pages(path, [content], font=ENCODED)).pages
    return page.text


@pytest.mark.parametrize(
    ("texts", "wanted"),
    [
        ([(72, 700, "fur das Projekt"), (76.7, 700, DIAERESIS)], "für das Projekt"),
        ([(76.7, 700, DIAERESIS), (72, 700, "fur das Projekt")], "für das Projekt"),
        ([(72, 700, "der Universit"), (139.3, 702.7, "`"), (137.4, 700, "A di")], "der UniversitÀ di"),
        ([(72, 700, "Sie f"), (96.3, 700, DIAERESIS), (95.0, 700, "ur das")], "Sie für das"),
        ([(72, 700, "Grusse"), (72, 686, "und"), (86.8, 700, DIAERESIS)], "Grüsse\nund"),
        ([(72, 700, "it"), (78, 700, ACUTE), (82, 700, "s")], "it´s"),
        ([(72, 700, f"x{HAT}2 = {DIAERESIS} and `ls` ^ ~5")], "xˆ2 = ¨ and `ls` ^ ~5"),
    ],
)
def test_spaced_accents(tmp_path: Path, texts: list[tuple[float, float, str]], wanted: str) -> None:
    assert draw(tmp_path / "accents.pdf", *texts) == wanted


def read(*chars: tuple[str, float, float, float, float]) -> str:
    """The text of characters with (x0, top, x1, bottom)."""
    return with_accents(PageChars.of([Char(*char, number) for number, char in enumerate(chars)])).text


def test_an_accent_takes_the_place_of_the_dot() -> None:
    assert read(("n", 0, 5, 5, 10), ("a", 6, 5, 10, 10), ("ˆ", 10, 2, 14, 4), ("ı", 11, 5, 13, 10)) == "naî"


def test_a_cedilla_stands_below() -> None:
    letter = ("c", 0.0, 5.0, 5.0, 10.0)
    assert read(("¸", 1, 10, 4, 12), letter) == "ç"
    assert read(("¸", 1, 1, 4, 3), letter) == "¸c"


def test_signs_of_thai_do_not_start_lines() -> None:
    """The tone stands after the vowel, both over the letter; what follows is in the same line."""
    blank = (10.0, 10.0, 10.0, 10.0)
    chars = ("ส", 0, 5, 5, 10), ("ี", 1, 2, 5, 4), ("\n", *blank), ("่", 3, -1, 5, 1), ("\n", *blank), ("เ", 6, 5, 8, 10)
    assert read(*chars) == "สี่เ"


def test_vowels_of_arabic_that_end_a_line_within_a_word() -> None:
    blank = (10.0, 10.0, 10.0, 10.0)
    chars = ("ت", 10, 5, 15, 10), ("ّ", 12, 1, 14, 3), ("\r", *blank), ("\n", *blank), ("خ", 5, 5, 10, 10)
    assert read(*chars) == "تّخ"
    below = ("خ", 5, 25, 10, 30)
    assert read(*chars[:4], below) == "تّ\r\nخ"
