"""JSON lines: forms of records, and lines that are none."""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qwen_batch.read import jsonl
from qwen_batch.read.items import FileItem, Item
from qwen_batch.read.jsonl import iter_records
from qwen_batch.records import Document, Failure, Message


def records(data: bytes | str, base_dir: Path = Path(".")) -> list[Item]:
    stream = io.BytesIO(data.encode() if isinstance(data, str) else data)
    return list(iter_records(stream, "folder/some.jsonl", base_dir))


def one(record: dict[str, Any] | str, base_dir: Path = Path(".")) -> Item:
    (item,) = records(record if isinstance(record, str) else json.dumps(record), base_dir)
    return item


def failure(record: dict[str, Any] | str) -> Failure:
    item = one(record)
    assert isinstance(item, Failure)
    return item


def document(record: dict[str, Any] | str) -> Document:
    item = one(record)
    assert isinstance(item, Document)
    return item


def test_text_record() -> None:
    made = document({"id": "a", "text": "one\r\ntwo", "metadata": {"k": [1]}, "priority": 3, "other": True})
    assert (made.doc_id, made.source) == ("a", "folder/some.jsonl:1")
    assert [line.text for line in made.pages[0].lines] == ["one", "two"]
    assert made.content_sha256 == hashlib.sha256(b"one\r\ntwo").hexdigest()
    assert (made.metadata, made.priority) == ({"k": [1]}, 3)


def test_id_is_optional_and_may_be_a_number() -> None:
    assert document({"text": "x"}).doc_id == "some.jsonl:1"
    assert document({"id": 7, "text": "x"}).doc_id == "7"


def test_path_record(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    item = one({"id": "f", "path": "a.txt", "priority": 2}, tmp_path)
    assert item == FileItem("f", tmp_path / "a.txt", "folder/some.jsonl:1", {}, 2)


@pytest.mark.parametrize(
    ("name", "error_type"), [("none.txt", "not_found"), ("a.epub", "unsupported"), ("a.jsonl", "unsupported")]
)
def test_path_record_that_names_nothing_readable(tmp_path: Path, name: str, error_type: str) -> None:
    (tmp_path / "a.epub").write_bytes(b"PK")
    (tmp_path / "a.jsonl").write_bytes(b"{}")
    item = one({"id": "f", "path": name}, tmp_path)
    assert isinstance(item, Failure)
    assert (item.doc_id, item.error_type) == ("f", error_type)


def test_messages_record() -> None:
    parts = [{"type": "text", "text": "Hi "}, {"type": "text", "text": "there"}]
    made = document(
        {"id": "m", "messages": [{"role": "developer", "content": "S"}, {"role": "user", "content": parts}]}
    )
    assert made.messages == (Message("system", "S"), Message("user", "Hi there"))
    assert made.pages == ()


def batch(**body: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": "Q"}]
    url = "/v1/chat/completions"
    return {"custom_id": "c", "method": "POST", "url": url, "body": {"messages": messages, **body}}


def test_openai_batch_record() -> None:
    made = document(batch(model="any", max_tokens=5, temperature=0.5, seed=None, n=1, stream=False, stop=["x"]))
    assert made.doc_id == "c"
    assert made.sampling == {"temperature": 0.5, "stop": ["x"], "max_tokens": 5}


def test_max_completion_tokens_wins() -> None:
    assert document(batch(max_tokens=5, max_completion_tokens=6)).sampling == {"max_tokens": 6}


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ({"tools": [{"type": "function"}]}, "body.tools"),
        ({"n": 2}, "body.n"),
        ({"stream": True}, "body.stream"),
        ({"response_format": {"type": "json_object"}}, "body.response_format"),
        ({"frequency_penalty": 0.5}, "body.frequency_penalty"),
        ({"logprobs": True}, "body.logprobs"),
        ({"unheard_of": 1}, "body.unheard_of"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(body: dict[str, Any], word: str) -> None:
    made = failure(batch(**body))
    assert (made.doc_id, made.error_type) == ("c", "unsupported")
    assert word in made.error


def test_other_urls_are_refused() -> None:
    assert "/v1/chat/completions" in failure({**batch(), "url": "/v1/embeddings"}).error


def test_images_are_refused() -> None:
    content = [{"type": "image_url", "image_url": {"url": "x"}}]
    made = failure({"id": "i", "messages": [{"role": "user", "content": content}]})
    assert (made.error_type, "image_url" in made.error) == ("unsupported", True)


@pytest.mark.parametrize("body", [{"temperature": "hot"}, {"temperature": -1}, {"max_tokens": 0}, {"top_p": 2}])
def test_bad_sampling_is_a_bad_record(body: dict[str, Any]) -> None:
    made = failure(batch(**body))
    assert made.error_type == "bad_record"
    assert f"body.{next(iter(body))}" in made.error


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("not json", "not valid JSON at column 1"),
        ('{"id":"x","text":"t",}', "not valid JSON at column 22"),
        ("[1]", "not an object"),
        ("3", "not an object"),
        ('{"id":"x"}', "none of text, path and messages"),
        ('{"id":"x","text":"a","path":"b"}', "has text and path"),
        ('{"id":"x","text":null}', "text must be a string"),
        ('{"id":"x","text":5}', "text must be a string"),
        ('{"id":true,"text":"a"}', "id must be a string"),
        ('{"id":1.5,"text":"a"}', "id must be a string"),
        ('{"id":"","text":"a"}', "id is empty"),
        ('{"id":"x","text":"a","metadata":[]}', "metadata must be an object"),
        ('{"id":"x","text":"a","priority":"high"}', "priority must be a whole number"),
        ('{"id":"x","text":"a","priority":true}', "priority must be a whole number"),
        ('{"id":"x","text":"a","priority":99999999999999999999}', "priority must be a whole number"),
        ('{"id":"x","text":"a","s":NaN}', "NaN"),
        ('{"id":"x","text":"a","s":-Infinity}', "Infinity"),
        ('{"id":"x","text":"a","s":1e999}', "1e999"),
        ('{"id":"x","text":"a","s":' + "9" * 5000 + "}", "a number"),
        ('{"id":"x","text":"a","s":' + "[" * 100_000 + "]" * 100_000 + "}", "nested more than"),
        ('{"id":"x","text":"a","s":' + "[" * 70 + "]" * 70 + "}", "nested more than"),
        ('{"id":"x","messages":[]}', "messages must be a list"),
        ('{"id":"x","messages":["hi"]}', "message 1 must be an object"),
        ('{"id":"x","messages":[{"role":"robot","content":"a"}]}', "message 1: role must be one of"),
        ('{"id":"x","messages":[{"role":"user","content":null}]}', "message 1: content must be"),
        ('{"custom_id":"x","body":[]}', "body must be an object"),
    ],
)
def test_bad_records_name_their_line(line: str, part: str) -> None:
    made = failure(line)
    assert made.error_type == "bad_record"
    assert made.error.startswith("line 1: ")
    assert part in made.error
    assert made.source == "folder/some.jsonl:1"


def test_a_bad_record_keeps_its_id() -> None:
    assert failure('{"id":"x","text":5}').doc_id == "x"
    assert failure("nonsense").doc_id == "some.jsonl:1"


def test_blank_text_is_empty() -> None:
    assert failure({"id": "x", "text": " \n "}).error_type == "empty"


def test_byte_order_mark_crlf_and_blank_lines() -> None:
    made = records(b'\xef\xbb\xbf{"id":"a","text":"1"}\r\n\r\n  \n{"id":"b","text":"2"}\r\n{"id":"c","text":"3"}')
    assert [(item.doc_id, item.source.rpartition(":")[2]) for item in made] == [("a", "1"), ("b", "4"), ("c", "5")]


def test_lines_end_only_at_newlines() -> None:
    text = "a\u2028b\u2029c\x85d\x0ce"
    assert document(json.dumps({"id": "x", "text": text}, ensure_ascii=False)).pages[0].text == text


def test_bad_utf8_is_a_bad_record() -> None:
    (made,) = records(b'{"id":"x","text":"\xff"}\n')
    assert isinstance(made, Failure)
    assert "not valid UTF-8 at byte 19" in made.error


def test_lone_surrogates_are_replaced_with_a_warning() -> None:
    made = document('{"id":"x\\ud800","text":"a\\udfffb \\ud83d\\ude00"}')
    assert (made.doc_id, made.pages[0].text) == ("x\ufffd", "a\ufffdb 😀")
    assert "U+FFFD" in made.warnings[0]


def test_no_surrogate_no_warning() -> None:
    assert document('{"id":"x","text":"\\ud83d\\ude00"}').warnings == ()


def test_a_line_that_is_too_long_is_skipped_without_being_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "MAX_LINE_BYTES", 100)
    monkeypatch.setattr(jsonl, "SKIP_BYTES", 10)
    sizes: list[int] = []

    class Stream(io.BytesIO):
        def readline(self, size: int | None = -1, /) -> bytes:
            line = super().readline(size)
            sizes.append(len(line))
            return line

    long = json.dumps({"id": "long", "text": "x" * 1000})
    stream = Stream(f'{{"id":"a","text":"1"}}\n{long}\n{{"id":"b","text":"2"}}\n'.encode())
    made = list(iter_records(stream, "s", Path(".")))
    assert [item.doc_id for item in made] == ["a", "s:2", "b"]
    assert max(sizes) <= 101
    assert isinstance(made[1], Failure)
    assert "longer than" in made[1].error


def test_a_long_last_line_without_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "MAX_LINE_BYTES", 100)
    assert [type(item) for item in records("x" * 5000)] == [Failure]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda inner: st.lists(inner, max_size=3)
)
keys = st.sampled_from(["id", "text", "path", "messages", "metadata", "priority", "custom_id", "body", "url", "x"])


@settings(max_examples=200, deadline=None)
@given(st.lists(st.dictionaries(keys, json_values) | json_values, max_size=5))
def test_every_line_gives_exactly_one_item(values: list[Any]) -> None:
    made = records("\n".join(json.dumps(value) for value in values))
    assert len(made) == len(values)
    assert all(item.doc_id.encode() and item.source.startswith("folder/some.jsonl:") for item in made)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_arbitrary_bytes_give_an_item_for_each_line_that_is_not_blank(data: bytes) -> None:
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    wanted = sum(bool(line.strip(b" \t\r\x0b\x0c")) for line in lines)
    assert len(records(data)) == wanted
