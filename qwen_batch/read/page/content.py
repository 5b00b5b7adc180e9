"""Whether a page on which nothing was found is blank, or its content cannot be decoded.

pdfium tells no difference. It copies the page into a file of its own, though, whose objects are written one after the
other, and there the stream is looked at: 1 ms, for pages without anything on them only. Loaded where there are such.
"""

from __future__ import annotations

import base64
import ctypes
import re
import zlib

from qwen_batch.read.page import pdfium

ENOUGH = 1 << 22  # bytes: the page comes first, what it refers to after it
_CONTENTS = re.compile(rb"/Contents\s*(\[[^\]]*\]|\d+ \d+ R)")
_REFERENCE = re.compile(rb"(\d+) \d+ R")
_FILTER = re.compile(rb"/Filter\s*(\[[^\]]*\]|/\w+)")
_LENGTH = re.compile(rb"/Length (\d+)")


def is_undecodable(file: int | None, index: int) -> bool:
    """Whether nothing comes out of a stream of content of the page at an index, though there are bytes in it."""
    copy = copied_page(file, index)
    contents = _CONTENTS.search(copy)
    numbers = _REFERENCE.findall(contents[1]) if contents else []
    return any(_is_broken(copy, number) for number in numbers)


def copied_page(file: int | None, index: int) -> bytes:
    """The beginning of a file that holds nothing but a page."""
    written = bytearray()

    def write(_: int, data: int, size: int) -> int:
        written.extend(ctypes.string_at(data, min(size, ENOUGH)))
        return len(written) < ENOUGH

    writer = pdfium.FPDF_FILEWRITE(1, pdfium.WriteBlock(write))
    copy = pdfium.FPDF_CreateNewDocument()
    if copy and pdfium.FPDF_ImportPagesByIndex(copy, file, ctypes.byref(ctypes.c_int(index)), 1, 0):
        pdfium.FPDF_SaveAsCopy(copy, ctypes.byref(writer), 0)
    pdfium.FPDF_CloseDocument(copy)
    return bytes(written)


def _is_broken(copy: bytes, number: bytes) -> bool:
    """Whether a stream is one that its own filters cannot decode; other filters than the usual ones are not tried."""
    start = copy.find(b"\n%b 0 obj" % number)
    begin = copy.find(b"stream\r\n", start) + len(b"stream\r\n")
    head = copy[start:begin]
    length, names = _LENGTH.search(head), _FILTER.search(head)
    if start < 0 or not length or not names:
        return False
    data = copy[begin : begin + int(length[1])]
    filters = re.findall(rb"/(\w+)", names[1])
    try:
        for name in filters:
            if name == b"ASCII85Decode":
                data = base64.a85decode(data.strip().removeprefix(b"<~").removesuffix(b"~>"))
            elif name == b"FlateDecode":
                data = zlib.decompressobj().decompress(data, 1)
            else:
                return False
    except (ValueError, zlib.error):
        return bool(data.strip())
    return False
