"""Tables in text (.csv, .tsv), read row by row."""

from __future__ import annotations

import contextlib
import csv
import io
import re
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from statistics import mode
from typing import TextIO

from qwen_batch.errors import DocumentError
from qwen_batch.read.items import Content
from qwen_batch.read.text.encodings import NO_ENCODING, encoding_of
from qwen_batch.read.text.plain import MAX_BYTES, too_large
from qwen_batch.records import Line, Page, Table

DELIMITERS = ",;\t|"
SAMPLE_CHARS = 20_000
SECTION_CHARS = 1_000_000  # of cells: a section is in memory as a table, ten times as large
MAX_FIELD_CHARS = 10_000_000
_NAMED = re.compile(r"\ufeff?sep=(.)\r?\n", re.IGNORECASE)  # Excel's way to name the delimiter in the first line


def read_csv(path: Path) -> Content:
    """One table. Raises DocumentError: empty, too_large, wrong_type, damaged."""
    sections = list(iter_table_sections(path))
    rows = tuple(chain.from_iterable(_body(number, each.pages[0].tables[0]) for number, each in enumerate(sections)))
    width = max(map(len, rows))
    return _as_content([(*row, *[""] * (width - len(row))) for row in rows], sections[0].warnings)


def _body(number: int, table: Table) -> tuple[tuple[str, ...], ...]:
    return table.rows[number > 0 :]  # every section repeats the head


def iter_table_sections(path: Path) -> Iterator[Content]:
    """A table in parts, each below the first row, which names the columns. Only one part is in memory at a time.

    Raises DocumentError: empty, too_large, wrong_type, damaged.
    """
    size = path.stat().st_size
    if size > MAX_BYTES:
        raise too_large()
    encoding, skip, warnings = encoding_of(path) if size else ("utf-8", 0, ())
    csv.field_size_limit(MAX_FIELD_CHARS)
    head: list[str] | None = None
    with _opened(path, encoding, skip) as text:
        delimiter, start = _delimiter(text.read(SAMPLE_CHARS), "\t" if path.suffix.lower() == ".tsv" else ",")
    with _opened(path, encoding, skip) as text:
        text.read(start)
        for rows in _iter_sections(text, delimiter):
            yield _as_content([head, *rows] if head is not None else rows, warnings)
            head, warnings = head or rows[0], ()
    if head is None:
        raise DocumentError("empty", "the file holds no table: check the copy, or the program that wrote it")


@contextlib.contextmanager
def _opened(path: Path, encoding: str, skip: int) -> Iterator[TextIO]:
    """The text behind the byte-order mark."""
    with path.open("rb") as file:
        file.seek(skip)
        yield io.TextIOWrapper(file, encoding, "replace", newline="")


def _iter_sections(text: TextIO, delimiter: str) -> Iterator[list[list[str]]]:
    rows, num_chars = list[list[str]](), 0
    try:
        for row in csv.reader(text, delimiter=delimiter):
            cells = [cell.strip() for cell in row]
            if any(cells):
                rows.append(cells)
                num_chars += sum(map(len, cells))
            if num_chars > SECTION_CHARS:
                _refuse_broken(rows, num_chars)
                yield rows
                rows, num_chars = [], 0
    except csv.Error as error:
        raise DocumentError("damaged", f"not a table in text ({error}): save it anew, or name it .txt") from None
    if rows:
        _refuse_broken(rows, num_chars)
        yield rows


def _refuse_broken(rows: list[list[str]], num_chars: int) -> None:
    if sum(cell.count("\ufffd") for row in rows for cell in row) > num_chars // 20:
        raise DocumentError("wrong_type", NO_ENCODING)


def _as_content(rows: list[list[str]] | list[tuple[str, ...]], warnings: tuple[str, ...]) -> Content:
    width = max(map(len, rows))
    table = Table(tuple((*row, *[""] * (width - len(row))) for row in rows))
    return Content((Page(1, (Line("", table=0),), (table,), paragraphs=True),), warnings)


def _delimiter(sample: str, usual: str) -> tuple[str, int]:
    """(the delimiter, where the table begins): the one named, or that by which most rows have as many cells."""
    if named := _NAMED.match(sample):
        return named[1], named.end()
    lines = sample.splitlines(keepends=True)
    lines = lines[:-1] if len(sample) == SAMPLE_CHARS else lines  # the last one is cut
    return max((usual, *DELIMITERS), key=lambda each: _evenness(lines, each)), 0


def _evenness(lines: list[str], delimiter: str) -> tuple[float, int]:
    """(share of the rows that have the usual number of cells, that number); more than one, else nothing."""
    try:
        counts = [len(row) for row in csv.reader(islice(lines, 200), delimiter=delimiter) if row]
    except csv.Error:
        return 0.0, 0
    usual = mode(counts) if counts else 0
    return (round(counts.count(usual) / len(counts), 1), usual) if usual > 1 else (0.0, 0)
