"""Outlook messages: heads, texts in any of three forms, messages within them."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import pytest

from qwen_batch.errors import DocumentError
from qwen_batch.read.items import Content
from qwen_batch.read.office.compressed_rtf import decompress_rtf
from qwen_batch.read.office.mail import Letter
from qwen_batch.read.office.msg import _Message, read_msg

# The example of [MS-OXRTFCP] 4.1.1.
PACKED = bytes.fromhex(
    "2d0000002b0000004c5a4675f1c5c7a703000a007263706731323542320af32068656c090020627705b06c647d0a800fa0"
)
RICH = b"{\\rtf1\\ansi\\ansicpg1252\\pard hello world}\r\n"


class Compound:
    """Stands for a compound file: its streams by path."""

    def __init__(self, streams: dict[str, bytes]) -> None:
        self._streams = streams

    def exists(self, path: list[str]) -> bool:
        name = "/".join(path)
        return any(each == name or each.startswith(f"{name}/") for each in self._streams)

    def openstream(self, path: list[str]) -> io.BytesIO:
        return io.BytesIO(self._streams["/".join(path)])

    def listdir(self, streams: bool, storages: bool) -> list[list[str]]:
        return [each.split("/") for each in self._streams]


def wide(number: int, text: str) -> dict[str, bytes]:
    return {f"__substg1.0_{number:04X}001F": text.encode("utf-16-le")}


def within(storage: str, streams: dict[str, bytes]) -> dict[str, bytes]:
    return {f"{storage}/{name}": data for name, data in streams.items()}


def read(streams: dict[str, bytes]) -> Content:
    letter = Letter()
    _Message(Compound(streams), [], 32).add_to(letter, 0)
    return letter.as_content()


def shown(content: Content) -> list[str]:
    return [line.text for line in content.pages[0].lines if line.text]


def number(property_id: int, value: int) -> bytes:
    return struct.pack("<HHIQ", 0x0040, property_id, 0, value)


def test_head_text_and_what_is_attached() -> None:
    inner = {**wide(0x0037, "inner"), **wide(0x1000, "Inner text")}
    content = read(
        {
            "__properties_version1.0": b"\0" * 32 + number(0x0039, 131_849_431_490_000_000),
            **wide(0x0C1A, "Ann"),
            **wide(0x5D01, "ann@x.org"),
            **wide(0x0E04, "Bob"),
            **wide(0x0037, "The offer"),
            **wide(0x1000, "We offer.\r\n"),
            **within("__attach_version1.0_#00000000", wide(0x3707, "deal.pdf")),
            **within("__attach_version1.0_#00000001/__substg1.0_3701000D", inner),
        }
    )
    assert shown(content) == [
        *(
            "From: Ann <ann@x.org>",
            "To: Bob",
            "Date: Thu, 25 Oct 2018 12:12:29 +0000",
            "Subject: The offer",
            "We offer.",
        ),
        *("Subject: inner", "Inner text"),
    ]
    assert content.warnings == ("attachments are not read: deal.pdf",)
    assert content.flags == ("unread_attachments",)


def test_the_html_and_its_code_page() -> None:
    pages = b"\0" * 32 + number(0x3FDE, 936)
    html = "<p>合同</p><table><tr><td>a<td>b<tr><td>1<td>2</table>".encode("gbk")
    content = read({"__properties_version1.0": pages, "__substg1.0_10130102": html, **wide(0x1000, "plain")})
    assert shown(content) == ["合同"]
    assert content.pages[0].tables[0].rows == (("a", "b"), ("1", "2"))


def test_rich_text_alone() -> None:
    assert decompress_rtf(PACKED) == RICH
    assert decompress_rtf(b"\0" * 8 + b"MELA" + b"\0" * 4) == b""
    assert shown(read({"__substg1.0_10090102": PACKED})) == ["hello world"]


@pytest.mark.parametrize("data", [PACKED[:length] for length in range(16, len(PACKED), 3)])
def test_cut_rich_text_is_read_as_far_as_it_goes(data: bytes) -> None:
    assert RICH.startswith(decompress_rtf(data))


def test_messages_nested_too_deep_are_refused() -> None:
    streams = wide(0x1000, "x")
    for _ in range(60):
        streams = within("__attach_version1.0_#00000000/__substg1.0_3701000D", streams)
    with pytest.raises(DocumentError, match="no mail program writes that"):
        read(streams)


@pytest.mark.parametrize(
    ("data", "kind"), [(b"", "empty"), (b"From: x", "wrong_type"), (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1cut", "damaged")]
)
def test_what_is_wrong_with_a_file_is_said(tmp_path: Path, data: bytes, kind: str) -> None:
    pytest.importorskip("olefile")
    (tmp_path / "a.msg").write_bytes(data)
    with pytest.raises(DocumentError) as caught:
        read_msg(tmp_path / "a.msg")
    assert caught.value.error_type == kind
