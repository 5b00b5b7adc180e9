"""The lines within the cells of tables, joined as the lines of paragraphs are."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

from qwen_batch.clean.hyphens import Vocabulary, join_texts
from qwen_batch.records import Page, Removal, Table


def join_cells(pages: Sequence[Page]) -> tuple[tuple[Page, ...], tuple[Removal, ...]]:
    """Each cell on one line; hyphens and Chinese as in paragraphs. Nothing is removed."""
    if not any(page.tables for page in pages):
        return tuple(pages), ()
    vocabulary = Vocabulary(line.text for page in pages for line in page.lines)
    return tuple(_join_page(page, vocabulary) for page in pages), ()


def _join_page(page: Page, vocabulary: Vocabulary) -> Page:
    return dataclasses.replace(page, tables=tuple(_join_table(table, vocabulary) for table in page.tables))


def _join_table(table: Table, vocabulary: Vocabulary) -> Table:
    return dataclasses.replace(table, rows=tuple(tuple(_join(cell, vocabulary) for cell in row) for row in table.rows))


def _join(cell: str, vocabulary: Vocabulary) -> str:
    return functools.reduce(lambda before, after: join_texts(before, after, vocabulary), cell.split("\n"))
