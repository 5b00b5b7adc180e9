"""The columns of the result table and the values that go into them. The job fixes the schema, never the rows."""

from __future__ import annotations

import dataclasses
import datetime
import json
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import orjson
import pyarrow as pa

from qwen_batch.records import Evidence, ResultRow, clean_id

Columns = dict[str, Any]  # one row, by column name, in values that Arrow takes

OPTIONAL_COLUMNS = frozenset({"metadata"})  # a job may switch these on and off over the life of its folder
_TIMESTAMP = pa.timestamp("us", tz="UTC")
_EVIDENCE = pa.struct(
    [
        pa.field("field", pa.string()),
        pa.field("quote", pa.string()),
        pa.field("page", pa.int32()),
        pa.field("verified", pa.bool_()),
    ]
)
# Parquet calls the values of a list `element`; with that name a schema comes back from disk as it was written.
_FIELDS = (
    pa.field("doc_id", pa.string(), nullable=False),
    pa.field("source", pa.string(), nullable=False),
    pa.field("content_sha256", pa.string()),
    pa.field("status", pa.string(), nullable=False),
    pa.field("error_type", pa.string()),
    pa.field("error", pa.string()),
    pa.field("stage", pa.string()),
    pa.field("answer", pa.string()),
    pa.field("evidence", pa.list_(pa.field("element", _EVIDENCE))),
    pa.field("thinking", pa.string()),
    pa.field("flags", pa.list_(pa.field("element", pa.string()))),
    pa.field("num_pages", pa.int32()),
    pa.field("num_chunks", pa.int32()),
    pa.field("reduce_levels", pa.int32()),
    pa.field("prompt_tokens", pa.int64(), nullable=False),
    pa.field("completion_tokens", pa.int64(), nullable=False),
    pa.field("cached_tokens", pa.int64(), nullable=False),
    pa.field("finish_reason", pa.string()),
    pa.field("model", pa.string(), nullable=False),
    pa.field("model_sha256", pa.string(), nullable=False),
    pa.field("precision", pa.string(), nullable=False),
    pa.field("job_sha256", pa.string(), nullable=False),
    pa.field("run_id", pa.string(), nullable=False),
    pa.field("started_at", _TIMESTAMP, nullable=False),
    pa.field("finished_at", _TIMESTAMP, nullable=False),
)
_ROW_FIELDS = [field.name for field in dataclasses.fields(ResultRow)]
_SURROGATES = re.compile("[\ud800-\udfff]")
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def result_schema(*, metadata: bool) -> pa.Schema:
    """Columns in the order of ResultRow; `metadata`, a JSON string, comes last and only when asked for."""
    return pa.schema([*_FIELDS, pa.field("metadata", pa.string())] if metadata else _FIELDS)


def row_to_dict(row: ResultRow) -> Columns:
    """A row as column values, `metadata` as JSON text included. Text is made storable, see clean_text, clean_id."""
    columns = {name: _plain(getattr(row, name)) for name in _ROW_FIELDS}
    columns["doc_id"] = clean_id(row.doc_id)
    return columns


def rows_to_table(rows: Sequence[Columns], schema: pa.Schema) -> pa.Table:
    """Rows as an Arrow table.

    Raises ValueError for a row with a key that the schema lacks (pyarrow would drop it in silence), without one that
    it has, with no value where one is needed, or with a value of another type.
    """
    names = set(schema.names)
    needed = [field.name for field in schema if not field.nullable]
    for row in rows:
        wrong = [f"{name} is no column" for name in sorted(row.keys() - names)]
        wrong += [f"{name} is missing" for name in sorted(names - row.keys())]
        wrong += [f"{name} has no value" for name in needed if name in row and row[name] is None]
        if wrong:
            raise ValueError(f"a row does not fit the table: {', '.join(wrong)}")
    try:
        return pa.Table.from_pylist(list(rows), schema=schema)
    except (pa.ArrowException, TypeError, OverflowError) as error:
        raise ValueError(f"a row does not fit the table: {error}") from error


def clean_text(text: str) -> str:
    """Text without lone surrogates, which JSON lets in and UTF-8 cannot hold: each becomes U+FFFD."""
    return text if text.isascii() else _SURROGATES.sub("\ufffd", text)


def to_json(value: object) -> str:
    """JSON on one line, storable and strict: no lone surrogates, and null for numbers that are none."""
    with suppress(TypeError):  # lone surrogates, numbers of more than 64 bits, very deep: seldom, and slower
        return orjson.dumps(value).decode()
    try:
        text = json.dumps(_finite(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except RecursionError:
        return '"nested too deeply to be written"'
    return clean_text(text)


def microseconds(moment: datetime.datetime) -> int:
    """Microseconds since 1970, exact."""
    return (moment - _EPOCH) // datetime.timedelta(microseconds=1)


def _plain(value: object) -> object:
    if value is None or isinstance(value, int):  # most columns; the rest is slower
        return value
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=datetime.UTC) if value.tzinfo is None else value.astimezone(datetime.UTC)
    if isinstance(value, Evidence):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return to_json(dict(value))
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_finite(item) for item in value]
    return value
