"""Text files: one page of lines, whatever the encoding."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from pathlib import Path

from qwen_batch.errors import DocumentError
from qwen_batch.read.items import Content
from qwen_batch.read.text.encodings import NO_ENCODING, SECTION_BYTES, decode, encoding_of
from qwen_batch.records import Line, Page

MAX_BYTES = 200_000_000
LONG_BYTES = 4_000_000  # from here on a file is read in sections


def read_text(path: Path) -> Content:
    """Read a text file as one page. Raises DocumentError: empty, too_large, wrong_type."""
    text, warnings = decode(read_bytes(path))
    if not text.strip():
        raise DocumentError("empty", "the file holds only white space")
    return Content((Page(1, split_lines(text)),), warnings)


def is_long(path: Path) -> bool:
    """Whether a text file is so large that it is read and cleaned section by section. Raises OSError."""
    return path.stat().st_size > LONG_BYTES


def iter_sections(path: Path) -> Iterator[Content]:
    """A long text file in sections of about SECTION_BYTES, cut at blank lines where there are some, else at line ends.

    Only one section is in memory at a time.
    Raises DocumentError: empty, too_large, wrong_type.
    """
    if path.stat().st_size > MAX_BYTES:
        raise too_large()
    encoding, skip, warnings = encoding_of(path)
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    rest, any_text, at_end = "", False, False
    with path.open("rb") as file:
        file.seek(skip)
        while not at_end:
            data = file.read(SECTION_BYTES)
            at_end = not data
            text = rest + decoder.decode(data, final=at_end)
            cut = len(text) if at_end else _section_end(text)
            section, rest = text[:cut], text[cut:]
            if section.count("\ufffd") > len(section) // 20:
                raise DocumentError("wrong_type", NO_ENCODING)
            any_text = any_text or bool(section.strip())
            if section:
                yield Content((Page(1, split_lines(section)),), warnings)
            warnings = ()
    if not any_text:
        raise DocumentError("empty", "the file holds only white space")


def _section_end(text: str) -> int:
    """Where a section ends that more text follows: after the last blank line of its second half, else the last line."""
    for end in ("\n\n", "\r\n\r\n", "\n", "\r", " "):
        place = text.rfind(end, len(text) // 2)
        if place >= 0:
            return place + len(end)
    return len(text)


def read_bytes(path: Path) -> bytes:
    """All of a file that is text. Raises DocumentError: empty, too_large."""
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise too_large()
    if not data.strip(b"\0 \t\r\n"):
        raise DocumentError("empty", "the file is empty: check the copy, or the program that wrote it")
    return data


def too_large() -> DocumentError:
    return DocumentError("too_large", f"the file has more than {MAX_BYTES // 10**6} MB: split it, or write JSON lines")


def split_lines(text: str) -> tuple[Line, ...]:
    """Lines end at \\n, \\r\\n, \\r, a form feed, a vertical tab or U+2028, and paragraphs at U+2029.

    U+0085 may be half of a misread character: cleaning, which decodes that again, makes it a space.
    """
    plain = text.replace("\r\n", "\n").replace("\r", "\n").replace("\f", "\n").replace("\v", "\n")
    plain = plain.replace("\u2028", "\n").replace("\u2029", "\n\n")
    return tuple(Line(line) for line in plain.split("\n"))
