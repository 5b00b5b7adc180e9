"""The tokenizer: exact where contents are ordinary, safe where they are not."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import CHAT_TEMPLATE, SPECIAL_TOKENS, TRAINING_TEXT, write_tiny_tokenizer
from tokenizers import AddedToken, Tokenizer, normalizers
from transformers import AutoTokenizer

from qwen_batch.errors import DocumentError, ModelError
from qwen_batch.model.tokenizer import ChatTokenizer
from qwen_batch.records import Message

pieces = st.one_of(
    st.sampled_from(TRAINING_TEXT),
    st.sampled_from(
        [" ", "  ", "\n", "\n\n", "\t", "12,500", "甲方", "ﬁ", "e\u0301", "🙂", "<think>", "</think>", "<|im_", ""]
    ),
    st.text(max_size=8),
)
texts = st.lists(pieces, max_size=6).map("".join)
hostile_texts = st.lists(st.one_of(pieces, st.sampled_from(SPECIAL_TOKENS)), max_size=6).map("".join)
roles = st.sampled_from(["system", "user", "assistant"])


def conversations(contents: st.SearchStrategy[str]) -> st.SearchStrategy[list[Message]]:
    return st.lists(st.builds(Message, roles, contents), min_size=1, max_size=4)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> ChatTokenizer:
    return ChatTokenizer.load(write_tiny_tokenizer(tmp_path_factory.mktemp("tokenizer")))


@pytest.fixture(scope="module")
def hf_tiny(tiny: ChatTokenizer) -> object:
    return AutoTokenizer.from_pretrained(tiny.folder)


@pytest.fixture
def variant(tmp_path: Path) -> Callable[..., ChatTokenizer]:
    """A tiny tokenizer with another tokenizer_config.json, or other files."""

    def make(files: dict[str, object] | None = None, **config: object) -> ChatTokenizer:
        write_tiny_tokenizer(tmp_path)
        path = tmp_path / "tokenizer_config.json"
        values = {**json.loads(path.read_text()), **config}
        path.write_text(json.dumps({key: value for key, value in values.items() if value is not None}))
        for name, content in (files or {}).items():
            (tmp_path / name).write_text(json.dumps(content))
        return ChatTokenizer.load(tmp_path)

    return make


def reference(hf_tokenizer: object, messages: list[Message], thinking: bool) -> list[int]:
    turns = [{"role": message.role, "content": message.content} for message in messages]
    options = {"add_generation_prompt": True, "enable_thinking": thinking, "return_dict": False}
    return hf_tokenizer.apply_chat_template(turns, tokenize=True, **options)


def special_ids(tokenizer: ChatTokenizer, ids: list[int]) -> list[str]:
    tokens = (tokenizer.decode([id_], skip_special_tokens=False) for id_ in ids)
    return [token for token in tokens if token in SPECIAL_TOKENS]


@settings(max_examples=150)
@given(messages=conversations(texts), thinking=st.booleans())
def test_ordinary_chats_have_the_reference_ids(
    tiny: ChatTokenizer, hf_tiny: object, messages: list[Message], thinking: bool
) -> None:
    ids = tiny.encode_chat(messages, thinking)
    assert ids == reference(hf_tiny, messages, thinking)


@settings(max_examples=150)
@given(messages=conversations(hostile_texts), thinking=st.booleans())
def test_contents_never_yield_control_tokens(tiny: ChatTokenizer, messages: list[Message], thinking: bool) -> None:
    ids = tiny.encode_chat(messages, thinking)
    expected = ["<|im_start|>", "<|im_end|>"] * len(messages) + ["<|im_start|>"]
    assert special_ids(tiny, ids) == expected
    assert tiny.decode(ids, skip_special_tokens=False) == decoded_form(tiny.render_chat(messages, thinking))


@settings(max_examples=50)
@given(chats=st.lists(conversations(hostile_texts), max_size=5), thinking=st.booleans())
def test_chats_together_have_the_ids_of_each(tiny: ChatTokenizer, chats: list[list[Message]], thinking: bool) -> None:
    assert tiny.encode_chats(chats, thinking) == [tiny.encode_chat(messages, thinking) for messages in chats]


def decoded_form(text: str) -> str:
    return normalizers.NFC().normalize_str(text)


def test_the_safe_way_and_the_exact_way_agree(tiny: ChatTokenizer) -> None:
    # A system message with a control token sends the whole prompt the safe way; the user's part must not change.
    user = Message("user", "  本合同\n\nPay 12,500. \n")
    exact = tiny.encode_chat([Message("system", "x"), user], thinking=False)
    safe = tiny.encode_chat([Message("system", "<|im_end|>"), user], thinking=False)
    start = exact.index(tiny.encode_chat([user], thinking=False)[0], 1)
    assert safe[-len(exact[start:]) :] == exact[start:]


def test_a_control_token_in_a_role_is_text(tiny: ChatTokenizer) -> None:
    ids = tiny.encode_chat([Message("user<|im_end|>", "hello")], thinking=True)
    assert special_ids(tiny, ids) == ["<|im_start|>", "<|im_end|>", "<|im_start|>"]


def test_a_stand_in_avoids_the_characters_of_the_text(tiny: ChatTokenizer) -> None:
    content = "\U000f0000\U000f0001\U000f0002 <|im_end|>"
    ids = tiny.encode_chat([Message("user", content)], thinking=True)
    assert content in tiny.decode(ids, skip_special_tokens=False)


def test_a_template_that_trims_contents(variant: Callable[..., ChatTokenizer]) -> None:
    tokenizer = variant(chat_template=CHAT_TEMPLATE.replace("{{- message.content }}", "{{- message.content | trim }}"))
    messages = [Message("user", " \n a <|im_end|> \n")]
    assert special_ids(tokenizer, tokenizer.encode_chat(messages, thinking=True)) == [
        "<|im_start|>",
        "<|im_end|>",
        "<|im_start|>",
    ]
    ordinary = [Message("user", " \n 甲方 pays \n")]
    hf_tokenizer = AutoTokenizer.from_pretrained(tokenizer.folder)
    assert tokenizer.encode_chat(ordinary, thinking=True) == reference(hf_tokenizer, ordinary, thinking=True)


def test_text_that_normalises_to_a_control_token(tmp_path: Path) -> None:
    write_tiny_tokenizer(tmp_path)
    file = str(tmp_path / "tokenizer.json")
    backend = Tokenizer.from_file(file)
    backend.normalizer = normalizers.NFKC()
    backend.add_special_tokens([AddedToken("<|end|>", special=True, normalized=True)])
    backend.save(file)
    tokenizer = ChatTokenizer.load(tmp_path)
    end = backend.token_to_id("<|end|>")
    fullwidth = "\uff1c\uff5cend\uff5c\uff1e"  # the same in East Asian width
    assert backend.encode(fullwidth).ids == [end]
    assert end not in tokenizer.encode(fullwidth)
    assert end not in tokenizer.encode_chat([Message("user", fullwidth)], thinking=True)


@given(text=hostile_texts)
def test_encode_is_plain_text(tiny: ChatTokenizer, text: str) -> None:
    ids = tiny.encode(text)
    assert not special_ids(tiny, ids)
    assert tiny.decode(ids) == decoded_form(text)
    assert tiny.encode_with_offsets(text)[0] == ids


@given(hostile_texts)
def test_starts_of_tokens_are_those_of_their_offsets(tiny: ChatTokenizer, text: str) -> None:
    ids, starts = tiny.encode_with_starts(text)
    assert ids == tiny.encode(text)
    assert list(starts) == [start for start, _ in tiny.encode_with_offsets(text)[1]]


def test_starts_are_asked_for_where_bytes_do_not_tell(variant: Callable[..., ChatTokenizer]) -> None:
    text = "a cafe\u0301 in the cafe\u0301"
    composing = variant()
    composing._tokenizer.normalizer = normalizers.NFC()
    ids, starts = composing.encode_with_starts(text)
    assert ids == composing.encode(text)
    assert list(starts) == [start for start, _ in composing.encode_with_offsets(text)[1]]


@given(text=texts)
def test_offsets_are_characters_in_order(tiny: ChatTokenizer, text: str) -> None:
    ids, offsets = tiny.encode_with_offsets(text)
    assert len(ids) == len(offsets)
    assert offsets == sorted(offsets)
    assert all(0 <= start <= end <= len(text) for start, end in offsets)
    if decoded_form(text) == text:
        assert {index for start, end in offsets for index in range(start, end)} == set(range(len(text)))


def test_offsets_cut_the_text_where_tokens_do(tiny: ChatTokenizer) -> None:
    text = "甲方 shall pay <|im_end|> 🙂"
    ids, offsets = tiny.encode_with_offsets(text)
    for id_, (start, end) in zip(ids, offsets, strict=True):
        token = tiny.decode([id_])
        assert token == text[start:end] or "\ufffd" in token  # part of a character


def test_padding_and_truncation_in_the_file_do_nothing(tmp_path: Path, tiny: ChatTokenizer) -> None:
    write_tiny_tokenizer(tmp_path)
    backend = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    backend.enable_truncation(4)
    backend.enable_padding(length=64)
    backend.save(str(tmp_path / "tokenizer.json"))
    assert ChatTokenizer.load(tmp_path).encode("a long enough text") == tiny.encode("a long enough text")


def test_long_texts_are_encoded_without_a_warning(tiny: ChatTokenizer, caplog: pytest.LogCaptureFixture) -> None:
    text = TRAINING_TEXT[0] * 200
    assert len(tiny.encode(text)) > 2048
    assert len(tiny.encode_chat([Message("user", text)], thinking=False)) > 2048
    assert not caplog.records


def test_a_lone_surrogate_is_the_documents_failure(tiny: ChatTokenizer) -> None:
    with pytest.raises(DocumentError, match=r"^the text holds half a character \(a lone surrogate\)$") as caught:
        tiny.encode("a\ud800b")
    assert caught.value.error_type == "bad_text"


@given(ids=st.lists(st.integers(0, 511), max_size=60))
def test_a_stream_joins_to_decode(tiny: ChatTokenizer, ids: list[int]) -> None:
    stream = tiny.new_stream()
    parts = [stream.push(id_) for id_ in ids]
    assert "".join(parts) + stream.flush() == tiny.decode(ids)
    assert stream.flush() == ""


def test_a_stream_holds_back_half_a_character(tiny: ChatTokenizer) -> None:
    ids = tiny.encode("🙂!")
    assert len(ids) == 5
    stream = tiny.new_stream()
    assert [stream.push(id_) for id_ in ids] == ["", "", "", "🙂", "!"]
    cut = tiny.new_stream()
    assert [cut.push(id_) for id_ in ids[:3]] == ["", "", ""]
    assert cut.flush() == "\ufffd"


def test_decode_keeps_think_tags_and_drops_control_tokens(tiny: ChatTokenizer) -> None:
    ids = tiny.encode_chat([Message("user", "hello")], thinking=False)
    assert tiny.decode(ids).endswith("<think>\n\n</think>\n\n")
    assert "<|im_start|>" not in tiny.decode(ids)
    assert tiny.decode([510, 511]) == ""  # rows of the model that the tokenizer does not name


def test_thinking_switches_the_prompt(tiny: ChatTokenizer, variant: Callable[..., ChatTokenizer]) -> None:
    messages = [Message("user", "hello")]
    assert tiny.supports_thinking
    assert tiny.render_chat(messages, thinking=True).endswith("<|im_start|>assistant\n")
    plain = variant(chat_template=CHAT_TEMPLATE.replace("enable_thinking is false", "false"))
    assert not plain.supports_thinking
    assert plain.encode_chat(messages, thinking=False) == plain.encode_chat(messages, thinking=True)


def test_an_open_think_block_is_seen(tiny: ChatTokenizer, variant: Callable[..., ChatTokenizer]) -> None:
    messages = [Message("user", "a text that ends in <think>")]
    for thinking in (False, True):
        assert not tiny.prompt_opens_think(tiny.encode_chat(messages, thinking))
        assert not tiny.prompt_opens_think(tiny.render_chat(messages, thinking))
    opening = variant(chat_template=CHAT_TEMPLATE + "{{- '<think>\\n' }}")
    assert opening.prompt_opens_think(opening.encode_chat(messages, thinking=True))
    assert opening.prompt_opens_think(opening.render_chat(messages, thinking=True))


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, {502}),
        ({"generation_config.json": {"eos_token_id": 500}}, {500, 502}),
        ({"generation_config.json": {"eos_token_id": [500, 501]}}, {500, 501, 502}),
        ({"generation_config.json": {}, "config.json": {"eos_token_id": 503}}, {502, 503}),
        ({"generation_config.json": {"eos_token_id": [500]}, "config.json": {"eos_token_id": 503}}, {500, 502}),
    ],
)
def test_end_tokens(variant: Callable[..., ChatTokenizer], files: dict[str, object], expected: set[int]) -> None:
    config = {"model_type": "llama", **files.get("config.json", {})}
    assert variant({**files, "config.json": config}).eos_token_ids == expected


def test_a_base_model_encodes_but_cannot_be_asked(variant: Callable[..., ChatTokenizer], tiny: ChatTokenizer) -> None:
    base = variant(chat_template=None)
    assert base.encode("hello") == tiny.encode("hello")
    assert not base.supports_thinking
    with pytest.raises(ModelError) as caught:
        base.encode_chat([Message("user", "hello")], thinking=False)
    assert str(caught.value) == (
        f"{base.folder}: this model has no chat template, so it is a base model that cannot be asked; "
        "name its instruction-tuned form"
    )


def test_messages_that_the_template_refuses(variant: Callable[..., ChatTokenizer]) -> None:
    strict = variant(chat_template="{{ raise_exception('the first message must be from the user') }}")
    with pytest.raises(
        DocumentError, match="refuses these messages: the first message must be from the user"
    ) as caught:
        strict.encode_chat([Message("assistant", "hello")], thinking=False)
    assert caught.value.error_type == "bad_messages"


def test_a_folder_without_a_tokenizer(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama"}))
    with pytest.raises(ModelError, match="the tokenizer cannot be loaded: "):
        ChatTokenizer.load(tmp_path)


def test_a_damaged_tokenizer(tmp_path: Path) -> None:
    write_tiny_tokenizer(tmp_path)
    (tmp_path / "tokenizer.json").write_text('{"version": "1.0"')
    with pytest.raises(ModelError, match="the tokenizer cannot be loaded: "):
        ChatTokenizer.load(tmp_path)


@pytest.mark.parametrize("family", ["tiny_qwen3", "tiny_qwen2", "tiny_llama"])
def test_every_family_has_the_reference_ids(family: str, request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue(family)
    tokenizer, hf_tokenizer = ChatTokenizer.load(folder), AutoTokenizer.from_pretrained(folder)
    messages = [Message("system", TRAINING_TEXT[6]), Message("user", "\n".join(TRAINING_TEXT))]
    for thinking in (False, True):
        assert tokenizer.encode_chat(messages, thinking) == reference(hf_tokenizer, messages, thinking)
    assert tokenizer.eos_token_ids == {500, 502}
    assert tokenizer.vocab_size == 505


def test_the_tiny_tokenizer_is_the_same_every_time(tiny: ChatTokenizer, tmp_path: Path) -> None:
    again = write_tiny_tokenizer(tmp_path)
    assert (again / "tokenizer.json").read_bytes() == (tiny.folder / "tokenizer.json").read_bytes()
    shutil.rmtree(again)


def test_the_demo_has_the_reference_ids(demo_model: Path) -> None:
    tokenizer, hf_tokenizer = ChatTokenizer.load(demo_model), AutoTokenizer.from_pretrained(demo_model)
    for content in (*TRAINING_TEXT, "  spaces \n\n", "2026-11-29: 1,234.50", "🙂 half"):
        messages = [Message("user", content)]
        assert tokenizer.encode_chat(messages, thinking=False) == reference(hf_tokenizer, messages, thinking=False)
    assert not tokenizer.supports_thinking
