"""E-mail (RFC 5322, MIME): the head that people read, every text in it, and the messages that it forwards.

The standard library's old policy (compat32) takes messages apart, since it refuses nothing that mail programs have
ever written; heads and texts are decoded here.
"""

from __future__ import annotations

import binascii
import email
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.message import Message
from pathlib import Path

from qwen_batch.errors import DocumentError
from qwen_batch.read.items import UNREAD_ATTACHMENTS, Content
from qwen_batch.read.text.encodings import decode, decode_declared
from qwen_batch.read.text.html import decode_html, parse_html
from qwen_batch.read.text.plain import read_bytes, split_lines
from qwen_batch.records import Line, Page, Table

HEADERS = ("From", "To", "Cc", "Date", "Subject")
MAX_DEPTH = 50  # of parts within parts
STUB_SHARE = 0.5  # a plain text with fewer letters than this share of the HTML's only says that there is an HTML
SIGNATURES = ("application/pkcs7-signature", "application/x-pkcs7-signature", "application/pgp-signature")
SEALED = ("multipart/encrypted", "application/pkcs7-mime", "application/x-pkcs7-mime")
EVENT = {
    "SUMMARY": "Summary",
    "DTSTART": "Start",
    "DTEND": "End",
    "LOCATION": "Location",
    "ORGANIZER": "Organizer",
}  # of a calendar (RFC 5545)
_ENCODED = re.compile(r"=\?([^?\s]+)\?([bqBQ])\?((?:(?!\?=|=\?(?!=)).)*)\?=", re.DOTALL)  # ends before another begins
_ESCAPED = re.compile(r"\\(.)")


@dataclass(slots=True)
class Letter:
    """The pieces of a message, forwarded ones included, in their order."""

    pages: list[Page] = field(default_factory=list)
    attachments: list[str] = field(default_factory=list)  # names of what is not read

    def as_content(self) -> Content:
        """One page; each piece apart from the one before it."""
        lines, tables = list[Line](), list[Table]()
        as_paragraphs = any(page.paragraphs for page in self.pages)
        for page in self.pages:
            lines += [Line("")] if lines and page.lines and not as_paragraphs else []
            lines += (
                line if line.table is None else line._replace(table=line.table + len(tables)) for line in page.lines
            )
            tables += page.tables
        page = Page(1, tuple(lines), tuple(tables), paragraphs=as_paragraphs)
        if not self.attachments:
            return Content((page,))
        warning = f"attachments are not read: {', '.join(self.attachments)}"
        return Content((page,), (warning,), (UNREAD_ATTACHMENTS,))


def read_email(path: Path) -> Content:
    """One page. Raises DocumentError: empty, too_large, encrypted, unsafe."""
    data = read_bytes(path)
    try:
        message = email.message_from_bytes(data)
    except RecursionError:
        raise DocumentError("unsafe", "parts in parts, hundreds deep: no mail program writes that") from None
    letter = Letter()
    _add_message(letter, message, 0)
    if not any(page.lines for page in letter.pages):
        raise DocumentError("empty", "the message has neither a head nor a text: check the file")
    return letter.as_content()


def head_lines(fields: Iterator[tuple[str, str]]) -> Page:
    """The head of a message: its lines would be wrapped text to the joiner, so it stands apart."""
    return Page(1, tuple(Line(f"{name}: {text}") for name, text in fields if text))


def _add_message(letter: Letter, message: Message, depth: int) -> None:
    letter.pages.append(head_lines((name, header_of(message, name)) for name in HEADERS))
    _add_part(letter, message, depth)


def _add_part(letter: Letter, part: Message, depth: int) -> None:
    kind = part.get_content_type()
    if depth > MAX_DEPTH:
        raise DocumentError("unsafe", f"more than {MAX_DEPTH} parts in each other: no mail program writes that")
    if kind in SEALED and part.get_param("smime-type") != "signed-data":
        raise DocumentError("encrypted", "the message is encrypted: save it from the mail program as plain text")
    if kind == "message/rfc822":
        for inner in _children(part):
            _add_message(letter, inner, depth + 1)
    elif kind == "multipart/alternative":
        _add_alternative(letter, _children(part), depth)
    elif part.is_multipart():
        for child in _children(part):
            _add_part(letter, child, depth + 1)
    elif _is_text(part):
        letter.pages.append(_text_page(part))
    elif kind == "text/calendar":
        letter.pages.append(Page(1, tuple(map(Line, _iter_event(_text(part))))))
    elif kind not in SIGNATURES and not _is_picture_of_text(part):
        letter.attachments.append(_file_name(part) or kind)


def _add_alternative(letter: Letter, children: list[Message], depth: int) -> None:
    """The same text in several forms: the plain one, unless it only says that there is another; and dates."""
    forms: dict[str, Letter] = {}
    for child in children:
        form = {"text/plain": "plain", "text/calendar": "event"}.get(child.get_content_type(), "rich")
        forms[form] = Letter()  # the last of several rich ones is the best (RFC 2046, 5.1.4)
        _add_part(forms[form], child, depth + 1)
    plain, rich = forms.get("plain"), forms.get("rich")
    if plain and rich and _num_letters(plain) >= STUB_SHARE * _num_letters(rich):
        rich.pages.clear()
    elif plain and rich:
        plain.pages.clear()
    for each in forms.values():
        letter.pages += each.pages
        letter.attachments += each.attachments


def _num_letters(letter: Letter) -> int:
    lines = sum(len(line.text) for page in letter.pages for line in page.lines if line.aside is None)
    tables = (table for page in letter.pages for table in page.tables)
    return lines + sum(len(cell) for table in tables for row in table.rows for cell in row)


def _children(part: Message) -> list[Message]:
    payload = part.get_payload()
    return [child for child in payload if isinstance(child, Message)] if isinstance(payload, list) else []


def _is_text(part: Message) -> bool:
    """Shown by a mail program with the message, not attached to it."""
    is_text = part.get_content_maintype() == "text" and part.get_content_type() not in ("text/calendar", "text/rtf")
    return is_text and part.get_content_disposition() != "attachment"


def _is_picture_of_text(part: Message) -> bool:
    """An image that the HTML shows, as logos are."""
    return (
        part.get_content_maintype() == "image"
        and "Content-ID" in part
        and part.get_content_disposition() != "attachment"
    )


def _text_page(part: Message) -> Page:
    if part.get_content_type() == "text/html":
        data = _bytes(part)
        charset = part.get_content_charset()
        return parse_html((decode_declared(data, charset) if charset else None) or decode_html(data)[0])
    lines = split_lines(_text(part).strip("\r\n"))
    return Page(1, lines if any(line.text.strip() for line in lines) else ())


def _bytes(part: Message) -> bytes:
    data = part.get_payload(decode=True)
    return data if isinstance(data, bytes) else b""


def _text(part: Message) -> str:
    """By the character set that the part declares, if its bytes are in it."""
    data = _bytes(part)
    declared = decode_declared(data, part.get_content_charset() or "utf-8")
    return declared if declared is not None else decode(data)[0]


def header_of(message: Message, name: str) -> str:
    """A field as it is read: encoded words decoded, and bytes beyond ASCII, which should not be there, too."""
    raw = next((value for key, value in message.raw_items() if key.lower() == name.lower()), "")
    return " ".join(_decode_words(str(raw)).split())


def _decode_words(raw: str) -> str:
    """A field with its encoded words (RFC 2047) as they are read.

    Words beside each other are decoded together, if they are in one character set, since some programs cut characters
    in two. The standard library's decoder takes minutes for a list of a hundred thousand names.
    """
    if not raw.isascii():
        return _decoded(raw.encode("utf-8", "surrogateescape"), "")
    shown, word, charset, end = list[str](), bytearray(), "", 0
    for match in _ENCODED.finditer(raw):
        between, name, data = raw[end : match.start()], match[1].partition("*")[0].lower(), _word_bytes(match)
        if data is None:
            continue
        if between.strip() or name != charset or not word:
            shown += (_decoded(bytes(word), charset), between if between.strip() or not word else "")
            word, charset = bytearray(), name
        word += data
        end = match.end()
    return "".join((*shown, _decoded(bytes(word), charset), raw[end:]))


def _decoded(data: bytes, charset: str) -> str:
    declared = decode_declared(data, charset or "utf-8") if data else ""
    return declared if declared is not None else decode(data)[0]


def _word_bytes(match: re.Match[str]) -> bytes | None:
    """What an encoded word stands for; None: it is broken, and read as it stands."""
    try:
        if match[2] in "qQ":
            return binascii.a2b_qp(match[3], header=True)
        return binascii.a2b_base64(match[3] + "=" * (-len(match[3]) % 4))
    except (ValueError, binascii.Error):
        return None


def _file_name(part: Message) -> str:
    name = part.get_filename()
    return " ".join(_decode_words(name).split()) if name else ""


def _iter_event(text: str) -> Iterator[str]:
    """The first event's fields that say what, when and where."""
    event = re.sub(r"\r?\n[ \t]", "", text).partition("BEGIN:VEVENT")[2].partition("END:VEVENT")[0]
    for line in event.splitlines():
        name, _, value = line.partition(":")
        if (meaning := EVENT.get(name.partition(";")[0].upper())) and value.strip():
            shown = _ESCAPED.sub(lambda match: " " if match[1] in "nN" else match[1], value)
            yield f"{meaning}: {shown.strip()}"
