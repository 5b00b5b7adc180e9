"""Office files, web pages and mail: what they hold comes out, offline, and what would harm is refused."""

from __future__ import annotations

import io
import os
import socket
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from qwen_batch.errors import DocumentError
from qwen_batch.read.archive import check_archive
from qwen_batch.read.formats import read_other
from qwen_batch.read.items import Content
from qwen_batch.read.kinds import kind_of
from qwen_batch.records import Span


def read(path: Path) -> Content:
    kind = kind_of(path)
    assert kind is not None
    return read_other(path, kind)


def texts(content: Content) -> list[str]:
    return [line.text for page in content.pages for line in page.lines if line.table is None]


def tables(content: Content) -> list[tuple[tuple[str, ...], ...]]:
    return [table.rows for page in content.pages for table in page.tables]


def error_type(path: Path) -> str:
    with pytest.raises(DocumentError) as caught:
        read(path)
    return caught.value.error_type


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise AssertionError(f"a connection was tried: {arguments}")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.fixture
def docx(tmp_path: Path) -> Path:
    document = pytest.importorskip("docx").Document()
    document.sections[0].header.paragraphs[0].text = "Acme confidential"
    document.add_heading("Payment", 1)
    document.add_paragraph("The Buyer pays within 30 days.")
    document.add_paragraph("first", style="List Bullet")
    document.add_paragraph("second", style="List Bullet")
    table = document.add_table(2, 3)
    for number, cell in enumerate(cell for row in table.rows for cell in row.cells):
        cell.text = f"c{number}"
    table.cell(1, 0).merge(table.cell(1, 1))
    document.add_paragraph("Signed.")
    document.save(tmp_path / "a.docx")
    return tmp_path / "a.docx"


@pytest.mark.usefixtures("no_network")
def test_docx_without_a_network(docx: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("unstructured")
    content = read(docx)
    assert [line.text for line in content.pages[0].lines if line.aside is None] == [
        "Payment",
        "The Buyer pays within 30 days.",
        "- first",
        "- second",
        "",
        "Signed.",
    ]
    assert [(line.text, line.aside) for line in content.pages[0].lines if line.aside] == [
        ("Acme confidential", "header")
    ]
    assert tables(content) == [(("c0", "c1", "c2"), ("c3 c4", "", "c5"))]
    assert capfd.readouterr() == ("", "")
    assert "spacy" not in sys.modules


def _box(text: str) -> str:
    return f"<w:txbxContent><w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:txbxContent>"


def edit(path: Path, member: str, change: Callable[[str], str]) -> None:
    """Rewrite one part of a zip archive."""
    with zipfile.ZipFile(path) as archive:
        parts = {info.filename: archive.read(info) for info in archive.infolist()}
    parts[member] = change(parts.get(member, b"").decode()).encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)


def test_text_boxes_of_docx_stand_after_their_paragraph(docx: Path) -> None:
    pytest.importorskip("unstructured")
    boxed = f"<w:r><w:pict>{_box('In the box.')}</w:pict></w:r></w:p>"
    edit(
        docx,
        "word/document.xml",
        lambda xml: xml.replace("within 30 days.</w:t></w:r></w:p>", f"within 30 days.</w:t></w:r>{boxed}"),
    )
    found = texts(read(docx))
    assert found[found.index("The Buyer pays within 30 days.") + 1] == "In the box."


def _run(text: str, properties: str = "") -> str:
    return f"<w:r><w:rPr>{properties}</w:rPr><w:t>{text}</w:t></w:r>"


@pytest.mark.parametrize(
    ("markup", "wanted"),
    [
        (f"<w:sdt><w:sdtPr/><w:sdtContent>{_run('30')}</w:sdtContent></w:sdt>", "30"),
        (f"<w:sdt><w:sdtContent><w:ins w:id='1'>{_run('30')}</w:ins></w:sdtContent></w:sdt>", "30"),
        (f"<w:del w:id='1'><w:r><w:delText>20</w:delText></w:r></w:del><w:ins w:id='2'>{_run('30')}</w:ins>", "30"),
        (f"<w:moveFrom w:id='1'>{_run('20')}</w:moveFrom><w:moveTo w:id='2'>{_run('30')}</w:moveTo>", "30"),
        (f"<w:fldSimple w:instr='REF x'>{_run('30')}</w:fldSimple>", "30"),
        (f"<w:smartTag w:element='x'><w:smartTagPr/>{_run('30')}</w:smartTag>", "30"),
        (_run("20", "<w:vanish/>"), ""),
        (_run("30", "<w:vanish w:val='0'/>"), "30"),
    ],
)
def test_wrapped_text_of_docx_is_read(docx: Path, markup: str, wanted: str) -> None:
    pytest.importorskip("unstructured")
    whole = "<w:r><w:t>The Buyer pays within 30 days.</w:t></w:r>"
    parts = f"{_run('within ')}{markup}{_run(' days.')}".replace("<w:t>", "<w:t xml:space='preserve'>")
    edit(docx, "word/document.xml", lambda xml: xml.replace(whole, parts))
    content = read(docx)
    assert texts(content)[2] == f"within {wanted} days."
    assert content.warnings == (() if wanted else ("hidden text was left out: 20",))


def test_paragraphs_and_cells_in_content_controls_of_docx(docx: Path) -> None:
    pytest.importorskip("unstructured")
    opened, closed = "<w:sdt><w:sdtPr/><w:sdtContent>", "</w:sdtContent></w:sdt>"

    def wrap(xml: str) -> str:
        start, end = xml.index("<w:p>"), xml.index("</w:p>") + len("</w:p>")
        xml = f"{xml[:start]}{opened}{xml[start:end]}{closed}{xml[end:]}"
        return xml.replace("<w:tc>", f"{opened}<w:tc>").replace("</w:tc>", f"</w:tc>{closed}")

    plain = read(docx)
    edit(docx, "word/document.xml", wrap)
    assert read(docx) == plain


def test_an_office_file_without_the_extra_says_what_to_install(docx: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "unstructured.partition.docx", None)
    with pytest.raises(DocumentError, match=r"pip install 'qwen-batch\[office\]'") as caught:
        read(docx)
    assert caught.value.error_type == "unsupported"


def test_slides_and_sheets_are_pages(tmp_path: Path) -> None:
    pytest.importorskip("unstructured")
    presentation = pytest.importorskip("pptx").Presentation()
    for name in ("One", "Two"):
        presentation.slides.add_slide(presentation.slide_layouts[5]).shapes.title.text = name
    presentation.save(tmp_path / "a.pptx")
    assert [[line.text for line in page.lines] for page in read(tmp_path / "a.pptx").pages] == [["One"], ["Two"]]
    book = pytest.importorskip("openpyxl").Workbook()
    book.active.append(["item", "price"])
    book.active.append(["chair", 120])
    book.create_sheet("more").append(["a", "b"])
    book.save(tmp_path / "a.xlsx")
    content = read(tmp_path / "a.xlsx")
    assert len(content.pages) == 2
    assert tables(content)[0] == (("item", "price"), ("chair", "120"))


HTML = """<html><head><title>no</title><style>p{}</style></head><body><nav><a>Home</a></nav>
<h1>Offer</h1><p>A <b>bo</b>ld&nbsp;line<br>and one<p>Unclosed <ol start=3><li>three<li>four</ol>
<table><tr><th>item<th>price<tr><td colspan=2>all<tr><td rowspan=2>chair<td>12<tr><td>13</table>
<table><tr><td>only for layout</table><div style="display: none">secret</div><script>bad()</script>tail</body>"""


def test_html_blocks_tables_and_what_is_set_aside(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(HTML)
    content = read(tmp_path / "a.html")
    shown = [line.text for line in content.pages[0].lines if line.aside is None]
    assert shown == [
        "Offer",
        "A bold\xa0line",
        "and one",
        "Unclosed",
        "3. three",
        "4. four",
        "",
        "only for layout",
        "tail",
    ]
    assert [(line.text, line.aside) for line in content.pages[0].lines if line.aside] == [
        ("Home", "navigation"),
        ("secret", "hidden"),
    ]
    assert content.warnings == ("hidden text was left out: secret",)
    assert tables(content) == [(("item", "price"), ("all", ""), ("chair", "12"), ("", "13"))]


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("<p>Name: <input value='Ana Perez'><input type=hidden value=token>", "Name: Ana Perez"),
        ("<p>Pay: <input type=radio> cash <input type=radio checked> card", "Pay: [ ] cash [x] card"),
        ("<p><input type=checkbox> I agree", "I agree"),
        ("<p>Colour: <select><option>Red<option selected>Dark <b>blue</b></select> wanted", "Colour: Dark blue wanted"),
        ("<p>Colour: <select><option>Red<option>Blue</select>", "Colour:"),
        ("<p><img alt='Sales rose in all regions'> 2023", "[image: Sales rose in all regions] 2023"),
        ("<p><img alt='Acme logo'> 2023", "2023"),
        ("<p><img alt='A picture that only decorates' role=presentation> 2023", "2023"),
        (
            "<figure><img alt='Sales rose in all regions'><figcaption>Sales rose in all regions",
            "Sales rose in all regions",
        ),
    ],
)
def test_html_shows_what_is_chosen_filled_in_and_pictured(tmp_path: Path, body: str, wanted: str) -> None:
    (tmp_path / "a.html").write_text(f"<h1>x</h1>{body}")
    assert texts(read(tmp_path / "a.html")) == ["x", wanted]


def test_html_tables_hold_values_and_what_pictures_stand_for(tmp_path: Path) -> None:
    rows = "<tr><th>item<th>price<th>there<tr><td>chair<td><input value=12><td><img alt=yes>"
    (tmp_path / "a.html").write_text(f"<table>{rows}</table>")
    assert tables(read(tmp_path / "a.html")) == [(("item", "price", "there"), ("chair", "12", "yes"))]


@pytest.mark.parametrize(
    ("head", "body", "wanted"),
    [
        ("Order of May", "<p>Chairs", ["Order of May", "Chairs"]),
        ("Order of May", "<h1>Order</h1>Chairs", ["Order", "Chairs"]),
        ("Order of May", "<h2>Order  of May</h2>Chairs", ["Order of May", "Chairs"]),
        ("acme-20231231", "<p>Chairs", ["Chairs"]),
        ("", "<p>Chairs", ["Chairs"]),
    ],
)
def test_html_has_its_title_where_it_has_no_heading(tmp_path: Path, head: str, body: str, wanted: list[str]) -> None:
    (tmp_path / "a.html").write_text(f"<html><head><title>{head}</title></head><body>{body}</body></html>")
    assert texts(read(tmp_path / "a.html")) == wanted


@pytest.mark.parametrize(
    ("charset", "codec"), [("gb2312", "gb18030"), ("shift_jis", "shift_jis"), ("windows-1251", "cp1251")]
)
def test_html_in_the_encoding_that_it_declares(tmp_path: Path, charset: str, codec: str) -> None:
    word = {"gb18030": "合同", "shift_jis": "契約", "cp1251": "Договор"}[codec]
    (tmp_path / "a.htm").write_bytes(f'<meta charset="{charset}"><p>{word}'.encode(codec))
    assert texts(read(tmp_path / "a.htm")) == [word]


@pytest.mark.parametrize("depth", [100, 1000, 50_000])
def test_deep_html_is_read_flat(tmp_path: Path, depth: int) -> None:
    (tmp_path / "a.html").write_text("<div>" * depth + "deep" + "</div>" * depth)
    assert texts(read(tmp_path / "a.html")) == ["deep"]


def test_csv_is_a_table(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes('name;note\nMüller;"a;b"\nshort\n'.encode("cp1252"))
    assert tables(read(tmp_path / "a.csv")) == [(("name", "note"), ("Müller", "a;b"), ("short", ""))]


def test_mail_names_its_attachments(tmp_path: Path) -> None:
    from email.message import EmailMessage

    message = EmailMessage()
    message["From"], message["Subject"] = "a@example.org", "Frist für 合同"
    message.set_content("Please sign.\nThanks")
    message.add_alternative("<p>Please <b>sign</b></p>", subtype="html")
    message.add_attachment(b"%PDF", maintype="application", subtype="pdf", filename="deal.pdf")
    (tmp_path / "a.eml").write_bytes(message.as_bytes())
    content = read(tmp_path / "a.eml")
    assert [text for text in texts(content) if text] == [
        "From: a@example.org",
        "Subject: Frist für 合同",
        "Please sign.",
        "Thanks",
    ]
    assert content.warnings == ("attachments are not read: deal.pdf",)


def test_rich_text(tmp_path: Path) -> None:
    (tmp_path / "a.rtf").write_bytes(rb"{\rtf1\ansi\ansicpg1252 {\b Title}\par K\'f6ln \u21512?\par}")
    assert texts(read(tmp_path / "a.rtf")) == ["Title", "Köln 合"]


ODT = """<office:document-content xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0"
 xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"
 xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0">
<office:body><office:text><text:h>Lease</text:h><text:p>The<text:s/>tenant<text:tab/>pays.</text:p>
<text:list><text:list-item><text:p>one</text:p></text:list-item></text:list>
<table:table><table:table-row><table:table-cell><text:p>a</text:p></table:table-cell>
<table:table-cell table:number-columns-repeated="2"><text:p>b</text:p></table:table-cell></table:table-row>
</table:table>
</office:text></office:body></office:document-content>"""


def test_opendocument_text(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.odt", "w") as archive:
        archive.writestr("content.xml", ODT)
    content = read(tmp_path / "a.odt")
    assert texts(content) == ["Lease", "The tenant pays.", "- one"]
    assert tables(content) == [(("a", "b", "b"),)]


def test_merged_cells_and_heads_of_opendocument_and_web_pages(tmp_path: Path) -> None:
    cell = "<table:table-cell><text:p>%s</text:p></table:table-cell>"
    wide = cell.replace("<table:table-cell>", '<table:table-cell table:number-columns-spanned="2">') % "year"
    head = f"<table:table-header-rows><table:table-row>{wide}<table:covered-table-cell/></table:table-row>"
    rows = f"{head}</table:table-header-rows><table:table-row>{cell % '1'}{cell % '2'}</table:table-row>"
    with zipfile.ZipFile(tmp_path / "a.odt", "w") as archive:
        start, _, end = ODT.partition("<table:table>")
        archive.writestr("content.xml", f"{start}<table:table>{rows}{end[end.index('</table:table>') :]}")
    (tmp_path / "a.html").write_text("<table><tr><th colspan=2>year<tr><td>1<td>2</table>")
    for name in ("a.odt", "a.html"):
        (table,) = read(tmp_path / name).pages[0].tables
        assert table.rows == (("year", ""), ("1", "2"))
        assert (table.spans, table.header_rows) == ((Span(0, 0, 1, 2),), 1)


def archive_of(**parts: str | bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in parts.items():
            archive.writestr(name.replace("__", "/"), data)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"", "empty"),
        (b"PK\x03\x04", "damaged"),
        (b"%PDF-1.7", "wrong_type"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "encrypted"),
        (archive_of(a="b"), "wrong_type"),
        (archive_of(**{"word__document.xml": b"<?xml version='1.0'?><!DOCTYPE a [<!ENTITY b 'c'>]><a/>"}), "unsafe"),
        (
            archive_of(**{"word__document.xml": "<!doctype a SYSTEM 'file:///etc/passwd'><a/>".encode("utf-16")}),
            "unsafe",
        ),
        (archive_of(**{"..__..__etc__x": b"x"}), "unsafe"),
        (archive_of(**{"word__document.xml": b" " * 60_000_000}), "unsafe"),
        (archive_of(**{"word__document.xml": b"<a>" * 9000 + b"</a>" * 9000}), "damaged"),
    ],
    ids=["empty", "cut", "pdf", "encrypted", "other zip", "entities", "external", "outside", "bomb", "deep"],
)
def test_office_files_that_harm_or_are_none(tmp_path: Path, data: bytes, kind: str) -> None:
    (tmp_path / "a.docx").write_bytes(data)
    assert error_type(tmp_path / "a.docx") == kind


def test_like_parts_pack_well_and_are_no_bomb(tmp_path: Path) -> None:
    (tmp_path / "a.docx").write_bytes(archive_of(**{"word__document.xml": b"<p>x</p>" * 3_000_000}))
    assert check_archive(tmp_path / "a.docx") == {"word/document.xml"}


def test_more_xml_than_a_parser_may_get(tmp_path: Path) -> None:
    noise = "".join(map(chr, range(32, 120))) * 30_000  # 2.6 MB that pack 150 to 1, below the bound for one part
    parts = {f"xl__{number}.xml": noise for number in range(80)}
    (tmp_path / "a.xlsx").write_bytes(archive_of(**parts))
    with pytest.raises(DocumentError, match="bytes of XML"):
        check_archive(tmp_path / "a.xlsx")


def test_old_files_need_libreoffice(tmp_path: Path, docx: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("unstructured")
    (tmp_path / "old.doc").write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert error_type(tmp_path / "old.doc") == "unsupported"
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "soffice"  # stands in for LibreOffice; its last arguments are the folder and the file
    copy = f'/bin/cp {docx} "$folder/old.docx"'
    program.write_text(f'#!/bin/sh\nfor next; do folder="$file"; file="$next"; done\n{copy}\n')
    program.chmod(0o755)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    dead = subprocess.Popen(["/bin/true"])
    dead.wait()
    for number in (dead.pid, os.getpid()):
        (tmp_path / "tmp" / f"qwen-batch-office-{number}-x").mkdir(parents=True)
    assert "Payment" in texts(read(tmp_path / "old.doc"))
    assert [folder.name for folder in (tmp_path / "tmp").iterdir()] == [f"qwen-batch-office-{os.getpid()}-x"]
    program.write_text("#!/bin/sh\necho cannot load >&2\n")
    assert error_type(tmp_path / "old.doc") == "damaged"
    assert os.environ["PATH"] == str(tmp_path / "bin")
