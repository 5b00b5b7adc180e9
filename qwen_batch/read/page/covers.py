"""Images that cover the middle of their page, as watermarks, backgrounds and scans do; and what covers single words."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import NamedTuple

from qwen_batch.read.page import pdfium
from qwen_batch.read.page.file import PdfPage
from qwen_batch.records import BBox, Picture

MIN_PIXELS = 256  # a smaller one is a colour
MAX_LOOKED_AT = 8  # images of a file whose masks are looked at: 10 ms each
CLEAR_SHARE = 0.5  # of the pixels let the page through
OPAQUE = 255
MAX_NAME = 32  # bytes
_PLAIN = b"FlateDecode"  # what has a mask of its own is stored so; scans and photos are not


class Filled(NamedTuple):
    """A box that is filled, or an image: it may cover what was written before it."""

    box: BBox
    num_texts: int  # objects of text that were drawn before it
    colour: tuple[int, ...] = ()  # red, green and blue of 255; none of an image


def iter_covers(page: PdfPage, middle: tuple[float, float], has_text: bool, item: int, box: BBox) -> Iterator[Picture]:
    """The image, if it covers the middle of the page. `box`: where it is shown."""
    x0, top, x1, bottom = box
    if not (x0 <= middle[0] <= x1 and top <= middle[1] <= bottom):
        return
    width, height = ctypes.c_uint(), ctypes.c_uint()
    pdfium.FPDFImageObj_GetImagePixelSize(item, width, height)
    if width.value * height.value < MIN_PIXELS:
        return
    size = pdfium.FPDFImageObj_GetImageDataRaw(item, None, 0)
    content = f"{width.value}x{height.value}, {size} bytes"
    see_through = bool(pdfium.FPDFPageObj_HasTransparency(item)) or (has_text and _is_masked(page, item, content))
    yield Picture(box, content, see_through)


def _is_masked(page: PdfPage, item: int, content: str) -> bool:
    """Whether a mask of its own lets the page through most of an image. pdfium tells when it draws the image."""
    if content not in page.masked and len(page.masked) < MAX_LOOKED_AT and _filter(item) == _PLAIN:
        bitmap = pdfium.FPDFImageObj_GetRenderedBitmap(page.file, page.handle, item)
        size = pdfium.FPDFBitmap_GetStride(bitmap) * pdfium.FPDFBitmap_GetHeight(bitmap) if bitmap else 0
        alphas = ctypes.string_at(pdfium.FPDFBitmap_GetBuffer(bitmap), size)[3::4] if size else b""
        page.masked[content] = bool(alphas) and alphas.count(OPAQUE) < (1 - CLEAR_SHARE) * len(alphas)
        if bitmap:
            pdfium.FPDFBitmap_Destroy(bitmap)
    return page.masked.get(content, False)


def _filter(item: int) -> bytes:
    """The name of the last way in which the image is stored."""
    name = ctypes.create_string_buffer(MAX_NAME)
    pdfium.FPDFImageObj_GetImageFilter(item, pdfium.FPDFImageObj_GetImageFilterCount(item) - 1, name, MAX_NAME)
    return name.value
