from __future__ import annotations

import dataclasses
import datetime
import json
import math

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from write_helpers import START, make_row

from qwen_batch.records import ResultRow, clean_id
from qwen_batch.write.schema import clean_text, result_schema, row_to_dict, rows_to_table, to_json

NEEDED = (
    "doc_id source status model model_sha256 precision job_sha256 run_id started_at finished_at "
    "prompt_tokens completion_tokens cached_tokens"
)


def test_columns_are_those_of_a_result_row_in_order() -> None:
    names = [field.name for field in dataclasses.fields(ResultRow)]
    assert result_schema(metadata=True).names == names
    assert result_schema(metadata=False).names == names[:-1]
    assert names[-1] == "metadata"


def test_types_and_needed_columns() -> None:
    schema = result_schema(metadata=True)
    assert {field.name for field in schema if not field.nullable} == set(NEEDED.split())
    assert schema.field("finished_at").type == pa.timestamp("us", tz="UTC")
    assert schema.field("num_pages").type == pa.int32()
    assert schema.field("cached_tokens").type == pa.int64()
    assert schema.field("evidence").type.value_type.names == ["field", "quote", "page", "verified"]


def test_a_row_comes_back_as_it_was() -> None:
    moment = datetime.datetime(2026, 11, 29, 10, 0, tzinfo=datetime.timezone(datetime.timedelta(hours=8)))
    row = row_to_dict(make_row(started_at=moment))
    (read,) = rows_to_table([row], result_schema(metadata=True)).to_pylist()
    assert read["doc_id"] == "a.pdf"
    assert read["evidence"][1] == {"field": "date", "quote": "合同", "page": None, "verified": False}
    assert read["flags"] == ["cut_off"]
    assert read["started_at"] == moment
    assert read["finished_at"] == START + datetime.timedelta(seconds=1)
    assert json.loads(read["metadata"]) == {"team": "法务", "n": [1, 2.5, None]}
    assert "法务" in read["metadata"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"extra": 1}, "a row does not fit the table: extra is no column"),
        ({"model": None}, "a row does not fit the table: model has no value"),
        ({"num_pages": 2**40}, "a row does not fit the table: "),
        ({"answer": 7}, "a row does not fit the table: "),
    ],
)
def test_a_row_that_does_not_fit_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rows_to_table([{**row_to_dict(make_row()), **change}], result_schema(metadata=True))


def test_a_missing_column_is_refused() -> None:
    row = row_to_dict(make_row())
    del row["answer"]
    with pytest.raises(ValueError, match="answer is missing"):
        rows_to_table([row], result_schema(metadata=True))


def test_lone_surrogates_are_replaced_everywhere() -> None:
    bad = "x\ud800y"
    row = make_row(answer=bad, thinking=bad, flags=(bad,), error=bad, metadata={bad: [bad]}, doc_id=bad, source=bad)
    (read,) = rows_to_table([row_to_dict(row)], result_schema(metadata=True)).to_pylist()
    for name in ("answer", "thinking", "error", "source"):
        assert read[name] == "x\ufffdy"
    assert read["flags"] == ["x\ufffdy"]
    assert json.loads(read["metadata"]) == {"x\ufffdy": ["x\ufffdy"]}
    assert read["doc_id"] == "x\\ud800y"


def test_ids_that_differ_in_surrogates_alone_stay_different() -> None:
    assert clean_id("file-\udc80.pdf") != clean_id("file-\udc81.pdf")
    assert clean_id("合同.pdf") == "合同.pdf"


@settings(deadline=None, derandomize=True, database=None)
@given(st.text(st.characters()))
def test_cleaned_text_is_utf8_and_valid_text_is_untouched(text: str) -> None:
    clean_text(text).encode()
    clean_id(text).encode()
    assert len(clean_text(text)) == len(text)
    try:
        text.encode()
    except UnicodeEncodeError:
        return
    assert clean_text(text) == clean_id(text) == text


def test_json_is_strict() -> None:
    assert to_json({"a": [math.nan, math.inf, 1.5], "b": "\ud800"}) == '{"a":[null,null,1.5],"b":"\ufffd"}'
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert to_json(deep) == '"nested too deeply to be written"'
