from __future__ import annotations

import dataclasses
import errno
import io
import json
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from write_helpers import make_call, make_row, open_store

from qwen_batch.errors import OutputError, StoppedError
from qwen_batch.records import ResultRow
from qwen_batch.write.jsonl import Form, JsonlWriter, write_openai_batch


def written(*rows: ResultRow, form: Form = "rows", metadata: bool = False) -> list[dict[str, Any]]:
    stream = io.BytesIO()
    JsonlWriter(stream, form, metadata=metadata).add_rows([(row, "key") for row in rows])
    *lines, rest = stream.getvalue().decode().split("\n")
    assert rest == ""
    assert len(lines) == len(rows)
    return [json.loads(line) for line in lines]


def test_a_row_is_an_object_in_the_order_of_the_columns() -> None:
    (found,) = written(make_row(answer="是的"))
    assert list(found) == [field.name for field in dataclasses.fields(ResultRow)][:-1]
    assert found["answer"] == "是的"
    assert found["finished_at"] == "2026-11-29T02:05:01+00:00"
    assert found["evidence"][0] == {"field": "parties", "quote": "A and B", "page": 3, "verified": True}
    assert found["flags"] == ["cut_off"]


def test_metadata_is_an_object_when_asked_for() -> None:
    (found,) = written(make_row(metadata={"法": [1, {"a": None}]}), metadata=True)
    assert list(found)[-1] == "metadata"
    assert found["metadata"] == {"法": [1, {"a": None}]}


def test_chinese_is_written_as_it_is_and_flushed_at_once() -> None:
    class Stream(io.BytesIO):
        flushed = b""

        def flush(self) -> None:
            self.flushed = self.getvalue()

    stream = Stream()
    JsonlWriter(stream).add_rows([(make_row(answer="合同"), "k")])
    assert "合同".encode() in stream.flushed
    assert stream.flushed.endswith(b"}\n")


@settings(deadline=None, derandomize=True, database=None)
@given(st.text(st.characters(), max_size=20))
def test_any_answer_is_one_line_for_every_reader(text: str) -> None:
    stream = io.BytesIO()
    JsonlWriter(stream).add_rows([(make_row(answer=text), "k")])
    content = stream.getvalue().decode()
    assert len(content.splitlines()) == 1
    assert json.loads(content)["answer"] == "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in text)


def test_the_openai_form() -> None:
    (found,) = written(make_row("ticket-7", "yes", finish_reason="length"), form="openai-batch")
    body = found["response"]["body"]
    assert found["id"].startswith("batch_req_")
    assert found["response"]["request_id"].startswith("req_")
    assert body.pop("id").startswith("chatcmpl-")
    assert found == {
        "id": found["id"],
        "custom_id": "ticket-7",
        "response": {"status_code": 200, "request_id": found["response"]["request_id"], "body": body},
        "error": None,
    }
    assert body == {
        "object": "chat.completion",
        "created": 1795917901,
        "model": "demo",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "yes"}, "finish_reason": "length"}],
        "usage": {
            "prompt_tokens": 100,
            "completion_tokens": 20,
            "total_tokens": 120,
            "prompt_tokens_details": {"cached_tokens": 30},
        },
    }


def test_thoughts_stand_beside_the_content() -> None:
    (found,) = written(make_row(thinking="let me see", status="flagged"), form="openai-batch")
    message = found["response"]["body"]["choices"][0]["message"]
    assert message == {"role": "assistant", "content": "yes", "reasoning_content": "let me see"}


def test_failed_and_skipped_rows_have_an_error() -> None:
    nothing: dict[str, Any] = {"answer": None, "finish_reason": None}
    failed = make_row("f", status="failed", error_type="too_long", error="40,000 tokens", **nothing)
    found = written(failed, make_row("s", status="skipped", **nothing), form="openai-batch")
    assert [line["response"] for line in found] == [None, None]
    assert found[0]["error"] == {"code": "too_long", "message": "40,000 tokens"}
    assert found[1]["error"] == {"code": "skipped", "message": "the document was skipped"}
    assert len({line["id"] for line in found}) == 2


def test_a_writer_remembers_nothing() -> None:
    writer = JsonlWriter(io.BytesIO())
    writer.add_completions([make_call("k")])
    writer.add_rows([(make_row("a"), "k")])
    assert writer.completion("k") is None
    assert writer.is_current("a", "k") is None
    writer.tick()
    writer.flush()
    writer.close()


def test_a_reader_that_goes_away_ends_the_run_cleanly() -> None:
    """As a real pipe, with an interpreter that flushes standard output when it ends."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from write_helpers import make_row\n"
        "from qwen_batch.errors import StoppedError\n"
        "from qwen_batch.write.jsonl import JsonlWriter\n"
        "writer = JsonlWriter(sys.stdout.buffer)\n"
        "try:\n"
        "    while True: writer.add_rows([(make_row(), 'k')])\n"
        "except StoppedError as error:\n"
        "    print('more', file=sys.stdout)\n"
        "    sys.exit(error.exit_code)\n"
    )
    command = [sys.executable, "-c", code, str(Path(__file__).parent)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        assert json.loads(child.stdout.readline())["doc_id"] == "a.pdf"
        child.stdout.close()
        assert child.stderr.read() == b""
        assert child.wait(timeout=60) == 141


def test_the_end_of_a_pipe_is_a_stop_with_the_code_of_sigpipe() -> None:
    class Stream(io.BytesIO):
        def flush(self) -> None:
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

    with pytest.raises(StoppedError, match="the reader of standard output has gone away") as caught:
        JsonlWriter(Stream()).add_rows([(make_row(), "k")])
    assert caught.value.exit_code == 141


def test_a_full_disk_behind_standard_output() -> None:
    class Stream(io.BytesIO):
        def write(self, data: Any) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(OutputError, match="standard output: No space left on device; rows that are not out are lost"):
        JsonlWriter(Stream()).add_rows([(make_row(), "k")])


def test_a_table_as_an_openai_batch_file(tmp_path: Path) -> None:
    with closing(open_store(tmp_path, flush_rows=2)) as store:
        store.add_rows([(make_row(doc_id), "k") for doc_id in "abc"])
    path = tmp_path / "openai-batch.jsonl"
    assert write_openai_batch(tmp_path / "results", path) == 3
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["custom_id"] for line in lines] == ["a", "b", "c"]
    assert lines == written(*(make_row(doc_id) for doc_id in "abc"), form="openai-batch")
    assert sorted(each.name for each in tmp_path.iterdir()) == [".journal", "audit", "openai-batch.jsonl", "results"]


def test_an_openai_batch_file_that_cannot_be_written(tmp_path: Path) -> None:
    open_store(tmp_path).close()
    with pytest.raises(OutputError):
        write_openai_batch(tmp_path / "results", tmp_path / "nowhere" / "openai-batch.jsonl")
