"""Rich text as Outlook packs it ([MS-OXRTFCP]): LZ77 over a window of 4 KiB that begins with common control words."""

from __future__ import annotations

import struct

MAX_BYTES = 100_000_000
WINDOW = 4096
COMPRESSED, PLAIN = 0x75465A4C, 0x414C454D  # "LZFu", "MELA"
_DICTIONARY = (
    rb"{\rtf1\ansi\mac\deff0\deftab720{\fonttbl;}{\f0\fnil \froman \fswiss \fmodern \fscript \fdecor MS Sans Serif"
    rb"SymbolArialTimes New RomanCourier{\colortbl\red0\green0\blue0"
    + b"\r\n"
    + rb"\par \pard\plain\f0\fs20\b\i\u\tab\tx"
)


def decompress_rtf(data: bytes) -> bytes:
    """The rich text. Raises ValueError where it is damaged or too large."""
    if len(data) < 16:
        return b""
    _, raw_bytes, kind, _ = struct.unpack_from("<4I", data)
    if raw_bytes > MAX_BYTES:
        raise ValueError(f"rich text of {raw_bytes} bytes")
    if kind == PLAIN:
        return data[16 : 16 + raw_bytes]
    if kind != COMPRESSED:
        raise ValueError("rich text that is packed in an unknown way")
    return bytes(_unpack(memoryview(data)[16:], raw_bytes))


def _unpack(packed: memoryview, raw_bytes: int) -> bytearray:
    window = bytearray(_DICTIONARY.ljust(WINDOW, b"\0"))
    write = len(_DICTIONARY)
    out = bytearray()
    place = 0
    while place < len(packed) and len(out) < raw_bytes:
        flags = packed[place]
        place += 1
        for bit in range(8):
            if flags >> bit & 1:
                if place + 1 >= len(packed):
                    return out
                reference = packed[place] << 8 | packed[place + 1]
                place += 2
                read, length = reference >> 4, (reference & 15) + 2
                if read == write:
                    return out
            else:
                if place >= len(packed):
                    return out
                read, length = -1, 1
            for step in range(length):
                byte = packed[place] if read < 0 else window[(read + step) % WINDOW]
                out.append(byte)
                window[write] = byte
                write = (write + 1) % WINDOW
            place += read < 0
    return out
