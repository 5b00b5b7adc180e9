"""OpenDocument files (OASIS ODF 1.3): texts, slides and sheets, read from their content.xml."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from qwen_batch.errors import DocumentError
from qwen_batch.read.archive import check_archive, parse_part
from qwen_batch.read.html import MAX_CELLS, spanned_table
from qwen_batch.read.items import Content
from qwen_batch.read.table_heads import count_header_rows
from qwen_batch.records import Line, Page, Table

MAX_REPEATED = 1000  # cells or rows that one attribute may repeat
_ODF = "{urn:oasis:names:tc:opendocument:xmlns:%s:1.0}"
OFFICE, TEXT, TABLE, DRAW = (_ODF % name for name in ("office", "text", "table", "drawing"))
MANIFEST = "META-INF/manifest.xml"
_BLANKS = frozenset((f"{TEXT}tab", f"{TEXT}line-break", f"{TEXT}s"))
_NO_TEXT = frozenset((f"{TEXT}tracked-changes", f"{OFFICE}annotation"))  # what was deleted, comments
_VALUES = tuple(f"{OFFICE}{name}" for name in ("value", "date-value", "time-value", "string-value", "boolean-value"))
_SPACES = re.compile(r"\s+")


def read_odf(path: Path) -> Content:
    """A text as one page, slides and sheets as a page each.

    Raises DocumentError: empty, damaged, encrypted, wrong_type, too_large, unsafe.
    """
    body = _read_body(path)
    parts = [child for child in body.iter(f"{DRAW}page") if child.getparent().tag == f"{OFFICE}presentation"]
    parts = parts or list(body.iterfind(f"{OFFICE}spreadsheet/{TABLE}table"))
    pages = [_as_page(number, [part]) for number, part in enumerate(parts, 1)] or [_as_page(1, list(body))]
    if not any(page.lines for page in pages):
        raise DocumentError("empty", "the document holds no text; text that is an image must be recognised (OCR) first")
    return Content(tuple(pages))


def _read_body(path: Path) -> Any:
    from lxml import etree

    if "content.xml" not in (names := check_archive(path)):
        message = f"named {path.suffix}, but the archive holds something else: rename or convert it"
        raise DocumentError("wrong_type", message)
    try:
        with zipfile.ZipFile(path) as archive:
            if MANIFEST in names and b"encryption-data" in archive.read(MANIFEST):
                raise DocumentError("encrypted", "the document is encrypted: save it without a password")
            root = parse_part(archive.read("content.xml"))
    except (etree.XMLSyntaxError, zipfile.BadZipFile) as error:
        raise DocumentError("damaged", f"its text is damaged ({error}): open and save it anew") from None
    body = root.find(f"{OFFICE}body")
    return root if body is None else body


def _as_page(number: int, parts: list[Any]) -> Page:
    lines: list[Line] = []
    tables: list[Table] = []
    for part in parts:
        _walk([part] if part.tag == f"{TABLE}table" else part, lines, tables)
    return Page(number, tuple(lines), tuple(tables), paragraphs=True)


def _walk(elements: Any, lines: list[Line], tables: list[Table]) -> None:
    for child in elements:
        if child.tag in (f"{TEXT}p", f"{TEXT}h"):
            in_list = any(True for _ in child.iterancestors(f"{TEXT}list-item"))
            if text := _text_of(child):
                lines.append(Line(f"- {text}" if in_list else text))
        elif child.tag == f"{TABLE}table":
            if (table := _as_table(child)) is not None:
                lines.append(Line("", table=len(tables)))
                tables.append(table)
        elif child.tag not in _NO_TEXT:
            _walk(child, lines, tables)


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
                apart = " " * (child.tag in (f"{TEXT}p", f"{TEXT}note"))
                yield apart
                yield from parts(child)
                yield apart
            yield child.tail or ""

    return _SPACES.sub(" ", "".join(parts(element))).strip()


def _as_table(element: Any) -> Table | None:
    """None: it holds no text. Raises DocumentError: too_large."""
    rows: list[list[tuple[str, int, int]]] = []
    heads = 0
    for row in element.iter(f"{TABLE}table-row"):
        cells = _without_end(list(_iter_cells(row)))
        times = _number(row, "number-rows-repeated") if any(text for text, _, _ in cells) else 1
        rows += [cells] * times
        heads += times * (row.getparent().tag == f"{TABLE}table-header-rows")
    if all(columns == height == 1 for row in rows for _, columns, height in row):
        return _plain_table([[text for text, _, _ in row] for row in rows], heads)
    table = spanned_table(rows, heads)
    if table is None and any(text for row in rows for text, _, _ in row):
        message = f"a table with merged cells has more than {MAX_CELLS}: save it as .csv, or divide it"
        raise DocumentError("too_large", message)
    return table


def _plain_table(rows: list[list[str]], heads: int) -> Table | None:
    """Without the rows and columns that hold nothing."""
    used = [y for y, row in enumerate(rows) if any(row)]
    width = max((len(row) for row in rows), default=0)
    kept = [x for x in range(width) if any(x < len(row) and row[x] for row in rows)]
    filled = tuple(tuple(rows[y][x] if x < len(rows[y]) else "" for x in kept) for y in used)
    return Table(filled, header_rows=sum(y < heads for y in used) or count_header_rows(filled, ())) if used else None


def _without_end(cells: list[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    """Sheets fill their rows up with blank cells."""
    while cells and cells[-1] == ("", 1, 1):
        cells.pop()
    return cells


def _iter_cells(row: Any) -> Iterator[tuple[str, int, int]]:
    """(text, columns, rows) of each cell; those that a merged cell covers are left out."""
    for cell in row.iterchildren(f"{TABLE}table-cell"):
        spans = _number(cell, "number-columns-spanned"), _number(cell, "number-rows-spanned")
        only = cell[0] if len(cell) == 1 and cell[0].tag == f"{TEXT}p" else cell
        text = _text_of(only) or next(filter(None, map(cell.get, _VALUES)), "")
        for _ in range(_number(cell, "number-columns-repeated")):
            yield text, *spans


def _number(element: Any, name: str) -> int:
    value = element.get(f"{TABLE}{name}", "1")
    return max(1, min(MAX_REPEATED, int(value))) if value.isdecimal() else 1
