"""The letters of rich text: bytes in the encoding of their font, and Unicode in units of sixteen bits."""

from __future__ import annotations

import codecs

DEFAULT = "cp1252"
BULLETS = {0xF0B7: "•", 0xF0A7: "▪", 0xF0D8: "➢", 0xF076: "❖", 0xF0FC: "✓"}  # of Symbol and Wingdings, in lists
_CHARSETS = {
    77: "mac_roman", 128: "cp932", 129: "cp949", 130: "johab", 134: "gb18030", 136: "big5hkscs", 161: "cp1253",
    162: "cp1254", 163: "cp1258", 177: "cp1255", 178: "cp1256", 186: "cp1257", 204: "cp1251", 222: "cp874",
    238: "cp1250", 254: "cp437", 255: "cp850",
}  # fmt: skip


class Fonts:
    """Which encoding each font's bytes are in, as the table of fonts says."""

    def __init__(self) -> None:
        self._codecs: dict[str, str] = {}
        self._default = DEFAULT
        self._font = ""  # the one that is described

    def note(self, word: str, number: str | None) -> bool:
        """Take in a word; whether it begins the table."""
        if word == "ansicpg" and number and number not in ("0", "1"):
            self._default = _known({"936": "gb18030", "65001": "utf-8"}.get(number, f"cp{number}"))
        elif word == "f" and number:
            self._font = number
        elif word == "fcharset" and number:
            charset = _CHARSETS.get(int(number))
            if charset:
                self._codecs[self._font] = charset
        return word == "fonttbl"

    def codec(self, font: str) -> str:
        return self._codecs.get(font, self._default)


class Bytes:
    """Decodes bytes as they come: a character of two may be one in hexadecimal and one plain."""

    def __init__(self) -> None:
        self._codec = ""
        self._decoder: codecs.IncrementalDecoder = codecs.getincrementaldecoder(DEFAULT)("replace")

    def decode(self, data: bytes, codec: str) -> str:
        before = ""
        if codec != self._codec:
            before = self.flush()
            self._codec, self._decoder = codec, codecs.getincrementaldecoder(codec)("replace")
        return before + self._decoder.decode(data)

    def flush(self) -> str:
        """What is left of a character that was not finished."""
        return self._decoder.decode(b"", final=True)


def whole_characters(text: str) -> str:
    """Two halves of a character as one; halves by themselves become U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _known(codec: str) -> str:
    try:
        codecs.lookup(codec)
    except LookupError:
        return DEFAULT
    return codec
