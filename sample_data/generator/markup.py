"""The source form of a contract, and the true text that it stands for.

A source file is a YAML head between `---` lines (see `Style`) and blocks with blank lines between them:

    # Title
    ## Heading
    Any other lines: each is a paragraph of its own, set directly under the one before it.
    | a table | row by row |
    !page

`!page` starts a new page; the first row of a table is its head.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import yaml

Kind = Literal["title", "heading", "text", "table", "page"]
Row = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Style:
    """How a contract is printed. In header and footer, {page} and {pages} are filled in; '' prints nothing."""

    paper: Literal["a4", "letter"] = "a4"
    font: Literal["Times", "Helvetica", "Chinese"] = "Times"
    size: float = 11.0  # points
    leading: float = 1.27  # line pitch, in font sizes
    margin: float = 72.0  # points, left and right
    justify: bool = True
    columns: tuple[float, ...] = ()  # relative widths of the columns of tables; (): equal
    header: tuple[str, str, str] = ("", "", "")  # left, centre, right
    header_even: tuple[str, str, str] | None = None  # None: as `header`
    header_first: bool = True  # whether the first page has a header
    header_rule: bool = False
    footer: tuple[str, str, str] = ("", "Page {page} of {pages}", "")


@dataclass(frozen=True, slots=True)
class Block:
    """A title, a heading, paragraphs, a table or a page break."""

    kind: Kind
    lines: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()

    @property
    def truth(self) -> str:
        """The block as the text file shows it; '' for a page break."""
        if self.kind != "table":
            return "\n".join(self.lines)
        head, *body = self.rows
        return "\n".join(map(_markdown_row, (head, ("---",) * len(head), *body)))


@dataclass(frozen=True, slots=True)
class Contract:
    """A contract, ready to be printed."""

    name: str  # file name without its ending
    style: Style
    blocks: tuple[Block, ...]

    @property
    def truth(self) -> str:
        """The text of the contract: paragraphs one a line, a blank line between blocks, tables as Markdown."""
        return "\n\n".join(block.truth for block in self.blocks if block.kind != "page") + "\n"


def parse_contract(name: str, source: str) -> Contract:
    """Read the source form. Raises ValueError naming the contract when the head or a table is malformed."""
    empty, head, body = source.split("---\n", 2)
    if empty.strip():
        raise ValueError(f"{name}: the source must start with a head between two `---` lines")
    fields: dict[str, Any] = yaml.safe_load(head)
    fields = {key: tuple(value) if isinstance(value, list) else value for key, value in fields.items()}
    return Contract(name, Style(**fields), tuple(_iter_blocks(name, body)))


def _iter_blocks(name: str, body: str) -> Iterator[Block]:
    for part in body.strip().split("\n\n"):
        lines = tuple(line.strip() for line in part.strip().split("\n"))
        if lines[0] == "!page":
            yield Block("page")
        elif lines[0].startswith("|"):
            yield Block("table", rows=_parse_rows(name, lines))
        elif lines[0].startswith("## "):
            yield Block("heading", (lines[0][3:],))
        elif lines[0].startswith("# "):
            yield Block("title", (lines[0][2:],))
        else:
            yield Block("text", lines)


def _parse_rows(name: str, lines: tuple[str, ...]) -> tuple[Row, ...]:
    rows = tuple(tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines)
    if len({len(row) for row in rows}) != 1:
        raise ValueError(f"{name}: the rows of the table that starts {lines[0]!r} differ in length")
    return rows


def _markdown_row(row: Row) -> str:
    return f"| {' | '.join(row)} |"
