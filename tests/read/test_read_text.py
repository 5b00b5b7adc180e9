"""Text files in many encodings."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qwen_batch.errors import DocumentError
from qwen_batch.read.kinds import kind_of, sniff
from qwen_batch.read.text import plain as text_module
from qwen_batch.read.text.plain import decode, read_text, split_lines

CHINESE = "人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心，并应以兄弟关系的精神相对待。"
FRENCH = "Où est passée la bibliothèque ? Elle a été fermée à cause des élèves, hélas. Voilà."


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "gb18030"])
def test_chinese(encoding: str) -> None:
    assert decode((CHINESE + "\n甲方").encode(encoding))[0] == CHINESE + "\n甲方"


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf16_without_a_mark(encoding: str) -> None:
    assert decode("Plain English text.".encode(encoding)) == (
        "Plain English text.",
        (f"encoding guessed: {encoding}",),
    )


def test_western_text_is_not_taken_for_chinese() -> None:
    text, warnings = decode(FRENCH.encode("cp1252"))
    assert text == FRENCH
    assert warnings[0].startswith("encoding guessed:")


@pytest.mark.parametrize("text", ["k;v\na;1\nü;2\n", "The price is 100 € and the fee is 20 €.\n", "Café Zürich Straße"])
def test_a_few_letters_in_plain_text_are_western(text: str) -> None:
    assert decode(text.encode("cp1252")) == (text, ("encoding guessed: cp1252",))


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Umowa zawarta dnia 3 maja 2024 r. pomiędzy stronami dotyczy sprzedaży towarów.", "cp1250"),
        ("Η σύμβαση αυτή ισχύει από σήμερα", "cp1253"),
        ("Это договор между сторонами и он вступает в силу", "cp1251"),
    ],
)
def test_other_languages_are_not_western(text: str, encoding: str) -> None:
    assert decode(text.encode(encoding))[0] == text


def test_utf8_gives_no_warning() -> None:
    assert decode(FRENCH.encode()) == (FRENCH, ())


@pytest.mark.parametrize(("bad", "count"), [(b"\xff", 1), (b"\xf6", 1), (b"\xed\xa0\x80", 3), (b"\xc3", 1)])
def test_a_few_broken_bytes_leave_utf8_what_it_is(bad: bytes, count: int) -> None:
    text, warnings = decode((FRENCH * 8).encode() + bad)
    assert text.rstrip("\ufffd") == FRENCH * 8
    assert warnings == (f"bytes that are not valid UTF-8, read as U+FFFD: {count}",)


def test_many_broken_bytes_are_another_encoding() -> None:
    text, warnings = decode("é".encode() * 19 + FRENCH.encode("cp1252"))
    assert text.endswith(FRENCH)
    assert warnings[0].startswith("encoding guessed:")


def test_rare_control_characters_do_not_make_a_text_binary() -> None:
    text = "a nul \0 and an escape \x1b[31m" + " in a longer text" * 10
    assert decode(text.encode()) == (text, ())


@pytest.mark.parametrize("text", ["a\vb é", "naïve café\0ok\n", "第一条 合同\v第二条\n", "a\x85b\u2028c\u2029d\fe\vf"])
def test_a_control_character_in_a_short_text_does_not_make_it_binary(text: str) -> None:
    assert decode(text.encode()) == (text, ())


@pytest.mark.parametrize(
    "data", [b"%PDF-1.4 \0\0\0\0 \x01\x02\x03\x04", bytes(range(256)) * 4, b"\x89PNG\0\0\0\x01\x02\x03"]
)
def test_binary_data_is_refused(data: bytes) -> None:
    with pytest.raises(DocumentError) as caught:
        decode(data)
    assert caught.value.error_type == "wrong_type"


def test_a_pdf_named_as_text_is_refused() -> None:
    with pytest.raises(DocumentError, match="the content is a PDF"):
        decode(b"%PDF-1.4\n1 0 obj <<>> endobj\n")


def test_where_lines_end() -> None:
    texts = [line.text for line in split_lines("a\r\nb\rc\nd\x0ce\x0bf\u2028g\u2029h\x85i")]
    assert texts == ["a", "b", "c", "d", "e", "f", "g", "", "h\x85i"]


def test_a_file_is_one_page(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo")
    (page,) = read_text(tmp_path / "a.txt").pages
    assert (page.page_number, page.text) == (1, "one\ntwo")


@pytest.mark.parametrize("data", [b"", b" \n", b"\xef\xbb\xbf"])
def test_nothing_to_read(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.txt").write_bytes(data)
    with pytest.raises(DocumentError) as caught:
        read_text(tmp_path / "a.txt")
    assert caught.value.error_type == "empty"


def test_a_file_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_module, "MAX_BYTES", 10)
    (tmp_path / "a.txt").write_text("x" * 11)
    with pytest.raises(DocumentError) as caught:
        read_text(tmp_path / "a.txt")
    assert caught.value.error_type == "too_large"


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300))
def test_arbitrary_bytes_decode_or_are_refused(data: bytes) -> None:
    refusals: list[str] = []
    try:
        text, _ = decode(data)
    except DocumentError as error:
        refusals.append(error.error_type)
    else:
        assert isinstance(text, str)
    assert refusals in ([], ["wrong_type"])


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet=st.characters(exclude_categories=["Cc", "Cs"]), min_size=1))
def test_utf8_text_is_read_as_it_is(text: str) -> None:
    if text.startswith("\ufeff"):
        return
    assert decode(text.encode()) == (text, ())


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (b"", "empty"),
        (b"junk\n%PDF-1.7", "pdf"),
        (b"PK\x03\x04", "zip"),
        (b"\xff\xd8\xff\xe0", "image"),
        (b"  <HTML>", "html"),
        (b"plain", "text"),
        (b"\0\x01\x02\x03", "binary"),
    ],
)
def test_kinds_by_content(head: bytes, kind: str) -> None:
    assert sniff(head) == kind


def test_kinds_by_name(tmp_path: Path) -> None:
    assert [kind_of(tmp_path / name) for name in ("a.PDF", "a.md", "a.ndjson", "a.epub")] == [
        "pdf",
        "text",
        "jsonl",
        None,
    ]
