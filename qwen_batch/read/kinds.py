"""What a file is: by the end of its name, or by its first bytes."""

from __future__ import annotations

import codecs
import re
from pathlib import Path
from typing import Literal

Kind = Literal[
    "pdf",
    "text",
    "jsonl",
    "html",
    "csv",
    "email",
    "rtf",
    "docx",
    "pptx",
    "xlsx",
    "odf",
    "msg",
    "legacy",
    "zip",
    "ole",
    "image",
    "binary",
    "empty",
]

HEAD_BYTES = 4096
_SUFFIXES: dict[Kind, str] = {
    "pdf": "pdf",
    "text": "txt md",
    "jsonl": "jsonl ndjson",
    "html": "html htm xhtml",
    "csv": "csv tsv",
    "email": "eml",
    "rtf": "rtf",
    "docx": "docx docm",
    "pptx": "pptx",
    "xlsx": "xlsx xlsm",
    "odf": "odt odp ods",
    "msg": "msg",
    "legacy": "doc ppt xls",  # LibreOffice makes newer ones of them
}
SUFFIXES: dict[str, Kind] = {f".{name}": kind for kind, names in _SUFFIXES.items() for name in names.split()}
_UNSUPPORTED = "xml epub zip gz 7z tar png jpg jpeg gif tif tiff bmp webp mp3 mp4 parquet json"
UNSUPPORTED_SUFFIXES = frozenset(f".{name}" for name in _UNSUPPORTED.split())
_MAGIC: tuple[tuple[bytes, Kind], ...] = (
    (b"PK\x03\x04", "zip"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "ole"),
    (b"{\\rtf", "rtf"),
    (b"\x89PNG", "image"),
    (b"\xff\xd8\xff", "image"),
    (b"GIF8", "image"),
    (b"II*\0", "image"),
    (b"MM\0*", "image"),
)
_NAMES: dict[str, str] = {
    "pdf": "a PDF",
    "text": "plain text",
    "jsonl": "JSON lines",
    "html": "HTML",
    "csv": "a table in text",
    "email": "an e-mail",
    "rtf": "rich text",
    "docx": "a Word document",
    "pptx": "a presentation",
    "xlsx": "a spreadsheet",
    "odf": "an OpenDocument file",
    "msg": "an Outlook message",
    "legacy": "an old office document",
    "zip": "a zip archive or an office document",
    "ole": "an old office document",
    "image": "an image",
    "binary": "binary data",
    "empty": "empty",
}
BOMS = (b"\xef\xbb\xbf", b"\xff\xfe\0\0", b"\0\0\xfe\xff", b"\xff\xfe", b"\xfe\xff")
_PDF_OBJECT = re.compile(rb"[\r\n]\d+ \d+ obj\b")
MAX_CONTROL_SHARE = 0.03
MAX_IN_UTF8 = 0.1  # the same, where all bytes are valid UTF-8: of a short text one is much
MIN_LATIN_SHARE = 0.9  # where zeros tell already
MIN_KNOWN_SHARE = 0.97  # of the characters of a text in UTF-16; of bytes at random half are
# Compiled where it is wanted: two milliseconds.
_KNOWN = (
    "[\t\n\r -~\xa0-\xff\u0370-\u06ff\u0e00-\u0e7f\u2010-\u203a\u3000-\u30ff\u4e00-\u9fff\uac00-\ud7a3\uff00-\uffee]"
)
CONTROLS = bytes(set(range(32)) - set(b"\t\n\v\f\r\x1b")) + b"\x7f"


def kind_name(kind: Kind) -> str:
    """The kind in words, with its article."""
    return _NAMES[kind]


def kind_of(path: Path) -> Kind | None:
    """Kind by name, and by content where the name says nothing; None: a kind that we do not read. Raises OSError."""
    suffix = path.suffix.lower()
    if suffix in SUFFIXES:
        return SUFFIXES[suffix]
    if suffix in UNSUPPORTED_SUFFIXES:
        return None
    with path.open("rb") as file:
        kind = sniff(file.read(HEAD_BYTES))
    return kind if kind in ("pdf", "text", "html", "rtf", "empty") else None


def sniff(head: bytes) -> Kind:
    """Kind by the first bytes of a file.

    A PDF may have up to 1024 bytes of something else in front (PDF 1.7, H.3), or have lost its first line.
    """
    if not head:
        return "empty"
    if b"%PDF-" in head[:1024] or (head.startswith(b"%") and _PDF_OBJECT.search(head, 0, 1024)):
        return "pdf"
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            return kind
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith((b"<!doctype html", b"<html", b"<head", b"<body", b"<?xml", b"<script", b"<!--")):
        return "html"
    return "text" if looks_like_text(head) else "binary"


def looks_like_text(head: bytes) -> bool:
    """Text has a byte-order mark or hardly any control characters."""
    return head.startswith(BOMS) or not _has_many_controls(head) or utf16_of(head) is not None


def _has_many_controls(head: bytes) -> bool:
    controls = len(head) - len(head.translate(None, CONTROLS))
    if controls <= MAX_CONTROL_SHARE * len(head):
        return False
    return controls > MAX_IN_UTF8 * len(head) or not _is_utf8(head)


def _is_utf8(head: bytes) -> bool:
    """Whether all bytes are UTF-8; the last character may be cut."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return True


def utf16_of(head: bytes) -> str | None:
    """utf-16-le or utf-16-be where a text without a mark is one of them.

    Mostly Latin text has a zero for every other byte. Other scripts have many control characters, which no other text
    has; read the right way, all their characters are well known ones.
    """
    half = len(head) // 2
    even, odd = head[0::2].count(0), head[1::2].count(0)
    if max(even, odd) > 0.4 * half and min(even, odd) < 0.05 * half:
        latin = "utf-16-be" if even > odd else "utf-16-le"
        return latin if _known_share(head[: 2 * half], latin) >= MIN_LATIN_SHARE else None
    if not _has_many_controls(head) or half < 4:
        return None
    shares = {name: _known_share(head[: 2 * half], name) for name in ("utf-16-le", "utf-16-be")}
    best = max(shares, key=lambda name: shares[name])
    return best if shares[best] >= MIN_KNOWN_SHARE and min(shares.values()) < shares[best] else None


def _known_share(head: bytes, encoding: str) -> float:
    text = head.decode(encoding, "replace")
    return len(re.findall(_KNOWN, text)) / len(text)
