"""What was filled into a PDF's form or typed over a page: no text of the page, but annotations that hang on it."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterator, Sequence

from qwen_batch.read.page import pdfium
from qwen_batch.read.page.chars import Char, Placement
from qwen_batch.records import Line, Table

MAX_FIELDS = 5_000  # of a page
MAX_VALUE_BYTES = 1 << 20
TICK = "[x]"
NOWHERE = -1  # among pdfium's characters
_TEXT = (pdfium.FPDF_FORMFIELD_TEXTFIELD, pdfium.FPDF_FORMFIELD_COMBOBOX, pdfium.FPDF_FORMFIELD_LISTBOX)
_BOXES = (pdfium.FPDF_FORMFIELD_CHECKBOX, pdfium.FPDF_FORMFIELD_RADIOBUTTON)
_UNSEEN = pdfium.FPDF_ANNOT_FLAG_HIDDEN | pdfium.FPDF_ANNOT_FLAG_NOVIEW


def read_fields(form: int | None, page: int, placement: Placement) -> list[Line]:
    """The values of filled fields of a page and what was typed over it, each at its place; a ticked box is `[x]`."""
    lines: list[Line] = []
    for index in range(min(pdfium.FPDFPage_GetAnnotCount(page), MAX_FIELDS)):
        annotation = pdfium.FPDFPage_GetAnnot(page, index)
        if not annotation:
            continue
        try:
            subtype = pdfium.FPDFAnnot_GetSubtype(annotation)
            if subtype == pdfium.FPDF_ANNOT_WIDGET and form:
                lines.extend(_iter_lines(_filled(form, annotation), annotation, placement))
            elif subtype == pdfium.FPDF_ANNOT_FREETEXT and not pdfium.FPDFAnnot_GetFlags(annotation) & _UNSEEN:
                lines.extend(_iter_lines(_contents(annotation), annotation, placement))
        finally:
            pdfium.FPDFPage_CloseAnnot(annotation)
    return lines


def _filled(form: int, annotation: int) -> str:
    kind = pdfium.FPDFAnnot_GetFormFieldType(form, annotation)
    if kind in _TEXT and not _is_secret(form, annotation, kind):
        return _string(functools.partial(pdfium.FPDFAnnot_GetFormFieldValue, form, annotation))
    return TICK if kind in _BOXES and pdfium.FPDFAnnot_IsChecked(form, annotation) else ""


def _contents(annotation: int) -> str:
    return _string(functools.partial(pdfium.FPDFAnnot_GetStringValue, annotation, b"Contents"))


def _iter_lines(text: str, annotation: int, placement: Placement) -> Iterator[Line]:
    rect = pdfium.FS_RECTF()
    if not text.strip() or not pdfium.FPDFAnnot_GetRect(annotation, rect):
        return
    x0, top, x1, bottom = placement.box(rect.left, rect.bottom, rect.right, rect.top)
    parts = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    height = (bottom - top) / len(parts)
    for number, part in enumerate(parts):
        yield Line(part, (x0, top + number * height, x1, top + (number + 1) * height), round(min(height, 10.0), 2))


def _is_secret(form: int, annotation: int, kind: int) -> bool:
    """Whether it is a field for a password, which no viewer shows."""
    is_text = kind == pdfium.FPDF_FORMFIELD_TEXTFIELD
    return is_text and bool(pdfium.FPDFAnnot_GetFormFieldFlags(form, annotation) & pdfium.FPDF_FORMFLAG_TEXT_PASSWORD)


def _string(fill: Callable[[ctypes.Array[ctypes.c_char] | None, int], int]) -> str:
    """What a function of pdfium puts into a buffer, which it is told with its size in bytes."""
    size = fill(None, 0)  # in bytes of UTF-16, the closing zero too
    if not 2 < size <= MAX_VALUE_BYTES:
        return ""
    buffer = ctypes.create_string_buffer(size)
    fill(buffer, size)
    return buffer.raw[: size - 2].decode("utf-16-le", "replace")


def as_chars(fields: Sequence[Line]) -> Iterator[Char]:
    """Values for the cells of ruled tables: each is one character there, after a blank."""
    for field in fields:
        if field.bbox:
            yield Char(" ", *field.bbox, NOWHERE)
            yield Char(field.text, *field.bbox, NOWHERE)


def with_fields(lines: Sequence[Line], fields: Sequence[Line], tables: Sequence[Table]) -> tuple[Line, ...]:
    """Each value after the text that stands to its left or, without one, right above it.

    A table stands for the lines at its place: a value that is in none of its cells has no place.
    """
    done = list(lines)
    for field in fields:
        distances = [(_distance(line, field), number) for number, line in enumerate(done)]
        place = min(distances)[1] + 1 if distances else 0
        is_lost = any(_is_over(field, table) and not _holds(table, field.text) for table in tables)
        done.insert(place, field._replace(bbox=None) if is_lost else field)
    return tuple(done)


def _is_over(field: Line, table: Table) -> bool:
    if field.bbox is None or table.bbox is None:
        return False
    x, y = (field.bbox[0] + field.bbox[2]) / 2, (field.bbox[1] + field.bbox[3]) / 2
    return table.bbox[0] <= x <= table.bbox[2] and table.bbox[1] <= y <= table.bbox[3]


def _holds(table: Table, text: str) -> bool:
    return any(text in cell for row in table.rows for cell in row)


def _distance(line: Line, field: Line) -> float:
    """How far a text is from the field that it names; a text to the right or below names it least."""
    if line.bbox is None or field.bbox is None:
        return float("inf")
    a, b = line.bbox, field.bbox
    middle = (a[1] + a[3]) / 2
    if b[1] <= middle <= b[3] or a[1] <= (b[1] + b[3]) / 2 <= a[3]:  # in one row
        return max(0.0, b[0] - a[2]) if a[0] <= b[0] + 1 else 1000.0 + a[0] - b[0]
    above = b[1] - middle
    return 100.0 + above + max(0.0, a[0] - b[2], b[0] - a[2]) if above > 0 else 5000.0 - above
