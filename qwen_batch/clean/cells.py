"""The lines within the cells of tables, joined as the lines of paragraphs are."""

from __future__ import annotations

from collections.abc import Sequence

from qwen_batch.clean.hyphens import Vocabulary, join_texts
from qwen_batch.records import Page, Removal, Table

NEAR_CHARS = 400  # of what stands before, more than is looked at
FAR_BACK = 4000


def join_cells(pages: Sequence[Page]) -> tuple[tuple[Page, ...], tuple[Removal, ...]]:
    """Each cell on one line; hyphens and Chinese as in paragraphs. Nothing is removed."""
    if not any(page.tables for page in pages):
        return tuple(pages), ()
    vocabulary = Vocabulary(line.text for page in pages for line in page.lines)
    return tuple(_join_page(page, vocabulary) for page in pages), ()


def _join_page(page: Page, vocabulary: Vocabulary) -> Page:
    return page._replace(tables=tuple(_join_table(table, vocabulary) for table in page.tables))


def _join_table(table: Table, vocabulary: Vocabulary) -> Table:
    return table._replace(rows=tuple(tuple(_join(cell, vocabulary) for cell in row) for row in table.rows))


def _join(cell: str, vocabulary: Vocabulary) -> str:
    """A quotation mark that is not closed makes a cell of half a file: what lies far back is put aside."""
    first, *rest = cell.split("\n")
    done, text = list[str](), first
    for line in rest:
        text = join_texts(text, line, vocabulary)
        if len(text) > FAR_BACK:
            done.append(text[:-NEAR_CHARS])
            text = text[-NEAR_CHARS:]
    return "".join((*done, text))
