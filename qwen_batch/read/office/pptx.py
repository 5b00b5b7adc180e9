"""Presentations (.pptx), each slide a page: its title first, then what stands on it from the top down, then its notes.

A reader of our own over lxml: unstructured's puts titles where they stand, takes places within groups for places on the
slide, and leaves out notes, charts, diagrams and what cells are merged. The elements are those of ECMA-376 part 1,
19 and 21.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from qwen_batch.errors import DocumentError
from qwen_batch.read.archive import check_archive, parse_part, relations_of
from qwen_batch.read.items import Content
from qwen_batch.read.office.pptx_parts import chart_table, diagram_lines, slide_table, text_lines
from qwen_batch.read.office.pptx_places import Places, placeholder_of
from qwen_batch.records import Line, Page, Table

PRESENTATION = "ppt/presentation.xml"
TITLES = ("title", "ctrTitle")
ASIDES = {"sldNum": "footer", "ftr": "footer", "dt": "footer", "hdr": "header"}
MAX_DEPTH = 50  # of groups in each other
MAX_NAMED = 200  # characters of a warning's list
_ID = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
_DATA = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}dm"


def read_pptx(path: Path) -> Content:
    """A page for each slide; hidden ones are blank, and named.

    Raises DocumentError: empty, damaged, encrypted, wrong_type, unsafe.
    """
    from lxml import etree

    if PRESENTATION not in check_archive(path):
        raise DocumentError("wrong_type", "named .pptx, but the archive holds something else: rename or convert it")
    try:
        with zipfile.ZipFile(path) as archive:
            slides = list(_iter_slides(archive))
    except (etree.XMLSyntaxError, zipfile.BadZipFile, KeyError, ValueError) as error:
        raise DocumentError("damaged", f"a part of it is damaged ({error}): open and save it anew") from None
    hidden = ", ".join(str(number) for number, page in enumerate(slides, 1) if page is None)
    warnings = (f"hidden slides were left out: {hidden[:MAX_NAMED]}",) if hidden else ()
    pages = tuple(page or Page(number, (), paragraphs=True) for number, page in enumerate(slides, 1))
    if not any(page.lines for page in pages):
        message = "the slides hold no text; text that is an image must be recognised (OCR) first"
        raise DocumentError("empty", "; ".join((message, *warnings)))
    return Content(pages, warnings)


def _iter_slides(archive: zipfile.ZipFile) -> Iterator[Page | None]:
    """The slides in their order; None: hidden."""
    targets = relations_of(archive, PRESENTATION)
    order = parse_part(archive.read(PRESENTATION)).iterfind("{*}sldIdLst/{*}sldId")
    parts = [targets.get(each.get(_ID, ""), "") for each in order]
    names = frozenset(archive.namelist())
    for number, part in enumerate((part for part in parts if part in names), 1):
        root = parse_part(archive.read(part))
        yield None if root.get("show") in ("0", "false") else _Slide(archive, part).page(number, root)


class _Slide:
    """Gathers what stands on one slide."""

    def __init__(self, archive: zipfile.ZipFile, part: str) -> None:
        self._archive = archive
        self._targets = relations_of(archive, part)
        self._places = Places(archive, part)
        self._found: list[tuple[tuple[int, float, float], list[Line], list[Table]]] = []

    def page(self, number: int, root: Any) -> Page:
        tree = root.find("{*}cSld/{*}spTree")
        if tree is not None:
            self._walk(tree, self._places.whole, 0)
        lines, tables = list[Line](), list[Table]()
        for _, own, own_tables in sorted(self._found, key=lambda each: each[0]):
            lines += (line if line.table is None else line._replace(table=line.table + len(tables)) for line in own)
            tables += own_tables
        return Page(number, (*lines, *self._notes()), tuple(tables), paragraphs=True)

    def _walk(self, group: Any, within: Any, depth: int) -> None:
        for shape in group:
            kind = shape.tag.rpartition("}")[2] if isinstance(shape.tag, str) else ""
            if _is_hidden(shape):
                continue
            if kind == "grpSp" and depth < MAX_DEPTH:
                self._walk(shape, self._places.inside(shape, within), depth + 1)
            elif kind == "AlternateContent":
                for choice in shape.iterfind("{*}Choice"):
                    self._walk(choice, within, depth + 1)
            elif kind in ("sp", "cxnSp"):
                self._add_text(shape, within)
            elif kind == "graphicFrame":
                self._add_frame(shape, within)

    def _add_text(self, shape: Any, within: Any) -> None:
        body = shape.find("{*}txBody")
        if body is None:
            return
        kind, _ = placeholder_of(shape)
        aside = ASIDES.get(kind or "")
        lines = [Line(text, aside=aside) for text in text_lines(body, " " if kind in TITLES else "\n")]
        top, left = self._places.of(shape, within)
        self._found.append(((0 if kind in TITLES else 1, top, left), lines, []))

    def _add_frame(self, shape: Any, within: Any) -> None:
        """A table, a chart or a diagram."""
        tables, lines = list[Table](), list[Line]()
        for element in shape.iter("{*}tbl", "{*}chart", "{*}relIds"):
            kind = element.tag.rpartition("}")[2]
            part = self._part(element.get(_DATA if kind == "relIds" else _ID, "")) if kind != "tbl" else None
            if kind == "tbl":
                table = slide_table(element)
            elif part is not None and kind == "chart":
                title, table = chart_table(part)
                lines += [Line(title)] if title else []
            else:
                lines += [Line(text) for text in diagram_lines(part)] if part is not None else []
                continue
            if table is not None:
                lines.append(Line("", table=len(tables)))
                tables.append(table)
        self._found.append(((1, *self._places.of(shape, within)), lines, tables))

    def _part(self, relation: str) -> Any:
        name = self._targets.get(relation, "")
        return parse_part(self._archive.read(name)) if name in self._archive.namelist() else None

    def _notes(self) -> Iterator[Line]:
        """What the speaker says to it."""
        name = next((each for each in self._targets.values() if "/notesSlides/" in each), "")
        if name not in self._archive.namelist():
            return
        said = [
            text
            for shape in parse_part(self._archive.read(name)).iter("{*}sp")
            if placeholder_of(shape)[0] == "body" and (body := shape.find("{*}txBody")) is not None
            for text in text_lines(body)
        ]
        yield from (Line(f"Notes: {text}" if number == 0 else text) for number, text in enumerate(said))


def _is_hidden(shape: Any) -> bool:
    named = next(iter(shape.iterfind("*/{*}cNvPr")), None) if isinstance(shape.tag, str) else None
    return named is not None and named.get("hidden") in ("1", "true")
