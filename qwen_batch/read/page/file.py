"""An open PDF file and its pages, by pdfium. Close what was opened, pages before their file."""

from __future__ import annotations

import ctypes
import math
import os
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from qwen_batch.read.page import pdfium

WHITE = 0xFFFFFFFF
FORM_INFO_BYTES = 1024  # more than FPDF_FORMFILLINFO takes; all of its callbacks are left out
FORM_INFO_VERSION = 2
FARTHEST = 1e5  # points: no sheet reaches there
HEAD = b"%PDF-1.7\n"  # pdfium refuses files without
HEAD_WITHIN = 1024  # bytes
MAX_HEADLESS_BYTES = 1 << 26  # such a file is held in memory


class PdfiumError(Exception):
    """pdfium refuses a file or a page; `code` is one of its FPDF_ERR numbers."""

    def __init__(self, code: int) -> None:
        super().__init__(f"pdfium's error {code}")
        self.code = code


class Picture(NamedTuple):
    """A rendered page: three bytes a pixel, blue, green, red, row by row."""

    width: int  # pixels
    height: int
    data: bytearray


class PdfPage:
    """One page of an open file, and the characters on it."""

    def __init__(self, file: int | None, index: int, forms: int | None, masked: dict[str, bool]) -> None:
        """Raises PdfiumError."""
        self.file, self.index = file, index
        self.masked = masked  # of the file's images, by what they hold, whether most of them lets the page through
        self.handle: int = pdfium.FPDF_LoadPage(file, index) or 0
        if not self.handle:
            raise PdfiumError(pdfium.FPDF_GetLastError())
        if not all(self.size):  # a crop box that is empty, or beside the sheet, is none
            pdfium.FPDFPage_SetCropBox(self.handle, -FARTHEST, -FARTHEST, FARTHEST, FARTHEST)
        self.forms = forms  # the handle of the file's form fields, where it has any
        if forms:
            pdfium.FORM_OnAfterLoadPage(self.handle, forms)
        self._text: int | None = None

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in points, as the page is shown."""
        return pdfium.FPDF_GetPageWidthF(self.handle), pdfium.FPDF_GetPageHeightF(self.handle)

    def load_text(self) -> int:
        """The handle of its characters. Raises PdfiumError."""
        self._text = self._text or pdfium.FPDFText_LoadPage(self.handle)
        if not self._text:
            raise PdfiumError(pdfium.FPDF_GetLastError())
        return self._text

    def close_text(self) -> None:
        """Forget the characters, whose places change where the page is turned."""
        pdfium.FPDFText_ClosePage(self._text)
        self._text = None

    def render(self, scale: float) -> Picture:
        """The page on white, with what is stamped on it but without its form fields; `scale` in pixels a point."""
        width, height = (max(1, math.ceil(side * scale)) for side in self.size)
        data = bytearray(3 * width * height)
        place = (ctypes.c_ubyte * len(data)).from_buffer(data)
        bitmap = pdfium.FPDFBitmap_CreateEx(width, height, pdfium.FPDFBitmap_BGR, place, 3 * width)
        pdfium.FPDFBitmap_FillRect(bitmap, 0, 0, width, height, WHITE)
        pdfium.FPDF_RenderPageBitmap(bitmap, self.handle, 0, 0, width, height, 0, pdfium.FPDF_ANNOT)
        pdfium.FPDFBitmap_Destroy(bitmap)
        return Picture(width, height, data)

    def close(self) -> None:
        pdfium.FPDFText_ClosePage(self._text)
        if self.forms:
            pdfium.FORM_OnBeforeClosePage(self.handle, self.forms)
        pdfium.FPDF_ClosePage(self.handle)

    def __enter__(self) -> PdfPage:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def _lacks_head(path: Path) -> bool:
    with path.open("rb") as file:
        return path.stat().st_size <= MAX_HEADLESS_BYTES and HEAD[:5] not in file.read(HEAD_WITHIN)


class PdfFile:
    """An open file."""

    def __init__(self, path: Path, password: str | None = None) -> None:
        """Raises PdfiumError."""
        secret = None if password is None else password.encode("utf-8", "surrogateescape")
        self._handle: int | None = pdfium.FPDF_LoadDocument(os.fsencode(path), secret)
        if not self._handle and pdfium.FPDF_GetLastError() == pdfium.FPDF_ERR_FORMAT and _lacks_head(path):
            self._data = HEAD + path.read_bytes()  # pdfium reads from here as long as the file is open
            self._handle = pdfium.FPDF_LoadMemDocument(self._data, len(self._data), secret)
        self._forms: int | None = None
        self._masked: dict[str, bool] = {}
        if len(self) < 1:
            code = pdfium.FPDF_GetLastError()
            self.close()
            raise PdfiumError(code)

    def __len__(self) -> int:
        """Pages, as the file states."""
        return int(pdfium.FPDF_GetPageCount(self._handle))

    def load_forms(self) -> None:
        """Make what is filled into forms known to the pages that are opened from now on."""
        if self._handle and not self._forms and pdfium.FPDF_GetFormType(self._handle) != pdfium.FORMTYPE_NONE:
            self._form_info = ctypes.create_string_buffer(bytes((FORM_INFO_VERSION,)), FORM_INFO_BYTES)
            self._forms = pdfium.FPDFDOC_InitFormFillEnvironment(self._handle, self._form_info)

    def page(self, index: int) -> PdfPage:
        """The page at an index, from 0. Raises PdfiumError."""
        return PdfPage(self._handle, index, self._forms, self._masked)

    def close(self) -> None:
        pdfium.FPDFDOC_ExitFormFillEnvironment(self._forms)
        pdfium.FPDF_CloseDocument(self._handle)

    def __enter__(self) -> PdfFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
