"""The functions of pdfium that reading needs, straight from the library that pypdfium2's wheel carries.

pypdfium2 itself declares all of pdfium's 450 functions, and loads logging, subprocess and argparse besides: 42 ms for
each reading process, where these take 6. Names, signatures and constants are those of pdfium's public headers; handles
are plain addresses, None where there is none.

pdfium is not thread-safe, so that nothing is lost by keeping Python's lock while it runs (PyDLL): calls are faster so.
"""

from __future__ import annotations

import ctypes
import importlib.util
import sys
from ctypes import POINTER, c_char_p, c_double, c_float, c_int, c_uint, c_ulong, c_ushort, c_void_p
from pathlib import Path
from typing import Any

FPDF_ERR_FORMAT, FPDF_ERR_PASSWORD, FPDF_ERR_SECURITY = 3, 4, 5
FORMTYPE_NONE = 0
FPDF_PAGEOBJ_TEXT, FPDF_PAGEOBJ_PATH, FPDF_PAGEOBJ_IMAGE, FPDF_PAGEOBJ_FORM = 1, 2, 3, 5
FPDF_TEXTRENDERMODE_INVISIBLE, FPDF_TEXTRENDERMODE_CLIP = 3, 7
FPDF_SEGMENT_LINETO, FPDF_SEGMENT_MOVETO = 0, 2
FPDF_ANNOT_FREETEXT, FPDF_ANNOT_WIDGET = 3, 20
FPDF_ANNOT_FLAG_HIDDEN, FPDF_ANNOT_FLAG_NOVIEW = 1 << 1, 1 << 5
FPDF_FORMFIELD_CHECKBOX, FPDF_FORMFIELD_RADIOBUTTON = 2, 3
FPDF_FORMFIELD_COMBOBOX, FPDF_FORMFIELD_LISTBOX, FPDF_FORMFIELD_TEXTFIELD = 4, 5, 6
FPDF_FORMFLAG_TEXT_PASSWORD = 1 << 13
FPDFBitmap_BGR = 2
FPDF_ANNOT = 1  # of rendering: annotations, too


class FS_RECTF(ctypes.Structure):
    """A box in points of user space."""

    _fields_ = tuple((name, c_float) for name in ("left", "top", "right", "bottom"))


WriteBlock = ctypes.PYFUNCTYPE(c_int, c_void_p, c_void_p, c_ulong)  # the writer, bytes, how many; 0 stops it


class FPDF_FILEWRITE(ctypes.Structure):
    """What takes a file that is saved; its version is 1."""

    _fields_ = (("version", c_int), ("write", WriteBlock))


def _open_library() -> Any:
    """Raises ImportError."""
    name = {"win32": "pdfium.dll", "darwin": "libpdfium.dylib"}.get(sys.platform, "libpdfium.so")
    spec = importlib.util.find_spec("pypdfium2_raw")
    for folder in (spec and spec.submodule_search_locations) or ():
        if (file := Path(folder) / name).exists():
            return ctypes.PyDLL(str(file))
    raise ImportError(f"pypdfium2 is not here, or without its {name}: install its wheel anew")


_library = _open_library()


def _declared(name: str, result: Any, *arguments: Any) -> Any:
    function = getattr(_library, name)
    function.restype, function.argtypes = result, arguments
    return function


def _undeclared(name: str, result: Any) -> Any:
    """A function that is called for each character: its numbers are Python's and its addresses are made by byref or
    `address_of`, so that none is converted at each call, which takes as long as the call itself."""
    function = _library[name]
    function.restype = result
    return function


def address_of(handle: int) -> Any:
    """A handle as an undeclared function takes it."""
    return ctypes.byref(ctypes.c_char.from_address(handle))


_declared("FPDF_InitLibrary", None)()  # the second time and later it does nothing

_handle, _int, _int_at, _float_at = c_void_p, c_int, POINTER(c_int), POINTER(c_float)
_uint_at = POINTER(c_uint)

FPDF_GetLastError = _declared("FPDF_GetLastError", c_ulong)
FPDF_LoadDocument = _declared("FPDF_LoadDocument", _handle, c_char_p, c_char_p)
FPDF_LoadMemDocument = _declared("FPDF_LoadMemDocument", _handle, c_char_p, _int, c_char_p)
FPDF_CloseDocument = _declared("FPDF_CloseDocument", None, _handle)
FPDF_GetPageCount = _declared("FPDF_GetPageCount", _int, _handle)
FPDF_GetFormType = _declared("FPDF_GetFormType", _int, _handle)
FPDFDOC_InitFormFillEnvironment = _declared("FPDFDOC_InitFormFillEnvironment", _handle, _handle, c_void_p)
FPDFDOC_ExitFormFillEnvironment = _declared("FPDFDOC_ExitFormFillEnvironment", None, _handle)
FORM_OnAfterLoadPage = _declared("FORM_OnAfterLoadPage", None, _handle, _handle)
FORM_OnBeforeClosePage = _declared("FORM_OnBeforeClosePage", None, _handle, _handle)

FPDF_CreateNewDocument = _declared("FPDF_CreateNewDocument", _handle)
FPDF_ImportPagesByIndex = _declared("FPDF_ImportPagesByIndex", _int, _handle, _handle, c_void_p, c_ulong, _int)
FPDF_SaveAsCopy = _declared("FPDF_SaveAsCopy", _int, _handle, c_void_p, c_ulong)

FPDF_LoadPage = _declared("FPDF_LoadPage", _handle, _handle, _int)
FPDF_ClosePage = _declared("FPDF_ClosePage", None, _handle)
FPDF_GetPageWidthF = _declared("FPDF_GetPageWidthF", c_float, _handle)
FPDF_GetPageHeightF = _declared("FPDF_GetPageHeightF", c_float, _handle)
FPDFPage_SetCropBox = _declared("FPDFPage_SetCropBox", None, _handle, *[c_float] * 4)  # left, bottom, right, top
FPDFPage_GetRotation = _declared("FPDFPage_GetRotation", _int, _handle)  # in quarters, clockwise
FPDFPage_SetRotation = _declared("FPDFPage_SetRotation", None, _handle, _int)
FPDF_PageToDevice = _declared(
    "FPDF_PageToDevice", _int, _handle, *[_int] * 5, c_double, c_double, _int_at, _int_at
)  # page, x, y, width, height, rotation; a point; the same in pixels
FPDFBitmap_CreateEx = _declared("FPDFBitmap_CreateEx", _handle, _int, _int, _int, c_void_p, _int)
FPDFBitmap_FillRect = _declared("FPDFBitmap_FillRect", _int, _handle, *[_int] * 4, c_ulong)
FPDFBitmap_GetBuffer = _declared("FPDFBitmap_GetBuffer", c_void_p, _handle)
FPDFBitmap_GetHeight = _declared("FPDFBitmap_GetHeight", _int, _handle)
FPDFBitmap_GetStride = _declared("FPDFBitmap_GetStride", _int, _handle)
FPDFBitmap_Destroy = _declared("FPDFBitmap_Destroy", None, _handle)
FPDF_RenderPageBitmap = _declared("FPDF_RenderPageBitmap", None, _handle, _handle, *[_int] * 6)

FPDFText_LoadPage = _declared("FPDFText_LoadPage", _handle, _handle)
FPDFText_ClosePage = _declared("FPDFText_ClosePage", None, _handle)
FPDFText_CountChars = _declared("FPDFText_CountChars", _int, _handle)
FPDFText_GetText = _declared("FPDFText_GetText", _int, _handle, _int, _int, POINTER(c_ushort))
FPDFText_GetUnicode = _declared("FPDFText_GetUnicode", c_uint, _handle, _int)
FPDFText_GetCharBox = _undeclared("FPDFText_GetCharBox", _int)  # text page, number; left, right, bottom, top
FPDFText_GetCharOrigin = _undeclared("FPDFText_GetCharOrigin", _int)  # text page, number; x, y
FPDFText_GetFontSize = _undeclared("FPDFText_GetFontSize", c_double)  # text page, number
FPDFText_HasUnicodeMapError = _declared("FPDFText_HasUnicodeMapError", _int, _handle, _int)
FPDFText_GetFontInfo = _undeclared(
    "FPDFText_GetFontInfo", c_ulong
)  # text page, number, a buffer for the name, its size as a c_ulong, flags; the size of the name with its closing zero
FPDFText_GetTextObject = _undeclared("FPDFText_GetTextObject", c_void_p)  # text page, number
FPDFText_GetMatrix = _undeclared("FPDFText_GetMatrix", _int)  # text page, number; six floats

FPDFPage_CountObjects = _declared("FPDFPage_CountObjects", _int, _handle)
FPDFPage_GetObject = _declared("FPDFPage_GetObject", _handle, _handle, _int)
FPDFFormObj_CountObjects = _declared("FPDFFormObj_CountObjects", _int, _handle)
FPDFFormObj_GetObject = _declared("FPDFFormObj_GetObject", _handle, _handle, c_ulong)
FPDFPageObj_GetType = _declared("FPDFPageObj_GetType", _int, _handle)
FPDFPageObj_GetMatrix = _declared(
    "FPDFPageObj_GetMatrix", _int, _handle, c_void_p
)  # a to f of (a*x + c*y + e, b*x + d*y + f)
FPDFPageObj_GetBounds = _declared("FPDFPageObj_GetBounds", _int, _handle, *[_float_at] * 4)
FPDFPageObj_GetFillColor = _declared("FPDFPageObj_GetFillColor", _int, _handle, *[c_void_p] * 4)
FPDFPageObj_HasTransparency = _declared("FPDFPageObj_HasTransparency", _int, _handle)
FPDFTextObj_GetTextRenderMode = _declared("FPDFTextObj_GetTextRenderMode", _int, _handle)
FPDFPageObj_CountMarks = _declared("FPDFPageObj_CountMarks", _int, _handle)
FPDFPageObj_GetMark = _declared("FPDFPageObj_GetMark", _handle, _handle, c_ulong)
FPDFPageObj_GetMarkedContentID = _declared("FPDFPageObj_GetMarkedContentID", _int, _handle)
FPDFPageObjMark_GetName = _declared("FPDFPageObjMark_GetName", _int, _handle, c_void_p, c_ulong, c_void_p)
FPDFImageObj_GetImagePixelSize = _declared("FPDFImageObj_GetImagePixelSize", _int, _handle, _uint_at, _uint_at)
FPDFImageObj_GetImageFilterCount = _declared("FPDFImageObj_GetImageFilterCount", _int, _handle)
FPDFImageObj_GetImageFilter = _declared("FPDFImageObj_GetImageFilter", c_ulong, _handle, _int, c_void_p, c_ulong)
FPDFImageObj_GetRenderedBitmap = _declared("FPDFImageObj_GetRenderedBitmap", _handle, _handle, _handle, _handle)
FPDFImageObj_GetImageDataRaw = _declared("FPDFImageObj_GetImageDataRaw", c_ulong, _handle, c_void_p, c_ulong)
FPDFPath_GetDrawMode = _declared("FPDFPath_GetDrawMode", _int, _handle, c_void_p, c_void_p)
FPDFPath_CountSegments = _declared("FPDFPath_CountSegments", _int, _handle)
FPDFPath_GetPathSegment = _declared("FPDFPath_GetPathSegment", _handle, _handle, _int)
FPDFPathSegment_GetPoint = _declared("FPDFPathSegment_GetPoint", _int, _handle, c_void_p, c_void_p)
FPDFPathSegment_GetType = _declared("FPDFPathSegment_GetType", _int, _handle)
FPDFPathSegment_GetClose = _declared("FPDFPathSegment_GetClose", _int, _handle)

FPDFPage_GetAnnotCount = _declared("FPDFPage_GetAnnotCount", _int, _handle)
FPDFPage_GetAnnot = _declared("FPDFPage_GetAnnot", _handle, _handle, _int)
FPDFPage_CloseAnnot = _declared("FPDFPage_CloseAnnot", None, _handle)
FPDFAnnot_GetSubtype = _declared("FPDFAnnot_GetSubtype", _int, _handle)
FPDFAnnot_GetFlags = _declared("FPDFAnnot_GetFlags", _int, _handle)
FPDFAnnot_GetStringValue = _declared("FPDFAnnot_GetStringValue", c_ulong, _handle, c_char_p, c_void_p, c_ulong)
FPDFAnnot_GetRect = _declared("FPDFAnnot_GetRect", _int, _handle, POINTER(FS_RECTF))
FPDFAnnot_GetFormFieldType = _declared("FPDFAnnot_GetFormFieldType", _int, _handle, _handle)
FPDFAnnot_GetFormFieldFlags = _declared("FPDFAnnot_GetFormFieldFlags", _int, _handle, _handle)
FPDFAnnot_IsChecked = _declared("FPDFAnnot_IsChecked", _int, _handle, _handle)
FPDFAnnot_GetFormFieldValue = _declared("FPDFAnnot_GetFormFieldValue", c_ulong, _handle, _handle, c_void_p, c_ulong)
FPDFAnnot_GetOptionCount = _declared("FPDFAnnot_GetOptionCount", _int, _handle, _handle)
FPDFAnnot_GetOptionLabel = _declared("FPDFAnnot_GetOptionLabel", c_ulong, _handle, _handle, _int, c_void_p, c_ulong)
FPDFAnnot_IsOptionSelected = _declared("FPDFAnnot_IsOptionSelected", _int, _handle, _handle, _int)
