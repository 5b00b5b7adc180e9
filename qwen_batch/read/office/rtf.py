"""Rich text (.rtf, Microsoft's specification 1.9.1): paragraphs, tables, notes; what is hidden or deleted left out.

One pass over the words of the file with a stack of the groups' states: groups may be nested as deep as they like.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from qwen_batch.errors import DocumentError
from qwen_batch.read.items import Content, warning_of_hidden
from qwen_batch.read.office.rtf_text import BULLETS, Bytes, Fonts, whole_characters
from qwen_batch.read.text.html import spanned_table
from qwen_batch.read.text.plain import read_bytes
from qwen_batch.records import Line, Page, Table

SAME_EDGE = 30  # twips between the ends of cells of one column, at most
_TOKEN = re.compile(
    r"\\([a-zA-Z]{1,32})(-?[0-9]{1,10})? ?|\\'([0-9a-fA-F]{2})|\\([^a-zA-Z])|([{}])|[\r\n]+|([^\\{}\r\n]+)"
)
_SKIPPED_WORDS = (
    "fonttbl colortbl stylesheet info pict objdata themedata colorschememapping datastore latentstyles listtable "
    "listoverridetable revtbl rsidtbl generator xmlnstbl filetbl fldinst bkmkstart bkmkend nonshppict sp pn private "
    "annotation atnid atnauthor atntime atnref atnicn xe tc upr userprops passwordhash mmathPr wgrffmtfilter "
    "formfield ffname ftnsep ftnsepc aftnsep aftnsepc pgdsctbl docvar template operator falt panose fontemb"
)
_SKIPPED = frozenset(_SKIPPED_WORDS.split())
_SHOWN = frozenset(("shpinst", "shptxt", "ud", "footnote", "fldrslt", "do", "dptxbxtext"))  # even after \*
_ASIDES = {f"{kind}{page}": kind for kind in ("header", "footer") for page in ("", "l", "r", "f")}
_CHARS = {
    "tab": " ", "line": "\n", "emdash": "—", "endash": "–", "emspace": " ", "enspace": " ", "qmspace": " ",
    "bullet": "•", "lquote": "‘", "rquote": "’", "ldblquote": "“", "rdblquote": "”", "nestcell": " ", "nestrow": " ",
}  # fmt: skip
_SYMBOLS = {"~": "\xa0", "_": "\u2011", "-": "", "\\": "\\", "{": "{", "}": "}", "\n": "\n", "\r": "\n"}
_ENDS = ("par", "sect", "page")


@dataclass(frozen=True, slots=True)
class _State:
    """What holds within a group."""

    skipped: bool = False
    hidden: bool = False
    deleted: bool = False
    num_after_unicode: int = 1  # characters that stand for a Unicode one where it is not known
    font: str = ""
    place: str = ""  # header, footer or note; else the text


def read_rtf(path: Path) -> Content:
    """Raises DocumentError: empty, too_large, wrong_type."""
    data = read_bytes(path)
    if not data.lstrip().startswith(b"{\\rtf"):
        raise DocumentError("wrong_type", "named .rtf, but the content is something else: rename or convert it")
    reader = _Reader()
    page = reader.read(data)
    if not page.lines:
        raise DocumentError("empty", "the document holds no text; text that is an image must be recognised (OCR) first")
    hidden = " ".join("".join(reader.hidden).split())
    return Content((page,), (warning_of_hidden(hidden),) if hidden else ())


def rtf_page(data: bytes) -> Page:
    """The text of a file that stands within another one."""
    return _Reader().read(data)


class _Reader:
    """Gathers a paragraph, a row, a table, until each ends."""

    def __init__(self) -> None:
        self.hidden: list[str] = []
        self._state = _State()
        self._stack: list[_State] = []
        self._starred = False
        self._num_to_skip = 0
        self._fonts = Fonts()
        self._bytes = Bytes()
        self._parts: dict[str, list[str]] = {}
        self._lines: dict[str, list[Line]] = {}
        self._cells: list[str] = []
        self._edges: list[int] = []  # where the cells of a row end, in twips
        self._rows: list[tuple[list[str], tuple[int, ...]]] = []
        self._tables: list[Table] = []
        self._in_table = False

    def read(self, data: bytes) -> Page:
        text = data.decode("latin-1")
        place = 0
        while (match := _TOKEN.search(text, place)) is not None:
            place = match.end()
            word, number, code, symbol, brace, plain = match.groups()
            if word == "bin" and number:
                place += max(0, int(number))
            elif word:
                self._word(word, number)
            elif code:
                self._add_bytes(bytes.fromhex(code))
            elif symbol:
                self._symbol(symbol)
            elif brace:
                self._group(brace)
            elif plain:
                self._add_bytes(plain.encode("latin-1"))
        for kind in ("", "header", "footer", "note"):
            self._end_paragraph(kind)
        self._end_table()
        lines = [line for kind in ("header", "", "note", "footer") for line in self._lines.get(kind, [])]
        return Page(1, tuple(lines), tuple(self._tables), paragraphs=True)

    def _group(self, brace: str) -> None:
        self._flush()
        self._num_to_skip, self._starred = 0, False
        if brace == "{":
            self._stack.append(self._state)
        elif self._stack:
            if self._state.place == "note" and self._stack[-1].place != "note":
                self._end_paragraph("note")
            self._state = self._stack.pop()

    def _word(self, word: str, number: str | None) -> None:
        starred, self._starred = self._starred, False
        if word == "u" and number:
            return self._add_unicode(int(number))
        self._flush()
        self._num_to_skip = 0
        if self._fonts.note(word, number):
            self._state = replace(self._state, skipped=True) if word == "fonttbl" else self._state
        if word in _SKIPPED or (starred and word not in _SHOWN):
            self._state = replace(self._state, skipped=True)
        elif word in _SHOWN:
            place = "note" if word == "footnote" else self._state.place
            self._state = replace(self._state, skipped=self._state.skipped and word != "ud", place=place)
        elif word in _ASIDES:
            self._state = replace(self._state, place=_ASIDES[word])
        elif word in _CHARS:
            self._add(_CHARS[word])
        elif word == "cellx" and number and not self._state.skipped:
            self._edges.append(int(number))
        elif not self._state.skipped and word in (*_ENDS, "cell", "row", "trowd", "intbl", "pard"):
            self._structure(word)
        else:
            self._format(word, number)
        return None

    def _format(self, word: str, number: str | None) -> None:
        is_on = number != "0"
        if word == "v":
            self._state = replace(self._state, hidden=is_on)
        elif word == "deleted":
            self._state = replace(self._state, deleted=is_on)
        elif word == "plain":
            self._state = replace(self._state, hidden=False, deleted=False)
        elif word == "uc" and number:
            self._state = replace(self._state, num_after_unicode=max(0, int(number)))
        elif word == "f" and number:
            self._state = replace(self._state, font=number)

    def _structure(self, word: str) -> None:
        place = self._state.place
        if word in _ENDS:
            if self._in_table and not place:
                self._add(" ")
            else:
                self._end_paragraph(place)
        elif word in ("trowd", "intbl"):
            self._in_table = self._in_table or not place
            self._edges = [] if word == "trowd" else self._edges
        elif word == "pard":
            self._in_table = False
        elif word == "cell":
            self._cells.append(" ".join("".join(self._parts.pop("", [])).split()))
        elif word == "row" and self._cells:
            self._rows.append((self._cells, tuple(self._edges)))
            self._cells = []

    def _symbol(self, symbol: str) -> None:
        if symbol == "*":
            self._starred = True
        elif self._num_to_skip:
            self._num_to_skip -= 1
        elif symbol in "\r\n":
            self._flush()
            self._structure("par")
        else:
            self._flush()
            self._add(_SYMBOLS.get(symbol, ""))

    def _add_bytes(self, data: bytes) -> None:
        skipped = min(self._num_to_skip, len(data))
        self._num_to_skip -= skipped
        if data[skipped:]:
            self._add(self._bytes.decode(data[skipped:], self._fonts.codec(self._state.font)))

    def _add_unicode(self, number: int) -> None:
        self._flush()
        self._add(BULLETS.get(number % 0x10000) or chr(number % 0x10000))
        self._num_to_skip = self._state.num_after_unicode

    def _flush(self) -> None:
        self._add(self._bytes.flush())

    def _add(self, text: str) -> None:
        state = self._state
        if state.skipped or state.deleted or not text:
            return
        if state.hidden:
            self.hidden.append(text)
        else:
            self._parts.setdefault(state.place, []).append(text)

    def _end_paragraph(self, place: str) -> None:
        text = whole_characters("".join(self._parts.pop(place, [])))
        aside = place if place in ("header", "footer") else None
        lines = [Line(" ".join(part.split()), aside=aside) for part in text.split("\n") if part.strip()]
        if lines and not place:
            self._end_table()
        self._lines.setdefault(place, []).extend(lines)

    def _end_table(self) -> None:
        rows, self._rows = [*self._rows, *([(self._cells, tuple(self._edges))] if self._cells else [])], []
        self._cells = []
        table = spanned_table(_placed(rows))
        lines = self._lines.setdefault("", [])
        if table is not None and len(table.rows[0]) > 1:
            lines.append(Line("", table=len(self._tables)))
            self._tables.append(table)
        else:
            lines += (Line(cell) for row, _ in rows for cell in map(whole_characters, row) if cell)


def _placed(rows: list[tuple[list[str], tuple[int, ...]]]) -> list[list[tuple[str, int, int]]]:
    """(text, columns, rows) of each cell: where rows differ in their number of cells, their edges tell the columns."""
    rows = [(cells if any(cells[len(edges) :]) else cells[: len(edges)], edges) for cells, edges in rows]
    widths = [[1] * len(cells) for cells, _ in rows]
    if len(set(map(len, widths))) > 1 and all(len(cells) <= len(edges) for cells, edges in rows):
        all_edges = sorted({edge for _, edges in rows for edge in edges})
        columns = [edge for place, edge in enumerate(all_edges) if not place or edge - all_edges[place - 1] > SAME_EDGE]
        for width, (_, edges) in zip(widths, rows, strict=True):
            places = [0, *(bisect_right(columns, edge) for edge in edges)]
            width[:] = [max(1, after - before) for before, after in pairwise(places[: len(width) + 1])]
    return [
        [(whole_characters(cell), width, 1) for cell, width in zip(cells, row, strict=True)]
        for (cells, _), row in zip(rows, widths, strict=True)
    ]
