"""The values that cross rooms, from a document's text to its row; import them from `records`. All are frozen."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from qwen_batch.errors import UsageError
from qwen_batch.records import Stage

Status = Literal["ok", "flagged", "failed", "skipped"]
FinishReason = Literal["stop", "length", "error"]


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a document's text, small enough for one request."""

    index: int  # from 0
    text: str
    first_page: int
    last_page: int
    num_tokens: int  # of `text` alone
    start: int  # offset of `text` in the document's text
    end: int


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How tokens are chosen and when to stop.

    temperature 0 is greedy. top_k 0, top_p 1, min_p 0 and penalties 1 (repetition) and 0 (presence) are off.
    `repetition_penalty` counts prompt and output (Keskar et al. 2019, as in transformers); `presence_penalty` counts
    the output alone (as in the OpenAI API). The same seed gives the same tokens whatever else is in the batch.
    """

    max_tokens: int = 256
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    stop: str | Sequence[str] = ()
    stop_token_ids: Sequence[int] = ()
    ignore_eos: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        for good, message in (
            (self.max_tokens >= 1, "max_tokens must be at least 1"),
            (0.0 <= self.temperature < float("inf"), "temperature must be 0 (greedy) or a positive number"),
            (self.top_k >= 0, "top_k must be 0 (off) or more"),
            (0.0 < self.top_p <= 1.0, "top_p must be in (0, 1]"),
            (0.0 <= self.min_p <= 1.0, "min_p must be in [0, 1]"),
            (0.0 < self.repetition_penalty < float("inf"), "repetition_penalty must be positive (1 is off)"),
            (-2.0 <= self.presence_penalty <= 2.0, "presence_penalty must be in [-2, 2]"),
            ("" not in self.stop_strings, "stop must not hold an empty string"),
        ):
            if not good:
                raise UsageError(f"sampling: {message}")

    @property
    def stop_strings(self) -> tuple[str, ...]:
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)


@dataclass(frozen=True, slots=True)
class Request:
    """One model call."""

    request_id: str  # unique among the requests of an engine that are not finished
    prompt_token_ids: Sequence[int]
    sampling: SamplingParams = field(default_factory=SamplingParams)
    priority: int = 0  # larger goes first
    level: int = 0  # of a map-reduce; among equals in priority larger goes first
    template: str = ""  # the wording's name: answers to the same one are expected to be alike in length


@dataclass(frozen=True, slots=True)
class Completion:
    """What the model answered to one request."""

    request_id: str
    token_ids: tuple[int, ...]  # as generated; the end token is included when it was generated
    text: str  # without special tokens, cut before a stop string
    finish_reason: FinishReason
    num_prompt_tokens: int
    num_cached_tokens: int = 0  # prompt tokens whose keys and values were already there
    num_preemptions: int = 0
    redacted: tuple[str, ...] = ()  # rules of the job's filter whose places in `text` were replaced; token_ids are -1
    error_type: str | None = None  # with finish_reason error
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """A quote that supports an answer field."""

    field: str
    quote: str
    page: int | None
    verified: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """A completion as the reader of the table wants it."""

    text: str
    thinking: str | None  # None: the model did not think, or was not asked to
    flags: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True, slots=True)
class ResultRow:
    """One row of the result table. The columns stand in this order; see write/schema.py for their Arrow types."""

    doc_id: str
    source: str
    content_sha256: str | None
    status: Status
    error_type: str | None
    error: str | None
    stage: Stage | None  # where a failed row failed
    answer: str | None
    evidence: tuple[Evidence, ...]
    thinking: str | None
    flags: tuple[str, ...]
    num_pages: int | None
    num_chunks: int | None
    reduce_levels: int | None
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    finish_reason: FinishReason | None
    model: str
    model_sha256: str
    precision: str
    job_sha256: str
    run_id: str
    started_at: datetime.datetime  # UTC
    finished_at: datetime.datetime  # UTC
    metadata: Mapping[str, object] = field(default_factory=dict)  # a column only with output.metadata
