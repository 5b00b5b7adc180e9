"""Words and patterns that an answer must not hold, however they are written."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qwen_batch.answer.filters import REDACTED, AnswerFilter, fold
from qwen_batch.errors import DocumentError, JobError
from qwen_batch.job import load_job
from qwen_batch.records import Answer


def redact(text: str, words: tuple[str, ...] = (), patterns: tuple[str, ...] = ()) -> str:
    return AnswerFilter(words, patterns, "redact").apply(Answer(text, None)).text


@pytest.mark.parametrize(
    ("word", "text", "expected"),
    [
        ("secret", "A SECRET plan", "A # plan"),
        ("secret", "A ｓｅｃｒｅｔ plan, Ｓecret", "A # plan, #"),
        ("secret", "a se\u00adcr\u200bet plan", "a # plan"),
        ("secret", "secretary, unsecret, top_secret", "secretary, unsecret, top_secret"),
        ("secret", "这是secret文件", "这是#文件"),
        ("Straße", "in der STRASSE", "in der #"),
        ("café", "the cafe\u0301", "the #"),
        ("top  secret", "top\nsecret, top secret", "#, #"),
        ("秘密", "这是秘密文件，也是祕密", "这是#文件，也是祕密"),
        ("秘密", "这是秘\n密文件", "这是#文件"),
        ("ガス", "ｶﾞｽの", "#の"),
        ("C++", "C++ and c++, but C+ +", "# and #, but C+ +"),
        ("AI公司", "ai公司, AI 公司", "#, AI 公司"),
        ("12", "1234, 12 and １２", "1234, # and #"),
    ],
)
def test_words(word: str, text: str, expected: str) -> None:
    assert redact(text, (word,)).replace(REDACTED, "#") == expected


def test_patterns_see_folded_text() -> None:
    assert redact("Call ＋49 170 1234567 now", patterns=(r"\+\d[\d ]{8,}\d",)) == f"Call {REDACTED} now"
    assert redact("PASSWORD: x", patterns=("password",)) == f"{REDACTED}: x"


def test_places_that_touch_are_redacted_once() -> None:
    assert redact("a secret plan", ("secret plan", "secret")) == f"a {REDACTED}"


def test_flag_names_each_rule_once() -> None:
    flagged = AnswerFilter(("secret", "plan", "other"), (), "flag").apply(Answer("secret plan, secret", "plan", ("x",)))
    assert flagged == Answer("secret plan, secret", "plan", ("x", "filter:secret", "filter:plan"))


def test_thoughts_are_filtered_too() -> None:
    assert AnswerFilter(("secret",), (), "redact").apply(Answer("fine", "a secret")).thinking == f"a {REDACTED}"


def test_fail_names_the_rules() -> None:
    with pytest.raises(DocumentError, match="the answer breaks 1 rules of filter: secret") as raised:
        AnswerFilter(("secret",), (), "fail").apply(Answer("a secret", None))
    assert raised.value.error_type == "filtered"


def test_nothing_to_look_for() -> None:
    answer = Answer("a secret", None)
    assert AnswerFilter(("", " "), (), "fail").apply(answer) is answer


@given(st.text(max_size=60))
def test_folding_knows_where_characters_come_from(text: str) -> None:
    folded = fold(text)
    assert len(folded.text) == len(folded.starts) == len(folded.ends)
    assert list(folded.starts) == sorted(folded.starts)
    assert all(0 <= start < end <= len(text) for start, end in zip(folded.starts, folded.ends, strict=True))


@given(st.text(alphabet="aB秘 \n", max_size=20), st.text(alphabet="ab秘 ", min_size=1, max_size=3))
def test_redacting_twice_changes_nothing(text: str, word: str) -> None:
    once = redact(text, (word,))
    assert redact(once, (word,)) == once


JOB = "name: x\nmodel: demo\nprompt: What?\n"


def test_a_file_of_words_and_patterns_is_part_of_the_job(tmp_path: Path) -> None:
    (tmp_path / "block.txt").write_text("# ours\nsecret\n\n/\\d{4}-\\d{4}/\n内部\n", encoding="utf-8")
    path = tmp_path / "job.yaml"
    path.write_text(f"{JOB}filter: {{words: plan, file: block.txt, action: redact}}\n")
    job = load_job(path)
    assert job.filter.words == ("plan", "secret", "内部")
    assert job.filter.patterns == (r"\d{4}-\d{4}",)
    before = job.sha256
    (tmp_path / "block.txt").write_text("other\n")
    assert load_job(path).sha256 != before


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("filter: {patterns: '('}", "filter.patterns: '(' is not a regular expression: missing )"),
        ("filter: {file: none.txt}", "filter.file: .*none.txt cannot be read"),
        ("filter: {action: drop}", "filter.action"),
    ],
)
def test_what_is_wrong_with_a_filter_is_said(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(f"{JOB}{line}\n")
    with pytest.raises(JobError, match=message.replace("(", r"\(").replace(")", r"\)")):
        load_job(path)
