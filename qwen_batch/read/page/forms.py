"""What was filled into a PDF's form or typed over a page: no text of the page, but annotations that hang on it."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from qwen_batch.read.page import pdfium
from qwen_batch.read.page.chars import Char, Placement
from qwen_batch.records import BBox, Line, Table

MAX_FIELDS = 5_000  # of a page
MAX_OPTIONS = 1_000  # of a list
MAX_VALUE_BYTES = 1 << 20
PITCH = 0.5  # ems: the width of a letter of a value, about
FAR = 30.0  # points from a label to its field: the text above may be nearer
ABOVE, FAR_ABOVE = 24.0, 200.0  # points: a text two lines up names a field less than one at its left
LEVEL = 3.0  # points between middles of fields in one row
NOWHERE = -1  # among pdfium's characters
TICK, NO_TICK = "[x]", "[ ]"
_LISTS = (pdfium.FPDF_FORMFIELD_COMBOBOX, pdfium.FPDF_FORMFIELD_LISTBOX)
_BOXES = (pdfium.FPDF_FORMFIELD_CHECKBOX, pdfium.FPDF_FORMFIELD_RADIOBUTTON)
_UNSEEN = pdfium.FPDF_ANNOT_FLAG_HIDDEN | pdfium.FPDF_ANNOT_FLAG_NOVIEW


class Field(NamedTuple):
    """A field that is seen on a page, or what was typed over it."""

    text: str  # "" where nothing was filled in
    bbox: BBox  # on the page as it is shown
    is_box: bool = False  # for a tick

    @property
    def middle(self) -> tuple[float, float]:
        x0, top, x1, bottom = self.bbox
        return (x0 + x1) / 2, (top + bottom) / 2


def read_fields(form: int | None, page: int, placement: Placement) -> list[Field]:
    """The fields of a page, if anything was filled in or typed over it. Where a box is ticked, all others are shown,
    too: which label a box belongs to is told by all of them."""
    fields: list[Field] = []
    for index in range(min(pdfium.FPDFPage_GetAnnotCount(page), MAX_FIELDS)):
        annotation = pdfium.FPDFPage_GetAnnot(page, index)
        if not annotation:
            continue
        try:
            if field := _field(form, annotation, placement):
                fields.append(field)
        finally:
            pdfium.FPDFPage_CloseAnnot(annotation)
    if not any(field.text for field in fields):
        return []
    if any(field.is_box and field.text for field in fields):
        fields = [field._replace(text=NO_TICK) if field.is_box and not field.text else field for field in fields]
    return fields


def _field(form: int | None, annotation: int, placement: Placement) -> Field | None:
    subtype = pdfium.FPDFAnnot_GetSubtype(annotation)
    is_widget = subtype == pdfium.FPDF_ANNOT_WIDGET and form
    if not is_widget and subtype != pdfium.FPDF_ANNOT_FREETEXT:
        return None
    rect = pdfium.FS_RECTF()
    if pdfium.FPDFAnnot_GetFlags(annotation) & _UNSEEN or not pdfium.FPDFAnnot_GetRect(annotation, rect):
        return None
    box = placement.box(rect.left, rect.bottom, rect.right, rect.top)
    if not is_widget or form is None:
        return Field(_contents(annotation), box)
    kind = pdfium.FPDFAnnot_GetFormFieldType(form, annotation)
    if kind in _BOXES:
        return Field(TICK if pdfium.FPDFAnnot_IsChecked(form, annotation) else "", box, is_box=True)
    if kind in _LISTS:
        return Field(_chosen(form, annotation) or _value(form, annotation), box)
    is_text = kind == pdfium.FPDF_FORMFIELD_TEXTFIELD
    return Field(_value(form, annotation) if is_text and not _is_secret(form, annotation) else "", box)


def _value(form: int, annotation: int) -> str:
    return _string(functools.partial(pdfium.FPDFAnnot_GetFormFieldValue, form, annotation))


def _chosen(form: int, annotation: int) -> str:
    """What a list shows as chosen: its value may be a code for that."""
    count = min(pdfium.FPDFAnnot_GetOptionCount(form, annotation), MAX_OPTIONS)
    chosen = (number for number in range(count) if pdfium.FPDFAnnot_IsOptionSelected(form, annotation, number))
    return ", ".join(
        _string(functools.partial(pdfium.FPDFAnnot_GetOptionLabel, form, annotation, number)) for number in chosen
    )


def _contents(annotation: int) -> str:
    return _string(functools.partial(pdfium.FPDFAnnot_GetStringValue, annotation, b"Contents"))


def _is_secret(form: int, annotation: int) -> bool:
    """Whether a field is for a password, which no viewer shows."""
    return bool(pdfium.FPDFAnnot_GetFormFieldFlags(form, annotation) & pdfium.FPDF_FORMFLAG_TEXT_PASSWORD)


def _string(fill: Callable[[ctypes.Array[ctypes.c_char] | None, int], int]) -> str:
    """What a function of pdfium puts into a buffer, which it is told with its size in bytes; line ends as \\n."""
    size = fill(None, 0)  # in bytes of UTF-16, the closing zero too
    if not 2 < size <= MAX_VALUE_BYTES:
        return ""
    buffer = ctypes.create_string_buffer(size)
    fill(buffer, size)
    text = buffer.raw[: size - 2].decode("utf-16-le", "replace")
    return text.replace("\r\n", "\n").replace("\r", "\n").strip()


def as_chars(field: Field) -> tuple[Char, Char]:
    """A value as fill_grid takes it: one character, after a blank."""
    return Char(" ", *field.bbox, NOWHERE), Char(" ".join(field.text.split()), *field.bbox, NOWHERE)


def with_fields(lines: Sequence[Line], fields: Iterable[Field], tables: Sequence[Table]) -> tuple[Line, ...]:
    """What found no place in a line, as lines of its own: after the text to the left of it or right above it.

    Several lines of a value have no place of their own, so that they stay apart; nor has what lies over a table, which
    stands for all lines at its place.
    """
    done = list(lines)
    for field in _row_by_row(fields):
        distances = [(_distance(line, field), number) for number, line in enumerate(done)]
        place = min(distances)[1] + 1 if distances else 0
        while place < len(done) and done[place].bbox is None:
            place += 1
        is_placed = "\n" not in field.text and not any(is_over(field, table) for table in tables)
        parts = (part for part in field.text.split("\n") if part.strip())
        done[place:place] = [_line(part, field.bbox, is_placed) for part in parts]
    return tuple(done)


def _row_by_row(fields: Iterable[Field]) -> list[Field]:
    """Fields that follow each other in one row, as one."""
    rows: list[Field] = []
    for field in fields:
        last = rows[-1] if rows else None
        if last and _is_beside(last, field) and "\n" not in last.text + field.text:
            (x0, top, _, _), (_, _, x1, bottom) = last.bbox, field.bbox
            rows[-1] = Field(f"{last.text}   {field.text}", (x0, top, x1, bottom))
        else:
            rows.append(field)
    return rows


def _is_beside(last: Field, field: Field) -> bool:
    return abs(last.middle[1] - field.middle[1]) < LEVEL and last.bbox[2] <= field.bbox[0] + 1


def _line(text: str, box: BBox, is_placed: bool) -> Line:
    x0, top, x1, bottom = box
    size = round(min(bottom - top, 10.0), 2)
    place = (x0, top, min(x1, x0 + PITCH * size * len(text)), bottom) if is_placed else None
    return Line(text, place, size, entry=is_placed)


def is_over(field: Field, table: Table) -> bool:
    if table.bbox is None:
        return False
    x, y = field.middle
    return table.bbox[0] <= x <= table.bbox[2] and table.bbox[1] <= y <= table.bbox[3]


def is_held(field: Field, tables: Sequence[Table]) -> bool:
    """Whether a value stands in a cell of the table at its place."""
    words = field.text.split()
    cells = (cell for table in tables if is_over(field, table) for row in table.rows for cell in row)
    return any(all(word in cell for word in words) for cell in cells)


def _distance(line: Line, field: Field) -> float:
    """How far a text is from the field that it names; a text to the right or below names it least."""
    if line.bbox is None:
        return float("inf")
    a, b = line.bbox, field.bbox
    middle = (a[1] + a[3]) / 2
    if b[1] <= middle <= b[3] or a[1] <= (b[1] + b[3]) / 2 <= a[3]:  # in one row
        gap = max(0.0, b[0] - a[2])
        return (gap if gap < FAR else 100.0 + gap) if a[0] <= b[0] + 1 else 1000.0 + a[0] - b[0]
    above = b[1] - middle
    if above <= 0:
        return 5000.0 - above
    return 100.0 + above + max(0.0, a[0] - b[2], b[0] - a[2]) + (FAR_ABOVE if above > ABOVE else 0.0)
