"""Model calls between the documents that ask and the engine that answers.

A call that an earlier run, or another document, has already made is not made again. Calls of later levels go first, so
that a document whose parts are done is merged while others are still read. The engine is given as many as its planning
looks at in advance; whose they are is told right before it begins with them. Only of parts of documents it gets no more
than `window`: they are alike in length, there is nothing to plan, and spread over the pile they would all be done at
its end, with every document in flight until then.
"""

from __future__ import annotations

import dataclasses
import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol

from qwen_batch.plan.keys import request_key
from qwen_batch.plan.tree import DocumentTask
from qwen_batch.records import Completion, Request
from qwen_batch.write.calls import ModelCall

# Of parts that wait outside the engine: with so many, no more documents are taken. As the engine's own look-ahead.
MAX_PARTS = 4096
MAX_TOKENS = 1 << 20

Place = tuple[int, int, int, str]  # (-priority, -level, order, key)


class Engine(Protocol):
    """What of the engine is used here."""

    def add(self, request: Request) -> None: ...
    def step(self, begin: Callable[[Sequence[Request]], None]) -> list[Completion]: ...
    @property
    def has_unfinished(self) -> bool: ...
    @property
    def wants_more(self) -> bool: ...


class CallMemory(Protocol):
    """Completions that outlive a run."""

    def completion(self, key: str) -> Completion | None: ...
    def add_completions(self, calls: list[ModelCall]) -> None: ...


class Redactor(Protocol):
    """What must not be kept; see answer/filters.py."""

    def seal(self, completion: Completion) -> Completion: ...
    def accepts(self, completion: Completion) -> bool: ...


class Work(Protocol):
    """What is done beside the device."""

    def result(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Asked:
    """A call of a document."""

    task: DocumentTask
    request: Request
    level: int


@dataclass(slots=True)
class _Call:
    """A call that is not answered."""

    asked: list[Asked]  # who wants it, first the one whose request is run
    is_part: bool
    has_begun: bool = False


@dataclass(frozen=True, slots=True)
class Prepared:
    """A call before it is asked: its key, and its completion where the journal knew it."""

    request: Request
    key: str
    known: Completion | None


@dataclass(frozen=True, slots=True)
class Answered:
    """A completion for the task that asked for it, under the id that the task gave."""

    task: DocumentTask
    completion: Completion


class CallBook:
    """Every call that is wanted and not answered yet."""

    def __init__(
        self,
        engine: Engine,
        memory: CallMemory,
        redactor: Redactor,
        *,
        model_sha256: str,
        precision: str,
        run_id: str,
        window: int,
        begin: Callable[[Iterable[DocumentTask]], None],
        submit: Callable[[Callable[[], None]], Work],
        stage: Callable[[str], AbstractContextManager[None]] = lambda name: nullcontext(),
    ) -> None:
        self._engine = engine
        self._memory = memory
        self._redactor = redactor
        self._model_sha256 = model_sha256
        self._precision = precision
        self._run_id = run_id
        self._window = window  # parts that wait in the engine
        self._begin = begin  # is told before each step whose calls it begins; their documents are in flight then
        self._submit = submit  # has it done beside the device, in order
        self._stage = stage  # whose time it is
        self._ready: list[Place] = []  # heap of calls that the engine does not have
        self._parts: list[Place] = []  # the same of parts of documents
        self._num_held_tokens = 0  # of prompts in `_parts`
        self._num_inside = self._num_inside_tokens = 0  # parts that the engine has and has not begun with
        self._order = 0
        self._asked: dict[str, _Call] = {}  # by key
        self._joined: list[DocumentTask] = []  # want a call that has begun, and have not been told of
        self._remembered: list[Answered] = []
        self._sealing: list[Work] = []  # calls that the journal has and that are being redacted there
        self._unkept: tuple[list[Completion], Work] | None = None  # of the last step; being made durable
        self.num_kept = 0  # calls that needed no engine: their answers were kept
        self.tokens: Counter[str] = Counter()  # of the others: prompt, completion, cached

    @property
    def num_open(self) -> int:
        """Different calls that are not answered."""
        return len(self._asked)

    @property
    def has_work(self) -> bool:
        return bool(self._asked or self._remembered)

    @property
    def wants_more(self) -> bool:
        """Whether planning is helped by more calls."""
        holds_many = len(self._parts) >= MAX_PARTS or self._num_held_tokens >= MAX_TOKENS
        return not (self._ready or holds_many) and self._engine.wants_more

    def ask(self, task: DocumentTask, requests: Iterable[Request]) -> None:
        """Want these calls, all of the task's present level."""
        self.ask_prepared(task, self.prepare(requests))

    def prepare(self, requests: Iterable[Request]) -> list[Prepared]:
        """What asking takes time for: keys, and what the journal knows. Any thread may call it."""
        keys = [(request, request_key(request, self._model_sha256, self._precision)) for request in requests]
        return [Prepared(request, key, self._known(key)) for request, key in keys]

    def _known(self, key: str) -> Completion | None:
        known = self._memory.completion(key)
        return known if known is not None and self._redactor.accepts(known) else None

    def ask_prepared(self, task: DocumentTask, calls: Iterable[Prepared]) -> None:
        """Want these calls, all of the task's present level."""
        for call in calls:
            self._ask(task, call)
        self._fill()

    def _ask(self, task: DocumentTask, prepared: Prepared) -> None:
        request, key = prepared.request, prepared.key
        asked = Asked(task, request, task.level)
        call = self._asked.get(key)
        if call is not None:
            call.asked.append(asked)
            if call.has_begun:
                self._joined.append(task)
            return
        known = prepared.known or self._known(key)  # it may have been answered since
        if known is not None:
            self._remember(asked, known)
            return
        is_part = task.num_chunks > 1 and not task.level
        self._asked[key] = _Call([asked], is_part)
        self._order += 1
        heapq.heappush(self._parts if is_part else self._ready, (-request.priority, -task.level, self._order, key))
        self._num_held_tokens += is_part * len(request.prompt_token_ids)

    def _fill(self) -> None:
        """Give the engine what its planning wants to see; and merges at once, which are few and are to overtake."""
        engine = self._engine
        while self._ready and (engine.wants_more or self._ready[0][1] < 0):
            self._give(heapq.heappop(self._ready))
        while self._parts and self._num_inside < self._window and self._num_inside_tokens < MAX_TOKENS:
            num_tokens = len(self._give(heapq.heappop(self._parts)).prompt_token_ids)
            self._num_held_tokens -= num_tokens
            self._num_inside += 1
            self._num_inside_tokens += num_tokens

    def _give(self, place: Place) -> Request:
        *_, key = place
        request = self._asked[key].asked[0].request
        self._engine.add(dataclasses.replace(request, request_id=key))
        return request

    def _note_begin(self, begun: Sequence[Request]) -> None:
        """Tell whose calls the coming step begins."""
        tasks, self._joined = self._joined, []
        for request in begun:
            call = self._asked[request.request_id]
            self._leave_pile(call)
            tasks += [asked.task for asked in call.asked]
        self._begin(tasks)

    def _leave_pile(self, call: _Call) -> None:
        if not call.has_begun:
            call.has_begun = True
            if call.is_part:
                self._num_inside -= 1
                self._num_inside_tokens -= len(call.asked[0].request.prompt_token_ids)

    def _remember(self, asked: Asked, known: Completion) -> None:
        self.num_kept += 1
        sealed = self._redactor.seal(known)
        if sealed is not known:  # it was kept before there was such a rule
            calls = [self._call(asked, sealed)]
            self._sealing.append(self._submit(lambda: self._memory.add_completions(calls)))
        self._remembered.append(Answered(asked.task, dataclasses.replace(sealed, request_id=asked.request.request_id)))

    def advance(self) -> Iterator[Answered]:
        """Run one step of the engine; what is answered is durable when it comes back.

        While the device computes, the answers of the step before are being written, and then they come back: a step
        later than they could, so that no step waits for a medium.
        """
        sealing, self._sealing = self._sealing, []
        for written in sealing:
            written.result()
        remembered, self._remembered = self._remembered, []
        yield from remembered
        self._fill()
        done = []
        if self._engine.has_unfinished:
            with self._stage("schedule"):
                done = [self._redactor.seal(completion) for completion in self._engine.step(self._note_begin)]
        yield from self._kept()
        if done:
            answers = [completion for completion in done if completion.finish_reason != "error"]
            calls = [self._call(self._asked[completion.request_id].asked[0], completion) for completion in answers]
            self._unkept = done, self._submit(lambda: self._memory.add_completions(calls))
        if not (self._engine.has_unfinished or self._ready or self._parts):  # no step to come, to write them beside
            yield from self._kept()

    def _kept(self) -> Iterator[Answered]:
        if self._unkept is None:
            return
        (done, written), self._unkept = self._unkept, None
        with self._stage("keep"):
            written.result()
        for completion in done:
            self._count(completion)
            call = self._asked.pop(completion.request_id)
            self._leave_pile(call)  # the engine may have refused it
            for asked in call.asked:
                renamed = dataclasses.replace(completion, request_id=asked.request.request_id)
                yield Answered(asked.task, renamed)

    def _count(self, completion: Completion) -> None:
        self.tokens["prompt"] += completion.num_prompt_tokens
        self.tokens["completion"] += len(completion.token_ids)
        self.tokens["cached"] += completion.num_cached_tokens

    def _call(self, asked: Asked, completion: Completion) -> ModelCall:
        return ModelCall(
            key=completion.request_id,
            completion=completion,
            doc_id=asked.task.document.doc_id,
            level=asked.level,
            index=int(asked.request.request_id.rpartition("/")[2]),
            run_id=self._run_id,
        )
