"""Outlook messages (.msg): heads, texts and the messages within them ([MS-OXMSG], [MS-OXPROPS]).

Read from the streams of the compound file by olefile; what is attached is named and never loaded.
"""

from __future__ import annotations

import datetime
import email
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from qwen_batch.errors import DocumentError
from qwen_batch.read.items import Content
from qwen_batch.read.kinds import kind_name, sniff
from qwen_batch.read.office.compressed_rtf import decompress_rtf
from qwen_batch.read.office.mail import HEADERS, MAX_DEPTH, Letter, head_lines, header_of
from qwen_batch.read.office.rtf import rtf_page
from qwen_batch.read.text.encodings import decode, decode_declared
from qwen_batch.read.text.html import decode_html, parse_html
from qwen_batch.read.text.plain import split_lines
from qwen_batch.records import Page

SUBJECT, BODY, HTML, RTF = 0x0037, 0x1000, 0x1013, 0x1009
TRANSPORT_HEADERS, SENDER, SENDER_SMTP, SENDER_ADDRESS = 0x007D, 0x0C1A, 0x5D01, 0x0C1F
DISPLAY_TO, DISPLAY_CC, SUBMITTED, DELIVERED = 0x0E04, 0x0E03, 0x0039, 0x0E06
FILE_NAMES = (0x3707, 0x3704, 0x3001)  # of an attachment: long, short, as shown
CONTENT_ID, MIME_TAG, EMBEDDED = 0x3712, 0x370E, "__substg1.0_3701000D"
CODE_PAGES = (0x3FDE, 0x3FFD)  # of the body, of all text
_CODECS = {65001: "utf-8", 936: "gb18030", 54936: "gb18030", 20127: "cp1252", 28591: "cp1252", 20866: "koi8-r"}
_CODECS |= {21866: "koi8-u", 50220: "iso2022_jp", 50221: "iso2022_jp", 51932: "euc_jp", 51949: "cp949", 932: "cp932"}
_CODECS |= {1200: "utf-16-le", **{28590 + part: f"iso8859-{part}" for part in (2, 3, 4, 5, 6, 7, 8, 9, 13, 15)}}
_TICKS_TO_1970 = 116_444_736_000_000_000  # of 100 ns, from 1601


def read_msg(path: Path) -> Content:
    """One page, as of an e-mail. Raises DocumentError: empty, damaged, wrong_type, unsafe, unsupported."""
    try:
        import olefile
    except ImportError:
        message = "files of this kind need the extra `office`: pip install 'qwen-batch[office]'"
        raise DocumentError("unsupported", message) from None
    with path.open("rb") as file:
        head = file.read(4096)
    if sniff(head) == "empty":
        raise DocumentError("empty", "the file is empty: check the copy, or the program that wrote it")
    if sniff(head) != "ole":
        raise DocumentError("wrong_type", f"named .msg, but the content is {kind_name(sniff(head))}: rename it")
    letter = Letter()
    try:
        with olefile.OleFileIO(path) as ole:
            _Message(ole, [], 32).add_to(letter, 0)
    except (OSError, ValueError, IndexError, KeyError, struct.error, RecursionError) as error:
        raise DocumentError("damaged", f"not a whole message ({error}): save it anew from the mail program") from None
    if not any(page.lines for page in letter.pages):
        raise DocumentError("empty", "the message has neither a head nor a text: check the file")
    return letter.as_content()


class _Message:
    """A storage with properties: a message, or something attached to one."""

    def __init__(self, ole: Any, path: list[str], header_bytes: int) -> None:
        self._ole = ole
        self._path = path
        self._numbers = dict(self._iter_numbers(header_bytes))

    def add_to(self, letter: Letter, depth: int) -> None:
        """Its head, its text, the messages within it, and the names of other attachments."""
        if depth > MAX_DEPTH:
            raise DocumentError("unsafe", f"more than {MAX_DEPTH} messages in each other: no mail program writes that")
        letter.pages += [head_lines(self._iter_head()), self._body()]
        for name in self._attachment_names():
            attached = _Message(self._ole, [*self._path, name], 8)
            if self._ole.exists([*attached._path, EMBEDDED]):
                _Message(self._ole, [*attached._path, EMBEDDED], 24).add_to(letter, depth + 1)
            elif not attached._is_picture_of_text():
                letter.attachments.append(next(filter(None, map(attached._text, FILE_NAMES)), "a file"))

    def _iter_numbers(self, header_bytes: int) -> Iterator[tuple[int, int]]:
        """(property, its eight bytes as a number) of each property of fixed size."""
        data = self._stream("__properties_version1.0") or b""
        for start in range(header_bytes, len(data) - 15, 16):
            yield struct.unpack_from("<2xH4xQ", data, start)

    def _stream(self, name: str) -> bytes | None:
        path = [*self._path, name]
        if not self._ole.exists(path):
            return None
        with self._ole.openstream(path) as stream:
            data: bytes = stream.read()
        return data

    def _text(self, number: int) -> str:
        if (wide := self._stream(f"__substg1.0_{number:04X}001F")) is not None:
            return wide.decode("utf-16-le", "replace").rstrip("\0")
        narrow = self._stream(f"__substg1.0_{number:04X}001E")
        return self._decoded(narrow).rstrip("\0") if narrow else ""

    def _decoded(self, data: bytes) -> str:
        for page in filter(None, (self._numbers.get(each, 0) & 0xFFFFFFFF for each in CODE_PAGES)):
            if (text := decode_declared(data, _CODECS.get(page, f"cp{page}"))) is not None:
                return text
        return decode(data)[0]

    def _iter_head(self) -> Iterator[tuple[str, str]]:
        """By the head with which it came, else by what Outlook notes."""
        sent = email.message_from_string(self._text(TRANSPORT_HEADERS).lstrip())
        address = self._text(SENDER_SMTP) or self._text(SENDER_ADDRESS)
        name = self._text(SENDER)
        own = {
            "From": f"{name} <{address}>" if "@" in address and address != name else name or address,
            "To": self._text(DISPLAY_TO),
            "Cc": self._text(DISPLAY_CC),
            "Date": self._date(),
            "Subject": self._text(SUBJECT),
        }
        for field in HEADERS:
            noted = " ".join(own[field].split())
            yield field, noted if field == "Subject" and noted else header_of(sent, field) or noted

    def _date(self) -> str:
        ticks = self._numbers.get(SUBMITTED) or self._numbers.get(DELIVERED)
        if not ticks:
            return ""
        seconds = (ticks - _TICKS_TO_1970) // 10_000_000
        try:
            return f"{datetime.datetime.fromtimestamp(seconds, datetime.UTC):%a, %d %b %Y %H:%M:%S} +0000"
        except (OverflowError, ValueError, OSError):
            return ""

    def _body(self) -> Page:
        """The HTML where there is one: Outlook makes the plain text from it. Some messages have rich text alone."""
        data = self._stream(f"__substg1.0_{HTML:04X}0102")
        html = self._html(data) if data else self._text(HTML)
        if html and (page := parse_html(html)).lines:
            return page
        if plain := self._text(BODY).strip("\r\n "):
            return Page(1, split_lines(plain))
        rich = self._stream(f"__substg1.0_{RTF:04X}0102")
        return rtf_page(decompress_rtf(rich)) if rich else Page(1, ())

    def _html(self, data: bytes) -> str:
        code_page = self._numbers.get(CODE_PAGES[0], 0) & 0xFFFFFFFF
        named = decode_declared(data, _CODECS.get(code_page, f"cp{code_page}")) if code_page else None
        return named if named is not None else decode_html(data)[0]

    def _attachment_names(self) -> list[str]:
        depth = len(self._path)
        paths = self._ole.listdir(streams=True, storages=True)
        names = {each[depth] for each in paths if len(each) > depth and each[:depth] == self._path}
        return sorted(name for name in names if name.startswith("__attach_version1.0_#"))

    def _is_picture_of_text(self) -> bool:
        return bool(self._text(CONTENT_ID)) and self._text(MIME_TAG).startswith("image/")
