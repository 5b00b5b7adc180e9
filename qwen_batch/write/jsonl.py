"""Rows as JSON lines, as they are or in the form of OpenAI's batch API.

The batch form is that of https://platform.openai.com/docs/guides/batch: one object a line with `custom_id` and either
`response` or `error`. `reasoning_content` beside `content` is what serving engines call the thoughts of a model.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import signal
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Literal

from qwen_batch.errors import OutputError, StoppedError
from qwen_batch.records import Completion, ResultRow, Status
from qwen_batch.write.calls import ModelCall
from qwen_batch.write.disk import Disk, output_errors, write_durably
from qwen_batch.write.parts import list_parts, read_part
from qwen_batch.write.schema import Columns, row_to_dict, to_json

Form = Literal["rows", "openai-batch"]

# JSON lets these stand in a string, and many readers of lines take them for the end of one.
_LINE_ENDS = {ord(character): f"\\u{ord(character):04x}" for character in "\x85\u2028\u2029"}


class JsonlWriter:
    """Writes each row as one line of UTF-8 and flushes, so that the next program of a pipe has it at once.

    A RowSink without a memory: nothing counts as finished before. Not for several threads at once.
    Raises StoppedError (exit 141, as a shell reports SIGPIPE) when the reader has gone away, as `head` does.
    """

    def __init__(self, stream: BinaryIO, form: Form = "rows", *, metadata: bool = False) -> None:
        self._stream = stream
        self._form = form
        self._metadata = metadata

    def is_current(self, doc_id: str, key: str | None) -> Status | None:
        return None

    def completion(self, key: str) -> Completion | None:
        return None

    def add_completions(self, calls: Sequence[ModelCall]) -> None:
        pass

    def add_rows(self, items: Sequence[tuple[ResultRow, str]]) -> None:
        try:
            for row, _ in items:
                self._stream.write(self._line(row_to_dict(row)))
            self._stream.flush()
        except OSError as error:
            self._mute()
            if isinstance(error, BrokenPipeError):
                raise StoppedError("the reader of standard output has gone away", signal.SIGPIPE) from None
            raise OutputError(f"standard output: {error.strerror or error}; rows that are not out are lost") from error

    def begin(self, doc_ids: Sequence[str]) -> None:
        pass

    def deaths(self, doc_id: str) -> int:
        return 0

    def record(self, event: str, fields: Mapping[str, object]) -> None:
        pass

    def drop_failed(self, error_types: Collection[str], is_present: Callable[[str], bool]) -> int:
        return 0

    def drop_missing(self, is_present: Callable[[str], bool]) -> int:
        return 0

    def tick(self) -> None:
        pass

    def flush(self) -> None:
        pass  # add_rows has flushed

    def close(self, *, in_order: bool = True) -> None:
        pass  # the stream is the caller's

    def _line(self, row: Columns) -> bytes:
        return batch_line(row) if self._form == "openai-batch" else row_line(row, metadata=self._metadata)

    def _mute(self) -> None:
        """Send what is left in the stream's buffer nowhere, else the interpreter complains of it when it ends."""
        with suppress(OSError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)


def row_line(row: Columns, *, metadata: bool) -> bytes:
    """A row in the order of its columns; moments in ISO 8601, `metadata` as an object when it is asked for."""
    moments = {name: value.isoformat() for name, value in row.items() if isinstance(value, datetime.datetime)}
    values = {**row, **moments}
    text = values.pop("metadata")
    return _to_line({**values, "metadata": json.loads(text)} if metadata else values)


def batch_line(row: Columns) -> bytes:
    """A row in the form of OpenAI's batch output. A failed or skipped row has no response but an error."""
    number = hashlib.sha256(f"{row['run_id']}\0{row['doc_id']}".encode()).hexdigest()[:24]
    answered = row["status"] in ("ok", "flagged")
    response = {"status_code": 200, "request_id": f"req_{number}", "body": _body(row, number)}
    error = {"code": row["error_type"] or row["status"], "message": row["error"] or f"the document was {row['status']}"}
    return _to_line(
        {
            "id": f"batch_req_{number}",
            "custom_id": row["doc_id"],
            "response": response if answered else None,
            "error": None if answered else error,
        }
    )


def write_openai_batch(results: Path, path: Path, disk: Disk | None = None) -> int:
    """Write all rows of a results folder in the batch form, whole or not at all; returns how many. OutputError."""
    with output_errors(path):
        counted = _Counted(_iter_batch_lines(results))
        write_durably(disk or Disk(), path, counted)
    return counted.count


class _Counted:
    """Counts what passes through."""

    def __init__(self, lines: Iterator[bytes]) -> None:
        self._lines = lines
        self.count = 0

    def __iter__(self) -> Iterator[bytes]:
        for line in self._lines:
            self.count += 1
            yield line


def _iter_batch_lines(results: Path) -> Iterator[bytes]:
    for part in list_parts(results):
        for row in read_part(results / part).to_pylist():
            yield batch_line(row)


def _body(row: Columns, number: str) -> Columns:
    message = {"role": "assistant", "content": row["answer"] or ""}
    if row["thinking"] is not None:
        message["reasoning_content"] = row["thinking"]
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": int(row["finished_at"].timestamp()),
        "model": row["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": row["finish_reason"] or "stop"}],
        "usage": {
            "prompt_tokens": row["prompt_tokens"],
            "completion_tokens": row["completion_tokens"],
            "total_tokens": row["prompt_tokens"] + row["completion_tokens"],
            "prompt_tokens_details": {"cached_tokens": row["cached_tokens"]},
        },
    }


def _to_line(value: Columns) -> bytes:
    return to_json(value).translate(_LINE_ENDS).encode() + b"\n"
