"""Paragraphs from printed lines.

The measure of a line end is whether the next line's first word would still have fitted: if so, the writer meant to
end the line there. Gaps, indents, font sizes, list marks and clause numbers end a paragraph as well. What remains is
joined, also over columns and pages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from qwen_batch.clean.hyphens import HYPHENS, Vocabulary, glue_between
from qwen_batch.clean.markers import (
    bullet,
    clause_kind,
    display_width,
    ends_sentence,
    follows_number,
    has_columns,
    is_cjk,
    is_item_text,
    is_label,
    is_lone_mark,
    is_tabular,
    looks_like_code,
    starts_lower,
)
from qwen_batch.clean.rows import INDENT, Entry, Placed, Row, same_size
from qwen_batch.records import Table

PARAGRAPH = "\n\n"
LINE = "\n"
GAP = 1.3  # of the usual leading: more is a gap between paragraphs
FAR_INDENT = 4.0  # ems: hardly a first line of a paragraph stands so far in
FIRST_INDENT = 8.0  # ems: none does
CJK_ROOM = 2.2  # ems that a full Chinese line may lack: punctuation may not begin a line
_TYPED_GAP = re.compile(r"[^\s.!?:;,]\s{2,}(?=\S)")
LISTED = ("letter", "roman", "circled")  # kinds of numbering whose items stand close together
BESIDE, BESIDE_IN_FULL = 1.5, 3.0  # ems between pieces of one line
SAME_MIDDLE = 0.6  # ems, twice the distance between the middles of centred lines
FULL_SLACK = 0.35  # ems that a full line may lack
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
        glue = _break_before(self._rows, entry) if self._rows else self._glue
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
        glue, keep = glue_between(self._parts[-1], row.text, self._vocabulary)
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


def _break_before(paragraph: Sequence[Row], row: Row) -> str | None:
    """What separates a line from the open paragraph; None: it goes on."""
    last = paragraph[-1]
    if (last.code or row.code) and last.flows and row.flows:
        return LINE if _is_below(last, row) else PARAGRAPH
    if not (last.flows and row.flows):
        return LINE if last.page_number == row.page_number and not row.apart else PARAGRAPH
    if row.apart:
        return LINE
    if not same_size(last, row):
        return PARAGRAPH
    distance = row.bottom - last.bottom
    if row.page_number != last.page_number or distance < -0.5 * row.size:
        return None if _goes_on(paragraph, row) else LINE if _same_list(paragraph[0], row) else PARAGRAPH
    if distance < 0.4 * row.size:
        return _within_row(last, row)
    if distance > GAP * row.leading + 0.5:
        return PARAGRAPH
    if ends_divided(last.text) and starts_lower(row.text):
        is_full = row.x0 < last.x0 and last.x1 > row.right - FULL_SLACK * row.size
        if is_full or abs(row.x0 - last.x0) < FAR_INDENT * row.size:
            return None
    return _break_at_marks(paragraph, row) or _break_at_edges(paragraph, row)


def _has_gaps(text: str, row: Row) -> bool:
    """Whether the spaces within a line say something: in columns and code. Typed columns stand two apart."""
    is_typed = row.flows and not row.printed
    return row.code or has_columns(text) or looks_like_code(text) or (is_typed and len(_TYPED_GAP.findall(text)) > 1)


def _is_below(last: Row, row: Row) -> bool:
    return row.page_number == last.page_number and 0 < row.bottom - last.bottom <= GAP * row.leading + 0.5


def _same_list(first: Row, row: Row) -> bool:
    """Whether a list goes on over a page break. Numbered clauses are paragraphs of their own."""
    kind = clause_kind(row.text)
    level = abs(row.x0 - first.x0) < INDENT * row.size and same_size(first, row)
    return level and (kind == clause_kind(first.text) in LISTED or (bullet(row.text) and bullet(first.text)))


def _is_level(last: Row, row: Row) -> bool:
    return row.page_number == last.page_number and abs(row.bottom - last.bottom) < 0.4 * row.size


def _within_row(last: Row, row: Row) -> str | None:
    """Two pieces printed side by side; in a justified line, which a footnote mark may have cut, they are far apart."""
    is_full = row.room < FULL_SLACK * row.size and not has_columns(row.text)
    is_full = is_full or (last.room < FULL_SLACK * row.size and starts_lower(row.text))  # the next column
    return None if 0 <= row.x0 - last.x1 < (BESIDE_IN_FULL if is_full else BESIDE) * row.size else LINE


def _break_at_marks(paragraph: Sequence[Row], row: Row) -> str | None:
    last, text = paragraph[-1], row.text
    if (bullet(text) and not _is_dash_within(paragraph, row)) or looks_like_code(text) or looks_like_code(last.text):
        return LINE
    if is_tabular(last.text) and (is_tabular(text) or has_columns(last.text)):
        return LINE
    first = paragraph[0]
    level = abs(row.x0 - first.x0) < INDENT * row.size
    if level and (follows_number(first.text, text) or (is_label(first.text) and is_label(text))):
        return LINE
    if is_lone_mark(last.text if len(paragraph) == 1 else text) and abs(row.x0 - last.x0) > INDENT * row.size:
        return LINE
    kind = clause_kind(text)
    if kind is None:
        return None
    if ends_sentence(last.text) or is_short(last, row):
        return LINE
    if kind == clause_kind(first.text) and level:
        return LINE
    step = row.x0 - last.x0
    hanging = len(paragraph) == 1 and is_item_text(first.text)
    return LINE if step < -INDENT * row.size or (step > INDENT * row.size and not hanging) else None


def _break_at_edges(paragraph: Sequence[Row], row: Row) -> str | None:
    last = paragraph[-1]
    if is_short(last, row):
        return PARAGRAPH if row.x0 - last.x0 > INDENT * row.size and not _are_centred([*paragraph, row]) else LINE
    step = row.x0 - last.x0
    if step < -FAR_INDENT * row.size:
        return None if len(paragraph) == 1 and _is_first(last, row) else LINE
    if row.indented and ends_sentence(last.text):
        return PARAGRAPH
    if step > INDENT * row.size and not (len(paragraph) == 1 and is_item_text(last.text)):
        return PARAGRAPH if ends_sentence(last.text) else None
    if step < -INDENT * row.size and len(paragraph) > 1:
        return PARAGRAPH if ends_sentence(last.text) else None
    return None


def _is_first(first: Row, row: Row) -> bool:
    """Whether a line that begins far in is the first of the paragraph that a line goes on with, as in pleadings."""
    is_near = first.x0 - row.x0 < FIRST_INDENT * row.size
    is_wide = 2 * (first.x1 - first.x0) > row.right - row.x0
    return is_near and is_wide and not ends_sentence(first.text) and not is_short(first._replace(right=row.right), row)


def _are_centred(rows: Sequence[Row]) -> bool:
    first = rows[0].x0 + rows[0].x1
    return all(abs(row.x0 + row.x1 - first) < SAME_MIDDLE * row.size for row in rows)


def _is_dash_within(paragraph: Sequence[Row], row: Row) -> bool:
    """Whether the dash that a line begins with is one of the sentence, not the mark of an item."""
    last = paragraph[-1]
    goes_on = row.text[0] in "–—" and starts_lower(row.text) and not bullet(paragraph[0].text)
    return goes_on and not ends_sentence(last.text) and not is_short(last, row)


def is_short(last: Row, row: Row) -> bool:
    """Whether the first word of a line would have fitted at the end of the line before."""
    if ends_divided(last.text):
        return False
    word = row.text.split(None, 1)[0]
    per_column = (row.x1 - row.x0) / max(display_width(row.text), 1)
    spaced = (display_width(word) + 1) * per_column + FULL_SLACK * row.size
    needed = CJK_ROOM * row.size if is_cjk(word[0]) else spaced
    return last.room > max(needed, row.size)


def ends_divided(text: str) -> bool:
    """Whether a line ends within a word."""
    return text[-1:] in HYPHENS and text[-2:-1].isalnum()


def _goes_on(paragraph: Sequence[Row], row: Row) -> bool:
    """Whether a paragraph continues at the top of the next column or page."""
    last, text = paragraph[-1], row.text
    if ends_sentence(last.text) or bullet(text) or looks_like_code(text) or looks_like_code(last.text):
        return False
    if is_tabular(last.text) or is_tabular(text) or clause_kind(text) is not None or is_short(last, row):
        return False
    if ends_divided(last.text) or starts_lower(text):
        return True
    if len(paragraph) < 2 and not is_cjk(last.text[-1]):  # one full line may be a heading
        return False
    return is_cjk(text[0]) or last.text[-1] in ",，、" or row.room <= last.room + row.size
