"""Presentations: titles first, then by place; notes, charts, diagrams, and what is hidden."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from typing import Any

import pytest

from qwen_batch.errors import DocumentError
from qwen_batch.read.formats import read_other
from qwen_batch.read.items import Content
from qwen_batch.records import Span

pptx = pytest.importorskip("pptx")
INCH = 914_400


@pytest.fixture
def deck() -> Any:
    return pptx.Presentation()


def add(deck: Any, title: str) -> Any:
    slide = deck.slides.add_slide(deck.slide_layouts[5])
    slide.shapes.title.text = title
    return slide


def box(shapes: Any, text: str, left: float, top: float) -> Any:
    shape = shapes.add_textbox(int(left * INCH), int(top * INCH), INCH, INCH)
    shape.text_frame.text = text
    return shape


def read(tmp_path: Path, deck: Any) -> Content:
    deck.save(tmp_path / "a.pptx")
    return read_other(tmp_path / "a.pptx", "pptx")


def shown(content: Content, number: int = 1) -> list[str]:
    return [line.text for line in content.pages[number - 1].lines if line.aside is None]


def test_the_title_first_then_from_the_top_down(tmp_path: Path, deck: Any) -> None:
    slide = add(deck, "Title\vof two lines")
    box(slide.shapes, "low", 1, 5)
    box(slide.shapes, "right", 5, 3)
    box(slide.shapes, "left", 1, 3)
    box(slide.shapes, "above the title", 1, 0)
    slide.notes_slide.notes_text_frame.text = "Say this."
    assert shown(read(tmp_path, deck)) == [
        "Title of two lines",
        "above the title",
        "left",
        "right",
        "low",
        "Notes: Say this.",
    ]


def test_places_within_groups_are_places_on_the_slide(tmp_path: Path, deck: Any) -> None:
    slide = add(deck, "T")
    box(slide.shapes, "between", 1, 4)
    group = slide.shapes.add_group_shape()
    box(group.shapes, "one", 0, 0)
    box(group.shapes, "two", 0, 5)
    form = group._element.grpSpPr.find("{*}xfrm")
    for name, values in {"off": (0, 3), "ext": (1, 2), "chOff": (0, 0), "chExt": (1, 6)}.items():
        element = form.find(f"{{*}}{name}")
        for key, value in zip(element.attrib, values, strict=True):
            element.set(key, str(value * INCH))
    assert shown(read(tmp_path, deck)) == ["T", "one", "between", "two"]


def test_placeholders_stand_where_their_layout_has_them(tmp_path: Path, deck: Any) -> None:
    slide = deck.slides.add_slide(deck.slide_layouts[3])  # two columns
    for place, text in zip(slide.placeholders, ("Title", "left\nagain", "right"), strict=True):
        place.text_frame.text = text
    tree = slide.shapes._spTree
    tree.insert(2, tree[-1])  # drawn first
    assert shown(read(tmp_path, deck)) == ["Title", "left", "again", "right"]


def test_tables_with_merged_cells(tmp_path: Path, deck: Any) -> None:
    table = add(deck, "T").shapes.add_table(2, 3, 0, 0, INCH, INCH).table
    table.cell(0, 0).merge(table.cell(0, 2))
    for (row, column), text in {(0, 0): "year", (1, 0): "a", (1, 1): "b", (1, 2): "c"}.items():
        table.cell(row, column).text = text
    (found,) = read(tmp_path, deck).pages[0].tables
    assert (found.rows, found.spans) == ((("year", "", ""), ("a", "b", "c")), (Span(0, 0, 1, 3),))


def test_charts_are_tables_of_their_values(tmp_path: Path, deck: Any) -> None:
    data = pytest.importorskip("pptx.chart.data").CategoryChartData()
    data.categories = ["East", "West"]
    data.add_series("Sales", (19.2, 21.4))
    data.add_series("Cost", (1, None))
    kind = pytest.importorskip("pptx.enum.chart").XL_CHART_TYPE.COLUMN_CLUSTERED
    add(deck, "T").shapes.add_chart(kind, 0, 0, INCH, INCH, data)
    assert read(tmp_path, deck).pages[0].tables[0].rows == (
        ("", "Sales", "Cost"),
        ("East", "19.2", "1"),
        ("West", "21.4", ""),
    )


def test_numbers_and_bullets_of_items(tmp_path: Path, deck: Any) -> None:
    shape = box(add(deck, "T").shapes, "one\ntwo\nplain\nbullet", 1, 3)
    marks = (
        '<a:buAutoNum type="alphaLcParenBoth"/>',
        '<a:buAutoNum type="alphaLcParenBoth"/>',
        "",
        '<a:buChar char="x"/>',
    )
    for paragraph, mark in zip(shape.text_frame.paragraphs, marks, strict=True):
        space = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
        properties = pytest.importorskip("lxml.etree").fromstring(f"<a:pPr {space}>{mark}</a:pPr>")
        paragraph._p.insert(0, properties)
    assert shown(read(tmp_path, deck)) == ["T", "(a) one", "(b) two", "plain", "- bullet"]


def test_hidden_slides_and_shapes(tmp_path: Path, deck: Any) -> None:
    shape = box(add(deck, "One").shapes, "unseen", 1, 1)
    shape._element.nvSpPr.cNvPr.set("hidden", "1")
    add(deck, "Two")._element.set("show", "0")
    add(deck, "Three")
    content = read(tmp_path, deck)
    assert [shown(content, number) for number in (1, 2, 3)] == [["One"], [], ["Three"]]
    assert [page.page_number for page in content.pages] == [1, 2, 3]
    assert content.warnings == ("hidden slides were left out: 2",)


def test_footers_and_numbers_of_slides_stand_aside(tmp_path: Path, deck: Any) -> None:
    slide = add(deck, "One")
    shape = box(slide.shapes, "Acme confidential", 1, 7)
    properties = shape._element.nvSpPr.find("{*}nvPr")
    properties.append(properties.makeelement(properties.tag.replace("nvPr", "ph"), {"type": "ftr", "idx": "11"}))
    assert [line.aside for line in read(tmp_path, deck).pages[0].lines] == [None, "footer"]


@pytest.mark.parametrize(
    ("part", "kind"),
    [("<p:sld", "damaged"), ('<p:presentation xmlns:p="urn:p"><p:sldIdLst/></p:presentation>', "empty")],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path: Path, part: str, kind: str) -> None:
    with zipfile.ZipFile(tmp_path / "a.pptx", "w") as archive:
        archive.writestr("ppt/presentation.xml", part)
    with pytest.raises(DocumentError) as caught:
        read_other(tmp_path / "a.pptx", "pptx")
    assert caught.value.error_type == kind


USUAL = re.compile(rb"schemas\.openxmlformats\.org/(presentationml|officeDocument|drawingml)/2006/")


def test_strict_files_read_the_same(tmp_path: Path, deck: Any) -> None:
    slide = add(deck, "Title")
    slide.shapes.add_table(1, 2, 0, INCH, INCH, INCH).table.cell(0, 1).text = "cell"
    slide.notes_slide.notes_text_frame.text = "Say this."
    usual = read(tmp_path, deck)
    with zipfile.ZipFile(tmp_path / "a.pptx") as archive, zipfile.ZipFile(tmp_path / "b.pptx", "w") as strict:
        for name in archive.namelist():
            strict.writestr(name, USUAL.sub(rb"purl.oclc.org/ooxml/\1/", archive.read(name)))
    assert read_other(tmp_path / "b.pptx", "pptx") == usual
