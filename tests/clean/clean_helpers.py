"""Pages as a reader would give them, written down as short as possible."""

from __future__ import annotations

from collections.abc import Sequence

from qwen_batch.records import Document, Line, Page, Table

SIZE, LEADING, LEFT, TOP, WIDTH, HEIGHT = 10.0, 12.0, 72.0, 72.0, 612.0, 792.0
EM_SHARE = 0.5  # of the font size: how wide a Latin letter is here


def width_of(text: str, size: float = SIZE) -> float:
    return sum(size if ord(char) > 0x2E7F else EM_SHARE * size for char in text)


def line(text: str, top: float, x0: float = LEFT, size: float = SIZE, x1: float | None = None) -> Line:
    return Line(text, (x0, top, width_of(text, size) + x0 if x1 is None else x1, top + size), size)


def body(texts: Sequence[str], top: float = TOP, x0: float = LEFT, x1: float | None = None) -> tuple[Line, ...]:
    """Lines one below the other. With `x1`, all but the last are full: they end there."""
    last = len(texts) - 1
    return tuple(
        line(text, top + LEADING * number, x0, x1=x1 if number < last else None) for number, text in enumerate(texts)
    )


def page(number: int, *lines: Line, tables: Sequence[Table] = ()) -> Page:
    return Page(number, tuple(lines), tuple(tables), WIDTH, HEIGHT)


def document(*pages: Page) -> Document:
    return Document("d", "d.pdf", "0" * 64, tuple(pages))


def text_document(text: str) -> Document:
    return Document("d", "d.txt", "0" * 64, (Page(1, tuple(Line(part) for part in text.split("\n"))),))
