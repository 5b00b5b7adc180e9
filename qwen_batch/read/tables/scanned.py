"""Tables on pages that were read by OCR: by the white between the columns, as no rules are known there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from qwen_batch.read.page.words import Word, rows_of
from qwen_batch.read.tables.choice import with_named
from qwen_batch.read.tables.columns import find_columns
from qwen_batch.read.tables.named import find_named
from qwen_batch.records import Line, Table


def find_tables(lines: Sequence[Line]) -> tuple[Table, ...]:
    """The tables of a page, from the top down, from its recognised lines with their places."""
    rows = rows_of([word for line in lines for word in _words(line)])
    found = with_named(find_columns(rows), find_named(rows, (), [rows], ()), ())
    return tuple(sorted(found, key=lambda table: table.bbox[1] if table.bbox else 0.0))


def _words(line: Line) -> Iterator[Word]:
    """Words as wide as their share of the line's letters: a line is recognised as a whole."""
    if line.bbox is None:
        return
    x0, top, x1, bottom = line.bbox
    letter = (x1 - x0) / max(1, len(line.text))
    start = 0
    for text in line.text.split():
        start = line.text.index(text, start)
        yield Word(text, x0 + letter * start, top, x0 + letter * (start + len(text)), bottom)
        start += len(text)
