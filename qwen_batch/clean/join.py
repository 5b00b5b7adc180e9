"""Paragraphs from printed lines: what `breaks` does not part is joined, also over columns and pages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from qwen_batch.clean.breaks import LINE, PARAGRAPH, break_before
from qwen_batch.clean.hyphens import HYPHENS, Vocabulary, glue_between
from qwen_batch.clean.markers import RAISED, has_columns, looks_like_code
from qwen_batch.clean.rows import Entry, Placed, Row
from qwen_batch.records import Table

_TYPED_GAP = re.compile(r"[^\s.!?:;,]\s{2,}(?=\S)")
_MARK_AT_HYPHEN = re.compile(rf"(?<=[^\W\d_][{HYPHENS}])[{RAISED}]+$")
_RAISED = tuple(RAISED)
_BAR = re.compile(r"(\\*)\|")  # with the backslashes before it, which would undo an escape


class Piece(NamedTuple):
    """Text of one page, and what stands between it and the piece before."""

    page_number: int
    glue: str
    text: str


def join_entries(pages: Sequence[Sequence[Entry]]) -> list[Piece]:
    """Pieces in reading order. A paragraph that goes over a page break is two pieces with the right glue between.

    Footnotes stand after the paragraph that they follow or, where it goes on over the page's end, before it.
    """
    entries = [entry for page in pages for entry in page]
    vocabulary = Vocabulary(entry.text for entry in entries if isinstance(entry, Row))
    joiner = _Joiner(vocabulary)
    for entry in entries:
        joiner.add(entry)
    return joiner.finish()


def keep_entries(pages: Iterable[Iterable[Entry]]) -> list[Piece]:
    """Pieces without any joining: a line stays a line."""
    pieces: list[Piece] = []
    for page in pages:
        for number, entry in enumerate(page):
            text = to_markdown(entry.table) if isinstance(entry, Placed) else entry.text
            apart = number == 0 or isinstance(entry, Placed) or pieces[-1].text.endswith("|")
            pieces.append(Piece(entry.page_number, PARAGRAPH if apart else LINE, text))
    return pieces


def to_markdown(table: Table) -> str:
    """A pipe table; the first row is its head."""
    rows = ["| " + " | ".join(_cell(cell) for cell in row) + " |" for row in table.rows]
    rule = "|" + " --- |" * len(table.rows[0]) if table.rows else ""
    return "\n".join((*rows[:1], rule, *rows[1:]))


def _cell(text: str) -> str:
    return _BAR.sub(r"\1\1\\|", " ".join(text.split()))


class _Joiner:
    """Goes through the lines once; holds the paragraph that may still grow."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._pieces: list[Piece] = []
        self._rows: list[Row] = []  # of the open paragraph
        self._parts: list[str] = []  # of the text of its last piece
        self._glue = PARAGRAPH  # before that piece
        self._is_first = True  # whether that piece begins the paragraph
        self._notes: list[Row] = []  # footnotes that stand below the open paragraph

    def add(self, entry: Entry) -> None:
        if isinstance(entry, Placed):
            self._close()
            self._pieces.append(Piece(entry.page_number, PARAGRAPH, to_markdown(entry.table)))
            return
        if entry.note:
            self._notes.append(entry)
            return
        glue = break_before(self._rows, entry) if self._rows else self._glue
        if glue is None:
            self._join(entry)
        else:
            glue = PARAGRAPH if self._notes else glue
            self._close()
            self._glue, self._is_first = glue, True
            self._rows, self._parts = [entry], [entry.text]

    def finish(self) -> list[Piece]:
        self._close()
        return self._pieces

    def _join(self, row: Row) -> None:
        mark = _MARK_AT_HYPHEN.search(self._parts[-1]) if self._parts[-1].endswith(_RAISED) else None
        before = self._parts[-1][: mark.start()] if mark else self._parts[-1]
        glue, keep = glue_between(before, row.text, self._vocabulary)
        if mark:
            row = row._replace(text=_marked(row.text, mark[0]))
        self._parts[-1] = self._parts[-1][:keep]
        if row.page_number != self._rows[-1].page_number:
            if self._is_first:  # notes stay on their page: before the paragraph that goes on over its end
                self._emit_notes(self._rows[-1].page_number)
            self._emit()
            self._glue, self._is_first = glue, False
        else:
            self._parts.append(glue)
        self._parts.append(row.text)
        last = self._rows[-1]
        if _is_level(last, row):  # pieces of one line: it begins where the first of them does
            self._rows[-1] = row._replace(x0=last.x0, indented=last.indented)
        else:
            self._rows.append(row)

    def _close(self) -> None:
        if self._parts:
            self._emit()
        self._emit_notes(self._rows[-1].page_number if self._rows else 0)
        self._rows = []

    def _emit_notes(self, page_number: int) -> None:
        """Paragraphs of their own; on a page that is already over they would stand in the wrong place."""
        if not self._notes:
            return
        notes, self._notes = self._notes, []
        joiner = _Joiner(self._vocabulary)
        for row in notes:
            joiner.add(row._replace(note="", apart=row.note == "starts"))
        for piece in joiner.finish():
            self._pieces.append(piece._replace(page_number=max(page_number, piece.page_number)))

    def _emit(self) -> None:
        text = "".join(self._parts)
        if len(self._parts) > 1 or not _has_gaps(text, self._rows[-1]):
            text = " ".join(text.split())
        self._pieces.append(Piece(self._rows[-1].page_number, self._glue, text))
        self._parts, self._glue = [], PARAGRAPH


def _has_gaps(text: str, row: Row) -> bool:
    """Whether the spaces within a line say something: in columns and code. Typed columns stand two apart."""
    is_typed = row.flows and not row.printed
    return row.code or has_columns(text) or looks_like_code(text) or (is_typed and len(_TYPED_GAP.findall(text)) > 1)


def _marked(text: str, mark: str) -> str:
    """A line whose first word has a footnote mark: the mark stood behind the word's hyphen."""
    end = next((place for place, char in enumerate(text) if not char.isalpha()), len(text))
    return text[:end] + mark + text[end:]


def _is_level(last: Row, row: Row) -> bool:
    return row.page_number == last.page_number and abs(row.bottom - last.bottom) < 0.4 * row.size
