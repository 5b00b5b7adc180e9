"""Which encoding the bytes of a text are in: what they say, what they can be, or a guess.

The guess is chardet's (0BSD), among the encodings that people's files are in, with rules for the few cases in which a
short text fits two of them.
"""

from __future__ import annotations

import codecs
import contextlib
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from qwen_batch.errors import DocumentError
from qwen_batch.read.kinds import kind_name, looks_like_text, sniff, utf16_of

SECTION_BYTES = 1_000_000  # a line takes half a kilobyte while it is cleaned
JIS = "iso2022_jp_2"  # seven bits, with escapes: it would pass as UTF-8
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
_LATIN = ("cp1252", "cp1250", "cp1254", "cp1257", "iso8859-2", "cp850", "cp437", "mac-roman")
_OTHER = (
    *("cp1251", "koi8-r", "koi8-u", "cp866", "iso8859-5", "mac-cyrillic", "cp1253", "iso8859-7"),
    *("cp1255", "iso8859-8", "cp1256", "iso8859-6", "cp874", "tis-620"),
)
_WIDE = ("cp932", "shift_jis_2004", "euc_jis_2004", "gb18030", "big5hkscs", "cp949", "euc_kr", "johab")
CANDIDATES = (*_LATIN, *_OTHER, *_WIDE)  # of 80 that chardet knows, those of which people still have files
_HIGH_RUN = re.compile(rb"[\x80-\xff]+")
_SUPERSETS = {
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "euc_kr": "cp949",
    "shift_jis_2004": "cp932",
    "tis-620": "cp874",
}
FEW_BYTES = 3  # a lone letter or two fit many encodings: fewer of them are taken for Western ones
WESTERN = "ÄÖÜäöüßÀÂÇÈÉÊËàâçèéêëîïôùûÑñÁÍÓÚáíóúÅÆØåæøãõìò".encode("cp1252")
_NO_SIGN = re.compile(
    rb"[^\x00-\x7f\x80\x85\x91-\x97\x99\xa0\xa3\xa7\xa9\xab\xae\xb0-\xb3\xb5\xb7\xbb-\xbe\xd7]"
    rb"|[A-Za-z][\x80\x91\x93-\x95\x99\xa3-\xff][A-Za-z]|[\xa0-\xff]{2}"
)
_WORD = re.compile(rb"[\x80-\xff]{3}")
_MIXED = re.compile(r"[A-Za-z][\u0370-\u0e7f]|[\u0370-\u0e7f][A-Za-z]")
_LONE_SURROGATES = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")  # some programs write halves of characters as UTF-8
_NEVER = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]|[\xc0\xc1\xf5-\xff]")  # what no UTF-8 holds
_ASCII = bytes(range(0x80))
_NOT_LEADING = bytes(range(0xC0))  # bytes that begin no UTF-8 sequence of several bytes


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
    if utf16_of(data[:SAMPLE_BYTES]) is None:
        if b"\x1b$" in data:
            with contextlib.suppress(UnicodeDecodeError):
                return data.decode(JIS), (GUESSED.format(JIS),)
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


def encoding_of(path: Path) -> tuple[str, int, tuple[str, ...]]:
    """Encoding of a file, how many bytes its mark has, and what is to be said about it."""
    with path.open("rb") as file:
        sample = file.read(SAMPLE_BYTES)
        for bom, encoding in _BOMS:
            if sample.startswith(bom):
                return encoding, len(bom), ()
        _refuse_binary(sample)
        if utf16_of(sample):
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
        num_wide += VALID_PER_BROKEN * _num_surrogates(chunk)
    return broken if num_wide >= VALID_PER_BROKEN * broken else 0


def _num_surrogates(chunk: bytes) -> int:
    """How many broken bytes a text has of which one half of a character, as UTF-8 would write it, shows that it was
    meant to be UTF-8."""
    if not _LONE_SURROGATES.search(chunk):
        return 0
    return sum(len(broken) for broken in _NEVER.findall(chunk))


def _refuse_binary(sample: bytes) -> None:
    if sniff(sample[:SNIFF_BYTES]) in NOT_TEXT or not looks_like_text(sample):
        raise DocumentError("wrong_type", f"named as text, but the content is {_described(sample)}: convert it to text")


def _guess_encoding(sample: bytes) -> str:
    if wide := utf16_of(sample):
        return wide
    return _guess_narrow(sample)


def _guess_narrow(sample: bytes) -> str:
    """chardet's guess, but for a few short texts: pairs of bytes that are common Chinese or Korean, and words in two
    scripts at once."""
    if _is_punctuated(sample):
        return "cp1252"
    guess = _detect(sample, CANDIDATES)
    if guess in _WIDE:
        return guess
    if _has_even_runs(sample) and (wide := _common_pairs(sample)):
        return wide
    if guess in _OTHER and (not _WORD.search(sample) or _MIXED.search(sample.decode(guess, "replace"))):
        guess = _detect(sample, _LATIN)
    return guess


def _is_punctuated(sample: bytes) -> bool:
    """Whether Windows-1252's quotes, dashes and signs are all that is beyond ASCII, at places where they belong."""
    return not _NO_SIGN.search(sample)


def _detect(sample: bytes, candidates: Sequence[str]) -> str:
    """The likeliest one."""
    import chardet  # 0.1 s: only for texts that are not UTF-8

    found = chardet.detect_all(
        sample, True, include_encodings=candidates, no_match_encoding=candidates[0], compat_names=False
    )
    likely = {each["encoding"]: each["confidence"] for each in found if each["encoding"]}
    best = max(likely, key=lambda name: likely[name], default="cp1252")
    high = sample.translate(None, _ASCII)
    if best in _LATIN and len(high) < FEW_BYTES and not high.translate(None, WESTERN):
        return "cp1252"
    return _SUPERSETS.get(best, best)


def _has_even_runs(sample: bytes) -> bool:
    """Whether bytes beyond ASCII stand in pairs alone, as characters of two bytes do; the sample may end within one."""
    return all(len(run[0]) % 2 == 0 or run.end() == len(sample) >= SAMPLE_BYTES for run in _HIGH_RUN.finditer(sample))


def _common_pairs(sample: bytes) -> str | None:
    """Western, Cyrillic or Greek letters are rarely the common characters of one of these, all of them."""
    first = _detect(sample, tuple(_COMMON))
    return next((each for each in sorted(_COMMON, key=lambda name: name != first) if _is_common(sample, each)), None)


def _is_common(sample: bytes, encoding: str) -> bool:
    chars = [char for char in sample.decode(encoding, "replace").rstrip("\ufffd") if not char.isascii()]
    return bool(chars) and all(map(_COMMON[encoding], chars))


def _is_chinese(char: str) -> bool:
    """Punctuation, or one of the 3,755 common characters of GB 2312: lead bytes B0 to D7."""
    if "\u4e00" <= char <= "\u9fa5":
        return 0xB0 <= char.encode("gb18030")[0] <= 0xD7
    return "\u3000" <= char <= "\u303f" or "\uff00" <= char <= "\uffee" or char in "“”‘’…—·"


def _is_hangul(char: str) -> bool:
    return "\uac00" <= char <= "\ud7a3"


_COMMON = {"gb18030": _is_chinese, "cp949": _is_hangul}


def _described(data: bytes) -> str:
    kind = sniff(data[:SNIFF_BYTES])
    return kind_name(kind if kind in NOT_TEXT else "binary")
