from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qwen_batch.plan.breaks import Breaks, Level, can_cut


def places(text: str, level: Level) -> list[int]:
    return Breaks(text).between(level, 0, len(text))


def divide(text: str, level: Level) -> list[str]:
    """The text cut at all breaks of a level, stripped."""
    positions = Breaks(text).between(level, 0, len(text))
    return [text[a:b].strip() for a, b in zip([0, *positions], [*positions, len(text)], strict=True)]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("It rains. We stay! Do we? Yes.", ["It rains.", "We stay!", "Do we?", "Yes."]),
        ("See No. 5 of Acme Inc. Today it ended. Then more.", ["See No. 5 of Acme Inc. Today it ended.", "Then more."]),
        ("Fruit, e.g. Apples, i.e. Good ones. Next.", ["Fruit, e.g. Apples, i.e. Good ones.", "Next."]),
        ("J. R. Smith signed. Mr. Wu did not.", ["J. R. Smith signed.", "Mr. Wu did not."]),
        (
            "It was 3.50 approx. 4 in all. Paid 2019. End.",
            ["It was 3.50 approx. 4 in all.", "Paid 2019.", "End."],
        ),
        ("He said “Stop.” Then he left.", ["He said “Stop.”", "Then he left."]),
        ("The U.S. Government agreed. It paid.", ["The U.S. Government agreed.", "It paid."]),
        ("ended. but went on. So.", ["ended. but went on.", "So."]),
        ("甲方应付款。乙方应交货！是否违约？是；否。", ["甲方应付款。", "乙方应交货！", "是否违约？", "是；", "否。"]),
        ("他说：“可以。”然后走了。", ["他说：“可以。”", "然后走了。"]),
    ],
)
def test_sentences(text: str, sentences: list[str]) -> None:
    assert divide(text, Level.SENTENCE) == sentences


@pytest.mark.parametrize(
    "heading",
    [
        "# Terms",
        "### 3.1 Terms",
        "ARTICLE IV",
        "Article 5. The parties agree as follows.",
        "Section 3: Delivery",
        "Schedule A",
        "3.2 Payment Terms",
        "7. Liability",
        "CONFIDENTIALITY AND RELATED MATTERS",
        "第三章 违约责任",
        "第十二条 甲方应当在三十日内付款。",
        "三、争议解决",
    ],
)
def test_headings_open_a_section(heading: str) -> None:
    text = f"Some text before it ends.\n\n{heading}\n\nSome text after."
    assert places(text, Level.HEADING) == [text.index(heading)]


@pytest.mark.parametrize(
    "line",
    [
        "Section 3 of this agreement was changed by the parties and no longer says what it said.",
        "Part of it was lost.",
        "3 apples were eaten.",
        "| 1. A | B |",
        "Clauses 4 and 5 remain.",
    ],
)
def test_prose_opens_no_section(line: str) -> None:
    assert places(f"Some text before it ends.\n\n{line}\n\nAfter.", Level.HEADING) == []


def test_a_heading_stays_with_what_follows() -> None:
    text = "Before.\n\n# Terms\n\nThe terms are these."
    assert places(text, Level.BLOCK) == []
    assert places(text, Level.GLUED) == [text.index("The terms")]


def test_lines_of_a_wrapped_sentence_belong_together() -> None:
    text = "The parties have\nagreed on this.\nA new paragraph."
    assert places(text, Level.GLUED) == [text.index("agreed")]
    assert places(text, Level.LINE) == [text.index("A new")]


def test_inside_of_a_table_row_is_the_last_resort() -> None:
    text = "Words here, before.\n| one two, x | three. Four |\n| five six | seven |\nAnd words after."
    breaks = Breaks(text)
    row = range(text.index("| one") + 1, text.index("| five"))
    assert places(text, Level.ROW) == [text.index("| five")]
    for level in (Level.SENTENCE, Level.CLAUSE, Level.WORD):
        assert not [p for p in breaks.between(level, 0, len(text)) if p in row]
    assert text.index("two") in breaks.between(Level.CELL, 0, len(text))


def test_chinese_divides_between_characters_but_not_before_punctuation() -> None:
    assert divide("甲方，乙方", Level.CLAUSE) == ["甲方，", "乙方"]
    assert divide("甲方，乙方", Level.WORD) == ["甲", "方，乙", "方"]


def test_nearest_takes_the_closer_side_and_minds_the_bounds() -> None:
    text = "aa bb cc dd ee"
    breaks = Breaks(text)
    assert breaks.nearest(Level.WORD, 0, len(text), 7) == 6
    assert breaks.nearest(Level.WORD, 6, len(text), 7) == 9
    assert breaks.nearest(Level.WORD, 6, 8, 7) is None


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("e\u0301", False),
        ("👍🏽", False),
        ("👨\u200d👩", False),
        ("🇩🇪", False),
        ("\r\n", False),
        ("각", True),
        ("ab", True),
        ("नि", False),
    ],
)
def test_characters_stay_whole(text: str, whole: bool) -> None:
    assert all(can_cut(text, position) for position in range(1, len(text))) is whole


def test_flags_are_cut_between_pairs() -> None:
    assert [can_cut("🇩🇪🇫🇷", position) for position in (1, 2, 3)] == [False, True, False]


@given(st.text(alphabet="aB. \n|,1。，甲\u0301#", max_size=80))
def test_every_break_is_before_a_character_that_can_be_cut_off(text: str) -> None:
    breaks = Breaks(text)
    for level in Level:
        positions = breaks.between(level, 0, len(text))
        assert positions == sorted(positions)
        assert all(0 < p < len(text) and can_cut(text, p) for p in positions)
        if level in (Level.SENTENCE, Level.CLAUSE, Level.WORD, Level.CELL):  # the others are at line starts
            assert not any(text[position].isspace() for position in positions)


LINES = st.lists(
    st.sampled_from(
        ["A is. ", "No. 5 e.g. 7. ", "“Yes.” ", "甲。乙；", "...", "  ", "\n", "\n\n", "| a. B | c |\n", "x" * 9]
    ),
    max_size=30,
).map("".join)


@given(LINES, st.integers(0, 200), st.integers(0, 200))
def test_sentences_around_a_place_are_those_of_the_text(text: str, one: int, other: int) -> None:
    low, high = sorted(min(place, len(text)) for place in (one, other))
    breaks = Breaks(text)
    whole = breaks.between(Level.SENTENCE, 0, len(text))
    assert breaks.between(Level.SENTENCE, low, high) == [place for place in whole if low < place <= high]


def test_a_line_without_end_is_looked_at_near_a_place_only() -> None:
    text = "One two. " * 2_000_000
    breaks = Breaks(text)
    start = time.process_time()
    for place in range(0, len(text), 20_000):
        assert len(breaks.between(Level.SENTENCE, place, place + 90)) == 10
    assert time.process_time() - start < 5
