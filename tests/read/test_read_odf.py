"""OpenDocument slides and sheets: a page each; and what is wrong with a file is said."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from qwen_batch.errors import DocumentError
from qwen_batch.read.formats import read_other
from qwen_batch.read.items import Content
from qwen_batch.read.kinds import kind_of
from qwen_batch.records import Page, Span

SPACES = " ".join(
    f'xmlns:{prefix}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
    for prefix, name in {"office": "office", "text": "text", "table": "table", "draw": "drawing"}.items()
)


def write(path: Path, body: str, **parts: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        content = f"<office:document-content {SPACES}><office:body>{body}</office:body></office:document-content>"
        archive.writestr("content.xml", content)
        for name, data in parts.items():
            archive.writestr(name.replace("__", "/").replace("_xml", ".xml"), data)
    return path


def read(path: Path) -> Content:
    kind = kind_of(path)
    assert kind == "odf"
    return read_other(path, kind)


def texts(page: Page) -> list[str]:
    return [line.text for line in page.lines]


def frame(*paragraphs: str) -> str:
    return f"<draw:frame><draw:text-box>{''.join(paragraphs)}</draw:text-box></draw:frame>"


def p(text: str) -> str:
    return f"<text:p>{text}</text:p>"


def cell(text: str, attributes: str = "") -> str:
    return f"<table:table-cell {attributes}>{p(text) if text else ''}</table:table-cell>"


def row(*cells: str, attributes: str = "") -> str:
    return f"<table:table-row {attributes}>{''.join(cells)}</table:table-row>"


def test_slides_are_pages(tmp_path: Path) -> None:
    items = "".join(f"<text:list-item>{p(text)}</text:list-item>" for text in ("who pays", "who delivers"))
    table = (
        f"<draw:frame><table:table>{row(cell('a'), cell('b'))}{row(cell('1'), cell('2'))}</table:table></draw:frame>"
    )
    group = f"<draw:g><draw:custom-shape>{p('in a shape')}</draw:custom-shape></draw:g>"
    number = frame(p("<text:page-number>&lt;number&gt;</text:page-number>"))
    first = f"<draw:page>{frame(p('Roles'))}{number}{frame(f'<text:list>{items}</text:list>')}{group}</draw:page>"
    second = f"<draw:page>{frame(p('Prices'))}{table}</draw:page>"
    path = write(tmp_path / "a.odp", f"<office:presentation>{first}<draw:page/>{second}</office:presentation>")
    pages = read(path).pages
    assert [page.page_number for page in pages] == [1, 2, 3]
    assert [texts(page) for page in pages] == [
        ["Roles", "- who pays", "- who delivers", "in a shape"],
        [],
        ["Prices", ""],
    ]
    assert [table.rows for table in pages[2].tables] == [(("a", "b"), ("1", "2"))]


def test_sheets_are_pages_with_a_table_each(tmp_path: Path) -> None:
    blank = cell("", 'table:number-columns-repeated="16382"')
    note = "<office:annotation><text:p>a comment</text:p></office:annotation>"
    rows = [
        row(cell("item"), cell("price"), blank),
        row(cell("chair"), f'<table:table-cell office:value="12.5">{note}{p("12,50 EUR")}</table:table-cell>', blank),
        row(cell("table"), '<table:table-cell office:value-type="float" office:value="40"/>', blank),
        row(cell("stool"), cell("9"), attributes='table:number-rows-repeated="2"'),
        row(cell("", 'table:number-columns-repeated="16384"'), attributes='table:number-rows-repeated="1048571"'),
    ]
    sheets = f"<table:table>{''.join(rows)}</table:table><table:table>{row(cell('x'), cell('y'))}</table:table>"
    first, second = read(write(tmp_path / "a.ods", f"<office:spreadsheet>{sheets}</office:spreadsheet>")).pages
    prices = (("item", "price"), ("chair", "12,50 EUR"), ("table", "40"), ("stool", "9"), ("stool", "9"))
    assert (first.tables[0].rows, first.tables[0].header_rows) == (prices, 1)
    assert second.tables[0].rows == (("x", "y"),)


def test_merged_cells_of_sheets_and_sheets_larger_than_merged_ones_may_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qwen_batch.read.html.MAX_CELLS", 100)
    wide = cell("year", 'table:number-columns-spanned="2"') + "<table:covered-table-cell/>"
    merged = f"<table:table>{row(wide)}{row(cell('1'), cell('2'))}</table:table>"
    (page,) = read(write(tmp_path / "a.ods", f"<office:spreadsheet>{merged}</office:spreadsheet>")).pages
    assert (page.tables[0].rows, page.tables[0].spans) == ((("year", ""), ("1", "2")), (Span(0, 0, 1, 2),))
    long = "".join(row(*(cell(f"{number}") for number in range(11))) for _ in range(20))
    body = f"<office:spreadsheet><table:table>{long}</table:table></office:spreadsheet>"
    (page,) = read(write(tmp_path / "b.ods", body)).pages
    assert len(page.tables[0].rows) == 20
    body = body.replace(row(*(cell(f"{number}") for number in range(11))), row(wide), 1)
    with pytest.raises(DocumentError, match=r"save it as \.csv") as caught:
        read(write(tmp_path / "c.ods", body))
    assert caught.value.error_type == "too_large"


def test_comments_are_no_text(tmp_path: Path) -> None:
    comment = "<office:annotation><text:p>Really?</text:p></office:annotation>"
    path = write(tmp_path / "a.odt", f"<office:text>{p(f'The tenant{comment} pays.')}{comment}</office:text>")
    assert texts(read(path).pages[0]) == ["The tenant pays."]


@pytest.mark.parametrize("suffix", ["odt", "odp", "ods"])
def test_what_is_wrong_with_a_file_is_said(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.{suffix}"
    manifest = "<manifest:encryption-data manifest:checksum='x'/>"
    for kind, body, parts in (
        ("empty", "<office:presentation><draw:page/></office:presentation>", {}),
        ("damaged", "<office:text>", {}),
        ("encrypted", "", {"META-INF__manifest_xml": manifest}),
        ("unsafe", "", {"styles_xml": "<!DOCTYPE a [<!ENTITY b 'c'>]><a/>"}),
    ):
        with pytest.raises(DocumentError) as caught:
            read(write(path, body, **parts))
        assert caught.value.error_type == kind
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("word/document.xml", "<a/>")
    with pytest.raises(DocumentError, match=rf"named \.{suffix}, but the archive holds something else"):
        read(path)
