"""Printed lines, and tables where they stand, in reading order.

Lines without geometry get one: a column is half an em wide, and each line is printed below the one before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from qwen_batch.clean.edges import in_table
from qwen_batch.clean.fences import code_lines, indent_of
from qwen_batch.clean.markers import display_width, is_item_text, is_rtl
from qwen_batch.records import Line, Page, Table

TEXT_SIZE = 2.0  # columns in an em, for lines without geometry
TEXT_LEADING = 2.4
SAME_SIZE = 0.06  # relative
INDENT = 0.9  # ems
BESIDE = 0.7  # ems, across and down: pieces closer than this stand side by side
WORD_SPACE = 0.18  # ems: a gap narrower than this is no space
SIDE_STEP = 4.0  # ems between left edges beyond which a run of lines ends


class Row(NamedTuple):
    """One line; x grows in reading direction, y downwards."""

    text: str
    page_number: int
    x0: float
    x1: float
    bottom: float
    size: float  # an em
    right: float = 0.0  # where a full line would end
    leading: float = 0.0  # usual distance of lines of this size
    indented: bool = False  # further in than the line after it, as the first line of a paragraph is
    flows: bool = True  # False: vertical or without place; stays alone
    apart: bool = False  # a whole paragraph, with space before it
    printed: bool = False  # its place is that on a page; False: counted in columns
    note: Literal["", "starts", "goes on"] = ""  # part of a footnote
    code: bool = False  # its spaces and its end are kept
    entry: bool = False  # ends with what was filled into a form

    @property
    def room(self) -> float:
        """Space left at the end of the line."""
        return self.right - self.x1


class Placed(NamedTuple):
    """A table where it stands in the text."""

    table: Table
    page_number: int


Entry = Row | Placed


def iter_entries(page: Page) -> Iterator[Entry]:
    """The lines and tables of a page in reading order, not yet measured."""
    if page.paragraphs:
        yield from _iter_whole(page)
    elif any(line.bbox is not None for line in page.lines) or page.tables:
        yield from _iter_merged(_iter_printed(page))
    else:
        yield from _iter_typed(page)


def _iter_whole(page: Page) -> Iterator[Entry]:
    """Paragraphs and tables as the format keeps them; items of a list stand together."""
    was_item = was_code = False
    num_blank = 0  # lines of code
    for line in page.lines:
        text = line.text.strip()
        if line.code and (text or was_code):
            num_blank += not text
            for code in [*[""] * num_blank, line.text.rstrip()] if text else ():
                yield Row(code, page.page_number, 0.0, 0.0, 0.0, 1.0, flows=False, apart=not was_code, code=True)
                num_blank, was_code, was_item = 0, True, False
            continue
        if line.table is not None or text:
            was_code, num_blank = False, 0
        if line.table is not None:
            yield Placed(page.tables[line.table], page.page_number)
        elif text:
            is_item = is_item_text(text)
            apart = not (is_item and was_item)
            yield Row(text, page.page_number, 0.0, 0.0, 0.0, 1.0, flows=False, apart=apart)
            was_item = is_item


def _iter_printed(page: Page) -> Iterator[Entry]:
    """A table stands where its first line stands; its lines are left out."""
    width = page.width or max((line.bbox[2] for line in page.lines if line.bbox), default=0.0)
    waiting = list(page.tables)
    for line in page.lines:
        if page.tables and in_table(line, page):
            table = next((table for table in waiting if in_table(line, page._replace(tables=(table,)))), None)
            if table is not None:
                waiting.remove(table)
                yield Placed(table, page.page_number)
        elif line.text.strip():
            yield _printed_row(line if not page.written_down else _turned(line, width), page.page_number, width)
    for table in waiting:
        yield Placed(table, page.page_number)


def _iter_merged(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Pieces of one printed line as one row: exponents, footnote marks, words in another font."""
    open_row: Row | None = None
    for entry in entries:
        if open_row is not None and isinstance(entry, Row) and _is_beside(open_row, entry):
            open_row = _merged(open_row, entry)
            continue
        if open_row is not None:
            yield open_row
        open_row = entry if isinstance(entry, Row) else None
        if open_row is None:
            yield entry
    if open_row is not None:
        yield open_row


def _is_beside(row: Row, after: Row) -> bool:
    size = max(row.size, after.size)
    level = abs(row.bottom - after.bottom) < BESIDE * size
    return row.flows and after.flows and level and -0.2 * size < after.x0 - row.x1 < BESIDE * size


def _merged(row: Row, after: Row) -> Row:
    larger = row if row.size >= after.size else after
    shorter, longer = sorted((row, after), key=lambda piece: len(piece.text))
    base = longer if len(longer.text) > 4 * len(shorter.text) else larger  # a bullet may be larger than its text
    glue = " " if after.x0 - row.x1 > WORD_SPACE * larger.size else ""
    text = row.text + glue + after.text
    code, entry = row.code and after.code, after.entry
    return base._replace(text=text, x0=row.x0, x1=max(row.x1, after.x1), code=code, entry=entry)


def _turned(line: Line, width: float) -> Line:
    """A line that runs down the page, as if it ran across."""
    if line.bbox is None:
        return line
    x0, top, x1, bottom = line.bbox
    return line._replace(bbox=(top, width - x1, bottom, width - x0))


def _printed_row(line: Line, page_number: int, width: float) -> Row:
    if line.bbox is None:
        return Row(line.text.strip(), page_number, 0.0, 0.0, 0.0, 1.0, flows=False)
    x0, top, x1, bottom = line.bbox
    size = line.font_size or bottom - top or 1.0
    vertical = bottom - top > 2 * (x1 - x0) and len(line.text) > 3
    if is_rtl(line.text):
        x0, x1 = width - x1, width - x0
    row = Row(line.text.strip(), page_number, x0, x1, bottom, size, flows=not vertical, printed=True, code=line.code)
    return row._replace(entry=True) if line.entry else row


def _iter_typed(page: Page) -> Iterator[Row]:
    for number, (line, code) in enumerate(zip(page.lines, code_lines(page.lines), strict=True)):
        text = line.text.strip()
        if text or code:
            indent = display_width(indent_of(line.text))
            x1 = float(indent + display_width(text))
            kept = line.text if code else text
            yield Row(kept, page.page_number, float(indent), x1, number * TEXT_LEADING, TEXT_SIZE, code=code)


def same_size(before: Row, after: Row) -> bool:
    return abs(before.size - after.size) <= SAME_SIZE * max(before.size, after.size)


def in_one_run(before: Row, after: Row) -> bool:
    """Whether a line follows another at the usual distance, as lines of one paragraph do."""
    distance = after.bottom - before.bottom
    close = 0 < distance <= 1.3 * after.leading + 0.5
    return close and same_size(before, after) and abs(before.x0 - after.x0) < SIDE_STEP * after.size


def iter_runs(rows: Sequence[Row]) -> Iterator[tuple[int, int]]:
    """Start and end of each run of lines that follow each other."""
    start = 0
    for index in range(1, len(rows) + 1):
        if index == len(rows) or not in_one_run(rows[index - 1], rows[index]):
            if start < index:
                yield start, index
            start = index
