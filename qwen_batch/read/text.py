"""Text files: one page of lines, whatever the encoding."""

from __future__ import annotations

import codecs
import contextlib
from dataclasses import dataclass
from pathlib import Path

import charset_normalizer

from qwen_batch.errors import DocumentError
from qwen_batch.read.kinds import kind_name, looks_like_text, looks_like_utf16, sniff
from qwen_batch.records import Line, Page

MAX_BYTES = 200_000_000
SAMPLE_BYTES = 64_000  # what the guess of an encoding looks at
SNIFF_BYTES = 4096
NOT_TEXT = ("pdf", "zip", "ole", "image")
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


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


def read_bytes(path: Path) -> bytes:
    """All of a file that is text. Raises DocumentError: empty, too_large."""
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise DocumentError(
            "too_large", f"the file has more than {MAX_BYTES // 10**6} MB: split it, or write JSON lines"
        )
    if not data.strip(b"\0 \t\r\n"):
        raise DocumentError("empty", "the file is empty: check the copy, or the program that wrote it")
    return data


def split_lines(text: str) -> tuple[Line, ...]:
    """Lines end at \\n, \\r\\n, \\r or a form feed, and nowhere else (`str.splitlines` also breaks at U+2028)."""
    plain = text.replace("\r\n", "\n").replace("\r", "\n").replace("\f", "\n")
    return tuple(Line(line) for line in plain.split("\n"))


def decode(data: bytes) -> tuple[str, tuple[str, ...]]:
    """Text, and a warning where the encoding was guessed. Byte-order mark first, then UTF-8, then a guess.

    Raises DocumentError wrong_type for binary data.
    """
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            text = data[len(bom) :].decode(encoding, "replace")
            return text, ("some bytes are not valid and read as U+FFFD",) if "\ufffd" in text else ()
    if sniff(data[:SNIFF_BYTES]) in NOT_TEXT or not looks_like_text(data[:SAMPLE_BYTES]):
        raise DocumentError("wrong_type", f"named as text, but the content is {_described(data)}: convert it to text")
    if not looks_like_utf16(data[:SAMPLE_BYTES]):
        with contextlib.suppress(UnicodeDecodeError):
            return data.decode("utf-8"), ()
    return _guess(data)


def _guess(data: bytes) -> tuple[str, tuple[str, ...]]:
    if looks_like_utf16(data[:SAMPLE_BYTES]):
        big = data[0:SAMPLE_BYTES:2].count(0) > data[1:SAMPLE_BYTES:2].count(0)
        encoding = "utf-16-be" if big else "utf-16-le"
    else:
        encoding = _guess_single(data[:SAMPLE_BYTES])
    text = data.decode(encoding, "replace")
    if text.count("\ufffd") > len(text) // 20:
        raise DocumentError("wrong_type", "the bytes fit no encoding that we know: save the file as UTF-8")
    return text, (f"encoding guessed: {encoding}",)


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
    # Western and central European tables fit short texts equally well; the western one is far more common.
    western = next((match for match in matches if match.encoding == "cp1252"), best)
    as_good = western.chaos <= best.chaos and western.coherence >= best.coherence - 0.05
    return western.encoding if as_good else best.encoding


def _is_level_one(text: str) -> bool:
    """Real Chinese uses the 3,755 common characters of GB 2312 (lead bytes B0 to D7); chance uses all rows alike."""
    wide = [char.encode("gb18030")[0] for char in text if "\u4e00" <= char <= "\u9fa5"]
    return bool(wide) and sum(0xB0 <= lead <= 0xD7 for lead in wide) >= 0.8 * len(wide)


def _described(data: bytes) -> str:
    kind = sniff(data[:SNIFF_BYTES])
    return kind_name(kind if kind in NOT_TEXT else "binary")
