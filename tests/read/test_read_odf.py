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
    for prefix, name in {
        "office": "office",
        "text": "text",
        "table": "table",
        "draw": "drawing",
        "style": "style",
        "presentation": "presentation",
    }.items()
)


def write(path: Path, body: str, styles: str = "", **parts: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        styles = f"<office:automatic-styles>{styles}</office:automatic-styles>"
        body = f"<office:body>{body}</office:body>"
        content = f"<office:document-content {SPACES}>{styles}{body}</office:document-content>"
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


@pytest.mark.parametrize(
    ("value", "text", "shown"),
    [
        ("0.30000000000000004", "0.30000000000000004", "0.3"),
        ("0.30000000000000004", "", "0.3"),
        ("1166.6666666666667", "1,166.67", "1,166.67"),
        ("66.666666666666671", "", "66.6666666666667"),
        ("12345678901234567890", "12345678901234567890", "12345678901234567890"),
    ],
)
def test_numbers_of_sheets_are_as_they_are_shown(tmp_path: Path, value: str, text: str, shown: str) -> None:
    number = cell(text, f'office:value-type="float" office:value="{value}"')
    sheet = f"<office:spreadsheet><table:table>{row(cell('sum'), number)}</table:table></office:spreadsheet>"
    (page,) = read(write(tmp_path / "a.ods", sheet)).pages
    assert page.tables[0].rows == (("sum", shown),)


def test_merged_cells_of_sheets(tmp_path: Path) -> None:
    wide = cell("year", 'table:number-columns-spanned="2"') + "<table:covered-table-cell/>"
    merged = f"<table:table>{row(wide)}{row(cell('1'), cell('2'))}</table:table>"
    (page,) = read(write(tmp_path / "a.ods", f"<office:spreadsheet>{merged}</office:spreadsheet>")).pages
    assert (page.tables[0].rows, page.tables[0].spans) == ((("year", ""), ("1", "2")), (Span(0, 0, 1, 2),))


def test_what_repeats_is_read_as_often_and_within_a_limit(tmp_path: Path) -> None:
    many = 'table:number-rows-repeated="%d"'
    body = row(cell("x"), attributes=many % 5000) + row(cell("y"))
    sheet = f"<office:spreadsheet><table:table table:name='All'>{body}</table:table></office:spreadsheet>"
    (page,) = read(write(tmp_path / "a.ods", sheet)).pages
    assert (texts(page), page.tables[0].rows) == (["All", ""], (("x",),) * 5000 + (("y",),))
    wide = cell("x", 'table:number-columns-repeated="16384"')
    bomb = f"<table:table>{row(wide, attributes=many % 99_999_999)}</table:table>"
    with pytest.raises(DocumentError, match=r"more than 1000000 cells hold text: save it as \.csv") as caught:
        read(write(tmp_path / "b.ods", f"<office:spreadsheet>{bomb}</office:spreadsheet>"))
    assert caught.value.error_type == "too_large"


def test_hidden_sheets_rows_and_columns_are_left_out_and_said(tmp_path: Path) -> None:
    hidden = '<style:style style:name="off"><style:table-properties table:display="false"/></style:style>'
    columns = '<table:table-column/><table:table-column table:visibility="collapse"/><table:table-column/>'
    rows = row(cell("a"), cell("b"), cell("c")) + row(cell("d"), attributes='table:visibility="filter"')
    sheets = f"<table:table table:style-name='off' table:name='Old'>{rows}</table:table>"
    sheets += f"<table:table table:name='New'>{columns}{rows}</table:table>"
    path = write(tmp_path / "a.ods", f"<office:spreadsheet>{sheets}</office:spreadsheet>", styles=hidden)
    content = read(path)
    assert [table.rows for page in content.pages for table in page.tables] == [(("a", "c"),)]
    assert content.warnings == ("hidden and left out: sheet 'Old', 1 rows of 'New', 1 columns of 'New'",)


def test_a_table_in_a_cell_is_read_once(tmp_path: Path) -> None:
    inner = f"<table:table>{row(cell('inner'))}</table:table>"
    outer = f"<table:table-cell>{p('b')}{inner}</table:table-cell>"
    table = f"<table:table>{row(cell('a'), outer)}</table:table>"
    (page,) = read(write(tmp_path / "a.odt", f"<office:text>{table}</office:text>")).pages
    assert [each.rows for each in page.tables] == [(("a", "b inner"),)]


LISTS = """<text:list-style style:name="L"><text:list-level-style-number text:level="1" style:num-format="1"
 style:num-suffix="."/><text:list-level-style-number text:level="2" style:num-prefix="(" style:num-suffix=")"
 style:num-format="a"/></text:list-style><text:list-style style:name="B"><text:list-level-style-bullet
 text:level="1"/></text:list-style>"""
OUTLINE = """<text:outline-style style:name="Outline"><text:outline-level-style text:level="1" style:num-format="I"
 style:num-suffix="."/><text:outline-level-style text:level="2" style:num-format="1" text:display-levels="2"/>
 </text:outline-style>"""


def test_list_items_and_headings_have_their_numbers(tmp_path: Path) -> None:
    def item(text: str, inner: str = "", attributes: str = "") -> str:
        return f"<text:list-item {attributes}>{p(text)}{inner}</text:list-item>"

    def items(*inner: str, attributes: str = "") -> str:
        return f"<text:list {attributes}>{''.join(inner)}</text:list>"

    def heading(level: int, text: str) -> str:
        return f'<text:h text:outline-level="{level}">{text}</text:h>'

    named = 'text:style-name="L"'
    lists = items(
        item("pays"), item("delivers", items(item("goods"), item("papers"))), attributes=f"{named} xml:id='one'"
    )
    more = items(item("insures"), attributes=f'{named} text:continue-numbering="true"')
    anew = items(item("warrants", attributes='text:start-value="7"'), item("repairs"), attributes=named)
    bullets = items(item("bullet"), attributes='text:style-name="B"')
    body = f"{heading(1, 'Parties')}{heading(2, 'Buyer')}{heading(1, 'Duties')}{heading(2, 'Payment')}"
    body += f"{lists}{p('Also:')}{more}{anew}{bullets}"
    path = write(tmp_path / "a.odt", f"<office:text>{body}</office:text>", styles=LISTS + OUTLINE)
    assert texts(read(path).pages[0]) == [
        *("I. Parties", "I.1 Buyer", "II. Duties", "II.1 Payment", "1. pays", "2. delivers", "(a) goods"),
        *("(b) papers", "Also:", "3. insures", "7. warrants", "8. repairs", "- bullet"),
    ]


def test_comments_are_no_text(tmp_path: Path) -> None:
    comment = "<office:annotation><text:p>Really?</text:p></office:annotation>"
    path = write(tmp_path / "a.odt", f"<office:text>{p(f'The tenant{comment} pays.')}{comment}</office:text>")
    content = read(path)
    assert texts(content.pages[0]) == ["The tenant pays."]
    assert content.warnings == ("comments were left out: 2",)


def test_text_that_styles_hide(tmp_path: Path) -> None:
    style = '<style:style style:name="T1"><style:text-properties text:display="none"/></style:style>'
    body = '<text:p>seen <text:span text:style-name="T1">unseen</text:span> more</text:p><text:p text:style-name="T1">'
    path = write(tmp_path / "a.odt", f"<office:text>{body}whole</text:p></office:text>", styles=style)
    content = read(path)
    assert texts(content.pages[0]) == ["seen more"]
    assert content.warnings == ("hidden text was left out: unseen whole",)


def test_hidden_slides_are_left_out_and_said(tmp_path: Path) -> None:
    properties = '<style:drawing-page-properties presentation:visibility="hidden"/>'
    style = f'<style:style style:name="dp">{properties}</style:style>'
    slides = f"<draw:page draw:name='One'>{frame(p('a'))}</draw:page>"
    slides += f"<draw:page draw:name='Two' draw:style-name='dp'>{frame(p('b'))}</draw:page>"
    path = write(tmp_path / "a.odp", f"<office:presentation>{slides}</office:presentation>", styles=style)
    content = read(path)
    assert [texts(page) for page in content.pages] == [["a"]]
    assert content.warnings == ("hidden and left out: slide 'Two'",)


def test_headers_and_footers_are_set_aside(tmp_path: Path) -> None:
    master = f"<style:header>{p('Head')}</style:header><style:footer>{p('Foot')}</style:footer>"
    styles = f"<office:document-styles {SPACES}>{master}</office:document-styles>"
    (page,) = read(write(tmp_path / "a.odt", f"<office:text>{p('a')}</office:text>", styles_xml=styles)).pages
    assert [(line.text, line.aside) for line in page.lines] == [("Head", "header"), ("a", None), ("Foot", "footer")]


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
