"""Word files read as they do on paper: numbers, symbols, changes as accepted, boxes, parts in other formats."""

from __future__ import annotations

import importlib
import re
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from qwen_batch.read.formats import read_other
from qwen_batch.read.items import Content
from qwen_batch.read.office import parts
from qwen_batch.read.text.list_marks import word_mark

docx = pytest.importorskip("docx")
pytest.importorskip("unstructured")

SPACES = (
    'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" '
    'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math" '
    'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" '
    'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
)
NUMBERING = f"""<w:numbering {SPACES}><w:abstractNum w:abstractNumId="0">
<w:lvl w:ilvl="0"><w:start w:val="1"/><w:numFmt w:val="decimal"/><w:pStyle w:val="Clause"/><w:lvlText w:val="%1."/>
</w:lvl>
<w:lvl w:ilvl="1"><w:start w:val="1"/><w:numFmt w:val="decimal"/><w:lvlText w:val="%1.%2"/></w:lvl>
<w:lvl w:ilvl="2"><w:start w:val="1"/><w:numFmt w:val="lowerLetter"/><w:lvlText w:val="(%3)"/></w:lvl>
<w:lvl w:ilvl="3"><w:start w:val="1"/><w:numFmt w:val="bullet"/><w:lvlText w:val="x"/></w:lvl></w:abstractNum>
<w:abstractNum w:abstractNumId="1"><w:lvl w:ilvl="0"><w:start w:val="1"/><w:numFmt w:val="chineseCounting"/>
<w:suff w:val="nothing"/><w:lvlText w:val="第%1条"/></w:lvl><w:lvl w:ilvl="1"><w:isLgl/><w:numFmt w:val="decimal"/>
<w:lvlText w:val="%1.%2"/></w:lvl></w:abstractNum>
<w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num><w:num w:numId="2"><w:abstractNumId w:val="1"/></w:num>
<w:num w:numId="3"><w:abstractNumId w:val="0"/><w:lvlOverride w:ilvl="0"><w:startOverride w:val="7"/></w:lvlOverride>
</w:num></w:numbering>"""
STYLES = f"""<w:styles {SPACES}><w:style w:type="paragraph" w:default="1" w:styleId="Normal"><w:name w:val="Normal"/>
</w:style><w:style w:type="paragraph" w:styleId="Clause"><w:name w:val="Clause"/><w:basedOn w:val="Normal"/><w:pPr>
<w:numPr><w:numId w:val="1"/></w:numPr></w:pPr></w:style><w:style w:type="paragraph" w:styleId="Sub"><w:name w:val="S"/>
<w:basedOn w:val="Clause"/><w:pPr><w:numPr><w:ilvl w:val="1"/></w:numPr></w:pPr></w:style><w:style w:type="character"
 w:styleId="Note"><w:name w:val="Note"/><w:rPr><w:vanish/></w:rPr></w:style><w:style w:type="paragraph"
 w:styleId="Aside"><w:name w:val="Aside"/><w:rPr><w:vanish/></w:rPr></w:style></w:styles>"""


DOCUMENT = "wordprocessingml.document"


def run(text: str, properties: str = "") -> str:
    return f'<w:r><w:rPr>{properties}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'


def p(content: str, properties: str = "") -> str:
    return f"<w:p><w:pPr>{properties}</w:pPr>{content if content.startswith('<') else run(content)}</w:p>"


def numbered(text: str, number: int, level: int = 0) -> str:
    return p(text, f'<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="{number}"/></w:numPr>')


def styled(text: str, style: str) -> str:
    return p(text, f'<w:pStyle w:val="{style}"/>')


def table(*rows: str) -> str:
    return f"<w:tbl><w:tblPr/><w:tblGrid/>{''.join(rows)}</w:tbl>"


def row(*cells: str, properties: str = "") -> str:
    inner = "".join(f"<w:tc>{cell if cell.startswith('<') else p(cell)}</w:tc>" for cell in cells)
    return f"<w:tr><w:trPr>{properties}</w:trPr>{inner}</w:tr>"


def write(path: Path, body: str, relations: str = "", kind: str = DOCUMENT, **parts: str) -> Path:
    plain = path.with_name("plain.docx")
    docx.Document().save(plain)
    with zipfile.ZipFile(plain) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    contents["word/document.xml"] = f"<w:document {SPACES}><w:body>{body}<w:sectPr/></w:body></w:document>".encode()
    contents["word/numbering.xml"], contents["word/styles.xml"] = NUMBERING.encode(), STYLES.encode()
    name = "word/_rels/document.xml.rels"
    contents[name] = contents[name].replace(b"</Relationships>", f"{relations}</Relationships>".encode())
    kinds = "".join(f'<Default Extension="{each}" ContentType="text/{each}"/>' for each in ("html", "rtf"))
    types = contents["[Content_Types].xml"].decode().replace("</Types>", f"{kinds}</Types>")
    contents["[Content_Types].xml"] = types.replace("wordprocessingml.document.main", f"{kind}.main").encode()
    contents |= {f"word/{key.replace('_', '.')}": text.encode() for key, text in parts.items()}
    with zipfile.ZipFile(path, "w") as archive:
        for each, data in contents.items():
            archive.writestr(each, data)
    return path


def read(tmp_path: Path, body: str, relations: str = "", **parts: str) -> Content:
    return read_other(write(tmp_path / "a.docx", body, relations, **parts), "docx")


def texts(content: Content) -> list[str]:
    return [line.text for page in content.pages for line in page.lines]


USUAL = re.compile(rb"schemas\.openxmlformats\.org/(wordprocessingml|officeDocument|drawingml)/2006/")


def test_strict_files_read_the_same(tmp_path: Path) -> None:
    """Word's choice "Strict Open XML Document" names everything otherwise."""
    body = styled("Parties", "Clause") + table(row("Price", "10 EUR")) + p("see http://purl.oclc.org/ooxml/a/b")
    usual = write(tmp_path / "usual.docx", body)
    with zipfile.ZipFile(usual) as archive, zipfile.ZipFile(tmp_path / "strict.docx", "w") as strict:
        for name in archive.namelist():
            strict.writestr(name, USUAL.sub(rb"purl.oclc.org/ooxml/\1/", archive.read(name)))
    assert read_other(tmp_path / "strict.docx", "docx") == read_other(usual, "docx")


def test_clauses_have_their_numbers(tmp_path: Path) -> None:
    body = [
        *(styled("Parties", "Clause"), styled("Buyer", "Sub"), styled("Seller", "Sub"), numbered("a firm", 1, 2)),
        *(numbered("in Bonn", 1, 2), styled("Payment", "Clause"), styled("Price", "Sub"), numbered("bullet", 1, 3)),
        *(numbered("总则", 2), numbered("定义", 2, 1), numbered("付款", 2), numbered("anew", 3), numbered("on", 3)),
        p("", '<w:numPr><w:ilvl w:val="0"/><w:numId w:val="3"/></w:numPr>'),
        p("plain", '<w:pStyle w:val="Clause"/><w:numPr><w:numId w:val="0"/></w:numPr>'),
    ]
    assert texts(read(tmp_path, "".join(body))) == [
        *("1. Parties", "1.1 Buyer", "1.2 Seller", "(a) a firm", "(b) in Bonn", "2. Payment", "2.1 Price", "- bullet"),
        *("第一条总则", "1.1 定义", "第二条付款", "7. anew", "8. on", "plain"),
    ]


def test_numbers_within_tables_count_with_the_others(tmp_path: Path) -> None:
    content = read(
        tmp_path,
        styled("one", "Clause") + table(row(styled("two", "Clause"), "x"), row("y", "z")) + styled("three", "Clause"),
    )
    assert texts(content) == ["1. one", "", "3. three"]
    assert content.pages[0].tables[0].rows == (("2. two", "x"), ("y", "z"))


@pytest.mark.parametrize(
    ("number", "style", "shown"),
    [
        *((4, "lowerRoman", "iv"), (9, "upperRoman", "IX"), (27, "lowerLetter", "aa"), (3, "decimalZero", "03")),
        *(
            (2, "ordinal", "2nd"),
            (12, "ordinal", "12th"),
            (10, "chineseCounting", "十"),
            (21, "chineseCounting", "二十一"),
        ),
        *((3, "ideographTraditional", "丙"), (3, "decimalEnclosedCircle", "③"), (5, "unknown", "5"), (5, "none", "")),
    ],
)
def test_number_formats(number: int, style: str, shown: str) -> None:
    assert word_mark(number, style) == shown


MARK = "<w:rPr>{}</w:rPr>"


def test_tracked_changes_as_accepted(tmp_path: Path) -> None:
    body = [
        table(row("a", "b"), row("gone", "gone", properties="<w:del w:id='1'/>"), row("c", "d")),
        p("The buyer pays", MARK.format("<w:del w:id='2'/>")),
        p(" at once."),
        p(f"<w:del w:id='3'>{run('gone')}</w:del>", MARK.format("<w:del w:id='4'/>")),
        p("The end."),
    ]
    content = read(tmp_path, "".join(body))
    assert content.pages[0].tables[0].rows == (("a", "b"), ("c", "d"))
    assert texts(content) == ["", "The buyer pays at once.", "The end."]


def test_a_heading_that_runs_into_its_text(tmp_path: Path) -> None:
    properties = '<w:pStyle w:val="Clause"/>' + MARK.format("<w:vanish/><w:specVanish/>")
    body = p("Price.", properties) + p(" The price is 5.") + styled("next", "Clause")
    assert texts(read(tmp_path, body)) == ["1. Price. The price is 5.", "2. next"]


def test_text_that_styles_hide(tmp_path: Path) -> None:
    secret = run("secret", '<w:rStyle w:val="Note"/>')
    shown = run(" shown", '<w:vanish w:val="0"/>')
    body = p(run("open") + secret) + p(run("aside") + shown, '<w:pStyle w:val="Aside"/>')
    content = read(tmp_path, body)
    assert texts(content) == ["open", "shown"]
    assert content.warnings == ("hidden text was left out: secret aside",)


FRACTION = (
    "<m:oMath><m:f><m:num><m:r><m:t>a+b</m:t></m:r></m:num><m:den><m:r><m:t>2</m:t></m:r></m:den></m:f>"
    "<m:r><m:t>=</m:t></m:r><m:sSup><m:e><m:r><m:t>x</m:t></m:r></m:e><m:sup><m:r><m:t>2</m:t></m:r></m:sup></m:sSup>"
    "</m:oMath>"
)
FIELD = "<w:r><w:fldChar w:fldCharType='begin'><w:ffData>{}</w:ffData></w:fldChar></w:r>"
BOX = FIELD.format("<w:checkBox><w:default w:val='0'/>{}</w:checkBox>")


@pytest.mark.parametrize(
    ("markup", "wanted"),
    [
        ("<w:r><w:sym w:font='Symbol' w:char='F0A3'/></w:r>", "≤"),
        ("<w:r><w:sym w:font='Wingdings' w:char='F0FE'/></w:r>", "☑"),
        ("<w:r><w:sym w:font='Arial' w:char='00A7'/></w:r>", "§"),
        ("<w:r><w:sym w:font='x' w:char='zz'/></w:r>", ""),
        (FRACTION, "(a+b)/2=x^2"),
        (BOX.format("<w:checked/>"), "☒"),
        (BOX.format(""), "☐"),
        (
            "<w:r><w:ruby><w:rt><w:r><w:t>けい</w:t></w:r></w:rt><w:rubyBase>"
            + run("契")
            + "</w:rubyBase></w:ruby></w:r>",
            "契",
        ),
        ("<w:bdo w:val='rtl'>" + run("שלום") + "</w:bdo>", "שלום"),
        ("<w:hyperlink>" + run("link") + "</w:hyperlink>", "link"),
    ],
)
def test_what_is_shown_and_not_stored_as_text(tmp_path: Path, markup: str, wanted: str) -> None:
    assert texts(read(tmp_path, p(run("a ") + markup + run(" z")))) == [f"a {wanted} z"]


def test_text_boxes_stand_after_their_paragraph_in_their_order(tmp_path: Path) -> None:
    def box(inner: str) -> str:
        pict = f"<w:pict><w:txbxContent>{inner}</w:txbxContent></w:pict>"
        choice = f"<mc:AlternateContent><mc:Choice Requires='x'>{pict}</mc:Choice><mc:Fallback>{pict}</mc:Fallback>"
        return f"<w:r>{choice}</mc:AlternateContent></w:r>"

    first = p(run("same") + box(p("one") + p("two")) + box(table(row("c", "d"), row("e", "f"))))
    content = read(tmp_path, p("same") + first + p("last"))
    assert texts(content) == ["same", "same", "one", "two", "", "last"]
    assert content.pages[0].tables[0].rows == (("c", "d"), ("e", "f"))


def test_parts_in_other_formats(tmp_path: Path) -> None:
    kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/aFChunk"
    relations = "".join(
        f'<Relationship Id="c{number}" Type="{kind}" Target="{name}"/>'
        for number, name in enumerate(("a.html", "b.rtf"))
    )
    body = p("before") + '<w:altChunk r:id="c0"/><w:altChunk r:id="c1"/>' + p("after")
    content = read(tmp_path, body, relations, a_html="<p>Clause <b>9</b></p><ol><li>x</ol>", b_rtf="{}")
    assert texts(content) == ["before", "Clause 9", "1. x", "after"]
    assert content.warnings == ("parts in other formats are not read: b.rtf",)


def test_parts_that_are_not_there_are_named(tmp_path: Path) -> None:
    """Word opens such files; some programs write NULL for a picture that they did not find."""
    kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    targets = {"image": "NULL", "attachedTemplate": "../../b.dotm", "header": "header9.xml", "hyperlink": "#a"}
    relations = "".join(
        f'<Relationship Id="x{name}" Type="{kind}/{name}" Target="{target}"/>' for name, target in targets.items()
    )
    link = f'<w:hyperlink r:id="xhyperlink">{run("a link")}</w:hyperlink>'
    header = '<w:sectPr><w:headerReference w:type="default" r:id="xheader"/></w:sectPr>'
    content = read(tmp_path, p("text") + p(link, header) + p("more"), relations)
    assert texts(content) == ["text", "a link", "more"]
    assert content.warnings == ("parts that the file names and does not hold: word/NULL, b.dotm, word/header9.xml",)


def test_comments_are_named(tmp_path: Path) -> None:
    comments = f"<w:comments {SPACES}><w:comment w:id='0'>{p('Really?')}</w:comment></w:comments>"
    content = read(tmp_path, p("text"), comments_xml=comments)
    assert (texts(content), content.warnings) == (["text"], ("comments were left out: 1",))


@pytest.mark.parametrize("kind", ["ms-word.document.macroEnabled", "ms-word.template.macroEnabledTemplate"])
def test_files_with_macros_and_templates(tmp_path: Path, kind: str) -> None:
    path = write(tmp_path / "a.docm", p("text"), kind=kind)
    with zipfile.ZipFile(path) as archive:
        types = archive.read("[Content_Types].xml").replace(b"openxmlformats-officedocument.ms-word", b"ms-word")
        parts = {name: archive.read(name) for name in archive.namelist()} | {"[Content_Types].xml": types}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    assert b"vnd.ms-word." in types
    assert texts(read_other(path, "docx")) == ["text"]


def test_what_is_not_asked_of_unstructured_changes_nothing(tmp_path: Path) -> None:
    document = docx.Document()
    document.sections[0].header.paragraphs[0].text = "Draft of May"
    document.add_heading("Terms", 1)
    for text in (
        "The buyer shall pay the seller the whole price.",
        "a@example.org",
        "Springfield, IL 62701",
        "• one",
        "-",
    ):
        document.add_paragraph(text).add_run(" at once").bold = True
    for style in ("List Bullet", "List Number", "List Continue 2", "Quote", "Title"):
        document.add_paragraph(f"In {style}", style)
    table = document.add_table(2, 2)
    table.cell(0, 0).text, table.cell(1, 1).text = "Item", "12"
    document.save(tmp_path / "a.docx")
    unwrapped = parts._unwrapped(tmp_path / "a.docx")

    def shown(elements: Iterable[Any]) -> list[tuple[object, ...]]:
        kinds = {"ListItem", "Header", "Footer", "PageBreak", "Table"}
        return [
            (
                type(each).__name__ in kinds and type(each).__name__,
                each.text,
                each.metadata.page_number,
                each.metadata.text_as_html,
            )
            for each in elements
        ]

    lean = shown(parts._partition(unwrapped.copy))
    assert lean == shown(
        importlib.import_module("unstructured.partition.docx").partition_docx(file=unwrapped.copy, languages=[""])
    )
    assert [kind for kind, *_ in lean].count("ListItem") == 5
