"""CleanDocument -> Requests: one call for a document that fits, else map over its parts and reduce.

A task belongs to one document and knows nothing of others: as soon as the last answer of its level is in, its next
level is ready, whatever level other documents are at.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from qwen_batch.errors import DocumentError, JobError, QwenBatchError, UsageError
from qwen_batch.job import Job, sampling_from_record
from qwen_batch.plan.chunks import MIN_CHUNK_SIZE
from qwen_batch.plan.prompts import Note, Prompts, well_formed
from qwen_batch.plan.task import NO_DOCUMENT, Context, DocumentTask, Part, plan_failure, split_into_parts
from qwen_batch.plan.tokens import SECTION, Tokenizer, exceeds
from qwen_batch.records import CleanDocument, Completion, Failure, Message, SamplingParams

__all__ = ["DocumentTask", "Planner"]


@dataclass(frozen=True, slots=True)
class _Draft:
    """A document before its prompt is encoded."""

    document: CleanDocument
    sampling: SamplingParams
    messages: tuple[Message, ...] | None  # of all of it in one prompt; none where it is far too long for one


class Planner:
    """Turns documents into tasks for one job and one model.

    window: tokens of the longest prompt and answer together that the engine takes.
    answer_text: what of a part's completion goes into the reduce prompt, such as the text without its thoughts.
    tick: is told what share (0..1) of a long document is planned, and may raise to break off.

    A chunk size that the job does not name is lowered to what fits (`notices` says so); one that it names must fit.
    Raises JobError, with the numbers, for a job that cannot run in this window.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        job: Job,
        window: int,
        *,
        answer_text: Callable[[Completion], str] = lambda completion: completion.text,
        tick: Callable[[float], None] = lambda share: None,
    ) -> None:
        self._sampling = job.sampling
        self._plain_sampling = job.sampling.params()  # of documents that ask for nothing else
        self._numbers = itertools.count()
        self._context = Context(
            tokenizer=tokenizer,
            prompts=Prompts(job.prompt, job.long_documents),
            thinking=job.prompt.thinking == "on",
            window=window,
            chunk_size=job.long_documents.chunk_size,
            overlap=job.long_documents.overlap,
            threshold=job.long_documents.threshold,
            map_max_tokens=job.long_documents.map_max_tokens,
            answer_text=answer_text,
            tick=tick,
        )
        self.notices: tuple[str, ...] = ()
        self._check_answer_fits()
        if self._context.prompts.has_question:  # else only conversations can come, which are never divided
            self._settle_chunk_size(job)

    @property
    def chunk_size(self) -> int:
        """Tokens of a part, at most."""
        return self._context.chunk_size

    @property
    def overlap(self) -> int:
        """Tokens of a part that are repeated at the start of the next, at most."""
        return self._context.overlap

    def start(self, document: CleanDocument) -> DocumentTask | Failure:
        """Plan one document. What is wrong with it becomes a Failure of stage `plan`, never an exception."""
        return self.start_all([document])[0]

    def start_all(self, documents: Sequence[CleanDocument]) -> list[DocumentTask | Failure]:
        """`start` for each; their prompts are encoded together, which takes less time."""
        drafts = [self._draft(document) for document in documents]
        chats = [draft.messages for draft in drafts if isinstance(draft, _Draft) and draft.messages is not None]
        prompts = iter(self._encode_all(chats))
        return [draft if isinstance(draft, Failure) else self._plan(draft, prompts) for draft in drafts]

    def _draft(self, document: CleanDocument) -> _Draft | Failure:
        try:
            sampling = self._sampling_for(document)
            if document.messages:
                return self._draft_conversation(document, sampling)
            text = well_formed(document.text)
            return self._draft_document(document if text is document.text else document._replace(text=text), sampling)
        except DocumentError as error:
            return plan_failure(document, error)

    def _draft_document(self, document: CleanDocument, sampling: SamplingParams) -> _Draft:
        if not document.text.strip():
            raise DocumentError("empty", "the document holds no text")
        if not self._context.prompts.has_question:
            raise DocumentError("no_question", "the job asks nothing of a document; set prompt.question")
        context = self._context
        is_far_too_long = len(document.text) > SECTION and exceeds(document.text, context.tokenizer, context.window)
        return _Draft(document, sampling, None if is_far_too_long else context.prompts.document_messages(document))

    def _draft_conversation(self, document: CleanDocument, sampling: SamplingParams) -> _Draft:
        if not any(message.content.strip() for message in document.messages):
            raise DocumentError("empty", "the conversation holds no text")
        return _Draft(document, sampling, self._context.prompts.conversation_messages(document))

    def _encode_all(self, chats: list[tuple[Message, ...]]) -> list[list[int] | Exception]:
        """The ids of each prompt, or why it has none."""
        try:
            return [*self._context.encode_all(chats)]
        except Exception:  # of one of them; the others must not suffer
            return [self._encode(messages) for messages in chats]

    def _encode(self, messages: tuple[Message, ...]) -> list[int] | Exception:
        try:
            return self._context.encode(messages)
        except Exception as error:
            return error

    def _plan(self, draft: _Draft, prompts: Iterator[list[int] | Exception]) -> DocumentTask | Failure:
        """prompts: those of the drafts that have messages, from this one on."""
        document = draft.document
        try:
            if draft.messages is None:
                return self._divided(document, draft.sampling, f"{len(document.text):,} characters")
            prompt = next(prompts)
            if document.messages:
                return self._conversation(document, draft.sampling, prompt)
            if isinstance(prompt, Exception):
                raise prompt
            return self._document(document, draft.sampling, prompt)
        except DocumentError as error:
            return plan_failure(document, error)

    def _document(self, document: CleanDocument, sampling: SamplingParams, ids: list[int]) -> DocumentTask:
        if len(ids) <= self._threshold(sampling):
            return self._whole(document, sampling, ids)
        return self._divided(document, sampling, f"{len(ids):,} tokens", ids)

    def _threshold(self, sampling: SamplingParams) -> int:
        fitting = self._context.window - sampling.max_tokens
        return min(fitting, self._context.threshold or fitting)

    def _divided(
        self, document: CleanDocument, sampling: SamplingParams, size: str, ids: list[int] | None = None
    ) -> DocumentTask:
        """ids: of all of it in one prompt, unless that is too long for any."""
        context, unit = self._context, " tokens" if ids is None else ""
        over = f"{document.doc_id}: {size} are over the threshold of {self._threshold(sampling):,}{unit}"
        parts = split_into_parts(context, document, sampling)
        if len(parts) == 1 and ids is not None and len(ids) <= context.window - sampling.max_tokens:
            over += f"; read as a whole, as it fits one part of {self.chunk_size:,} tokens"
            return self._whole(document, sampling, ids, warnings=(over,))
        over += f"; read in {len(parts)} parts, then merged"
        return DocumentTask(context, next(self._numbers), document, sampling, parts, is_whole=False, warnings=(over,))

    def _whole(
        self, document: CleanDocument, sampling: SamplingParams, ids: list[int], warnings: tuple[str, ...] = ()
    ) -> DocumentTask:
        part = Part(Note(1, 1, 1, 1, ""), ids)
        return DocumentTask(
            self._context, next(self._numbers), document, sampling, (part,), is_whole=True, warnings=warnings
        )

    def _conversation(
        self, document: CleanDocument, sampling: SamplingParams, prompt: list[int] | Exception
    ) -> DocumentTask:
        if isinstance(prompt, QwenBatchError):
            raise prompt
        if isinstance(prompt, Exception):  # a chat template is a program of the model's makers and raises what it likes
            raise DocumentError("bad_record", f"the model's chat template refuses the conversation: {prompt}")
        if len(prompt) + sampling.max_tokens > self._context.window:
            raise DocumentError(
                "too_long",
                f"the conversation has {len(prompt)} tokens and may be answered with {sampling.max_tokens}; together "
                f"at most {self._context.window} fit the model, and a conversation cannot be divided",
            )
        return self._whole(document, sampling, prompt)

    def _sampling_for(self, document: CleanDocument) -> SamplingParams:
        if not document.sampling:
            return self._plain_sampling
        try:
            return sampling_from_record(self._sampling, document.sampling)
        except UsageError as error:
            raise DocumentError("bad_record", f"sampling asked for by the record: {error}") from None

    def _check_answer_fits(self) -> None:
        context, max_tokens = self._context, self._sampling.max_tokens
        try:
            overhead = context.document_overhead(NO_DOCUMENT)
        except DocumentError as error:
            raise JobError(f"prompt.system: {error}") from None
        if overhead + max_tokens >= context.window:
            raise JobError(
                f"sampling.max_tokens: an answer of {max_tokens} tokens and a prompt of {overhead} leave no room for a "
                f"document in the window of {context.window}; lower it, or raise engine.max_model_len"
            )

    def _settle_chunk_size(self, job: Job) -> None:
        section, context = job.long_documents, self._context
        named = section.model_fields_set
        sampling = job.sampling.params()
        room = context.map_room(NO_DOCUMENT, sampling)
        longest = max(sampling.max_tokens, context.map_sampling(sampling).max_tokens)
        if room < MIN_CHUNK_SIZE or context.reduce_room(NO_DOCUMENT, longest) < 2 * MIN_CHUNK_SIZE:
            # Documents that fit as they are need no parts; one that does not fails by itself.
            reason = (
                f"in a window of {context.window} tokens the prompts and answers of up to {longest} leave no room for "
                "parts; lower sampling.max_tokens or long_documents.map_max_tokens"
            )
            self._context = replace(context, why_indivisible=reason)
            return
        chunk_size = section.chunk_size
        if "chunk_size" not in named:
            chunk_size = max(MIN_CHUNK_SIZE, min(chunk_size, room, section.threshold or chunk_size))
        if not MIN_CHUNK_SIZE <= chunk_size <= room:
            raise JobError(
                f"long_documents.chunk_size: {chunk_size} is not between {MIN_CHUNK_SIZE} and {room}, what fits the "
                f"window of {context.window} tokens beside the prompt and the answer"
            )
        overlap = section.overlap if "overlap" in named else min(section.overlap, chunk_size // 10)
        if 2 * overlap >= chunk_size:
            raise JobError(
                f"long_documents.overlap: {overlap} must be below half of long_documents.chunk_size, {chunk_size}"
            )
        if chunk_size != section.chunk_size:
            self.notices = (f"long documents are divided into parts of {chunk_size} tokens (not {section.chunk_size})",)
        self._context = replace(context, chunk_size=chunk_size, overlap=overlap)
