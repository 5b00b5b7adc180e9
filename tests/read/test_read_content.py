"""A page whose content cannot be decoded is not taken for a blank one."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest
from raw_pdf import FONT, stream, write_objects

from qwen_batch.errors import DocumentError
from qwen_batch.read.items import UNREAD_PAGES
from qwen_batch.read.pdf import read_pdf

TEXT = stream("BT /F 12 Tf 72 700 Td (Shown.) Tj ET")
BLANK = zlib.compress(b"q Q").decode("latin-1")


def write_two(path: Path, second: str, contents: str = "7 0 R") -> Path:
    """Two pages; the content of the second is given as an object."""
    page = "<< /Type /Page /Parent 2 0 R /Contents {} /Resources << /Font << /F 3 0 R >> >> >>"
    kids = "<< /Type /Pages /Kids [4 0 R 6 0 R] /Count 2 /MediaBox [0 0 600 800] >>"
    catalogue = "<< /Type /Catalog /Pages 2 0 R >>"
    pages = [page.format("5 0 R"), TEXT, page.format(contents)]
    return write_objects(path, [catalogue, kids, FONT.format(more=""), *pages, second])


def filtered(content: str, filters: str) -> str:
    return stream(content).replace("/Length", f"/Filter {filters} /Length")


@pytest.mark.parametrize(
    ("content", "contents"),
    [
        (filtered("\x01\x02 no such thing", "/FlateDecode"), "7 0 R"),
        (filtered("\x01\x02 no such thing", "/FlateDecode"), "[7 0 R 7 0 R]"),
        (filtered("9jqo^~>", "[/ASCII85Decode /FlateDecode]"), "7 0 R"),
    ],
)
def test_a_page_that_cannot_be_decoded_is_named(tmp_path: Path, content: str, contents: str) -> None:
    read = read_pdf(write_two(tmp_path / "a.pdf", content, contents))
    assert read.warnings == ("pages that could not be read: 2 (its content cannot be decoded)",)
    assert read.flags == (UNREAD_PAGES,)


@pytest.mark.parametrize(
    "content",
    [stream(""), stream("q Q"), filtered("", "/FlateDecode"), filtered(BLANK, "/FlateDecode"), filtered("x", "/Other")],
)
def test_a_blank_page_is_none(tmp_path: Path, content: str) -> None:
    read = read_pdf(write_two(tmp_path / "a.pdf", content))
    assert (read.warnings, read.flags) == ((), ())
    assert [page.text for page in read.pages] == ["Shown.", ""]


def test_a_file_of_such_pages_is_damaged(tmp_path: Path) -> None:
    path = write_two(tmp_path / "a.pdf", filtered("\x01\x02 no such thing", "/FlateDecode"))
    path.write_bytes(path.read_bytes().replace(b"/Contents 5 0 R", b"/Contents 7 0 R"))
    with pytest.raises(DocumentError, match="none of its pages can be read"):
        read_pdf(path)
