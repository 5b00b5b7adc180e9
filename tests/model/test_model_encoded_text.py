"""What is known of a text's parts without encoding them: exactly what encoding them would say."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import SPECIAL_TOKENS, TRAINING_TEXT, write_tiny_tokenizer
from tokenizers import AddedToken, Regex, Tokenizer, normalizers, pre_tokenizers

from qwen_batch.model.encoded_text import EncodedText
from qwen_batch.model.seams import SEAM, has_seams
from qwen_batch.model.tokenizer import ChatTokenizer
from qwen_batch.records import Message

QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
WITH_MARKS = QWEN2.replace(r"?\p{L}+", r"?[\p{L}\p{M}]+").replace(r"\s\p{L}", r"\s\p{L}\p{M}")
PATTERNS = {"qwen": QWEN2, "qwen with marks": WITH_MARKS, "llama": QWEN2.replace(r"|\p{N}|", r"|\p{N}{1,3}|")}
PIECES = st.one_of(
    st.sampled_from(TRAINING_TEXT),
    st.sampled_from([" ", "  ", "\n\n", "\t", "12,500", "don't ", "甲方，乙方。", "ﬁ", "e\u0301, ", "🙂", "<think>"]),
    st.sampled_from(
        ["x" * 40, "7" * 30, " " * 30, "a b c d ", "É, è; ", "\u1100\u1161\u11a8.", "<think>", *SPECIAL_TOKENS]
    ),
    st.text(max_size=8),
)
TEXTS = st.lists(PIECES, max_size=12).map("".join)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> ChatTokenizer:
    return ChatTokenizer.load(write_tiny_tokenizer(tmp_path_factory.mktemp("tokenizer")))


def split(pattern: str) -> pre_tokenizers.PreTokenizer:
    steps = [
        pre_tokenizers.Split(Regex(pattern), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ]
    return pre_tokenizers.Sequence(steps)


def gpt2() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )


@pytest.fixture(scope="module", params=[*PATTERNS, "gpt2", "no seams"])
def tokenizer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ChatTokenizer:
    tokenizer = ChatTokenizer.load(write_tiny_tokenizer(tmp_path_factory.mktemp("tokenizer")))
    name = request.param
    tokenizer._tokenizer.pre_tokenizer = split(PATTERNS[name]) if name in PATTERNS else gpt2()
    if name == "no seams":
        tokenizer._tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    assert tokenizer.has_seams == (name != "no seams")
    return tokenizer


@settings(max_examples=60, deadline=None)
@given(
    text=TEXTS, places=st.tuples(st.integers(0, 400), st.integers(0, 400)), section=st.sampled_from([3, 20, 1 << 16])
)
def test_parts_have_the_ids_that_they_have_by_themselves(
    tokenizer: ChatTokenizer, text: str, places: tuple[int, int], section: int
) -> None:
    start, end = sorted(min(place, len(text)) for place in places)
    part = text[start:end]
    messages = [Message("system", "Be brief."), Message("user", f"What is this about?\n{part}\nAnswer.")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("qwen_batch.model.encoded_text.SECTION", section)
        encoded = tokenizer.encode_text(text)
        assert encoded.count(start, end) == len(tokenizer.encode(part))
        encoded.forget(start)
        expected = array("I", tokenizer.encode_chat(messages, thinking=False))
        assert encoded.encode_chat(messages, False, start, end) == expected


@settings(max_examples=40, deadline=None)
@given(text=TEXTS, section=st.sampled_from([20, 1 << 16]))
def test_places_are_in_order_and_belong_to_each_other(tokenizer: ChatTokenizer, text: str, section: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("qwen_batch.model.encoded_text.SECTION", section)
        encoded = tokenizer.encode_text(text)
        starts = [encoded.start_of(token) for token in range(encoded.num_tokens)]
        assert starts == sorted(starts)
        assert all(0 <= start < len(text) for start in starts)
        assert encoded.start_of(encoded.num_tokens) == len(text)
        for offset in range(len(text) + 1):
            assert encoded.token_at(offset) == sum(start < offset for start in starts)


def test_what_is_known_is_not_encoded_again(tiny: ChatTokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    text = " ".join(TRAINING_TEXT) * 20
    encoded = tiny.encode_text(text)
    seen: list[str] = []
    encode = ChatTokenizer.encode
    monkeypatch.setattr(ChatTokenizer, "encode", lambda self, text: seen.append(text) or encode(self, text))
    assert encoded.count(5, 5000) > 500
    assert len("".join(seen)) < 40


def test_a_template_that_changes_texts(tmp_path: Path) -> None:
    tokenizer = ChatTokenizer.load(write_tiny_tokenizer(tmp_path))
    tokenizer._hf.chat_template = "{% for message in messages %}{{ message['content'] | upper }}<|im_end|>{% endfor %}"
    text = " ".join(TRAINING_TEXT)
    messages = [Message("user", text[10:300])]
    assert "SUPPLIER" in tokenizer.render_chat(messages, thinking=False)
    ids = tokenizer.encode_text(text).encode_chat(messages, False, 10, 300)
    assert list(ids) == tokenizer.encode_chat(messages, thinking=False)


@pytest.mark.parametrize("size", [300, 5000])
def test_what_no_part_needs_any_more_is_let_go(tiny: ChatTokenizer, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr("qwen_batch.model.encoded_text.SECTION", 1000)
    text = " ".join(TRAINING_TEXT) * 40
    encoded = tiny.encode_text(text)
    for start in range(0, len(text), size):
        encoded.forget(start)
        messages = [Message("user", text[start : start + size])]
        ids = encoded.encode_chat(messages, False, start, start + size)
        assert list(ids) == tiny.encode_chat(messages, thinking=False)
        kept = sum(len(section) for section in encoded._ids)
        assert kept <= encoded.num_tokens - encoded.token_at(max(0, start - 1000))


def test_sections_tell_how_far_they_are_and_can_be_broken_off(tiny: ChatTokenizer) -> None:
    text = "one two three. " * 20_000
    told: list[int] = []
    EncodedText(tiny, text, told.append)
    assert told == sorted(told)
    assert told[-1] == len(text)
    assert len(told) == 5

    def stop(done: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tiny.encode_text(text, stop)


@pytest.mark.parametrize("name", [*PATTERNS, "gpt2"])
def test_every_letter_of_a_seam_is_one_to_the_tokenizer(name: str) -> None:
    pre_tokenizer = split(PATTERNS[name]) if name in PATTERNS else gpt2()
    letters = [chr(code) for code in range(0x3000) if SEAM.search(chr(code) + " ")]
    letters += [chr(code) for code in range(0x3000, 0x10000, 7) if SEAM.search(chr(code) + " ")]
    assert len(letters) > 4000
    for mark in " \n,.;:!?()，。；：！？、（）":
        text = "".join(f"#{letter}{mark}" for letter in letters)
        begins = {begin for _, (begin, _) in pre_tokenizer.pre_tokenize_str(text)}
        assert all(3 * number + 2 in begins for number in range(len(letters)))


@pytest.mark.parametrize(
    "change",
    [
        lambda t: setattr(t, "pre_tokenizer", pre_tokenizers.Whitespace()),
        lambda t: setattr(t, "pre_tokenizer", pre_tokenizers.ByteLevel(add_prefix_space=True)),
        lambda t: setattr(t, "pre_tokenizer", split(QWEN2 + r"|\p{L}+ \p{L}+")),
        lambda t: setattr(t, "pre_tokenizer", split(r"\s+(?!\S)|\s+")),
        lambda t: setattr(t, "normalizer", normalizers.Lowercase()),
        lambda t: t.add_tokens([AddedToken("big tree", normalized=False)]),
        lambda t: t.add_tokens([AddedToken("<x>", lstrip=True, normalized=False)]),
        lambda t: setattr(t.model, "dropout", 0.1),
    ],
)
def test_no_seams_where_it_is_not_certain(tmp_path: Path, change: Callable[[Tokenizer], None]) -> None:
    tokenizer = Tokenizer.from_file(str(write_tiny_tokenizer(tmp_path) / "tokenizer.json"))
    assert has_seams(tokenizer)
    change(tokenizer)
    assert not has_seams(tokenizer)
