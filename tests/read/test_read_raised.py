"""Footnote marks and exponents: small raised digits."""

from __future__ import annotations

from pathlib import Path

import pytest
from reportlab.lib.pagesizes import A4
from reportlab.pdfgen.canvas import Canvas

from qwen_batch.read.page.chars import Char, PageChars
from qwen_batch.read.page.raised import with_raised
from qwen_batch.read.pdf import read_pdf

TOP = A4[1] - 84
Piece = tuple[str, float, float]  # text, font size, rise; in points
MARK = 7.0, 4.5


def written(tmp_path: Path, *lines: list[Piece], late: tuple[str, str] | None = None) -> list[str]:
    """The lines that are read where pieces stand one behind the other. `late` is (text, mark): the mark is drawn at
    last, behind that beginning of the first line."""
    canvas = Canvas(str(tmp_path / "made.pdf"), pagesize=A4)
    for number, line in enumerate(lines):
        x = 72.0
        for text, size, rise in line:
            canvas.setFont("Helvetica", size)
            canvas.drawString(x, TOP - 14 * number + rise, text)
            x += canvas.stringWidth(text, "Helvetica", size)
    if late:
        canvas.setFont("Helvetica", MARK[0])
        canvas.drawString(72 + canvas.stringWidth(late[0], "Helvetica", 12), TOP + MARK[1], late[1])
    canvas.save()
    return read_pdf(tmp_path / "made.pdf").pages[0].text.split("\n")


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        ([("The price is $1,000", 12, 0), ("1", *MARK), (" without tax", 12, 0)], "The price is $1,000¹ without tax"),
        ([("an area of 25 m", 12, 0), ("2", *MARK), (" and 10", 12, 0), ("12", *MARK)], "an area of 25 m² and 10¹²"),
        ([("as agreed.", 12, 0), ("14", *MARK)], "as agreed.¹⁴"),
        ([("“so he says”", 12, 0), ("3", *MARK), (" and more", 12, 0)], "“so he says”³ and more"),
        ([("both", 12, 0), ("1,2", *MARK), (" of them", 12, 0)], "both¹,² of them"),
        ([("1", *MARK), (" See the annex.", 12, 0)], "¹ See the annex."),
        ([("1", *MARK), ("See the annex.", 12, 0)], "¹ See the annex."),
    ],
)
def test_raised_digits(tmp_path: Path, pieces: list[Piece], text: str) -> None:
    assert " ".join(written(tmp_path, pieces)) == text  # pdfium may begin a line after a mark


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        ([("H", 12, 0), ("2", 7, -2), ("O and CO", 12, 0), ("2", 7, -2)], "H2O and CO2"),
        (
            [("Sei R", 12, 0), ("2", *MARK), (" mit x", 12, 0), ("3", *MARK), (" gegeben", 12, 0)],
            "Sei R2 mit x3 gegeben",
        ),
        ([("Section 12 of 2024, item 3", 12, 0)], "Section 12 of 2024, item 3"),
        ([("small numbers 12 and ", 12, 0), ("34", 8, 0), (" too", 12, 0)], "small numbers 12 and 34 too"),
        ([("in all ", 12, 0), ("1,234.00", 9, 3), (" euros", 12, 0)], "in all 1,234.00 euros"),
        ([("Number of pages: ", 12, 0), ("12", 9, 2.5), (" in all", 12, 0)], "Number of pages: 12 in all"),
        ([("No", 12, 0), ("A12", 9, 3), (" is above", 12, 0)], "NoA12 is above"),
    ],
)
def test_other_digits_stay(tmp_path: Path, pieces: list[Piece], text: str) -> None:
    assert " ".join(written(tmp_path, pieces)) == text


def test_a_mark_that_was_drawn_after_its_page_stands_behind_its_word(tmp_path: Path) -> None:
    line = "The Act was signed into law by"
    assert written(tmp_path, [(line, 12, 0)], [("the President of the day.", 12, 0)], late=("The Act", "1")) == [
        "The Act¹ was signed into law by",
        "the President of the day.",
    ]


def test_a_mark_that_was_drawn_after_its_note_stands_before_it(tmp_path: Path) -> None:
    line = "Copying stands for the use of any of the exclusive rights"
    assert written(tmp_path, [("  " + line, 12, 0)], late=("", "2")) == [f"² {line}"]


def test_a_small_page_number_stays_by_itself(tmp_path: Path) -> None:
    assert written(tmp_path, [("Text", 12, 0)], [], [], [("7", 8, 0)]) == ["Text", "7"]


def boxes(text: str, marks: str = "") -> PageChars:
    """Chinese letters 12 points large; digits as Latin letters are, those of `marks` small and raised."""
    chars: list[Char] = []
    for number, char in enumerate(text + marks):
        top, bottom = (91.5, 100.0) if char.isdecimal() else (90.0, 101.5)
        if number >= len(text):
            top, bottom = 90.0, 95.0
        chars.append(Char(char, 72.0 + 12 * number, top, 83.0 + 12 * number, bottom, number))
    return PageChars.of(chars)


def test_digits_beside_chinese_letters_are_small_and_stand_higher_but_are_not_raised() -> None:
    assert with_raised(boxes("第12条共15页")).text == "第12条共15页"
    assert with_raised(boxes("a 用户", "1")).text == "a 用户¹"
    assert with_raised(boxes("第12条共15页的价款", "3")).text == "第12条共15页的价款³"


def test_digits_that_a_font_lacks_have_no_height() -> None:
    chars = [
        char._replace(top=99.9, bottom=100.0) if char.text.isdecimal() else char for char in boxes("第3页").chars()
    ]
    assert with_raised(PageChars.of(chars)).text == "第3页"
