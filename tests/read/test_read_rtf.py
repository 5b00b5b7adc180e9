"""Rich text: letters in any encoding, tables, notes, and what is hidden."""

from __future__ import annotations

from pathlib import Path

import pytest

from qwen_batch.read.office.rtf import read_rtf, rtf_page
from qwen_batch.records import Page, Span


def read(text: str) -> Page:
    return rtf_page(text.encode("latin-1"))


def shown(text: str) -> list[str]:
    return [line.text for line in read(text).lines]


FONTS = r"{\fonttbl{\f0\fcharset0 Arial;}{\f1\fcharset134 SimSun;}{\f2\fcharset204 Arial;}{\f3\fcharset128 MS;}}"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (r"{\rtf1\ansi\ansicpg1252 K\'f6ln \'80 5\par next}", ["Köln € 5", "next"]),
        (r"{\rtf1\ansi\ansicpg1251 \'c4\'ee\'e3\'ee\'e2\'ee\'f0}", ["Договор"]),
        (rf"{{\rtf1{FONTS}\f1\'ba\'cf\'cd\'ac {{\f2\'c4\'e0}} \f0 ok}}", ["合同 Да ok"]),
        (rf"{{\rtf1{FONTS}\f3\'83\'65\'83X\'83\'67}}", ["テスト"]),  # the second byte of a character may stand plain
        (r"{\rtf1\uc1\u21512?\u-10179?\u-8704? {\uc2\u8364\'88\'80}\uc0\u167 9}", ["合😀 €§9"]),
        (r"{\rtf1\u-10179? alone}", ["\ufffd alone"]),
        (r"{\rtf1 a\~b\_c\-d\emdash e\{\}\\}", ["a b\u2011cd—e{}\\"]),
        (
            r"{\rtf1 {\upr{ansi}{\*\ud{uni}}} {\*\unknown lost}{\field{\*\fldinst HYPERLINK x}{\fldrslt link}}}",
            ["uni link"],
        ),
        (r"{\rtf1 {\listtext 1.\tab}one\par{\pntext (a)\tab}two\par}", ["1. one", "(a) two"]),
        (r"{\rtf1 {\pict\bin5 }}{{{} shown}", ["shown"]),
        (r"{\rtf1 {\*\shpinst{\sp{\sn a}{\sv b}}{\shptxt in a box\par}}after}", ["in a box", "after"]),
        (r"{\rtf1 first\line second\par}", ["first", "second"]),
        ("{\\rtf1 wor\r\nds\\\nline}", ["words", "line"]),
        (r"{\rtf1 text{\footnote the note} goes on\par end\par}", ["text goes on", "end", "the note"]),
        (r"{\rtf1 open}}}} lost?{\v", ["open lost?"]),
    ],
)
def test_letters_and_destinations(text: str, wanted: list[str]) -> None:
    assert shown(text) == wanted


def test_heads_and_feet_stand_aside() -> None:
    page = read(r"{\rtf1{\header Acme\par}{\footerf page\par}text\par}")
    assert [(line.text, line.aside) for line in page.lines] == [("Acme", "header"), ("text", None), ("page", "footer")]


def test_tables() -> None:
    row = r"\trowd\cellx1\cellx2\pard\intbl {}\cell {}\cell\row"
    rows = row.format("item", "price") + row.format(r"a\par chair", "12") + row.format("", "")
    page = read(rf"{{\rtf1 before\par {rows}\pard after\par}}")
    assert [(line.text, line.table) for line in page.lines] == [("before", None), ("", 0), ("after", None)]
    assert page.tables[0].rows == (("item", "price"), ("a chair", "12"))


def test_merged_cells_keep_the_others_in_their_columns() -> None:
    wide = r"\trowd\cellx2000\cellx3010\pard\intbl title\cell x\cell\row"
    row = r"\trowd\cellx1000\cellx2000\cellx3000\pard\intbl a\cell b\cell c\cell\row"
    (table,) = read(rf"{{\rtf1 {wide}{row}\pard after\par}}").tables
    assert table.rows == (("title", "", "x"), ("a", "b", "c"))
    assert table.spans == (Span(0, 0, 1, 2),)


def test_bullets_of_symbol_fonts() -> None:
    assert shown(r"{\rtf1 {\listtext \u61623\'3f\tab}one\par{\listtext \u-3929?\tab}two\par}") == ["• one", "▪ two"]


def test_hidden_and_deleted_text(tmp_path: Path) -> None:
    (tmp_path / "a.rtf").write_text(r"{\rtf1 open {\v secret}\v more\plain  shown{\deleted gone} end}")
    content = read_rtf(tmp_path / "a.rtf")
    assert [line.text for line in content.pages[0].lines] == ["open shown end"]
    assert content.warnings == ("hidden text was left out: secretmore",)


def test_groups_as_deep_as_they_like() -> None:
    assert shown("{\\rtf1 " + "{" * 100_000 + "x" + "}" * 100_000 + "}") == ["x"]
