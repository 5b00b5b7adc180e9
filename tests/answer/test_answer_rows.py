from __future__ import annotations

import datetime
from dataclasses import dataclass

import pytest

from qwen_batch.answer.rows import RunFacts, answered_row, failed_row
from qwen_batch.records import Answer, CleanDocument, CleanPage, Evidence, Failure, FinishReason, ResultRow

RUN = RunFacts("demo", "aa", "bfloat16", "bb", "run-1")
START = datetime.datetime(2026, 1, 2, 3, tzinfo=datetime.UTC)
END = START + datetime.timedelta(seconds=5)
DOCUMENT = CleanDocument("a.pdf", "in/a.pdf", "cc", "x", pages=(CleanPage(1, "x"),), metadata={"k": 1})


@dataclass(frozen=True, slots=True)
class Task:
    document: CleanDocument = DOCUMENT
    num_chunks: int = 3
    reduce_levels: int = 1
    prompt_tokens: int = 100
    completion_tokens: int = 20
    cached_tokens: int = 40
    finish_reason: FinishReason | None = "stop"
    flags: tuple[str, ...] = ()


def test_an_answered_row() -> None:
    evidence = (Evidence("party", "Acme", 1, True),)
    row = answered_row(Task(), Answer("Paris.", "Hm.", evidence=evidence), RUN, started_at=START, finished_at=END)
    assert row == ResultRow(
        doc_id="a.pdf",
        source="in/a.pdf",
        content_sha256="cc",
        status="ok",
        error_type=None,
        error=None,
        stage=None,
        answer="Paris.",
        evidence=evidence,
        thinking="Hm.",
        flags=(),
        num_pages=1,
        num_chunks=3,
        reduce_levels=1,
        prompt_tokens=100,
        completion_tokens=20,
        cached_tokens=40,
        finish_reason="stop",
        model="demo",
        model_sha256="aa",
        precision="bfloat16",
        job_sha256="bb",
        run_id="run-1",
        started_at=START,
        finished_at=END,
        metadata={"k": 1},
    )


@pytest.mark.parametrize(
    ("document_flags", "task_flags", "answer_flags", "flags"),
    [
        (("a",), (), (), ("a",)),
        ((), ("b",), (), ("b",)),
        ((), (), ("c",), ("c",)),
        (("a",), ("b",), ("a",), ("a", "b")),
    ],
)
def test_any_flag_flags_the_row(
    document_flags: tuple[str, ...], task_flags: tuple[str, ...], answer_flags: tuple[str, ...], flags: tuple[str, ...]
) -> None:
    task = Task(document=DOCUMENT._replace(flags=document_flags), flags=task_flags)
    row = answered_row(task, Answer("x", None, answer_flags), RUN, started_at=START, finished_at=END)
    assert (row.status, row.flags) == ("flagged", flags)


def test_a_conversation_has_no_pages() -> None:
    task = Task(document=DOCUMENT._replace(pages=()))
    assert answered_row(task, Answer("x", None), RUN, started_at=START, finished_at=END).num_pages is None


def test_a_row_that_failed_before_any_call() -> None:
    failure = Failure("a.pdf", "in/a.pdf", "read", "encrypted", "needs a password", metadata={"k": 1})
    row = failed_row(failure, RUN, started_at=START, finished_at=END)
    assert (row.status, row.stage, row.error_type, row.error) == ("failed", "read", "encrypted", "needs a password")
    assert (row.answer, row.thinking, row.finish_reason, row.num_chunks, row.reduce_levels) == (None,) * 5
    assert (row.prompt_tokens, row.completion_tokens, row.cached_tokens) == (0, 0, 0)
    assert (row.content_sha256, row.num_pages, row.metadata) == (None, None, {"k": 1})
    assert (row.model, row.run_id, row.started_at, row.finished_at) == ("demo", "run-1", START, END)


def test_a_row_that_failed_in_a_call_tells_what_was_spent() -> None:
    failure = Failure("a.pdf", "in/a.pdf", "generate", "out_of_memory", "too big", "cc", 7)
    task = Task(document=DOCUMENT._replace(flags=("ocr_needed",)), finish_reason=None)
    row = failed_row(failure, RUN, started_at=START, finished_at=END, task=task)
    assert (row.num_chunks, row.reduce_levels, row.num_pages, row.finish_reason) == (3, 1, 7, "error")
    assert (row.prompt_tokens, row.completion_tokens, row.cached_tokens) == (100, 20, 40)
    assert row.flags == ("ocr_needed",)
