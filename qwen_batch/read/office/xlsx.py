"""Spreadsheets (.xlsx), each sheet a page: what the cells show, read as a stream and kept only where there is text.

A reader of our own: a single cell far below or far right must not cost a row or a column each in between, and numbers
are meant as they are shown (dates, percent, currency). The parts are those of ECMA-376 part 1, 18; elements are found
by their local names, since strict files have another namespace.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qwen_batch.errors import DocumentError
from qwen_batch.read.archive import check_archive, parse_part, relations_of
from qwen_batch.read.items import Content
from qwen_batch.read.office.number_formats import BUILT_IN, MAX_DIGITS, format_general, format_value
from qwen_batch.read.office.sheet_dates import day_number
from qwen_batch.read.office.sparse import Grid
from qwen_batch.records import Line, Page

WORKBOOK = "xl/workbook.xml"
MAX_CELLS = 2_000_000  # with text, of a document
MAX_NAMED = 200  # characters of a warning's list
_REFERENCE = re.compile(r"([A-Z]{1,3})([0-9]{1,7})")


@dataclass(slots=True)
class _Book:
    """What all sheets share."""

    archive: zipfile.ZipFile
    strings: list[str]
    codes: list[str]  # of each cell style
    from_1904: bool
    num_cells: int = 0
    hidden: list[str] = field(default_factory=list)
    num_uncomputed: int = 0


def read_xlsx(path: Path) -> Content:
    """A page for each sheet that is shown: its name above its cells and the texts of its drawings.

    Raises DocumentError: empty, damaged, encrypted, wrong_type, unsafe, too_large.
    """
    from lxml import etree

    if WORKBOOK not in check_archive(path):
        raise DocumentError("wrong_type", "named .xlsx, but the archive holds something else: rename or convert it")
    try:
        with zipfile.ZipFile(path) as archive:
            pages, warnings = _read_book(archive)
    except (etree.XMLSyntaxError, zipfile.BadZipFile, KeyError, ValueError, IndexError) as error:
        raise DocumentError("damaged", f"a part of it is damaged ({error}): open and save it anew") from None
    if not any(page.lines for page in pages):
        raise DocumentError("empty", "; ".join(("the sheets that are shown hold no text", *warnings)))
    return Content(tuple(pages), warnings)


def _read_book(archive: zipfile.ZipFile) -> tuple[list[Page], tuple[str, ...]]:
    root = parse_part(archive.read(WORKBOOK))
    properties = root.find("{*}workbookPr")
    from_1904 = properties is not None and properties.get("date1904") in ("1", "true")
    book = _Book(archive, list(_iter_strings(archive)), _read_codes(archive), from_1904)
    targets = relations_of(archive, WORKBOOK)
    pages: list[Page] = []
    for sheet in root.iterfind("{*}sheets/{*}sheet"):
        part = targets.get(next((value for key, value in sheet.attrib.items() if key.endswith("}id")), ""), "")
        if sheet.get("state", "visible") != "visible":
            book.hidden.append(f"sheet {sheet.get('name')!r}")
        elif part.rpartition("/")[0].endswith("worksheets"):  # others are charts and macros
            pages.append(_read_sheet(book, part, sheet.get("name", ""), len(pages) + 1))
    return pages, tuple(_iter_warnings(book))


def _iter_warnings(book: _Book) -> Iterator[str]:
    if book.hidden:
        yield f"hidden and left out: {', '.join(book.hidden)[:MAX_NAMED]}"
    if book.num_uncomputed:
        yield f"formulas without a stored result, shown as they are: {book.num_uncomputed}; save the file in a program"


def _read_sheet(book: _Book, part: str, name: str, number: int) -> Page:
    grid = Grid()
    hidden_rows, hidden_columns = set[int](), set[int]()
    with book.archive.open(part) as stream:
        y = -1
        for element in _iter_elements(stream, "row", "mergeCell", "col"):
            if element.tag.endswith("}row"):
                y = int(element.get("r", y + 2)) - 1
                if element.get("hidden") in ("1", "true"):
                    hidden_rows.add(y)
                _add_row(book, grid, y, element)
            elif element.tag.endswith("}col") and element.get("hidden") in ("1", "true"):
                hidden_columns.update(range(int(element.get("min")) - 1, min(int(element.get("max")), 16384)))
            elif element.tag.endswith("}mergeCell"):
                grid.merge(*_area(element.get("ref", "")))
    for what, num_hidden in grid.hide(hidden_rows, hidden_columns):
        book.hidden.append(f"{num_hidden} {what} of {name!r}")
    table = grid.as_table()
    lines = [*([Line("", table=0)] if table else []), *map(Line, _iter_drawn(book.archive, part))]
    return Page(number, (Line(name), *lines) if lines else (), (table,) if table else (), paragraphs=True)


def _iter_elements(stream: Any, *names: str) -> Iterator[Any]:
    """Elements as they end; what was looked at is let go of."""
    from lxml import etree

    tags = [f"{{*}}{name}" for name in names]
    for _, element in etree.iterparse(stream, tag=tags, resolve_entities=False, no_network=True, load_dtd=False):
        yield element
        element.clear()
        while element.getprevious() is not None:
            del element.getparent()[0]


def _add_row(book: _Book, grid: Grid, y: int, row: Any) -> None:
    x = -1
    for cell in row:
        reference = _REFERENCE.fullmatch(cell.get("r", ""))
        x = _column(reference[1]) if reference else x + 1
        if text := _text_of(book, cell):
            grid.add(y, x, text)
            book.num_cells += 1
            if book.num_cells > MAX_CELLS:
                raise DocumentError(
                    "too_large", f"more than {MAX_CELLS} cells hold text: save it as .csv, or divide it"
                )


def _text_of(book: _Book, cell: Any) -> str:
    kind = cell.get("t", "n")
    if kind == "inlineStr":
        return _joined(cell)
    value = cell.findtext("{*}v") or ""
    if not value:
        formula = cell.findtext("{*}f") if kind != "str" else None  # of a text: it is computed, and empty
        book.num_uncomputed += formula is not None
        return f"={formula}" if formula else ""
    if kind == "s":
        return book.strings[int(value)]
    if kind == "b":
        return "TRUE" if value == "1" else "FALSE"
    if kind == "d":  # a date as text, of strict files
        number = day_number(value, book.from_1904)
        return " ".join(value.split()) if number is None else format_value(number, _code(book, cell), book.from_1904)
    if kind != "n":
        return " ".join(value.split())
    code = _code(book, cell)
    return format_value(float(value), code, book.from_1904) if code != "General" else _general(value)


def _code(book: _Book, cell: Any) -> str:
    style = int(cell.get("s", 0))
    return book.codes[style] if style < len(book.codes) else "General"


def _general(value: str) -> str:
    return value if value.isdecimal() and len(value) <= MAX_DIGITS else format_general(float(value))


def _column(letters: str) -> int:
    """From 0: A, B, ..., Z, AA."""
    number = 0
    for letter in letters:
        number = 26 * number + ord(letter) - 64
    return number - 1


def _area(reference: str) -> tuple[int, int, int, int]:
    """(row, column, rows, columns) of A1:B2."""
    ends = [_REFERENCE.fullmatch(end) for end in reference.split(":")]
    if not all(ends):
        return 0, 0, 1, 1
    places = [(int(end[2]) - 1, _column(end[1])) for end in ends if end]
    (top, left), (bottom, right) = places[0], places[-1]
    return top, left, bottom - top + 1, right - left + 1


def _iter_strings(archive: zipfile.ZipFile) -> Iterator[str]:
    if name := _named(archive, "xl/sharedStrings.xml"):
        with archive.open(name) as stream:
            yield from map(_joined, _iter_elements(stream, "si"))


def _joined(item: Any) -> str:
    """The text of a string or an inline cell, without the readings of Chinese characters."""
    texts = (text.text or "" for text in item.iter("{*}t") if not text.getparent().tag.endswith("rPh"))
    return " ".join("".join(texts).split())


def _read_codes(archive: zipfile.ZipFile) -> list[str]:
    name = _named(archive, "xl/styles.xml")
    if name is None:
        return []
    root = parse_part(archive.read(name))
    own = {each.get("numFmtId"): each.get("formatCode", "") for each in root.iterfind("{*}numFmts/{*}numFmt")}
    ids = [each.get("numFmtId", "0") for each in root.iterfind("{*}cellXfs/{*}xf")]
    return [own.get(number) or BUILT_IN.get(int(number), "General") for number in ids]


def _named(archive: zipfile.ZipFile, name: str) -> str | None:
    """A part by its name, which some writers begin with a capital."""
    return next((each for each in archive.namelist() if each.lower() == name.lower()), None)


def _iter_drawn(archive: zipfile.ZipFile, part: str) -> Iterator[str]:
    """Paragraphs of the text boxes that lie over a sheet."""
    for target in relations_of(archive, part).values():
        if target.startswith("xl/drawings/drawing") and target in archive.namelist():
            for paragraph in parse_part(archive.read(target)).iter("{*}p"):
                text = "".join(text.text or "" for text in paragraph.iter("{*}t")).strip()
                yield from [text] if text else []
