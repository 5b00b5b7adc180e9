"""What an output folder holds, for people: `qwen-batch show`. Reads the table alone, also while a run goes on."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from textwrap import indent

import pyarrow as pa
import pyarrow.compute as pc

from qwen_batch.errors import OutputError, UsageError
from qwen_batch.terminal import one_line
from qwen_batch.write.disk import output_errors
from qwen_batch.write.parts import list_parts, read_part

_TOKENS = ("prompt_tokens", "completion_tokens", "cached_tokens")
_SUMMARY_COLUMNS = ["status", "error_type", *_TOKENS, "model", "precision", "started_at", "finished_at"]
_ANSWER_COLUMNS = ["doc_id", "status", "answer", "error_type", "error"]


@dataclass(frozen=True, slots=True)
class TableSummary:
    """A result table in numbers. Moments are None in a table without rows."""

    results: Path  # the folder that table readers open
    num_documents: int
    num_parts: int
    by_status: Mapping[str, int]  # most frequent first, as the other counts
    by_error_type: Mapping[str, int]  # of failed rows
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    models: Mapping[str, int]  # documents by the model that answered them
    precisions: Mapping[str, int]
    first_started_at: datetime.datetime | None
    first_finished_at: datetime.datetime | None
    last_finished_at: datetime.datetime | None


@dataclass(frozen=True, slots=True)
class AnswerLine:
    """The part of a row that one reads first."""

    doc_id: str
    status: str
    answer: str | None
    error_type: str | None
    error: str | None


def summarize(folder: Path) -> TableSummary:
    """Count the table of an output folder. Raises UsageError when there is none, OutputError when it is damaged."""
    results = folder / "results"
    parts = _parts(folder)
    table = pa.concat_tables([_read(results / part, _SUMMARY_COLUMNS) for part in parts])
    failed = table.filter(pc.equal(table["status"], "failed"))
    prompt_tokens, completion_tokens, cached_tokens = (pc.sum(table[name]).as_py() or 0 for name in _TOKENS)
    finished = pc.min_max(table["finished_at"]).as_py()
    return TableSummary(
        results=results,
        num_documents=len(table),
        num_parts=len(parts),
        by_status=_count(table["status"]),
        by_error_type=_count(failed["error_type"].drop_null()),
        prompt_tokens=prompt_tokens,
        completion_tokens=completion_tokens,
        cached_tokens=cached_tokens,
        models=_count(table["model"]),
        precisions=_count(table["precision"]),
        first_started_at=pc.min(table["started_at"]).as_py(),
        first_finished_at=finished["min"],
        last_finished_at=finished["max"],
    )


def iter_answers(folder: Path, limit: int | None = None) -> Iterator[AnswerLine]:
    """The first `limit` rows of an output folder's table, all without a limit. Raises as `summarize`, at once."""
    return islice(_iter_lines(folder / "results", _parts(folder)), limit)


def _iter_lines(results: Path, parts: list[str]) -> Iterator[AnswerLine]:
    for part in parts:
        for row in _read(results / part, _ANSWER_COLUMNS).to_pylist():
            yield AnswerLine(**row)


def _parts(folder: Path) -> list[str]:
    if not folder.exists():
        raise UsageError(f"{folder}: does not exist; name the folder that a run wrote (its output.dir)")
    results = folder / "results"
    with output_errors(results):
        parts = list_parts(results) if results.is_dir() else []
    if not parts:
        raise UsageError(f"{folder}: is no output of a run (no results/part-*.parquet in it); name its output.dir")
    return parts


def _read(part: Path, columns: list[str]) -> pa.Table:
    table = read_part(part, columns)
    if table.column_names != columns:
        raise OutputError(f"{part}: is not a part of a result table; move it away")
    return table


def _count(column: pa.ChunkedArray) -> dict[str, int]:
    counts = [(item["values"], item["counts"]) for item in pc.value_counts(column).to_pylist()]
    return dict(sorted(counts, key=lambda item: (-item[1], item[0])))


def format_table(summary: TableSummary, answers: Iterator[AnswerLine], device: str | None = None) -> str:
    """A summary and some answers as lines of text; `device` is a line on the last run."""
    lines = [
        f"table      {summary.results} ({summary.num_parts} part{'s' * (summary.num_parts != 1)})",
        f"documents  {summary.num_documents:,}: {_list_counts(summary.by_status)}",
    ]
    if summary.by_error_type:
        lines.append(f"errors     {_list_counts(summary.by_error_type)}")
    lines.append(
        f"tokens     {summary.prompt_tokens:,} in ({summary.cached_tokens:,} cached), {summary.completion_tokens:,} out"
    )
    if summary.models:
        lines.append(f"model      {_list_counts(summary.models)}; precision {_list_counts(summary.precisions)}")
    if device is not None:
        lines.append(f"device     {device} (last run)")
    if summary.last_finished_at is not None:
        lines.append(f"finished   {summary.last_finished_at:%Y-%m-%d %H:%M:%S} UTC")
    for answer in answers:
        text = answer.answer if answer.answer is not None else f"{answer.error_type}: {answer.error}"
        lines.append(f"\n{one_line(answer.doc_id)} ({answer.status})")
        lines.append(indent(text.strip(), "    "))
    return "\n".join(lines)


def _list_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items()) or "none"
