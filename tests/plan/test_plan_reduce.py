from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plan_fakes import FakeTokenizer, WildTokenizer

from qwen_batch.errors import DocumentError
from qwen_batch.plan.prompts import Note
from qwen_batch.plan.reduce import fit_notes, group_sizes, water_level
from qwen_batch.plan.tokens import shorten

TEXTS = st.text(alphabet="ab é甲\u0301\n", max_size=60)


@given(st.lists(st.integers(0, 100), min_size=3, max_size=60), st.integers(0, 300))
def test_groups_are_in_order_and_shrink(sizes: list[int], budget: int) -> None:
    groups = group_sizes(sizes, budget)
    assert [start for start, _ in groups] == [0, *(end for _, end in groups[:-1])]
    assert groups[-1][1] == len(sizes)
    assert 2 <= len(groups) < len(sizes)
    assert all(end - start >= 2 for start, end in groups[:-1])
    assert groups[-1][0] < groups[-1][1]
    assert all(sum(sizes[start:end]) <= budget for start, end in groups if end - start > 2)


def test_groups_are_even() -> None:
    assert group_sizes([10] * 12, 100) == [(0, 6), (6, 12)]
    assert group_sizes([10] * 7, 30) == [(0, 3), (3, 6), (6, 7)]


def test_two_notes_are_not_grouped() -> None:
    with pytest.raises(ValueError, match="one group"):
        group_sizes([1, 1], 5)


@given(st.lists(st.integers(0, 50), max_size=20), st.integers(-5, 600))
def test_water_level(sizes: list[int], budget: int) -> None:
    cap = water_level(sizes, budget)
    assert sum(min(size, cap) for size in sizes) <= max(0, budget)
    if cap < max(sizes, default=0):
        assert sum(min(size, cap + 1) for size in sizes) > budget


@given(TEXTS, st.integers(0, 40), st.sampled_from([FakeTokenizer, WildTokenizer]))
def test_shorten(text: str, limit: int, kind: type[FakeTokenizer]) -> None:
    tokenizer = kind()
    short = shorten(text, tokenizer, limit)
    assert text.startswith(short)
    assert len(tokenizer.encode(short)) <= limit
    if len(tokenizer.encode(text)) <= limit and limit:
        assert short == text


def test_shorten_takes_no_more_than_it_must() -> None:
    assert shorten("word " * 50, FakeTokenizer(), 10) == "word word word word word wor"


def notes(texts: Sequence[str]) -> list[Note]:
    return [Note(i, i, 1, 1, text) for i, text in enumerate(texts, start=1)]


@given(st.lists(TEXTS, min_size=1, max_size=8), st.integers(20, 120), st.sampled_from([FakeTokenizer, WildTokenizer]))
def test_notes_are_made_to_fit(texts: list[str], limit: int, kind: type[FakeTokenizer]) -> None:
    tokenizer = kind()

    def build(given_notes: Sequence[Note]) -> list[int]:
        return tokenizer.encode("".join(f"\n{note.text}" for note in given_notes))

    ids, was_cut = fit_notes(notes(texts), build, tokenizer, limit)
    assert len(ids) <= limit
    assert was_cut is (len(build(notes(texts))) > limit)


def test_short_notes_stay_whole_beside_long_ones() -> None:
    seen: list[Sequence[Note]] = []

    def build(given_notes: Sequence[Note]) -> list[int]:
        seen.append(given_notes)
        return FakeTokenizer().encode("\n".join(note.text for note in given_notes))

    _, was_cut = fit_notes(notes(["short", "long " * 40, "brief"]), build, FakeTokenizer(), 30)
    assert was_cut
    assert [note.text for note in seen[-1]][::2] == ["short", "brief"]
    assert len(seen[-1][1].text) > 50


def test_a_prompt_that_cannot_fit() -> None:
    with pytest.raises(DocumentError, match="the merging prompt alone needs 9 tokens; 8 are free"):
        fit_notes(notes(["a b c"]), lambda _: [0] * 9, FakeTokenizer(), 8)
