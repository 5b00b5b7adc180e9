"""Text files: one page of lines, whatever the encoding."""

from __future__ import annotations

import codecs
import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import charset_normalizer

from qwen_batch.errors import DocumentError
from qwen_batch.read.kinds import kind_name, looks_like_text, looks_like_utf16, sniff
from qwen_batch.records import Line, Page

MAX_BYTES = 200_000_000
LONG_BYTES = 4_000_000  # from here on a file is read in sections
SECTION_BYTES = 1_000_000  # a line takes half a kilobyte while it is cleaned
GUESSED = "encoding guessed: {}"
BROKEN = "bytes that are not valid UTF-8, read as U+FFFD: {}"
NO_ENCODING = "the bytes fit no encoding that we know: save the file as UTF-8"
SAMPLE_BYTES = 64_000  # what the guess of an encoding looks at
SNIFF_BYTES = 4096
VALID_PER_BROKEN = 20  # so many valid characters of several bytes for each broken byte: it is UTF-8 all the same
NOT_TEXT = ("pdf", "zip", "ole", "image")
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_WIDER = {
    **dict.fromkeys(("gb2312", "gbk", "x-gbk", "gb-2312-80", "hz-gb-2312-8"), "gb18030"),
    **dict.fromkeys(("iso-8859-1", "latin1", "latin-1", "l1", "us-ascii", "ascii"), "cp1252"),
    **dict.fromkeys(("shift-jis", "sjis", "x-sjis", "ms-kanji"), "cp932"),
    **dict.fromkeys(("euc-kr", "ks-c-5601-1987", "ksc5601", "korean"), "cp949"),
    **dict.fromkeys(("big5", "x-x-big5", "cn-big5"), "big5hkscs"),
    **dict.fromkeys(("iso-8859-9", "latin5"), "cp1254"),
    **dict.fromkeys(("tis-620", "iso-8859-11"), "cp874"),
}  # what is read as more than its name says
_NOT_LEADING = bytes(range(0xC0))  # bytes that begin no UTF-8 sequence of several bytes


@dataclass(frozen=True, slots=True)
class TextContent:
    """What a text file holds."""

    pages: tuple[Page, ...]
    warnings: tuple[str, ...] = ()


def read_text(path: Path) -> TextContent:
    """Read a text file as one page. Raises DocumentError: empty, too_large, wrong_type."""
    text, warnings = decode(read_bytes(path))
    if not text.strip():
        raise DocumentError("empty", "the file holds only white space")
    return TextContent((Page(1, split_lines(text)),), warnings)


def is_long(path: Path) -> bool:
    """Whether a text file is so large that it is read and cleaned section by section. Raises OSError."""
    return path.stat().st_size > LONG_BYTES


def iter_sections(path: Path) -> Iterator[TextContent]:
    """A long text file in sections of about SECTION_BYTES, cut at blank lines where there are some, else at line ends.

    Only one section is in memory at a time.
    Raises DocumentError: empty, too_large, wrong_type.
    """
    if path.stat().st_size > MAX_BYTES:
        raise _too_large()
    encoding, skip, warnings = _encoding_of(path)
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
                yield TextContent((Page(1, split_lines(section)),), warnings)
            warnings = ()
    if not any_text:
        raise DocumentError("empty", "the file holds only white space")


def _encoding_of(path: Path) -> tuple[str, int, tuple[str, ...]]:
    """Encoding of a file, how many bytes its mark has, and what is to be said about it."""
    with path.open("rb") as file:
        sample = file.read(SAMPLE_BYTES)
        for bom, encoding in _BOMS:
            if sample.startswith(bom):
                return encoding, len(bom), ()
        _refuse_binary(sample)
        if looks_like_utf16(sample):
            return _guess_encoding(sample), 0, (GUESSED.format(_guess_encoding(sample)),)
        decoder = codecs.getincrementaldecoder("utf-8")()
        at_end = False
        while not at_end:
            try:
                decoder.decode(sample, final=not sample)
            except UnicodeDecodeError as error:
                file.seek(0)
                if broken := _broken_utf8(iter(lambda: file.read(SECTION_BYTES), b"")):
                    return "utf-8", 0, (BROKEN.format(broken),)
                # The guess looks at the place where it is not UTF-8.
                guess = _guess_encoding(sample[max(0, error.start - SNIFF_BYTES) :][:SAMPLE_BYTES])
                return guess, 0, (GUESSED.format(guess),)
            at_end = not sample
            sample = file.read(SECTION_BYTES)
    return "utf-8", 0, ()


def _broken_utf8(chunks: Iterable[bytes]) -> int:
    """How many bytes are broken in a text that is nearly all UTF-8; 0: it is in another encoding."""
    decoder = codecs.getincrementaldecoder("utf-8")("ignore")
    broken = num_wide = 0
    for chunk in chunks:
        valid = decoder.decode(chunk).encode()
        broken += len(chunk) - len(valid)  # what a later chunk completes is taken off again
        num_wide += len(valid.translate(None, _NOT_LEADING))
    return broken if num_wide >= VALID_PER_BROKEN * broken else 0


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
        raise _too_large()
    if not data.strip(b"\0 \t\r\n"):
        raise DocumentError("empty", "the file is empty: check the copy, or the program that wrote it")
    return data


def _too_large() -> DocumentError:
    return DocumentError("too_large", f"the file has more than {MAX_BYTES // 10**6} MB: split it, or write JSON lines")


def split_lines(text: str) -> tuple[Line, ...]:
    """Lines end at \\n, \\r\\n, \\r or a form feed, and nowhere else (`str.splitlines` also breaks at U+2028)."""
    plain = text.replace("\r\n", "\n").replace("\r", "\n").replace("\f", "\n")
    return tuple(Line(line) for line in plain.split("\n"))


def decode(data: bytes) -> tuple[str, tuple[str, ...]]:
    """Text, and a warning where the encoding was guessed or bytes are broken. Byte-order mark first, then UTF-8, then a
    guess.

    Raises DocumentError wrong_type for binary data.
    """
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            text = data[len(bom) :].decode(encoding, "replace")
            return text, ("some bytes are not valid and read as U+FFFD",) if "\ufffd" in text else ()
    _refuse_binary(data[:SAMPLE_BYTES])
    if not looks_like_utf16(data[:SAMPLE_BYTES]):
        with contextlib.suppress(UnicodeDecodeError):
            return data.decode("utf-8"), ()
        if broken := _broken_utf8([data]):
            return data.decode("utf-8", "replace"), (BROKEN.format(broken),)
    encoding = _guess_encoding(data[:SAMPLE_BYTES])
    text = data.decode(encoding, "replace")
    if text.count("\ufffd") > len(text) // 20:
        raise DocumentError("wrong_type", NO_ENCODING)
    return text, (GUESSED.format(encoding),)


def decode_declared(data: bytes, charset: str) -> str | None:
    """Text in the character set that something says it is in; None where it is not, or nobody knows that name.

    As browsers do it: names of narrow sets stand for the wider ones that people mean by them (WHATWG Encoding).
    """
    name = charset.lower().replace("_", "-")
    try:
        text = data.decode(_WIDER.get(name, name))
    except (LookupError, UnicodeError, ValueError):
        return None
    return text.removeprefix("\ufeff")


def _refuse_binary(sample: bytes) -> None:
    if sniff(sample[:SNIFF_BYTES]) in NOT_TEXT or not looks_like_text(sample):
        raise DocumentError("wrong_type", f"named as text, but the content is {_described(sample)}: convert it to text")


def _guess_encoding(sample: bytes) -> str:
    if looks_like_utf16(sample):
        return "utf-16-be" if sample[0::2].count(0) > sample[1::2].count(0) else "utf-16-le"
    return _guess_single(sample)


def _guess_single(sample: bytes) -> str:
    """GB18030 where its pairs of bytes make mostly common Chinese, else what charset-normalizer finds, else cp1252."""
    for cut in range(4):  # the sample may end within a character
        try:
            text = sample[: len(sample) - cut].decode("gb18030")
        except UnicodeDecodeError:
            continue
        high = sum(byte >= 0x80 for byte in sample)
        common = sum("\u4e00" <= char <= "\u9fa5" or "\u3000" <= char <= "\u303f" or char >= "\uff00" for char in text)
        if 2 * common >= 0.9 * high and _is_level_one(text):
            return "gb18030"
        break
    matches = list(charset_normalizer.from_bytes(sample))
    if not matches:
        return "cp1252"
    best = matches[0]
    # Other tables fit short texts equally well, or to the same letters; the western one is far more common.
    western = next((match for match in matches if "cp1252" in match.could_be_from_charset), best)
    as_good = western.chaos <= best.chaos and western.coherence >= best.coherence - 0.05
    return "cp1252" if as_good and "cp1252" in western.could_be_from_charset else best.encoding


def _is_level_one(text: str) -> bool:
    """Real Chinese uses the 3,755 common characters of GB 2312 (lead bytes B0 to D7); chance uses all rows alike."""
    wide = [char.encode("gb18030")[0] for char in text if "\u4e00" <= char <= "\u9fa5"]
    return bool(wide) and sum(0xB0 <= lead <= 0xD7 for lead in wide) >= 0.8 * len(wide)


def _described(data: bytes) -> str:
    kind = sniff(data[:SNIFF_BYTES])
    return kind_name(kind if kind in NOT_TEXT else "binary")
