"""Spreadsheets: what the cells show, wherever they stand, and what is not shown is said."""

from __future__ import annotations

import datetime
import zipfile
from pathlib import Path
from typing import Any

import pytest

from qwen_batch.errors import DocumentError
from qwen_batch.read.formats import read_other
from qwen_batch.read.items import Content
from qwen_batch.read.office.number_formats import format_value
from qwen_batch.read.office.sheet_dates import day_number
from qwen_batch.records import Span

ACCOUNTING = '_-* #,##0.00_-;-* #,##0.00_-;_-* "-"??_-;_-@_-'
NOON = 45413.75  # 1 May 2024, 18:00


@pytest.mark.parametrize(
    ("value", "code", "shown"),
    [
        (1234.5678, "General", "1234.5678"),
        (0.1 + 0.2, "General", "0.3"),
        (1e20, "General", "1E+20"),
        (12345678901234568.0, "General", "12345678901234568"),
        (-1e15, "0", "-1000000000000000"),
        (1234.5, "#,##0.00", "1,234.50"),
        (1234567.0, "#,##0", "1,234,567"),
        (-1234.5, "#,##0.00_);(#,##0.00)", "(1,234.50)"),
        (-1234.0, "$#,##0;[Red]-$#,##0", "-$1,234"),
        (0.0, ACCOUNTING, "-"),
        (-12.0, ACCOUNTING, "-12.00"),
        (0.125, "0.0%", "12.5%"),
        (-0.5, "0%", "-50%"),
        (1.005, "0.00", "1.01"),
        (-0.001, "0.00", "0.00"),
        (3.0, "0.###", "3"),
        (7.0, "000", "007"),
        (1234.5, "[$€-407] #,##0.00", "€ 1,234.50"),
        (99.5, '#,##0.00\\ "EUR"', "99.50 EUR"),
        (1234567.0, '0.0,,"M"', "1.2M"),
        (5551234567.0, "[<=9999999]###-####;(###) ###-####", "(555) 123-4567"),
        (5551234.0, "[<=9999999]###-####;(###) ###-####", "555-1234"),
        (12345.0, "0.00E+00", "1.23E+04"),
        (0.5, "# ?/?", "0.5"),
        (3.0, 'General" kg"', "3 kg"),
        (NOON, "yyyy-mm-dd", "2024-05-01"),
        (NOON, "dd.mm.yyyy hh:mm", "01.05.2024 18:00"),
        (NOON, "[$-409]m/d/yy h:mm AM/PM;@", "5/1/24 6:00 PM"),
        (NOON, "d. mmmm yyyy", "1. May 2024"),
        (NOON, 'yyyy"年"m"月"d"日"', "2024年5月1日"),
        (NOON, "ddd, mmm-yy", "Wed, May-24"),
        (1.5, "[h]:mm", "36:00"),
        (0.0, "mm:ss.0", "00:00.0"),
        (59.0, "yyyy-mm-dd", "1900-02-28"),
        (61.0, "yyyy-mm-dd", "1900-03-01"),
        (-1.0, "yyyy-mm-dd", "-1"),
    ],
)
def test_numbers_as_the_sheet_shows_them(value: float, code: str, shown: str) -> None:
    assert format_value(value, code) == shown


@pytest.mark.parametrize("code", ["", ";", ";;;", '"', "\\", "[", "0..0", "#,", "%%%", "/", "0E+", "@", "[h", "A/P"])
def test_broken_formats_show_something(code: str) -> None:
    assert isinstance(format_value(1.5, code), str)


def save(tmp_path: Path, book: Any) -> Path:
    book.save(tmp_path / "a.xlsx")
    return tmp_path / "a.xlsx"


def read(path: Path) -> Content:
    return read_other(path, "xlsx")


def test_cells_far_away_and_formats_and_sheets(tmp_path: Path) -> None:
    book = pytest.importorskip("openpyxl").Workbook()
    sheet = book.active
    sheet.title = "Prices"
    sheet.append(["Item", "Price", "Date", "Share"])
    sheet.append(["Bolt", 1234.5, datetime.date(2024, 5, 1), 0.125])
    sheet["B2"].number_format, sheet["D2"].number_format = '#,##0.00 "EUR"', "0.0%"
    sheet["A3"], sheet["B3"] = True, "=SUM(B2:B2)"
    sheet["XFD1048576"] = "far"
    book.create_sheet("Blank")
    book.create_sheet("Second")["C9"] = "alone"
    content = read(save(tmp_path, book))
    assert [[line.text for line in page.lines] for page in content.pages] == [["Prices", ""], [], ["Second", ""]]
    assert content.pages[0].tables[0].rows == (
        ("Item", "Price", "Date", "Share", ""),
        ("Bolt", "1,234.50 EUR", "2024-05-01", "12.5%", ""),
        ("TRUE", "=SUM(B2:B2)", "", "", ""),
        ("", "", "", "", "far"),
    )
    assert content.pages[2].tables[0].rows == (("alone",),)
    assert len(content.warnings) == 1
    assert content.warnings[0].startswith("formulas without a stored result, shown as they are: 1;")


def test_merged_and_hidden_cells(tmp_path: Path) -> None:
    book = pytest.importorskip("openpyxl").Workbook()
    sheet = book.active
    for values in (["Region", None, "2024", "x"], [None, None, "Q1", "x"], ["North", None, 1, "x"], ["South", 0, 2, 0]):
        sheet.append(values)
    sheet["C1"], sheet["C2"], sheet["E1"], sheet["E2"] = "2024", "Q1", None, "Q2"
    sheet.merge_cells("A1:A2")
    sheet.merge_cells("C1:E1")
    sheet.row_dimensions[4].hidden = True
    sheet.column_dimensions["D"].hidden = True
    book.create_sheet("Old")["A1"] = "secret"
    book["Old"].sheet_state = "hidden"
    content = read(save(tmp_path, book))
    (table,) = content.pages[0].tables
    assert table.rows == (("Region", "2024", ""), ("", "Q1", "Q2"), ("North", "1", ""))
    assert table.spans == (Span(0, 0, 2, 1), Span(0, 1, 1, 2))
    assert table.header_rows == 2
    assert content.warnings == ("hidden and left out: 1 rows of 'Sheet', 1 columns of 'Sheet', sheet 'Old'",)


SHEET = '<worksheet xmlns="http://purl.oclc.org/ooxml/spreadsheetml/main"><sheetData>{}</sheetData></worksheet>'
BOOK = (
    '<workbook xmlns="http://purl.oclc.org/ooxml/spreadsheetml/main" xmlns:r="urn:r"><workbookPr date1904="1"/>'
    '<sheets><sheet name="S" r:id="a"/></sheets></workbook>'
)
RELATIONS = (
    '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
    '<Relationship Id="a" Target="/xl/worksheets/sheet1.xml"/></Relationships>'
)
STYLES = '<styleSheet><cellXfs><xf numFmtId="0"/><xf numFmtId="14"/></cellXfs></styleSheet>'
STRINGS = "<sst><si><r><t>合</t></r><r><t>同</t></r><rPh><t>ごう</t></rPh></si></sst>"


def write(path: Path, rows: str) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/workbook.xml", BOOK)
        archive.writestr("xl/_rels/workbook.xml.rels", RELATIONS)
        archive.writestr("xl/styles.xml", STYLES)
        archive.writestr("xl/sharedStrings.xml", STRINGS)
        archive.writestr("xl/worksheets/sheet1.xml", SHEET.format(rows))
    return path


def test_strict_files_without_references(tmp_path: Path) -> None:
    cells = '<c t="s"><v>0</v></c><c s="1"><v>0</v></c><c t="inlineStr"><is><t>in line</t></is></c>'
    cells += '<c t="e"><v>#REF!</v></c>'
    (page,) = read(write(tmp_path / "a.xlsx", f"<row>{cells}</row>")).pages
    assert page.tables[0].rows == (("合同", "1904-01-01", "in line", "#REF!"),)


def test_dates_that_strict_files_keep_as_text(tmp_path: Path) -> None:
    dates = ("2026-11-30", "2026-11-30T18:00:00.000", "soon")
    cells = "".join(f'<c t="d" s="1"><v>{date}</v></c>' for date in dates)
    (page,) = read(write(tmp_path / "a.xlsx", f"<row>{cells}</row>")).pages
    assert page.tables[0].rows == (("2026-11-30", "2026-11-30", "soon"),)


@pytest.mark.parametrize(
    ("text", "number"),
    [("1900-01-01", 1), ("1900-03-01", 61), ("2024-05-01T18:00:00Z", NOON), ("06:00:00", 0.25), ("x", None)],
)
def test_day_numbers(text: str, number: float | None) -> None:
    assert day_number(text, from_1904=False) == number


def test_a_formula_whose_text_is_empty_shows_nothing(tmp_path: Path) -> None:
    cells = '<c t="str"><f>IF(B1="","","x")</f><v></v></c><c><f>B1+1</f><v/></c><c t="str"><f>A1</f><v>seen</v></c>'
    content = read(write(tmp_path / "a.xlsx", f"<row>{cells}</row>"))
    assert content.pages[0].tables[0].rows[0][-2:] == ("=B1+1", "seen")
    assert "shown as they are: 1" in content.warnings[0]


@pytest.mark.parametrize(
    ("rows", "kind"),
    [
        ("<row><c t='s'><v>9</v></c></row>", "damaged"),
        ("<row><c><v>x</v></c></row>", "damaged"),
        ("<row>", "damaged"),
        ("", "empty"),
    ],
)
def test_what_is_wrong_with_a_sheet_is_said(tmp_path: Path, rows: str, kind: str) -> None:
    with pytest.raises(DocumentError) as caught:
        read(write(tmp_path / "a.xlsx", rows))
    assert caught.value.error_type == kind


def test_more_cells_than_a_document_may_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qwen_batch.read.office.xlsx.MAX_CELLS", 3)
    path = write(tmp_path / "a.xlsx", "<row>" + "<c><v>1</v></c>" * 4 + "</row>")
    with pytest.raises(DocumentError, match="more than 3 cells hold text"):
        read(path)
