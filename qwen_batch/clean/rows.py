"""Printed lines with the measures that tell where paragraphs end.

Lines without geometry get one: a column is half an em wide, and each line is printed below the one before.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from qwen_batch.clean.edges import in_table
from qwen_batch.clean.markers import bullet, clause_kind, display_width, has_columns, is_rtl, is_stretched
from qwen_batch.records import Line, Page, Table

TEXT_SIZE = 2.0  # columns in an em, for lines without geometry
TEXT_LEADING = 2.4
MAX_WRAP_COLUMNS = 140  # a text file with longer lines is not wrapped by hand
MIN_WRAP_COLUMNS = 40
SAME_SIZE = 0.06  # relative
EDGE_BIN = 2.5  # points
EDGE_SHARE = 0.1  # of the lines that begin at the same place
SHARP_SHARE = 0.3  # the same, where they end exactly at one place
INNER_STEPS = 5  # of 0.7 ems: how much further in a first line may begin and still tell where lines end
EDGE_SUPPORT = 3  # lines that end at the same place make a margin
INDENT = 0.9  # ems
NARROW = 0.4  # of the page: a lone line shorter than this is measured by the margin to its right
BESIDE = 0.7  # ems, across and down: pieces closer than this stand side by side
WORD_SPACE = 0.18  # ems: a gap narrower than this is no space
FULL_ROOM = 0.35  # ems that a justified line may lack
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

    @property
    def room(self) -> float:
        """Space left at the end of the line."""
        return self.right - self.x1


class Placed(NamedTuple):
    """A table where it stands in the text."""

    table: Table
    page_number: int


Entry = Row | Placed
Ends = dict[tuple[int, int], Counter[int]]  # (left edge, font size) -> places where lines end, how often
Margins = dict[tuple[int, int], float]  # the same -> where full lines end, as far as the document as a whole tells


def document_entries(pages: Sequence[Page]) -> list[list[Entry]]:
    """The lines and tables of each page in reading order, with their measures."""
    plain = [list(_iter_entries(page)) for page in pages]
    ends = _ends_by_left([entry for entries in plain for entry in entries if isinstance(entry, Row)])
    everywhere = {key: _margin(ends, key) for key in ends}
    return [_measured(page, entries, everywhere) for page, entries in zip(pages, plain, strict=True)]


def _iter_entries(page: Page) -> Iterator[Entry]:
    if page.paragraphs:
        yield from _iter_whole(page)
    elif any(line.bbox is not None for line in page.lines) or page.tables:
        yield from _iter_merged(_iter_printed(page))
    else:
        yield from _iter_typed(page)


def _measured(page: Page, entries: Sequence[Entry], everywhere: Margins) -> list[Entry]:
    rows = [entry for entry in entries if isinstance(entry, Row)]
    measured = iter(_measure(rows, everywhere, printed=page.width is not None))
    return [next(measured) if isinstance(entry, Row) else entry for entry in entries]


def _iter_whole(page: Page) -> Iterator[Entry]:
    """Paragraphs and tables as the format keeps them; items of a list stand together."""
    was_item = False
    for line in page.lines:
        text = line.text.strip()
        if line.table is not None:
            yield Placed(page.tables[line.table], page.page_number)
        elif text:
            is_item = bullet(text) or clause_kind(text) is not None
            apart = not (is_item and was_item)
            yield Row(text, page.page_number, 0.0, 0.0, 0.0, 1.0, flows=False, apart=apart)
            was_item = is_item


def _iter_printed(page: Page) -> Iterator[Entry]:
    """A table stands where its first line stands; its lines are left out."""
    width = page.width or max((line.bbox[2] for line in page.lines if line.bbox), default=0.0)
    waiting = list(page.tables)
    for line in page.lines:
        if page.tables and in_table(line, page):
            table = next(
                (table for table in waiting if in_table(line, dataclasses.replace(page, tables=(table,)))), None
            )
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
    return base._replace(text=text, x0=row.x0, x1=max(row.x1, after.x1))


def _turned(line: Line, width: float) -> Line:
    """A line that runs down the page, as if it ran across."""
    if line.bbox is None:
        return line
    x0, top, x1, bottom = line.bbox
    return dataclasses.replace(line, bbox=(top, width - x1, bottom, width - x0))


def _printed_row(line: Line, page_number: int, width: float) -> Row:
    if line.bbox is None:
        return Row(line.text.strip(), page_number, 0.0, 0.0, 0.0, 1.0, flows=False)
    x0, top, x1, bottom = line.bbox
    size = line.font_size or bottom - top or 1.0
    vertical = bottom - top > 2 * (x1 - x0) and len(line.text) > 3
    if is_rtl(line.text):
        x0, x1 = width - x1, width - x0
    return Row(line.text.strip(), page_number, x0, x1, bottom, size, flows=not vertical, printed=True)


def _iter_typed(page: Page) -> Iterator[Row]:
    for number, line in enumerate(page.lines):
        text = line.text.strip()
        if text:
            indent = display_width(line.text[: len(line.text) - len(line.text.lstrip())])
            x1 = float(indent + display_width(text))
            yield Row(text, page.page_number, float(indent), x1, number * TEXT_LEADING, TEXT_SIZE)


def _measure(rows: Sequence[Row], everywhere: Margins, printed: bool) -> list[Row]:
    leadings = _leadings(rows) if printed else {}  # where lines are typed, a blank one always ends a paragraph
    rows = [_with(row, leadings.get(round(row.size * 2), 1.2 * row.size)) for row in rows]
    rights = _printed_rights(rows, everywhere) if printed else _typed_rights(rows)
    indented = [_is_indented(row, after) for row, after in itertools.pairwise(rows)]
    done = [
        _with(row, row.leading, right, is_indented)
        for row, right, is_indented in zip(rows, rights, [*indented, False][: len(rows)], strict=True)
    ]
    for index, row in enumerate(done):
        around = done[index - 1] if index else None, done[index + 1] if index + 1 < len(done) else None
        done[index] = _unstretched(row, *around)
    return done


def _unstretched(row: Row, before: Row | None, after: Row | None) -> Row:
    """A line of few words in a narrow justified column has gaps as wide as those between the columns of a table."""
    if not is_stretched(row.text) or not _is_full(row):
        return row
    follows = before is not None and _is_full(before) and not has_columns(before.text) and _in_one_run(before, row)
    goes_on = after is not None and _in_one_run(row, after) and abs(after.x0 - row.x0) < INDENT * row.size
    return row._replace(text=" ".join(row.text.split())) if follows or goes_on else row


def _is_full(row: Row) -> bool:
    return row.room <= FULL_ROOM * row.size


def _with(row: Row, leading: float, right: float = 0.0, indented: bool = False) -> Row:
    """A copy with these measures."""
    return row._replace(right=right, leading=leading, indented=indented)


def _is_indented(row: Row, after: Row) -> bool:
    return _in_one_run(row, after) and row.x0 - after.x0 > INDENT * row.size


def _leadings(rows: Sequence[Row]) -> dict[int, float]:
    """Usual distance between lines, by font size in half points. The smallest that is common, not the mean: gaps
    between paragraphs must not count."""
    distances: dict[int, Counter[float]] = defaultdict(Counter)
    for before, after in itertools.pairwise(rows):
        distance = after.bottom - before.bottom
        if same_size(before, after) and 0.7 * after.size < distance < 3 * after.size:
            distances[round(after.size * 2)][round(distance * 2) / 2] += 1
    result: dict[int, float] = {}
    for size, counts in distances.items():
        often = max(counts.values())
        result[size] = min(distance for distance, count in counts.items() if count >= 0.4 * often)
    return result


def same_size(before: Row, after: Row) -> bool:
    return abs(before.size - after.size) <= SAME_SIZE * max(before.size, after.size)


def _ends_by_left(rows: Sequence[Row]) -> Ends:
    ends: Ends = defaultdict(Counter)
    for row in rows:
        ends[_left(row), round(row.size)][round(row.x1 / EDGE_BIN)] += 1
    return ends


def _printed_rights(rows: Sequence[Row], everywhere: Margins) -> list[float]:
    """Where full lines end: the margin that lines with the same left edge share, on this page or on any; or the
    longest line around."""
    here = _ends_by_left(rows)
    margins = {key: _sharp_margin(here, key) or max(_margin(here, key), everywhere[key]) for key in list(here)}
    column = max((row.x1 for row in rows), default=0.0) - min((row.x0 for row in rows), default=0.0)
    ends = sorted(margins.values())
    rights: list[float] = []
    for row, near in zip(rows, _local_rights(rows), strict=True):
        margin = margins[_left(row), round(row.size)]
        if not margin and near - row.x0 < NARROW * column:
            margin = next((end for end in ends if end > near), 0.0)
        rights.append(max(near, margin))
    return rights


def _left(row: Row) -> int:
    return round(row.x0 / (0.7 * row.size))


def _nearby(ends: Ends, key: tuple[int, int]) -> Counter[int]:
    """Where lines end that begin at a place or, as the first lines of paragraphs do, a little further in."""
    left, size = key
    nearby: Counter[int] = Counter()
    for step in range(-1, INNER_STEPS):
        if found := ends.get((left + step, size)):
            nearby.update(found)
    return nearby


def _sharp_margin(ends: Ends, key: tuple[int, int]) -> float:
    """The place where many lines end exactly, as in justified text; 0: there is none."""
    nearby = _nearby(ends, key)
    needed = max(EDGE_SUPPORT, SHARP_SHARE * sum(nearby.values()))
    for place in sorted(nearby, reverse=True):
        if nearby[place] + nearby[place - 1] >= needed:
            return place * EDGE_BIN
    return 0.0


def _margin(ends: Ends, key: tuple[int, int]) -> float:
    """The furthest place around which at least three lines and a tenth of all end; 0: there is none.

    A tenth, because over a long document some lines overrun by chance. Around, because Chinese lines end within an em
    of their margin, and ragged lines often do.
    """
    nearby = _nearby(ends, key)
    needed = max(EDGE_SUPPORT, EDGE_SHARE * sum(nearby.values()))
    window = range(1 + round(key[1] / EDGE_BIN))
    for place in sorted(nearby, reverse=True):
        if sum(nearby[place - step] for step in window) >= needed:
            return place * EDGE_BIN
    return 0.0


def _local_rights(rows: Sequence[Row]) -> list[float]:
    """End of the longest line in the run of lines of one size and one leading that each line belongs to."""
    rights = [row.x1 for row in rows]
    start = 0
    for index in range(1, len(rows) + 1):
        if index == len(rows) or not _in_one_run(rows[index - 1], rows[index]):
            furthest = max(rights[start:index], default=0.0)
            rights[start:index] = [furthest] * (index - start)
            start = index
    return rights


def _in_one_run(before: Row, after: Row) -> bool:
    distance = after.bottom - before.bottom
    close = 0 < distance <= 1.3 * after.leading + 0.5
    return close and same_size(before, after) and abs(before.x0 - after.x0) < SIDE_STEP * after.size


def _typed_rights(rows: Sequence[Row]) -> list[float]:
    """The wrap column of a text file; without one every line is as long as it wants to be, and nothing is joined."""
    widths = sorted(row.x1 for row in rows)
    wrap = widths[len(widths) * 9 // 10] if widths else 0.0
    if not MIN_WRAP_COLUMNS <= wrap <= MAX_WRAP_COLUMNS:
        return [float("inf")] * len(rows)
    return [max(wrap, right) for right in _local_rights(rows)]
