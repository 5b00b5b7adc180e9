"""HTML: every word that a browser would show, block by block, with its tables.

A walk of our own over lxml's tree: readers that look for the main text lose words (cells of broken tables, list
numbers, captions), and here nothing may be lost that is not reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

from qwen_batch.errors import DocumentError
from qwen_batch.read.items import Content, warning_of_hidden
from qwen_batch.read.table_heads import count_header_rows
from qwen_batch.read.text.encodings import decode, decode_declared
from qwen_batch.read.text.html_shown import fill_in, title_of
from qwen_batch.read.text.plain import read_bytes
from qwen_batch.records import Line, Page, Span, Table

MAX_DEPTH = 200  # deeper elements are read without their structure
MAX_SPAN = 100
MAX_CELLS = 200_000
_SILENT = frozenset(("script", "style", "head", "noscript", "template", "iframe", "object", "svg", "math"))
_INLINE_TAGS = (
    "a abbr acronym b bdi bdo big cite code data del dfn em font i img ins kbd label mark q ruby rb rt rp s samp small "
    "span strike strong sub sup time tt u var wbr button input"
)
_INLINE = frozenset(_INLINE_TAGS.split())
_SPACE = re.compile(r"[ \t\r\n\f]+")
_CHARSET = re.compile(rb"""<(?:meta|\?xml)[^>]{0,200}?(?:charset|encoding)\s*=\s*["']?\s*([\w-]{2,40})""", re.I)
_DECLARATION = re.compile(r"^\s*<\?xml[^>]{0,500}\?>")
_TAG = re.compile(r"<(?:script|style)\b.{0,100000}?</(?:script|style)>|<[^<>]{0,10000}>", re.I | re.S)
_HIDDEN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.I)


def read_html(path: Path) -> Content:
    """Read an HTML file as one page. Raises DocumentError: empty, too_large, wrong_type."""
    text, warnings = decode_html(read_bytes(path))
    page = parse_html(text, with_title=True)
    if not any(line.text or line.table is not None for line in page.lines):
        raise DocumentError("empty", "the page shows no text; a page that scripts fill must be saved from a browser")
    if hidden := " ".join(line.text for line in page.lines if line.aside == "hidden"):
        warnings = (*warnings, warning_of_hidden(hidden))
    return Content((page,), warnings)


def decode_html(data: bytes) -> tuple[str, tuple[str, ...]]:
    """The text by its byte-order mark, by what it is, by what it says that it is, or by a guess, in this order."""
    declared = _CHARSET.search(data[:2048])
    if declared is None or b"\0" in data[:64] or _is_utf8(data):
        return decode(data)
    text = decode_declared(data, declared[1].decode("ascii"))
    return (text, ()) if text is not None else decode(data)


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def parse_html(text: str, with_title: bool = False) -> Page:
    """One page of blocks and tables. `with_title`: its title first, where it has no heading."""
    from lxml import etree, html

    parser = html.HTMLParser(no_network=True, remove_comments=True, remove_pis=True, huge_tree=True)
    try:
        root = html.document_fromstring(_DECLARATION.sub("", text.replace("\0", "")) or "<p></p>", parser=parser)
    except (etree.ParserError, ValueError):
        return Page(1, ())
    if any(entry.type_name == "ERR_RESOURCE_LIMIT" for entry in parser.error_log):  # the parser stopped within it
        bare = (line.strip() for line in _TAG.sub("\n", text).split("\n"))
        return Page(1, tuple(Line(line) for line in bare if line), paragraphs=True)
    fill_in(root)
    walker = _Walker()
    walker.walk(root, None, 0)
    walker.flush(None)
    title = title_of(root, walker.lines) if with_title and walker.lines else ""
    lines = (Line(title), *walker.lines) if title else tuple(walker.lines)
    return Page(1, lines, tuple(walker.tables), paragraphs=True)


class _Walker:
    """Gathers text until a block ends."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.tables: list[Table] = []
        self._parts: list[str] = []

    def flush(self, aside: str | None) -> None:
        """End the line that is open."""
        text = _SPACE.sub(" ", "".join(self._parts)).strip()
        self._parts = []
        if text:
            self.lines.append(Line(text, aside=aside))

    def walk(self, element: Any, aside: str | None, depth: int) -> None:
        """One element and what it holds, its tail left out."""
        tag = element.tag if isinstance(element.tag, str) else ""
        if tag in _SILENT:
            return
        inner = aside or _aside_of(element, tag)
        if depth > MAX_DEPTH:
            self._parts.append(" ".join(element.itertext()))
            return
        block = tag not in _INLINE or (inner is not None and aside is None)
        if block:
            self.flush(aside)
        if tag == "pre":
            self._add_verbatim(element, inner)
        elif tag == "table" and inner is None and (table := _table_of(element)):
            self._add_table(element, table)
        else:
            self._walk_inside(element, tag, inner, depth)
        if block:
            self.flush(inner)

    def _walk_inside(self, element: Any, tag: str, aside: str | None, depth: int) -> None:
        if tag == "li":
            self._parts.append(_item_mark(element))
        self._parts.append(element.text or "")
        for child in element:
            self.walk(child, aside, depth + 1)
            self._parts.append(child.tail or "")

    def _add_verbatim(self, element: Any, aside: str | None) -> None:
        self.lines.extend(
            Line(line.rstrip(), aside=aside, code=True) for line in "".join(element.itertext()).split("\n")
        )

    def _add_table(self, element: Any, table: Table) -> None:
        for caption in element.iterchildren("caption"):
            self._parts.append(" ".join(caption.itertext()))
            self.flush(None)
        self.lines.append(Line("", table=len(self.tables)))
        self.tables.append(table)


def _aside_of(element: Any, tag: str) -> str | None:
    """Why an element is no running text, if so."""
    if tag.startswith("ix:hidden") or element.get("hidden") is not None or _HIDDEN.search(element.get("style") or ""):
        return "hidden"
    return "navigation" if tag == "nav" or element.get("role") == "navigation" else None


def _item_mark(element: Any) -> str:
    parent = element.getparent()
    if parent is None or parent.tag != "ol":
        return "- "
    number = sum(1 for _ in element.itersiblings("li", preceding=True))
    start = parent.get("start", "1")
    return f"{(int(start) if start.isdecimal() and len(start) < 9 else 1) + number}. "


def _table_of(element: Any) -> Table | None:
    """The cells of a table of data; None for one that only places things, or that has hidden parts."""
    if any(True for _ in element.iterdescendants("table")):
        return None
    trs = [tr for tr in element.iterdescendants("tr") if _aside_of(tr, "tr") is None]
    if len(trs) < 2 or len(trs) != sum(1 for _ in element.iterdescendants("tr")):
        return None
    table = spanned_table([list(_iter_cells(tr)) for tr in trs], sum(1 for _ in takewhile(_is_head, trs)))
    if table is None or len(table.rows[0]) < 2:
        return None
    inside = sum(len("".join(cell.split())) for row in table.rows for cell in row)
    return table if inside == _num_letters(element) else None  # else words stand outside of the cells


def _is_head(tr: Any) -> bool:
    """Whether a row says that it names columns."""
    return tr.getparent().tag == "thead" or all(cell.tag == "th" for cell in tr.iterchildren("td", "th"))


def _num_letters(element: Any) -> int:
    everything = sum(len("".join(text.split())) for text in _iter_shown(element))
    captions = sum(len("".join("".join(caption.itertext()).split())) for caption in element.iterchildren("caption"))
    return everything - captions


def _iter_shown(element: Any) -> Iterator[str]:
    """Texts of an element in order, scripts left out, with white space where a block begins or ends."""
    if element.tag in _SILENT:
        return
    apart = element.tag not in _INLINE
    yield " " * apart + (element.text or "")
    for child in element:
        yield from _iter_shown(child)
        yield child.tail or ""
    yield " " * apart


def _iter_cells(tr: Any) -> Iterator[tuple[str, int, int]]:
    """(text, columns, rows) of each cell."""
    for cell in tr.iterchildren("td", "th"):
        text = _SPACE.sub(" ", "".join(_iter_shown(cell))).strip()
        yield text, span_of(cell.get("colspan")), span_of(cell.get("rowspan"))


def span_of(value: str | None, most: int = MAX_SPAN) -> int:
    """How many places a cell says that it takes; 1 where it says nothing, or no number."""
    return min(most, max(1, int(value))) if value and value.strip().isdecimal() and len(value) < 9 else 1


def spanned_table(rows: list[list[tuple[str, int, int]]], num_heads: int = 0) -> Table | None:
    """A rectangle from (text, columns, rows) of each cell. Rows and columns without text are left out.

    None: it has no text, or more cells than any table has. Where no row says that it is a head, merged cells tell.
    """
    grid: dict[tuple[int, int], str] = {}
    wide: list[tuple[int, int, int, int]] = []
    for y, row in enumerate(rows):
        x = 0
        for text, columns, height in row:
            while (y, x) in grid:
                x += 1
            for place in ((y + dy, x + dx) for dy in range(height) for dx in range(columns)):
                grid[place] = ""
            grid[y, x] = text
            if text and (columns > 1 or height > 1):
                wide.append((y, x, height, columns))
            if len(grid) > MAX_CELLS:
                return None
    kept = sorted({x for (_, x), text in grid.items() if text})
    used = sorted({y for (y, _), text in grid.items() if text and y < len(rows)})
    if not used:
        return None
    filled = tuple(tuple(grid.get((y, x), "") for x in kept) for y in used)
    spans = tuple(span for span in (_kept_span(each, used, kept) for each in wide) if _is_wide(span))
    heads = sum(y < num_heads for y in used) or count_header_rows(filled, spans)
    return Table(filled, None, spans, heads)


def _kept_span(wide: tuple[int, int, int, int], used: Sequence[int], kept: Sequence[int]) -> Span:
    """(row, column, rows, columns) of a merged cell, counted in the rows and columns that are left."""
    y, x, height, columns = wide
    num_rows = sum(y <= row < y + height for row in used)
    return Span(used.index(y), kept.index(x), num_rows, sum(x <= column < x + columns for column in kept))


def _is_wide(span: Span) -> bool:
    return span.num_rows > 1 or span.num_columns > 1
