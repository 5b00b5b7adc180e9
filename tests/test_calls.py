"""Calls are made once, later levels first, and what was answered is kept before anybody is told."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Event
from typing import Any, cast

import pytest

import qwen_batch.calls
from qwen_batch.answer.filters import AnswerFilter
from qwen_batch.calls import CallBook
from qwen_batch.errors import OutputError
from qwen_batch.plan.tree import DocumentTask
from qwen_batch.records import CleanDocument, Completion, Request, SamplingParams
from qwen_batch.write.calls import ModelCall

NO_FILTER = AnswerFilter((), (), "flag")


@dataclass
class FakeEngine:
    """Answers `at_once` requests a step, in the order in which they came."""

    at_once: int = 1
    room: int = 1
    queue: list[Request] = field(default_factory=list)
    order: list[tuple[int, ...]] = field(default_factory=list)

    def add(self, request: Request) -> None:
        self.queue.append(request)
        self.order.append(tuple(request.prompt_token_ids))

    def step(self, begin: Callable[[Sequence[Request]], None]) -> list[Completion]:
        now, self.queue = self.queue[: self.at_once], self.queue[self.at_once :]
        begin(now)
        return [
            Completion(r.request_id, (1,), f"answer to {list(r.prompt_token_ids)}", "stop", len(r.prompt_token_ids))
            for r in now
        ]

    @property
    def has_unfinished(self) -> bool:
        return bool(self.queue)

    @property
    def wants_more(self) -> bool:
        return len(self.queue) < self.room


@dataclass
class FakeMemory:
    known: dict[str, Completion] = field(default_factory=dict)

    def completion(self, key: str) -> Completion | None:
        return self.known.get(key)

    def add_completions(self, calls: list[ModelCall]) -> None:
        self.known.update({call.key: call.completion for call in calls})


@dataclass(eq=False)
class FakeTask:
    """What CallBook looks at in a task."""

    name: str
    level: int = 0
    num_chunks: int = 1

    @property
    def document(self) -> CleanDocument:
        return CleanDocument(self.name, self.name, "", "")


def task(name: str, level: int = 0, num_chunks: int = 1) -> DocumentTask:
    return cast(DocumentTask, FakeTask(name, level, num_chunks))


def request(*tokens: int, name: str = "0/0/0", priority: int = 0, **sampling: Any) -> Request:
    return Request(name, list(tokens), SamplingParams(**sampling), priority)


def at_once(work: Callable[[], None]) -> Future[None]:
    done: Future[None] = Future()
    done.set_result(work())
    return done


def book(
    engine: FakeEngine,
    memory: FakeMemory,
    submit: Callable[[Callable[[], None]], Future[None]] = at_once,
    answer_filter: AnswerFilter = NO_FILTER,
    begin: Callable[[Iterable[DocumentTask]], None] = lambda tasks: None,
) -> CallBook:
    return CallBook(
        engine,
        memory,
        answer_filter,
        model_sha256="m",
        precision="float32",
        run_id="run",
        window=2,
        begin=begin,
        submit=submit,
    )


def answers(calls: CallBook) -> list[tuple[str, str, str]]:
    return [(a.task.document.doc_id, a.completion.request_id, a.completion.text) for a in calls.advance()]


def test_equal_calls_are_made_once_and_answered_to_each() -> None:
    engine = FakeEngine()
    calls = book(engine, FakeMemory())
    calls.ask(task("a"), [request(1, 2, name="0/0/0")])
    calls.ask(task("b"), [request(1, 2, name="1/0/0"), request(1, 2, name="1/0/1", priority=3)])
    assert calls.num_open == 1
    assert answers(calls) == [
        ("a", "0/0/0", "answer to [1, 2]"),
        ("b", "1/0/0", "answer to [1, 2]"),
        ("b", "1/0/1", "answer to [1, 2]"),
    ]
    assert engine.order == [(1, 2)]
    assert not calls.has_work


def test_calls_that_differ_in_sampling_are_different() -> None:
    calls = book(FakeEngine(), FakeMemory())
    calls.ask(task("a"), [request(1), request(1, seed=1), request(1, max_tokens=3), request(1, stop=["x"])])
    assert calls.num_open == 4


def test_what_an_earlier_run_knows_is_not_asked_again() -> None:
    memory = FakeMemory()
    first = book(FakeEngine(), memory)
    first.ask(task("a"), [request(1)])
    list(first.advance())
    engine = FakeEngine()
    second = book(engine, memory)
    second.ask(task("b"), [request(1, name="7/0/0")])
    assert second.has_work
    assert answers(second) == [("b", "7/0/0", "answer to [1]")]
    assert engine.order == []


def test_what_is_answered_between_preparing_and_asking_is_not_asked_again() -> None:
    engine = FakeEngine()
    calls = book(engine, FakeMemory())
    calls.ask(task("a"), [request(1)])
    prepared = calls.prepare([request(1, name="7/0/0"), request(2, name="7/0/1")])
    list(calls.advance())
    calls.ask_prepared(task("b"), prepared)
    assert calls.num_open == 1
    assert answers(calls) == [("b", "7/0/0", "answer to [1]"), ("b", "7/0/1", "answer to [2]")]
    assert engine.order == [(1,), (2,)]


def test_what_is_to_be_redacted_is_kept_nowhere() -> None:
    memory = FakeMemory()
    calls = book(FakeEngine(), memory, answer_filter=AnswerFilter(("answer",), (), "redact"))
    calls.ask(task("a"), [request(1)])
    assert answers(calls) == [("a", "0/0/0", "[redacted] to [1]")]
    (kept,) = memory.known.values()
    assert (kept.text, kept.token_ids, kept.redacted) == ("[redacted] to [1]", (-1,), ("answer",))


def test_a_call_that_was_kept_before_the_rule_is_redacted_when_it_is_used() -> None:
    memory = FakeMemory()
    calls = book(FakeEngine(), memory)
    calls.ask(task("a"), [request(1)])
    list(calls.advance())
    engine = FakeEngine()
    later = book(engine, memory, answer_filter=AnswerFilter(("answer",), (), "redact"))
    later.ask(task("a"), [request(1)])
    assert answers(later) == [("a", "0/0/0", "[redacted] to [1]")]
    assert engine.order == []
    assert [kept.text for kept in memory.known.values()] == ["[redacted] to [1]"]


def test_a_call_that_lost_what_is_allowed_today_is_made_again() -> None:
    memory = FakeMemory()
    calls = book(FakeEngine(), memory, answer_filter=AnswerFilter(("answer",), (), "redact"))
    calls.ask(task("a"), [request(1)])
    list(calls.advance())
    for today in (AnswerFilter(("answer",), (), "flag"), AnswerFilter(("other",), (), "redact")):
        engine = FakeEngine()
        later = book(engine, FakeMemory(dict(memory.known)), answer_filter=today)
        later.ask(task("a"), [request(1)])
        assert answers(later) == [("a", "0/0/0", "answer to [1]")]
        assert engine.order == [(1,)]


def test_answers_are_kept_before_anybody_is_told() -> None:
    memory = FakeMemory()
    calls = book(FakeEngine(), memory)
    calls.ask(task("a"), [request(1)])
    for _ in calls.advance():
        assert len(memory.known) == 1


def test_answers_are_written_while_the_device_goes_on() -> None:
    engine, memory = FakeEngine(), FakeMemory()
    with ThreadPoolExecutor(1) as writer:
        at_medium, may_go_on = Event(), Event()

        def submit(work: Callable[[], None]) -> Future[None]:
            return writer.submit(lambda: (at_medium.set(), may_go_on.wait(60), work())[-1])

        calls = book(engine, memory, submit=submit)
        calls.ask(task("a"), [request(1), request(2), request(3)])
        assert answers(calls) == []
        assert at_medium.wait(60)
        told = calls.advance()  # takes the second step, and waits for the answer of the first
        may_go_on.set()
        assert next(told).completion.text == "answer to [1]"
        assert engine.order == [(1,), (2,)]
        assert len(memory.known) == 1
        list(told)
        assert [text for *_, text in answers(calls)] == [
            "answer to [2]",
            "answer to [3]",
        ]  # no step is left to wait for


def test_what_cannot_be_written_is_told_to_nobody() -> None:
    def refuse(work: Callable[[], None]) -> Future[None]:
        refused: Future[None] = Future()
        refused.set_exception(OutputError("no space is left"))
        return refused

    calls = book(FakeEngine(), FakeMemory(), submit=refuse)
    calls.ask(task("a"), [request(1)])
    with pytest.raises(OutputError, match="no space is left"):
        list(calls.advance())


def test_merges_overtake_parts_of_other_documents_and_priority_overtakes_all() -> None:
    engine = FakeEngine()
    calls = book(engine, FakeMemory())
    calls.ask(task("a"), [request(1), request(2), request(3)])
    list(calls.advance())
    calls.ask(task("c"), [request(5, priority=1)])
    calls.ask(task("d"), [request(6, priority=1)])
    calls.ask(task("b", level=1), [request(9)])
    calls.ask(task("e", level=1), [request(8, priority=1)])
    while calls.has_work:
        list(calls.advance())
    assert engine.order == [(1,), (5,), (8,), (6,), (9,), (2,), (3,)]


def test_the_engine_is_given_what_it_wants_to_see_and_merges_at_once() -> None:
    engine = FakeEngine(room=3)
    calls = book(engine, FakeMemory())
    calls.ask(task("a"), [request(n) for n in range(10)])
    assert engine.order == [(0,), (1,), (2,)]
    assert not calls.wants_more
    calls.ask(task("b", level=1), [request(20), request(21)])
    assert engine.order[3:] == [(20,), (21,)]
    list(calls.advance())
    assert len(engine.queue) == 4, "there is no room for more"


def test_parts_are_given_a_few_at_a_time_and_hold_up_no_other_document() -> None:
    engine = FakeEngine(room=99)
    calls = book(engine, FakeMemory())
    calls.ask(task("long", num_chunks=4), [request(n) for n in range(4)])
    calls.ask(task("next", num_chunks=2), [request(n) for n in (4, 5)])
    calls.ask(task("short"), [request(9)])
    assert engine.order == [(0,), (1,), (9,)]
    assert calls.wants_more
    list(calls.advance())
    assert engine.order[3:] == [], "what has begun makes room for one more with the next step"
    while calls.has_work:
        list(calls.advance())
    assert engine.order[3:] == [(2,), (3,), (4,), (5,)], "documents one after another"


def test_no_more_documents_are_taken_while_many_parts_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qwen_batch.calls, "MAX_TOKENS", 3)
    calls = book(FakeEngine(room=99), FakeMemory())
    calls.ask(task("long", num_chunks=4), [request(n, n) for n in range(4)])
    assert not calls.wants_more
    list(calls.advance())
    list(calls.advance())
    assert calls.wants_more, "one of two tokens is left outside"


def test_whose_calls_begin_is_told_before_the_step() -> None:
    told: list[list[str]] = []

    def begin(tasks: Iterable[DocumentTask]) -> None:
        told.append([task.document.doc_id for task in tasks])

    memory = FakeMemory()
    calls = book(FakeEngine(room=9), memory, begin=begin)
    calls.ask(task("a"), [request(1)])
    calls.ask(task("b"), [request(1), request(2)])
    calls.ask(task("waits"), [request(3)])
    assert told == []
    list(calls.advance())
    assert told == [["a", "b"]], "both want the call that begins"
    list(calls.advance())
    assert told[1:] == [["b"]]
    told.clear()
    engine = FakeEngine(room=9)
    calls = book(engine, memory, begin=begin)
    calls.ask(task("known"), [request(1)])
    list(calls.advance())
    assert told == [], "of what is known nothing begins"


def test_who_joins_a_call_that_has_begun_is_told_with_the_next_step() -> None:
    told: list[list[str]] = []
    engine = FakeEngine(room=9)
    calls = book(engine, FakeMemory(), begin=lambda tasks: told.append([task.document.doc_id for task in tasks]))
    calls.ask(task("a"), [request(1), request(2)])
    engine.at_once = 0
    calls.ask(task("b"), [request(1)])
    list(calls.advance())
    assert told == [[]]
    engine.step = lambda begin: (begin(engine.queue[:1]), [])[1]  # type: ignore[method-assign]
    list(calls.advance())
    calls.ask(task("c"), [request(1)])
    list(calls.advance())
    assert told[1:] == [["a", "b"], ["c", "a", "b", "c"]]
