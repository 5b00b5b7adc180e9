"""What was filled into a PDF's form: values of fields are no text of the page, they hang on it as annotations."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence

from qwen_batch.read import pdfium
from qwen_batch.read.pdf_chars import Placement
from qwen_batch.records import Line

MAX_FIELDS = 5_000  # of a page
MAX_VALUE_BYTES = 1 << 20
TICK = "[x]"
_TEXT = (pdfium.FPDF_FORMFIELD_TEXTFIELD, pdfium.FPDF_FORMFIELD_COMBOBOX, pdfium.FPDF_FORMFIELD_LISTBOX)
_BOXES = (pdfium.FPDF_FORMFIELD_CHECKBOX, pdfium.FPDF_FORMFIELD_RADIOBUTTON)


def read_fields(form: int, page: int, placement: Placement) -> list[Line]:
    """The values of filled fields of a page, each at its place; a box that is ticked is `[x]`."""
    lines: list[Line] = []
    for index in range(min(pdfium.FPDFPage_GetAnnotCount(page), MAX_FIELDS)):
        annotation = pdfium.FPDFPage_GetAnnot(page, index)
        if not annotation:
            continue
        try:
            if pdfium.FPDFAnnot_GetSubtype(annotation) == pdfium.FPDF_ANNOT_WIDGET:
                lines.extend(_iter_lines(form, annotation, placement))
        finally:
            pdfium.FPDFPage_CloseAnnot(annotation)
    return lines


def _iter_lines(form: int, annotation: int, placement: Placement) -> Iterator[Line]:
    kind = pdfium.FPDFAnnot_GetFormFieldType(form, annotation)
    text = ""
    if kind in _TEXT and not _is_secret(form, annotation, kind):
        text = _value(form, annotation)
    elif kind in _BOXES and pdfium.FPDFAnnot_IsChecked(form, annotation):
        text = TICK
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


def _value(form: int, annotation: int) -> str:
    size = pdfium.FPDFAnnot_GetFormFieldValue(form, annotation, None, 0)  # in bytes of UTF-16, the closing zero too
    if not 2 < size <= MAX_VALUE_BYTES:
        return ""
    buffer = ctypes.create_string_buffer(size)
    pdfium.FPDFAnnot_GetFormFieldValue(form, annotation, buffer, size)
    return buffer.raw[: size - 2].decode("utf-16-le", "replace")


def with_fields(lines: Sequence[Line], fields: Sequence[Line]) -> list[Line]:
    """Each value after the text that stands to its left or, without one, right above it."""
    done = list(lines)
    for field in fields:
        distances = [(_distance(line, field), number) for number, line in enumerate(done)]
        place = min(distances)[1] + 1 if distances else 0
        done.insert(place, field)
    return done


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
