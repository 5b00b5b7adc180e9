"""Blocks to pages: where each line of a contract stands. Nothing is drawn here; positions are in points from below."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from generator.linebreak import break_lines
from generator.markup import Block, Contract, Style
from generator.typeface import Face, face_of, text_width

PAPER = {"a4": (595.28, 841.89), "letter": (612.0, 792.0)}
TOP = BOTTOM = 76.0  # points above and below the text
HEADER_GAP, FOOTER_GAP = 40.0, 38.0  # from the edge of the paper
FRAME_SIZE = 9.0  # font size of headers and footers
CELL_PADDING = 4.0
HANGING = ((r"\d+\.\d+ ", 0.0, 30.0), (r"\([a-z]+\) ", 30.0, 24.0), (r"• ", 12.0, 14.0))  # sign, its x, the text's


@dataclass(frozen=True, slots=True)
class Text:
    """A printed line; `stretch` is the width in points that it is spread to, None for its natural one."""

    x: float
    y: float
    text: str
    face: Face
    size: float
    stretch: float | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """A thin line."""

    x0: float
    y0: float
    x1: float
    y1: float


Sheet = list[Text | Rule]


@dataclass(slots=True)
class _Layout:
    """The pages so far and the place for the next line."""

    style: Style
    sheets: list[Sheet] = field(default_factory=list)
    y: float = 0.0

    @property
    def width(self) -> float:
        return PAPER[self.style.paper][0] - 2 * self.style.margin

    @property
    def pitch(self) -> float:
        return self.style.size * self.style.leading

    def new_page(self) -> None:
        self.sheets.append([])
        self.y = PAPER[self.style.paper][1] - TOP

    def need(self, height: float) -> None:
        if self.y - height < BOTTOM:
            self.new_page()


def lay_out(contract: Contract) -> list[Sheet]:
    """Pages with their text, tables, headers and footers."""
    layout = _Layout(contract.style)
    layout.new_page()
    for block, following in zip(contract.blocks, [*contract.blocks[1:], None], strict=True):
        if block.kind == "page":
            layout.new_page()
        elif block.kind == "table":
            _place_table(layout, block)
        elif block.kind == "text":
            for line in block.lines:
                _place_paragraph(layout, line, keep_together=len(block.lines) > 1)
            layout.y -= layout.pitch * 0.55
        else:
            _place_heading(layout, block, following)
    pages = len(layout.sheets)
    return [
        [*_header(contract.style, page, pages), *sheet, *_footer(contract.style, page, pages)]
        for page, sheet in enumerate(layout.sheets, start=1)
    ]


def _place_heading(layout: _Layout, block: Block, following: Block | None) -> None:
    """A heading stays with the start of what it heads."""
    size = layout.style.size * (1.35 if block.kind == "title" else 1.08)
    face = face_of(layout.style.font, bold=True)
    lines = break_lines(block.lines[0], layout.width, layout.width, lambda text: text_width(text, face, size))
    layout.need((len(lines) + 1) * size * 1.3 + _start_height(layout, following))
    if layout.sheets[-1]:
        layout.y -= (layout.style.leading - 1.0) * size
    for line in lines:
        layout.y -= size * 1.3
        x = layout.style.margin
        if block.kind == "title":
            x += (layout.width - text_width(line, face, size)) / 2
        layout.sheets[-1].append(Text(x, layout.y, line, face, size))
    layout.y -= layout.pitch * (0.9 if block.kind == "title" else 0.4)


def _start_height(layout: _Layout, following: Block | None) -> float:
    if following is not None and following.kind == "table":
        return _Grid.of(layout, following).height
    return layout.pitch * 3


def _place_paragraph(layout: _Layout, text: str, keep_together: bool) -> None:
    face, size = face_of(layout.style.font), layout.style.size
    sign, sign_x, text_x = _hanging(layout.style, text)
    first_indent = 2 * size if layout.style.font == "Chinese" and not keep_together else 0.0
    width = layout.width - text_x
    body = text[len(sign) :]
    lines = break_lines(body, width - first_indent, width, lambda part: text_width(part, face, size))
    for number, line in enumerate(_iter_placed(layout, lines)):
        indent = text_x + (0.0 if number else first_indent)
        stretch = layout.width - indent if layout.style.justify and number < len(lines) - 1 else None
        if sign and number == 0:
            layout.sheets[-1].append(Text(layout.style.margin + sign_x, layout.y, sign.strip(), face, size))
        layout.sheets[-1].append(Text(layout.style.margin + indent, layout.y, line, face, size, stretch))


def _iter_placed(layout: _Layout, lines: Sequence[str]) -> Iterator[str]:
    """Each line, once the layout's page and y are where it stands."""
    rest = lines
    while rest:
        count = _lines_that_fit(int((layout.y - BOTTOM) / layout.pitch), rest)
        for line in rest[:count]:
            layout.y -= layout.pitch
            yield line
        rest = rest[count:]
        if rest:
            layout.new_page()


def _lines_that_fit(room: int, lines: Sequence[str]) -> int:
    """How many lines stay on the page: no single line is left on either side, and no word is cut by the page's end."""
    if len(lines) <= room:
        return len(lines)
    count = min(room, len(lines) - 2)
    while count >= 2 and lines[count - 1].endswith("-"):
        count -= 1
    return count if count >= 2 else 0


def _hanging(style: Style, text: str) -> tuple[str, float, float]:
    """The sign that stands out at the left of a numbered paragraph, its offset, and the offset of the text."""
    if style.font != "Chinese":
        for pattern, sign_x, gap in HANGING:
            match = re.match(pattern, text)
            if match:
                return match.group(), sign_x, sign_x + gap
    return "", 0.0, 0.0


@dataclass(frozen=True, slots=True)
class _Grid:
    """A table with its cells broken into lines."""

    widths: tuple[float, ...]
    rows: tuple[tuple[list[str], ...], ...]
    size: float
    pitch: float

    @classmethod
    def of(cls, layout: _Layout, block: Block) -> _Grid:
        style = layout.style
        count = len(block.rows[0])
        shares = style.columns if len(style.columns) == count else (1.0,) * count
        widths = tuple(layout.width * share / sum(shares) for share in shares)
        size = style.size * 0.92
        rows = tuple(
            tuple(
                _cell_lines(cell, width - 2 * CELL_PADDING, face_of(style.font, bold=not number), size)
                for cell, width in zip(row, widths, strict=True)
            )
            for number, row in enumerate(block.rows)
        )
        return cls(widths, rows, size, size * 1.25)

    def row_height(self, row: tuple[list[str], ...]) -> float:
        return max(map(len, row)) * self.pitch + 2 * CELL_PADDING

    @property
    def height(self) -> float:
        return sum(map(self.row_height, self.rows))


def _cell_lines(cell: str, width: float, face: Face, size: float) -> list[str]:
    return break_lines(cell, width, width, lambda text: text_width(text, face, size))


def _place_table(layout: _Layout, block: Block) -> None:
    """A table stays on one page. Raises ValueError when no page is tall enough."""
    grid = _Grid.of(layout, block)
    if grid.height > PAPER[layout.style.paper][1] - TOP - BOTTOM:
        raise ValueError(f"the table that starts {block.rows[0]} is taller than a page; split it")
    layout.need(grid.height)
    sheet, left, top = layout.sheets[-1], layout.style.margin, layout.y
    edges = [left + sum(grid.widths[:i]) for i in range(len(grid.widths) + 1)]
    sheet.append(Rule(left, layout.y, edges[-1], layout.y))
    for number, row in enumerate(grid.rows):
        face = face_of(layout.style.font, bold=not number)
        for x, lines in zip(edges, row, strict=False):
            for i, line in enumerate(filter(None, lines)):
                y = layout.y - CELL_PADDING - grid.size - i * grid.pitch
                sheet.append(Text(x + CELL_PADDING, y, line, face, grid.size))
        layout.y -= grid.row_height(row)
        sheet.append(Rule(left, layout.y, edges[-1], layout.y))
    sheet.extend(Rule(x, top, x, layout.y) for x in edges)
    layout.y -= layout.pitch * 0.9


def _header(style: Style, page: int, pages: int) -> Sheet:
    parts = style.header_even if style.header_even and page % 2 == 0 else style.header
    if page == 1 and not style.header_first:
        return []
    paper_width, paper_height = PAPER[style.paper]
    items = _row(style, parts, paper_height - HEADER_GAP, page=page, pages=pages)
    if style.header_rule:
        y = paper_height - HEADER_GAP - 5
        items.append(Rule(style.margin, y, paper_width - style.margin, y))
    return items


def _footer(style: Style, page: int, pages: int) -> Sheet:
    return _row(style, style.footer, FOOTER_GAP, page=page, pages=pages)


def _row(style: Style, parts: tuple[str, str, str], y: float, **numbers: int) -> Sheet:
    """Text at the left, in the middle and at the right."""
    face = face_of(style.font)
    items: Sheet = []
    for place, text in enumerate(part.format(**numbers) for part in parts):
        free = PAPER[style.paper][0] - 2 * style.margin - text_width(text, face, FRAME_SIZE)
        if text:
            items.append(Text(style.margin + free * place / 2, y, text, face, FRAME_SIZE))
    return items
