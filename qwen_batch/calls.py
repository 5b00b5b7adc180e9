"""Model calls between the documents that ask and the engine that answers.

A call that an earlier run, or another document, has already made is not made again. Calls of later levels go first, so
that a document whose parts are done is merged while others are still read.
"""

from __future__ import annotations

import dataclasses
import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol

from qwen_batch.plan.keys import request_key
from qwen_batch.plan.tree import DocumentTask
from qwen_batch.records import Completion, Request
from qwen_batch.write.calls import ModelCall


class Engine(Protocol):
    """What of the engine is used here."""

    def add(self, request: Request) -> None: ...
    def step(self) -> list[Completion]: ...
    @property
    def has_unfinished(self) -> bool: ...
    @property
    def num_waiting(self) -> int: ...


class CallMemory(Protocol):
    """Completions that outlive a run."""

    def completion(self, key: str) -> Completion | None: ...
    def add_completions(self, calls: list[ModelCall]) -> None: ...


class Redactor(Protocol):
    """What must not be kept; see answer/filters.py."""

    def seal(self, completion: Completion) -> Completion: ...
    def accepts(self, completion: Completion) -> bool: ...


@dataclass(frozen=True, slots=True)
class Asked:
    """A call of a document."""

    task: DocumentTask
    request: Request
    level: int


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
        submit: Callable[[Callable[[], None]], Future[None]],
        stage: Callable[[str], AbstractContextManager[None]] = lambda name: nullcontext(),
    ) -> None:
        self._engine = engine
        self._memory = memory
        self._redactor = redactor
        self._model_sha256 = model_sha256
        self._precision = precision
        self._run_id = run_id
        self._window = window  # calls that wait in the engine
        self._submit = submit  # has it done beside the device, in order
        self._stage = stage  # whose time it is
        self._ready: list[tuple[int, int, int, str]] = []  # heap of (-priority, -level, order, key)
        self._order = 0
        self._asked: dict[str, list[Asked]] = {}  # key -> who wants it, first the one whose request is run
        self._remembered: list[Answered] = []
        self._sealing: list[Future[None]] = []  # calls that the journal has and that are being redacted there
        self._recent: dict[str, Completion] = {}  # answered since `forget_recent`, by key
        self._unkept: tuple[list[Completion], Future[None]] | None = None  # of the last step; being made durable
        self.num_kept = 0  # calls that needed no engine: their answers were kept
        self.tokens: Counter[str] = Counter()  # of the others: prompt, completion, cached

    @property
    def num_open(self) -> int:
        """Different calls that are not answered."""
        return len(self._asked)

    @property
    def has_work(self) -> bool:
        return bool(self._asked or self._remembered)

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

    def forget_recent(self) -> None:
        """Whatever was answered so far is in the journal; to be called before each `prepare` of another thread."""
        self._recent.clear()

    def ask_prepared(self, task: DocumentTask, calls: Iterable[Prepared]) -> None:
        """Want these calls, all of the task's present level."""
        for call in calls:
            request, key = call.request, call.key
            if key in self._asked:
                self._asked[key].append(Asked(task, request, task.level))
                continue
            asked = Asked(task, request, task.level)
            known = call.known or self._recent.get(key)
            if known is not None:
                self._remember(asked, known)
                continue
            self._asked[key] = [asked]
            self._order += 1
            heapq.heappush(self._ready, (-request.priority, -task.level, self._order, key))

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
        while self._ready and self._engine.num_waiting < self._window:
            *_, key = heapq.heappop(self._ready)
            self._engine.add(dataclasses.replace(self._asked[key][0].request, request_id=key))
        done = []
        if self._engine.has_unfinished:
            with self._stage("schedule"):
                done = [self._redactor.seal(completion) for completion in self._engine.step()]
        yield from self._kept()
        if done:
            answers = [completion for completion in done if completion.finish_reason != "error"]
            calls = [self._call(self._asked[completion.request_id][0], completion) for completion in answers]
            self._unkept = done, self._submit(lambda: self._memory.add_completions(calls))
        if not (self._engine.has_unfinished or self._ready):  # no step is to come that they could be written beside
            yield from self._kept()

    def _kept(self) -> Iterator[Answered]:
        if self._unkept is None:
            return
        (done, written), self._unkept = self._unkept, None
        with self._stage("keep"):
            written.result()
        for completion in done:
            self._count(completion)
            if completion.finish_reason != "error":
                self._recent[completion.request_id] = completion
            for asked in self._asked.pop(completion.request_id):
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
