"""The values that cross rooms. All are frozen; none knows how it is read, computed or stored."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from qwen_batch.errors import UsageError

Stage = Literal["read", "clean", "plan", "generate", "answer", "write"]
Status = Literal["ok", "flagged", "failed", "skipped"]
FinishReason = Literal["stop", "length", "error"]
BBox = tuple[float, float, float, float]  # x0, top, x1, bottom in points (1/72 inch) from the page's top left corner


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a page as it is printed."""

    text: str
    bbox: BBox | None = None  # None: the source has no geometry (text files, records)
    font_size: float | None = None  # points
    table: int | None = None  # index into the page's tables: that table stands here, and `text` is empty
    aside: str | None = None  # the format itself says that this is no running text: header, footer, hidden ...


@dataclass(frozen=True, slots=True)
class Span:
    """A cell that takes more than one place: its first row and column, from 0, and how many it takes of each."""

    row: int
    column: int
    num_rows: int
    num_columns: int


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a page, row by row; a cell without text is ''."""

    rows: tuple[tuple[str, ...], ...]
    bbox: BBox | None = None
    spans: tuple[Span, ...] = ()  # a merged cell's text stands in its first place, its other places are ''
    header_rows: int = 1  # rows at the top that name the columns
    dividers: tuple[float, ...] = ()  # points from the left, where white alone divides the columns of a page's table


@dataclass(frozen=True, slots=True)
class Picture:
    """An image that covers the middle of its page."""

    bbox: BBox
    content: str  # alike for the same image
    see_through: bool  # drawn with transparency; a mask of its own does not count


@dataclass(frozen=True, slots=True)
class Page:
    """One page as it was read, before cleaning, lines in reading order. A text file is one page."""

    page_number: int  # from 1
    lines: tuple[Line, ...]
    tables: tuple[Table, ...] = ()
    width: float | None = None  # points
    height: float | None = None  # points
    needs_ocr: bool = False  # the page shows something (an image) but has no text
    ocr_confidence: float | None = None  # 0 to 1, mean over characters; None: the text is the document's own
    written_down: bool = False  # lines run from the top down and follow each other from right to left
    pictures: tuple[Picture, ...] = ()  # of a PDF
    paragraphs: bool = False  # each line is a whole paragraph or list item, as office formats keep them

    @property
    def text(self) -> str:
        return "\n".join(line.text for line in self.lines)


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation, in the terms of chat templates."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Document:
    """One input document as it was read: pages of text, or a ready conversation."""

    doc_id: str  # unique in a run; the searched folder's name and the path below it, or the record's id
    source: str  # path, path:line, or `stdin:line`
    content_sha256: str  # hex, of the file's bytes or of the record
    pages: tuple[Page, ...] = ()
    messages: tuple[Message, ...] = ()  # not empty: the record is a conversation, and `pages` is empty
    sampling: Mapping[str, object] = field(default_factory=dict)  # what the record itself asks, over the job's
    metadata: Mapping[str, object] = field(default_factory=dict)  # the record's own, passed through
    priority: int = 0  # larger goes first
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """Within which bounds files are read; the job's section `input` says what each does. `extract` gets along with
    this form, which needs no pydantic."""

    timeout_seconds: float = 60.0
    memory_limit: int = 1 << 30  # bytes
    max_pages: int = 20_000
    workers: int | None = None  # None: one for each core
    ocr: Literal["auto", "off"] = "auto"
    passwords: tuple[str, ...] = ()
    password_file: str | None = None


@dataclass(frozen=True, slots=True)
class CleanSteps:
    """Which cleaning steps run; the job's section `clean` says what each does. Reading processes get this form, which
    needs no pydantic."""

    unicode: bool = True
    headers_footers: bool = True
    page_numbers: bool = True
    line_numbers: bool = True
    watermarks: bool = True
    stamps: bool = True
    footnotes: bool = True
    join_lines: bool = True
    tables: bool = True


@dataclass(frozen=True, slots=True)
class Removal:
    """Something that cleaning took out of the text, and why."""

    page_number: int
    text: str
    reason: str  # a short fixed word: header, footer, page_number, ...


@dataclass(frozen=True, slots=True)
class CleanPage:
    """The cleaned text of one page: paragraphs one a line, blank lines between blocks."""

    page_number: int
    text: str
    tables: tuple[Table, ...] = ()


@dataclass(frozen=True, slots=True)
class CleanDocument:
    """A document after cleaning. `text` and `pages` hold the same words."""

    doc_id: str
    source: str
    content_sha256: str
    text: str
    pages: tuple[CleanPage, ...] = ()
    page_starts: tuple[int, ...] = ()  # offset into `text` at which each of `pages` begins, ascending
    messages: tuple[Message, ...] = ()
    sampling: Mapping[str, object] = field(default_factory=dict)
    metadata: Mapping[str, object] = field(default_factory=dict)
    priority: int = 0
    removed: tuple[Removal, ...] = ()
    warnings: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()  # what reading or cleaning found that a reader of the answer must know


@dataclass(frozen=True, slots=True)
class Failure:
    """A document that could not be answered, and why."""

    doc_id: str
    source: str
    stage: Stage
    error_type: str  # a short fixed word
    error: str  # a sentence for the reader
    content_sha256: str | None = None  # None: not even the bytes could be read
    num_pages: int | None = None
    metadata: Mapping[str, object] = field(default_factory=dict)


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


def clean_id(doc_id: str) -> str:
    """An id without lone surrogates: each becomes its `\\udc..` escape, so that different ids stay different."""
    return doc_id if doc_id.isascii() else doc_id.encode("utf-8", "backslashreplace").decode("utf-8")
