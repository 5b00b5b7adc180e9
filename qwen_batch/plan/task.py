"""The calls of one document: its parts, then merges of what was said about them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from qwen_batch.errors import DocumentError
from qwen_batch.plan.chunks import MIN_CHUNK_SIZE, Span, iter_chunks, iter_spans
from qwen_batch.plan.prompts import Note, Prompts, note_text, well_formed
from qwen_batch.plan.reduce import fit_notes, group_sizes
from qwen_batch.plan.tokens import Tokenizer
from qwen_batch.records import (
    Chunk,
    CleanDocument,
    CleanPage,
    Completion,
    Failure,
    FinishReason,
    Message,
    Request,
    SamplingParams,
)

# Tokens kept free beside a part: text and template may merge differently together than apart. Prompts are counted
# exactly all the same; this only makes a second division rare.
_SEAM_TOKENS = 8
_ENCODED, _DIVIDED = 0.8, 0.95  # shares of the time: the text is encoded; it is divided
_FAR_OVER = 3  # times the room: sums of counts are estimates, but not so far off
_LARGEST = 99_999  # stands in for part and page numbers where a prompt is measured before it is known
NO_DOCUMENT = CleanDocument("", "", "", "", pages=(CleanPage(1, ""), CleanPage(2, "")), page_starts=(0, 0))
SHORTENED_NOTES = "shortened_notes"  # flag: notes were too long to be merged whole


@dataclass(frozen=True, slots=True)
class Context:
    """What all tasks of a run share."""

    tokenizer: Tokenizer
    prompts: Prompts
    thinking: bool
    window: int  # tokens of the longest prompt and answer together
    chunk_size: int  # tokens
    overlap: int  # tokens
    threshold: int | None  # tokens of a whole prompt; None: what fits
    map_max_tokens: int | None  # None: as long as the answer
    answer_text: Callable[[Completion], str]
    tick: Callable[[float], None]  # is told what share of a long document is planned; may raise to break off
    why_indivisible: str | None = None  # set where no document can be divided in this window

    def encode(self, messages: Sequence[Message]) -> list[int]:
        return self.tokenizer.encode_chat(messages, self.thinking)

    def encode_all(self, chats: Sequence[Sequence[Message]]) -> list[list[int]]:
        return self.tokenizer.encode_chats(chats, self.thinking)

    def map_sampling(self, sampling: SamplingParams) -> SamplingParams:
        return replace(sampling, max_tokens=self.map_max_tokens or sampling.max_tokens)

    def document_overhead(self, document: CleanDocument) -> int:
        """Tokens of a whole document's prompt without its text."""
        return len(self.encode(self.prompts.document_messages(document._replace(text=""))))

    def map_room(self, document: CleanDocument, sampling: SamplingParams) -> int:
        """Tokens that a part of this document may have."""
        chunk = Chunk(_LARGEST, "", _LARGEST, _LARGEST, 0, 0, 0)
        overhead = len(self.encode(self.prompts.map_messages(document, chunk, _LARGEST)))
        return self.window - overhead - self.map_sampling(sampling).max_tokens - _SEAM_TOKENS

    def reduce_room(self, document: CleanDocument, max_tokens: int) -> int:
        """Tokens that two notes about this document may have."""
        note = Note(_LARGEST, _LARGEST + 1, _LARGEST, _LARGEST + 1, "")
        return self.window - len(self.encode(self.prompts.reduce_messages(document, (note, note)))) - max_tokens


@dataclass(frozen=True, slots=True)
class Part:
    """What is said about a part (nothing yet) and the prompt that asks for it."""

    note: Note
    prompt: Sequence[int]


def split_into_parts(context: Context, document: CleanDocument, sampling: SamplingParams) -> tuple[Part, ...]:
    """Divide a document so that the prompt of every part fits. Raises DocumentError where none can."""
    if context.document_overhead(document) + sampling.max_tokens >= context.window:
        raise DocumentError(
            "bad_record",
            f"an answer of up to {sampling.max_tokens} tokens leaves no room for the document in the window of "
            f"{context.window}; ask for fewer with max_tokens",
        )
    if context.why_indivisible is not None:
        raise DocumentError("too_long", f"it does not fit as a whole, and {context.why_indivisible}")
    limit = context.window - context.map_sampling(sampling).max_tokens
    size = min(context.chunk_size, context.map_room(document, sampling))
    while size >= MIN_CHUNK_SIZE:
        parts = tuple(_iter_parts(context, document, size))
        excess = max(len(part.prompt) for part in parts) - limit
        if excess <= 0:
            return parts
        size -= excess
    raise DocumentError(
        "too_long", f"the prompt and an answer leave no room for a part of it in the window of {context.window} tokens"
    )


def _iter_parts(context: Context, document: CleanDocument, size: int) -> Iterator[Part]:
    """Parts of at most `size` tokens."""
    text, overlap = document.text, min(context.overlap, (size - 1) // 2)
    encoded = context.tokenizer.encode_text(text, lambda done: context.tick(_ENCODED * done / len(text)))
    spans: list[Span] = []
    for span in iter_spans(text, encoded, size, overlap):
        spans.append(span)
        context.tick(_ENCODED + (_DIVIDED - _ENCODED) * span[1] / len(text))
    for chunk in iter_chunks(document, spans):
        note = Note(chunk.index + 1, chunk.index + 1, chunk.first_page, chunk.last_page, "")
        encoded.forget(chunk.start)  # prompts take its place
        messages = context.prompts.map_messages(document, chunk, len(spans))
        yield Part(note, encoded.encode_chat(messages, context.thinking, chunk.start, chunk.end))
        context.tick(_DIVIDED + (1 - _DIVIDED) * (chunk.index + 1) / len(spans))


def plan_failure(document: CleanDocument, error: DocumentError) -> Failure:
    """What the table says about a document that could not be planned."""
    return Failure(
        doc_id=document.doc_id,
        source=document.source,
        stage="plan",
        error_type=error.error_type,
        error=str(error),
        content_sha256=document.content_sha256,
        num_pages=len(document.pages) or None,
        metadata=document.metadata,
    )


class DocumentTask:
    """The calls of one document, level by level: its parts (level 0), then merges, the last of which is the answer.

    Give every completion of its requests to `complete` and run what comes back; the task is done when it has a result
    and no request is out. When a call fails, nothing more is asked and the document's result is that failure.
    Made by `Planner.start`.
    """

    def __init__(
        self,
        context: Context,
        number: int,
        document: CleanDocument,
        sampling: SamplingParams,
        parts: tuple[Part, ...],
        *,
        is_whole: bool,
        warnings: tuple[str, ...] = (),
    ) -> None:
        self.document = document
        self.num_chunks = len(parts)
        self.level = 0  # 0 while the parts are read, then the level of merging that is out; 0 for a whole document
        self.warnings = warnings
        self.flags: tuple[str, ...] = ()  # what a reader of the answer must know
        self.prompt_tokens = 0  # sums over all calls
        self.completion_tokens = 0
        self.cached_tokens = 0
        self._context = context
        self._number = number
        self._sampling = sampling
        self._is_last = is_whole  # whether what is out is the answer itself
        self._notes = [part.note for part in parts]  # of this level, in order; without text where the call is out
        self._num_cut_answers = 0  # of this level
        self._result: Completion | Failure | None = None
        level_sampling = sampling if is_whole else context.map_sampling(sampling)
        self._first = tuple(self._request(index, part.prompt, level_sampling) for index, part in enumerate(parts))
        self._out = {request.request_id: index for index, request in enumerate(self._first)}

    def requests(self) -> tuple[Request, ...]:
        """The calls of level 0. Their prompts are let go with the first completion."""
        return self._first

    def complete(self, completion: Completion) -> tuple[Request, ...]:
        """Take the completion of one of this task's requests; return the calls that it makes possible.

        Raises ValueError when no such request is out.
        """
        index = self._out.pop(completion.request_id, None)
        if index is None:
            raise ValueError(f"request {completion.request_id} of {self.document.doc_id} is not out")
        self._first = ()
        self._count(completion)
        if completion.finish_reason == "error":
            self._result = self._result or self._failed_call(completion)
        elif self._is_last:
            self._result = completion
        else:
            self._take_note(index, completion)
        return () if self._out or self._result else self._merge()

    @property
    def is_done(self) -> bool:
        """Whether the result is final and no request is out."""
        return self._result is not None and not self._out

    @property
    def result(self) -> Completion | Failure:
        """The last completion, or why there is none. Raises ValueError before the task is done."""
        if self._result is None or self._out:
            raise ValueError(f"{self.document.doc_id} is not done: {len(self._out)} requests are out")
        return self._result

    @property
    def finish_reason(self) -> FinishReason | None:
        """How the answer ended; None before there is one and for a failure."""
        return self._result.finish_reason if isinstance(self._result, Completion) else None

    @property
    def reduce_levels(self) -> int:
        """Levels of merging so far, the last one included; 0 for a document that was read as a whole."""
        return self.level

    def _count(self, completion: Completion) -> None:
        self.prompt_tokens += completion.num_prompt_tokens
        self.completion_tokens += len(completion.token_ids)
        self.cached_tokens += completion.num_cached_tokens

    def _take_note(self, index: int, completion: Completion) -> None:
        text = well_formed(self._context.answer_text(completion)).strip()
        self._notes[index] = replace(self._notes[index], text=text or "(no answer)")
        self._num_cut_answers += completion.finish_reason == "length"

    def _merge(self) -> tuple[Request, ...]:
        """Open the next level: the final merge if everything fits one prompt, else merges of groups."""
        self._warn_of_cut_answers()
        self.level += 1
        try:
            groups = self._groups()
            self._is_last = len(groups) == 1
            return self._open_groups(groups)
        except DocumentError as error:
            self._result = plan_failure(self.document, error)
            self._out.clear()
            return ()

    def _groups(self) -> list[tuple[int, int]]:
        context, notes = self._context, self._notes
        if len(notes) <= 2:
            return [(0, len(notes))]
        sizes = [len(context.tokenizer.encode(note_text(self.document, note) + "\n\n")) for note in notes]
        room = context.window - self._sampling.max_tokens
        # Thousands of notes are not encoded together, which takes a gigabyte, to see that they do not fit.
        if sum(sizes) <= _FAR_OVER * room and len(self._build(notes)) <= room:
            return [(0, len(notes))]
        answer = context.map_sampling(self._sampling).max_tokens
        return group_sizes(sizes, context.window - answer - len(self._build([])) - _SEAM_TOKENS)

    def _open_groups(self, groups: list[tuple[int, int]]) -> tuple[Request, ...]:
        sampling = self._sampling if self._is_last else self._context.map_sampling(self._sampling)
        limit = self._context.window - sampling.max_tokens
        merged: list[Note] = []
        requests: list[Request] = []
        for index, (start, end) in enumerate(groups):
            notes = self._notes[start:end]
            if len(notes) == 1 and not self._is_last:  # the odd one out waits for the next level
                merged.append(notes[0])
                continue
            ids, was_cut = fit_notes(notes, self._build, self._context.tokenizer, limit)
            if was_cut:
                self._warn_of_cut_notes(notes)
            requests.append(self._request(index, ids, sampling))
            merged.append(replace(notes[0], last_part=notes[-1].last_part, last_page=notes[-1].last_page, text=""))
            self._out[requests[-1].request_id] = index
        self._notes = merged
        return tuple(requests)

    def _build(self, notes: Sequence[Note]) -> list[int]:
        return self._context.encode(self._context.prompts.reduce_messages(self.document, notes))

    def _request(self, index: int, ids: Sequence[int], sampling: SamplingParams) -> Request:
        wording = "merge" if self.level else "part" if self.num_chunks > 1 else "whole"
        name = f"{self._number}/{self.level}/{index}"
        return Request(name, ids, sampling, self.document.priority, self.level, wording)

    def _failed_call(self, completion: Completion) -> Failure:
        message = completion.error or "the model call failed"
        error = DocumentError(completion.error_type or "generate_failed", message)
        return plan_failure(self.document, error)._replace(stage="generate")

    def _warn_of_cut_answers(self) -> None:
        if self._num_cut_answers:
            limit = self._context.map_sampling(self._sampling).max_tokens
            what = f"{self._num_cut_answers} of {len(self._notes)} answers to parts were cut at {limit:,} tokens"
            self.warnings += (f"{self.document.doc_id}: {what}; raise long_documents.map_max_tokens",)
            self._num_cut_answers = 0

    def _warn_of_cut_notes(self, notes: Sequence[Note]) -> None:
        parts = f"{notes[0].first_part}-{notes[-1].last_part}"
        self.warnings += (f"{self.document.doc_id}: the notes on parts {parts} are too long to merge and were cut",)
        if SHORTENED_NOTES not in self.flags:
            self.flags += (SHORTENED_NOTES,)
