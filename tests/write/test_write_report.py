from __future__ import annotations

import datetime
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from write_helpers import START, make_row, open_store

from qwen_batch.errors import OutputError, UsageError
from qwen_batch.write.report import AnswerLine, iter_answers, summarize


def fill(folder: Path) -> None:
    failed = {"status": "failed", "answer": None}
    rows = [
        make_row("a", seconds=5),
        make_row("b", seconds=9, status="flagged", error_type="cut_off"),
        make_row("c", seconds=2, error_type="encrypted", error="needs a password", **failed),
        make_row("d", seconds=3, error_type="too_long", **failed),
        make_row("e", seconds=3, error_type="too_long", model="other", **failed),
    ]
    with closing(open_store(folder, flush_rows=2)) as store:
        store.add_rows([(row, "k") for row in rows])


def test_a_table_in_numbers(tmp_path: Path) -> None:
    fill(tmp_path)
    summary = summarize(tmp_path)
    assert summary.results == tmp_path / "results"
    assert (summary.num_documents, summary.num_parts) == (5, 3)
    assert list(summary.by_status.items()) == [("failed", 3), ("flagged", 1), ("ok", 1)]
    assert list(summary.by_error_type.items()) == [("too_long", 2), ("encrypted", 1)]
    assert (summary.prompt_tokens, summary.completion_tokens, summary.cached_tokens) == (500, 100, 150)
    assert summary.models == {"demo": 4, "other": 1}
    assert summary.precisions == {"bfloat16": 5}
    assert summary.first_started_at == START
    assert summary.first_finished_at == START + datetime.timedelta(seconds=2)
    assert summary.last_finished_at == START + datetime.timedelta(seconds=9)


def test_an_empty_table_in_numbers(tmp_path: Path) -> None:
    open_store(tmp_path).close()
    summary = summarize(tmp_path)
    assert (summary.num_documents, summary.prompt_tokens, summary.last_finished_at) == (0, 0, None)
    assert summary.by_status == {}
    assert list(iter_answers(tmp_path)) == []


def test_the_first_answers(tmp_path: Path) -> None:
    fill(tmp_path)
    assert list(iter_answers(tmp_path, 3)) == [
        AnswerLine("a", "ok", "yes", None, None),
        AnswerLine("b", "flagged", "yes", "cut_off", None),
        AnswerLine("c", "failed", None, "encrypted", "needs a password"),
    ]
    assert len(list(iter_answers(tmp_path))) == 5


def test_a_folder_that_is_no_output(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        summarize(tmp_path / "nowhere")
    assert str(caught.value) == (
        f"{tmp_path / 'nowhere'}: does not exist; name the folder that a run wrote (its output.dir)"
    )
    with pytest.raises(UsageError, match=r"is no output of a run \(no results/part-\*\.parquet in it\)"):
        iter_answers(tmp_path, 1)
    (tmp_path / "results").mkdir()
    pq.write_table(pa.table({"x": [1]}), tmp_path / "results" / "part-000000.parquet")
    with pytest.raises(OutputError, match="is not a part of a result table; move it away"):
        summarize(tmp_path)
