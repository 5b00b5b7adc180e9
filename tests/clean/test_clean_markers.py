"""What the beginning of a line tells, in scripts whose patterns are compiled late."""

from __future__ import annotations

import pytest

from qwen_batch.clean.markers import clause_kind, is_label, is_rtl


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("1.2 Term", "decimal"),
        ("(12) Term", "number"),
        ("(12)", "chinese_number"),
        ("(12）甲方", "chinese_number"),
        ("（一）甲方", "chinese_number"),
        ("十二、甲方", "chinese_number"),
        ("第三条 甲方", "chinese"),
        ("①甲方", "circled"),
        ("§ 5 Vergütung", "paragraph_sign"),
        ("Term (12) of 第三条", None),
    ],
)
def test_kinds_of_clauses(text: str, kind: str | None) -> None:
    assert clause_kind(text) == kind


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Title: Director", True),
        ("甲方：某某公司", True),
        ("甲方（盖章）: 某某公司", True),
        ("法定代表人或者授权代理：", False),
        ("甲方，乙方：", False),
        ("：甲方", False),
    ],
)
def test_labels(text: str, expected: bool) -> None:
    assert is_label(text) == expected


@pytest.mark.parametrize(("text", "expected"), [("שלום", True), ("Fine 😀 \ufe0f", False), ("a שלום", True)])
def test_letters_that_run_from_right_to_left(text: str, expected: bool) -> None:
    assert is_rtl(text) == expected
