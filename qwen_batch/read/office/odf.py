"""OpenDocument files (OASIS ODF 1.3): texts, slides and sheets, read from their content.xml."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from qwen_batch.errors import DocumentError
from qwen_batch.read.archive import check_archive, parse_part
from qwen_batch.read.items import Content, warning_of_hidden
from qwen_batch.read.office.number_formats import format_general
from qwen_batch.read.office.odf_lists import Numbering, read_numbering
from qwen_batch.read.office.odf_names import DRAW, OFFICE, PRESENTATION, STYLE, TABLE, TEXT, number_of
from qwen_batch.read.office.sparse import Grid
from qwen_batch.records import Line, Page, Table

MAX_CELLS = 1_000_000  # with text, of a document; one attribute may repeat a cell or a row a million times
MAX_NAMED = 200  # characters of a warning's list
MANIFEST = "META-INF/manifest.xml"
_BLANKS = frozenset((f"{TEXT}tab", f"{TEXT}line-break", f"{TEXT}s"))
_NO_TEXT = frozenset((f"{TEXT}tracked-changes", f"{OFFICE}annotation"))  # what was deleted, comments
EXACT_DIGITS = 15  # of a number; more are those of its binary form
_VALUES = tuple(f"{OFFICE}{name}" for name in ("value", "date-value", "time-value", "string-value", "boolean-value"))
_CELLS = frozenset((f"{TABLE}table-cell", f"{TABLE}covered-table-cell"))
_ROW_GROUPS = frozenset(f"{TABLE}table-{name}" for name in ("header-rows", "rows", "row-group"))
_COLUMN_GROUPS = frozenset(f"{TABLE}table-{name}" for name in ("header-columns", "columns", "column-group"))
_SPACES = re.compile(r"\s+")


def read_odf(path: Path) -> Content:
    """Slides and sheets that are shown are pages; a text is one page.

    Raises DocumentError: empty, damaged, encrypted, wrong_type, too_large, unsafe.
    """
    content, styles, numbering = _read_parts(path)
    body = content.find(f"{OFFICE}body")
    body = content if body is None else body
    hidden_text = _take_hidden_text(body, [*styles, content])
    num_comments = sum(1 for _ in body.iter(f"{OFFICE}annotation"))
    reader = _Reader(numbering, _hidden_styles(content))
    slides = [child for child in body.iter(f"{DRAW}page") if child.getparent().tag == f"{OFFICE}presentation"]
    sheets = body.findall(f"{OFFICE}spreadsheet/{TABLE}table")
    if sheets:
        shown = [sheet for sheet in sheets if not reader.is_hidden(sheet)]
        pages = [reader.sheet(number, sheet) for number, sheet in enumerate(shown, 1)]
    elif slides:
        shown = [slide for slide in slides if not reader.is_hidden(slide)]
        pages = [reader.page(number, slide) for number, slide in enumerate(shown, 1)]
    else:
        pages = [_with_asides(reader.page(1, body), styles)]
    if not any(page.lines for page in pages):
        raise DocumentError("empty", "the document holds no text; text that is an image must be recognised (OCR) first")
    warnings = (
        f"hidden and left out: {', '.join(reader.hidden)[:MAX_NAMED]}" if reader.hidden else "",
        warning_of_hidden(hidden_text) if hidden_text else "",
        f"comments were left out: {num_comments}" if num_comments else "",
    )
    return Content(tuple(pages), tuple(filter(None, warnings)))


def _read_parts(path: Path) -> tuple[Any, list[Any], Numbering]:
    """content.xml, styles.xml where there is one, and what both say about lists."""
    from lxml import etree

    if "content.xml" not in (names := check_archive(path)):
        message = f"named {path.suffix}, but the archive holds something else: rename or convert it"
        raise DocumentError("wrong_type", message)
    try:
        with zipfile.ZipFile(path) as archive:
            if MANIFEST in names and b"encryption-data" in archive.read(MANIFEST):
                raise DocumentError("encrypted", "the document is encrypted: save it without a password")
            root = parse_part(archive.read("content.xml"))
            styles = [parse_part(archive.read("styles.xml"))] if "styles.xml" in names else []
    except (etree.XMLSyntaxError, zipfile.BadZipFile) as error:
        raise DocumentError("damaged", f"its text is damaged ({error}): open and save it anew") from None
    return root, styles, read_numbering([*styles, root])


def _hidden_styles(content: Any) -> frozenset[str]:
    """Names of the styles of sheets and slides that are not shown."""
    styles = content.find(f"{OFFICE}automatic-styles")
    sheets = _named_by(styles, "table-properties", f"{TABLE}display", "false")
    return sheets | _named_by(styles, "drawing-page-properties", f"{PRESENTATION}visibility", "hidden")


def _named_by(styles: Any, properties: str, attribute: str, value: str) -> frozenset[str]:
    """Names of the styles whose properties have an attribute with this value."""
    found = styles.iter(f"{STYLE}{properties}") if styles is not None else ()
    names = (each.getparent().get(f"{STYLE}name") for each in found if each.get(attribute) == value)
    return frozenset(filter(None, names))


def _take_hidden_text(body: Any, roots: list[Any]) -> str:
    """Takes out paragraphs and runs whose style hides them, and returns what they held."""
    names = frozenset[str]().union(
        *(_named_by(root, "text-properties", f"{TEXT}display", "none") for root in roots),
    )
    hidden: list[str] = []
    for element in body.iter(f"{TEXT}p", f"{TEXT}h", f"{TEXT}span") if names else ():
        if element.get(f"{TEXT}style-name") in names:
            hidden.append(_text_of(element))
            element.text = None
            del element[:]
    return " ".join(filter(None, hidden))


def _with_asides(page: Page, styles: list[Any]) -> Page:
    """A text with the headers and footers of its pages, each once."""

    def lines(kind: str) -> list[Line]:
        paragraphs = (each for root in styles for part in root.iter(f"{STYLE}{kind}") for each in part.iter(f"{TEXT}p"))
        return [Line(text, aside=kind) for text in dict.fromkeys(map(_text_of, paragraphs)) if text]

    if not page.lines:
        return page
    return page._replace(lines=(*lines("header"), *page.lines, *lines("footer")))


class _Reader:
    """Walks over a document and keeps count of its cells, its list items and what it does not show."""

    def __init__(self, numbering: Numbering, hidden_styles: frozenset[str]) -> None:
        self.hidden: list[str] = []
        self._numbering = numbering
        self._hidden_styles = hidden_styles
        self._num_left = MAX_CELLS

    def is_hidden(self, part: Any) -> bool:
        """Whether a sheet or a slide is not shown."""
        kind, space = ("slide", DRAW) if part.tag == f"{DRAW}page" else ("sheet", TABLE)
        hidden = part.get(f"{space}style-name") in self._hidden_styles
        self.hidden += [f"{kind} {part.get(f'{space}name')!r}"] * hidden
        return hidden

    def page(self, number: int, elements: Any) -> Page:
        lines, tables = list[Line](), list[Table]()
        self._walk(elements, lines, tables)
        return Page(number, tuple(lines), tuple(tables), paragraphs=True)

    def sheet(self, number: int, sheet: Any) -> Page:
        """A sheet that holds something has its name above it."""
        page = self.page(number, [sheet, *sheet.iterchildren(f"{TABLE}shapes")])
        name = sheet.get(f"{TABLE}name")
        return page._replace(lines=(Line(name), *page.lines)) if page.lines and name else page

    def _walk(self, elements: Any, lines: list[Line], tables: list[Table]) -> None:
        for child in elements:
            if child.tag in (f"{TEXT}p", f"{TEXT}h"):
                mark, text = self._numbering.mark(child), _text_of(child)
                if text:
                    lines.append(Line(f"{mark}{text}"))
            elif child.tag == f"{TABLE}table":
                if (table := self._as_table(child)) is not None:
                    lines.append(Line("", table=len(tables)))
                    tables.append(table)
            elif child.tag not in _NO_TEXT:
                self._numbering.enter(child)
                self._walk(child, lines, tables)

    def _as_table(self, element: Any) -> Table | None:
        """None: it holds no text. Raises DocumentError: too_large."""
        grid, y, heads = Grid(), 0, 0
        hidden = set[int]()
        for row in _iter_rows(element):
            times = number_of(row, "number-rows-repeated")
            num_filled = self._add_row(grid, y, row)
            if num_filled:
                self._count(num_filled * (times - 1))
                grid.repeat(y, times)
            if row.get(f"{TABLE}visibility", "visible") != "visible" and num_filled:
                hidden.update(range(y, y + times))
            y += times
            heads = y if row.getparent().tag == f"{TABLE}table-header-rows" else heads
        for what, num_hidden in grid.hide(hidden, _hidden_columns(element)):
            self.hidden.append(f"{num_hidden} {what} of {element.get(f'{TABLE}name')!r}")
        return grid.as_table(heads)

    def _add_row(self, grid: Grid, y: int, row: Any) -> int:
        """How many cells have text."""
        x = num_filled = 0
        for cell in row.iterchildren(*_CELLS):
            times = number_of(cell, "number-columns-repeated")
            if text := _cell_text(cell):
                self._count(times)
                num_filled += times
                for column in range(x, x + times):
                    grid.add(y, column, text)
                grid.merge(y, x, number_of(cell, "number-rows-spanned"), number_of(cell, "number-columns-spanned"))
            x += times
        return num_filled

    def _count(self, num_cells: int) -> None:
        self._num_left -= num_cells
        if self._num_left < 0:
            raise DocumentError("too_large", f"more than {MAX_CELLS} cells hold text: save it as .csv, or divide it")


def _iter_rows(element: Any) -> Iterator[Any]:
    """The rows of a table, those of tables within its cells left out."""
    for child in element:
        if child.tag == f"{TABLE}table-row":
            yield child
        elif child.tag in _ROW_GROUPS:
            yield from _iter_rows(child)


def _hidden_columns(element: Any) -> set[int]:
    hidden, x = set[int](), 0
    for column in element.iter(f"{TABLE}table-column"):
        if column.getparent() is not element and column.getparent().tag not in _COLUMN_GROUPS:
            continue
        times = number_of(column, "number-columns-repeated")
        if column.get(f"{TABLE}visibility", "visible") != "visible":
            hidden.update(range(x, x + min(times, 16_384)))
        x += times
    return hidden


def _cell_text(cell: Any) -> str:
    only = cell[0] if len(cell) == 1 and cell[0].tag == f"{TEXT}p" else cell
    text = _text_of(only) or next(filter(None, map(cell.get, _VALUES)), "")
    is_bare = len(text) > EXACT_DIGITS and "." in text and text == cell.get(f"{OFFICE}value")
    return _shortened(text) if is_bare else text


def _shortened(text: str) -> str:
    """A fraction that was written to the last bit of its binary form, as a sheet shows it."""
    try:
        return format_general(float(text))
    except (OverflowError, ValueError):
        return text


def _text_of(element: Any) -> str:
    """The text of a paragraph or a cell, footnotes in it included, comments not."""
    if len(element) == 0:  # most cells and paragraphs: sheets have many
        return " ".join((element.text or "").split())

    def parts(node: Any) -> Iterator[str]:
        yield node.text or ""
        for child in node:
            if child.tag in _BLANKS:
                yield " "
            elif child.tag not in _NO_TEXT and not (child.tag == f"{TEXT}page-number" and child.text == "<number>"):
                apart = " " * (child.tag in (f"{TEXT}p", f"{TEXT}h", f"{TEXT}note"))
                yield apart
                yield from parts(child)
                yield apart
            yield child.tail or ""

    return _SPACES.sub(" ", "".join(parts(element))).strip()
