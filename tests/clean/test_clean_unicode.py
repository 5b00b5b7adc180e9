"""Characters in their normal form."""

from __future__ import annotations

import unicodedata
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qwen_batch.clean.unicode import decode_again, normalise_pages, normalise_text
from qwen_batch.records import Line, Page, Table


@pytest.mark.parametrize(
    ("given_text", "wanted"),
    [
        ("ﬁnance oﬃce ﬂow", "finance office flow"),
        ("ｆｕｌｌ １２３", "full 123"),
        ("￥１，２００．５０、２５％，６", "￥1,200.50、25%，6"),
        ("１，２，３．", "1，2，3．"),
        ("甲方：张三；（乙方），￥１００。", "甲方：张三；（乙方），￥100。"),
        ("e\u0301", "é"),
        ("m² ① ½ ™", "m² ① ½ ™"),
        ("a\u00a0b\u2003c\td\u3000e", "a b c d e"),
        ("zero\u200bwidth\ufeff", "zerowidth"),
        ("soft\u00adhyphen", "softhyphen"),
        ("divided\u00ad", "divided-"),
        ("bell\x07 nul\x00 del\x7f", "bell nul del"),
        ("left\u202eright", "leftright"),
        ("half \ud800 pair", "half  pair"),
        ("⼈⼤", "人大"),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("plain\u200djoiner", "plainjoiner"),
        ("ﾊﾝｶｸ ｶﾞ", "ハンカク ガ"),
        ("👩\u200d💻", "👩\u200d💻"),
    ],
)
def test_normal_forms(given_text: str, wanted: str) -> None:
    assert normalise_text(given_text) == wanted


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet=st.characters(codec=None)))
def test_the_result_is_stable_and_can_be_encoded(text: str) -> None:
    done = normalise_text(text)
    assert normalise_text(done) == done
    assert unicodedata.is_normalized("NFC", done)
    done.encode()


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet=st.characters(categories=["Lu", "Ll", "Nd", "Po"], max_codepoint=0x2FF)))
def test_ordinary_letters_are_kept(text: str) -> None:
    assert normalise_text(text) == unicodedata.normalize("NFC", text)


def test_what_is_taken_out_is_counted() -> None:
    removed: Counter[str] = Counter()
    normalise_text("a\u200bb\u200bc\x07", removed)
    assert removed == {"\u200b": 2, "\x07": 1}


def test_a_page_reports_what_was_taken_out() -> None:
    page = Page(3, (Line("a\u200bb"), Line("plain")), (Table((("ﬁ",),)),))
    (done,), (removal,) = normalise_pages([page])
    assert [line.text for line in done.lines] == ["ab", "plain"]
    assert done.tables[0].rows == (("fi",),)
    assert (removal.page_number, removal.text, removal.reason) == (3, "U+200B x1", "control_character")


@pytest.mark.parametrize(
    "meant",
    [
        "schön und groß",
        "Für die GRÖßE der Käufer",
        "Été, it’s a café with naïve “quotes”…",
        "§ 5 Abs. 3, £ 500, € 20, 20 °C",
        "甲方应于三十日内付款",
        "Договор",
    ],
)
def test_misread_utf8_is_decoded_again(meant: str) -> None:
    bytes_as_text = "".join(_shown_as(byte) for byte in meant.encode())
    assert decode_again(bytes_as_text, []) == meant


def _shown_as(byte: int) -> str:
    try:
        return bytes([byte]).decode("cp1252")
    except UnicodeDecodeError:
        return chr(byte)


@pytest.mark.parametrize(
    "text",
    [
        "schön “groß”, it’s ‘so’…",
        "privé\u00a0» de l’« été\u00a0»",
        "IRMÃ” disse; MANHÃ\u00a0DE; “AMANHÃ”; SÃO; VÂN",
        "daß– heiß“ ESPAÑ” CAFÉ… Ç’ Ä“, Ü”",
        "ÃÂÃ",
    ],
)
def test_what_may_be_meant_is_not_decoded_again(text: str) -> None:
    misread: list[str] = []
    assert decode_again(text, misread) == text
    assert misread == []


def test_a_page_reports_what_was_misread() -> None:
    page = Page(2, (Line("schÃ¶n und groÃŸ, sehr schÃ¶n"),), (Table((("KÃ¤ufer",),)),))
    (done,), (removal,) = normalise_pages([page])
    assert done.lines[0].text == "schön und groß, sehr schön"
    assert done.tables[0].rows == (("Käufer",),)
    assert (removal.page_number, removal.text, removal.reason) == (2, "Ã¤ x1, Ã¶ x2, ÃŸ x1", "encoding")


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("关 于 红 军 作 战 的 原 则 … … … 1 1", "关于红军作战的原则……… 11"),
        ("（ 一 九 三 七 年 八 月 ）", "（一九三七年八月）"),
        ("阻 挡 了 对 HKP 端 口 的 访 问， 请", "阻挡了对 HKP 端口的访问，请"),
        ("甲方 乙方 丙方", "甲方 乙方 丙方"),
        ("是 否", "是 否"),
        ("数据保存在 PostgreSQL 数据库 中", "数据保存在 PostgreSQL 数据库 中"),
    ],
)
def test_spaces_between_all_characters_of_a_line_are_none(text: str, meant: str) -> None:
    assert normalise_text(text) == meant


def test_words_on_both_sides_of_a_line_break_stay_apart() -> None:
    breaks = "a\u2028b\u2029c\x85d \x0be\x0cf"
    printed = Line("di\x0berent", (0.0, 0.0, 9.0, 9.0))  # a letter without a name
    pages = [Page(1, (Line(breaks), Line("\u00c3\x85"), printed), (Table(((breaks,),)),))]
    (page,), removals = normalise_pages(pages)
    assert [line.text for line in page.lines] == ["a b c d e f", "Å", "dierent"]
    assert page.tables[0].rows == (("a b c d e f",),)
    assert [removal.text for removal in removals] == ["U+000B x1", "\u00c3 x1"]
