"""Answers and failures -> rows of the result table."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Protocol

from qwen_batch.records import Answer, CleanDocument, Failure, FinishReason, ResultRow


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What all rows of a run share."""

    model: str
    model_sha256: str
    precision: str
    job_sha256: str
    run_id: str


class TaskFacts(Protocol):
    """What a row tells about the calls that made it; token counts are sums over all of them."""

    @property
    def document(self) -> CleanDocument: ...
    @property
    def num_chunks(self) -> int: ...
    @property
    def reduce_levels(self) -> int: ...
    @property
    def prompt_tokens(self) -> int: ...
    @property
    def completion_tokens(self) -> int: ...
    @property
    def cached_tokens(self) -> int: ...
    @property
    def finish_reason(self) -> FinishReason | None: ...
    @property
    def flags(self) -> tuple[str, ...]: ...


def answered_row(
    task: TaskFacts, answer: Answer, run: RunFacts, *, started_at: datetime.datetime, finished_at: datetime.datetime
) -> ResultRow:
    """The row of an answered document: `flagged` if reading, planning or the answer left a flag, else `ok`."""
    document = task.document
    flags = tuple(dict.fromkeys((*document.flags, *task.flags, *answer.flags)))
    return ResultRow(
        doc_id=document.doc_id,
        source=document.source,
        content_sha256=document.content_sha256,
        status="flagged" if flags else "ok",
        error_type=None,
        error=None,
        stage=None,
        answer=answer.text,
        evidence=answer.evidence,
        thinking=answer.thinking,
        flags=flags,
        num_pages=len(document.pages) or None,
        num_chunks=task.num_chunks,
        reduce_levels=task.reduce_levels,
        prompt_tokens=task.prompt_tokens,
        completion_tokens=task.completion_tokens,
        cached_tokens=task.cached_tokens,
        finish_reason=task.finish_reason,
        model=run.model,
        model_sha256=run.model_sha256,
        precision=run.precision,
        job_sha256=run.job_sha256,
        run_id=run.run_id,
        started_at=started_at,
        finished_at=finished_at,
        metadata=document.metadata,
    )


def failed_row(
    failure: Failure,
    run: RunFacts,
    *,
    started_at: datetime.datetime,
    finished_at: datetime.datetime,
    task: TaskFacts | None = None,
) -> ResultRow:
    """The row of a document without an answer; `task` tells what was spent on it, if it came as far as that."""
    return ResultRow(
        doc_id=failure.doc_id,
        source=failure.source,
        content_sha256=failure.content_sha256,
        status="failed",
        error_type=failure.error_type,
        error=failure.error,
        stage=failure.stage,
        answer=None,
        evidence=(),
        thinking=None,
        flags=task.document.flags if task else (),
        num_pages=failure.num_pages,
        num_chunks=task.num_chunks if task else None,
        reduce_levels=task.reduce_levels if task else None,
        prompt_tokens=task.prompt_tokens if task else 0,
        completion_tokens=task.completion_tokens if task else 0,
        cached_tokens=task.cached_tokens if task else 0,
        finish_reason="error" if failure.stage == "generate" else None,
        model=run.model,
        model_sha256=run.model_sha256,
        precision=run.precision,
        job_sha256=run.job_sha256,
        run_id=run.run_id,
        started_at=started_at,
        finished_at=finished_at,
        metadata=failure.metadata,
    )
