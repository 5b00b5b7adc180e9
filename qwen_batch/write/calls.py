"""One row for each model call: what the journal keeps of it, and the optional table `completions`."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass

import pyarrow as pa

from qwen_batch.records import Completion, clean_id
from qwen_batch.write.schema import Columns, to_json

CALL_SCHEMA = pa.schema(
    [
        pa.field("doc_id", pa.string(), nullable=False),
        pa.field("level", pa.int32(), nullable=False),
        pa.field("index", pa.int32(), nullable=False),
        pa.field("key", pa.string(), nullable=False),
        pa.field("prompt_tokens", pa.int64(), nullable=False),
        pa.field("completion_tokens", pa.int64(), nullable=False),
        pa.field("cached_tokens", pa.int64(), nullable=False),
        pa.field("finish_reason", pa.string(), nullable=False),
        pa.field("text", pa.string(), nullable=False),
        pa.field("run_id", pa.string(), nullable=False),
    ]
)


_COMPLETION_FIELDS = [field.name for field in dataclasses.fields(Completion)]  # asdict copies deeply: ten times as slow


@dataclass(frozen=True, slots=True)
class ModelCall:
    """A completion and where it belongs."""

    key: str  # hash of all that determines the completion; the same key is never computed twice
    completion: Completion
    doc_id: str  # the document for which it was computed; others may share it
    level: int  # 0: the document or a part of it; from 1: merges
    index: int  # place within the level, from 0
    run_id: str


def call_to_json(call: ModelCall) -> str:
    """The call as the journal keeps it."""
    place = {"doc_id": clean_id(call.doc_id), "level": call.level, "index": call.index, "run_id": call.run_id}
    completion = {name: getattr(call.completion, name) for name in _COMPLETION_FIELDS}
    return to_json({"key": call.key, **place, "completion": completion})


def completion_from_json(text: str) -> Completion:
    """The completion of a call that call_to_json wrote."""
    values = json.loads(text)["completion"]
    redacted = tuple(values.get("redacted", ()))  # an earlier release did not say
    return Completion(**{**values, "token_ids": tuple(values["token_ids"]), "redacted": redacted})


def columns_from_json(text: str) -> Columns:
    """The row of CALL_SCHEMA for a call that call_to_json wrote."""
    call = json.loads(text)
    completion = call["completion"]
    return {
        "doc_id": call["doc_id"],
        "level": call["level"],
        "index": call["index"],
        "key": call["key"],
        "prompt_tokens": completion["num_prompt_tokens"],
        "completion_tokens": len(completion["token_ids"]),
        "cached_tokens": completion["num_cached_tokens"],
        "finish_reason": completion["finish_reason"],
        "text": completion["text"],
        "run_id": call["run_id"],
    }
