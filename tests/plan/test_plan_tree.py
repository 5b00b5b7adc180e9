from __future__ import annotations

import random
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_fakes import FakeTokenizer, WildTokenizer, complete, make_document, make_job, paged_document

from qwen_batch.errors import DocumentError, JobError
from qwen_batch.plan.task import SHORTENED_NOTES
from qwen_batch.plan.tree import DocumentTask, Planner
from qwen_batch.records import CleanDocument, Completion, Failure, Message, Request

SHORT_PROMPTS = {"map_prompt": "Note: {question}", "reduce_prompt": "Merge: {question}"}


def make_planner(window: int = 600, max_tokens: int = 60, long_documents: dict[str, object] | None = None) -> Planner:
    job = make_job(sampling={"max_tokens": max_tokens}, long_documents={**SHORT_PROMPTS, **(long_documents or {})})
    return Planner(FakeTokenizer(), job, window)


def start(planner: Planner, document: CleanDocument) -> DocumentTask:
    task = planner.start(document)
    assert isinstance(task, DocumentTask), task
    return task


def fail(planner: Planner, document: CleanDocument) -> Failure:
    failure = planner.start(document)
    assert isinstance(failure, Failure)
    assert failure.stage == "plan"
    return failure


def text_of(num_tokens: int) -> str:
    return "The sum is due. " * (num_tokens // 5)


def finish(task: DocumentTask, answer: str = "a note") -> list[list[Request]]:
    """Run a task to its end; return its requests by level."""
    levels = [list(task.requests())]
    while not task.is_done:
        levels.append([more for request in levels[-1] for more in task.complete(complete(request, answer))])
    return levels[:-1]


def test_a_document_that_fits_is_one_request() -> None:
    document = paged_document(["One.", "Two."])
    task = start(make_planner(), document)
    (request,) = task.requests()
    assert request.prompt_token_ids == FakeTokenizer().encode_chat(
        [Message("user", "List the parties and the dates.\n\n<document>\nOne.\n\nTwo.\n</document>")], False
    )
    assert (request.request_id, request.sampling.max_tokens) == ("0/0/0", 60)
    assert not task.is_done
    completion = complete(request, num_cached_tokens=4)
    assert task.complete(completion) == ()
    assert task.is_done
    assert task.result is completion
    assert (task.num_chunks, task.reduce_levels, task.level, task.warnings, task.flags) == (1, 0, 0, (), ())
    assert (task.prompt_tokens, task.completion_tokens, task.cached_tokens) == (len(request.prompt_token_ids), 3, 4)
    assert task.finish_reason == "stop"


def test_the_last_token_that_fits() -> None:
    needed = len(start(make_planner(), make_document(text_of(300))).requests()[0].prompt_token_ids) + 60
    assert start(make_planner(window=needed), make_document(text_of(300))).num_chunks == 1
    assert start(make_planner(window=needed - 1), make_document(text_of(300))).num_chunks > 1


def test_a_long_document_is_mapped_and_reduced() -> None:
    planner = make_planner(long_documents={"chunk_size": 200, "overlap": 20, "map_max_tokens": 30})
    document = paged_document([text_of(120)] * 10)
    task = start(planner, document)
    assert task.num_chunks >= 6
    maps, (reduce,) = finish(task, "Found it.")
    assert len(maps) == task.num_chunks
    assert {request.sampling.max_tokens for request in maps} == {30}
    assert reduce.sampling.max_tokens == 60
    assert reduce.request_id == "0/1/0"
    assert (task.level, task.reduce_levels) == (1, 1)
    assert task.prompt_tokens == sum(len(request.prompt_token_ids) for request in [*maps, reduce])
    assert task.completion_tokens == 3 * (len(maps) + 1)
    assert task.cached_tokens == len(maps) + 1


def test_the_warning_tells_the_numbers() -> None:
    task = start(make_planner(), make_document(text_of(1500)))
    whole = len(
        FakeTokenizer().encode_chat(
            [Message("user", f"List the parties and the dates.\n\n<document>\n{text_of(1500)}\n</document>")], False
        )
    )
    assert task.warnings == (
        f"a.pdf: {whole:,} tokens are over the threshold of 540; read in {task.num_chunks} parts, then merged",
    )


def test_the_threshold_of_the_job() -> None:
    planner = make_planner(long_documents={"threshold": 200})
    assert planner.chunk_size == 200
    assert planner.notices == ("long documents are divided into parts of 200 tokens (not 10000)",)
    assert start(planner, make_document(text_of(120))).num_chunks == 1
    assert start(planner, make_document(text_of(300))).num_chunks == 2


def test_over_the_threshold_but_one_part() -> None:
    planner = make_planner(long_documents={"threshold": 100, "chunk_size": 300})
    task = start(planner, make_document(text_of(200)))
    assert (task.num_chunks, task.reduce_levels) == (1, 0)
    assert "read as a whole, as it fits one part of 300 tokens" in task.warnings[0]
    assert task.requests()[0].sampling.max_tokens == 60


def test_a_threshold_above_the_window_does_not_let_a_prompt_through() -> None:
    assert start(make_planner(long_documents={"threshold": 50_000}), make_document(text_of(700))).num_chunks > 1


class Spy(FakeTokenizer):
    """Remembers the text of every prompt by its ids."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: dict[tuple[int, ...], str] = {}

    def encode_chat(self, messages: Sequence[Message], thinking: bool) -> list[int]:
        ids = super().encode_chat(messages, thinking)
        self.texts[tuple(ids)] = messages[-1].content
        return ids

    def text(self, request: Request) -> str:
        return self.texts[tuple(request.prompt_token_ids)]


def test_merges_of_merges_say_which_parts_they_are_from() -> None:
    tokenizer = Spy()
    job = make_job(
        sampling={"max_tokens": 60}, long_documents={**SHORT_PROMPTS, "threshold": 200, "chunk_size": 100, "overlap": 0}
    )
    document = paged_document([text_of(80)] * 7)
    task = start(Planner(tokenizer, job, 600), document)
    assert task.num_chunks == 7
    _, merges, (final,) = finish(task, "word " * 70)
    labels = [re.findall(r"\[(Part.*)\]", tokenizer.text(request)) for request in merges]
    assert labels == [[f"Part {n}, page {n}" for n in group] for group in ((1, 2, 3), (4, 5, 6))]
    assert re.findall(r"\[(Part.*)\]", tokenizer.text(final)) == [
        "Parts 1-3, pages 1-3",
        "Parts 4-6, pages 4-6",
        "Part 7, page 7",
    ]
    assert task.reduce_levels == 2
    assert task.flags == ()


def test_reduce_prompts_hold_the_answers_in_order_without_thoughts() -> None:
    tokenizer = Spy()
    job = make_job(sampling={"max_tokens": 60}, long_documents={**SHORT_PROMPTS, "chunk_size": 200})
    planner = Planner(tokenizer, job, 600, answer_text=lambda completion: completion.text.partition("|")[2])
    task = start(planner, make_document(text_of(700)))
    requests = list(task.requests())
    for index in random.Random(1).sample(range(len(requests)), len(requests)):
        final = task.complete(complete(requests[index], f"hidden|answer {index + 1}"))
    (request,) = final
    notes = "\n\n".join(f"[Part {i}]\nanswer {i}" for i in range(1, len(requests) + 1))
    assert tokenizer.text(request) == f"Merge: List the parties and the dates.\n\n<document>\n{notes}\n</document>"


def test_levels_of_merging() -> None:
    planner = make_planner(long_documents={"chunk_size": 100, "overlap": 0})
    task = start(planner, paged_document([text_of(200)] * 30))
    levels = finish(task, "word " * 50)
    assert task.reduce_levels == len(levels) - 1 >= 3
    assert all(len(after) < len(before) for before, after in pairwise(levels))
    assert len(levels[-1]) == 1
    assert {request.request_id.split("/")[1] for request in levels[2]} == {"2"}


def test_each_document_goes_on_by_itself() -> None:
    planner = make_planner(long_documents={"chunk_size": 200})
    slow, fast = (start(planner, make_document(text_of(700), doc_id=name)) for name in ("slow", "fast"))
    assert not {r.request_id for r in slow.requests()} & {r.request_id for r in fast.requests()}
    *_, final = (task_requests for request in fast.requests() for task_requests in [fast.complete(complete(request))])
    assert len(final) == 1
    assert slow.level == 0


@pytest.mark.parametrize("answer", ["", "  \n"])
def test_a_part_without_an_answer_says_so(answer: str) -> None:
    task = start(make_planner(), make_document(text_of(1500)))
    finish(task, answer)
    assert isinstance(task.result, Completion)


def test_notes_that_are_too_long_are_cut_and_the_reader_is_told() -> None:
    planner = make_planner(long_documents={"chunk_size": 200})
    task = start(planner, make_document(text_of(900)))
    levels = finish(task, "much too long an answer " * 100)
    assert all(len(request.prompt_token_ids) + request.sampling.max_tokens <= 600 for request in levels[-1])
    assert task.flags == (SHORTENED_NOTES,)
    assert any("are too long to merge and were cut" in warning for warning in task.warnings)


def test_answers_to_parts_cut_by_the_length_are_counted() -> None:
    task = start(make_planner(long_documents={"chunk_size": 200}), make_document(text_of(700)))
    first, *rest = task.requests()
    task.complete(complete(first, finish_reason="length"))
    for request in rest:
        task.complete(complete(request))
    assert task.warnings[1] == (
        f"a.pdf: 1 of {len(rest) + 1} answers to parts were cut at 60 tokens; raise long_documents.map_max_tokens"
    )


def test_a_failed_part_fails_the_document_once_nothing_is_out() -> None:
    task = start(make_planner(long_documents={"chunk_size": 200}), make_document(text_of(700)))
    first, *rest = task.requests()
    task.complete(complete(first, finish_reason="error", error_type="out_of_memory", error="too big"))
    assert not task.is_done
    for request in rest:
        assert task.complete(complete(request)) == ()
    assert task.is_done
    failure = task.result
    assert isinstance(failure, Failure)
    assert (failure.stage, failure.error_type, failure.error) == ("generate", "out_of_memory", "too big")
    assert (failure.doc_id, failure.content_sha256, failure.num_pages) == ("a.pdf", "00", None)
    assert task.finish_reason is None
    assert task.completion_tokens == 3 * (len(rest) + 1)


def test_completions_that_are_not_the_tasks_own() -> None:
    task = start(make_planner(), make_document("Text."))
    (request,) = task.requests()
    with pytest.raises(ValueError, match="is not done: 1 requests are out"):
        _ = task.result
    with pytest.raises(ValueError, match=r"request 7/7/7 of a.pdf is not out"):
        task.complete(complete(request, request_id="7/7/7"))
    task.complete(complete(request))
    with pytest.raises(ValueError, match=r"request 0/0/0 of a.pdf is not out"):
        task.complete(complete(request))


def test_prompts_are_let_go_when_answers_come() -> None:
    task = start(make_planner(), make_document(text_of(1500)))
    assert task.requests() == task.requests() != ()
    task.complete(complete(task.requests()[0]))
    assert task.requests() == ()


def test_priority_and_sampling_of_a_record() -> None:
    document = make_document("Text.", priority=7, sampling={"temperature": 0.5, "max_tokens": 9, "seed": 3})
    (request,) = start(make_planner(), document).requests()
    assert request.priority == 7
    assert (request.sampling.temperature, request.sampling.max_tokens, request.sampling.seed) == (0.5, 9, 3)


@pytest.mark.parametrize(
    ("sampling", "reason"),
    [({"temperature": -1}, "temperature"), ({"max_tokens": "x"}, "max_tokens"), ({"tempreature": 1}, "tempreature")],
)
def test_bad_sampling_of_a_record(sampling: dict[str, object], reason: str) -> None:
    failure = fail(make_planner(), make_document("Text.", sampling=sampling, metadata={"k": 1}))
    assert failure.error_type == "bad_record"
    assert failure.error.startswith(f"sampling asked for by the record: {reason}")
    assert failure.metadata == {"k": 1}


def test_a_record_that_asks_for_more_than_the_window() -> None:
    failure = fail(make_planner(), make_document("Text.", sampling={"max_tokens": 600}))
    assert failure.error_type == "bad_record"
    assert "leaves no room for the document in the window of 600" in failure.error


@pytest.mark.parametrize("text", ["", " \n\t\u3000"])
def test_no_text(text: str) -> None:
    assert fail(make_planner(), make_document(text)).error_type == "empty"


def test_no_question() -> None:
    planner = Planner(FakeTokenizer(), make_job(prompt={}, sampling={"max_tokens": 60}), 600)
    assert fail(planner, make_document("Text.")).error_type == "no_question"


def test_lone_surrogates_do_no_harm() -> None:
    assert start(make_planner(), make_document("a\ud800b")).num_chunks == 1
    assert start(make_planner(), make_document("a\ud800b " * 900)).num_chunks > 1


def conversation(*contents: str) -> CleanDocument:
    return make_document(messages=tuple(Message("user", content) for content in contents))


def test_a_conversation_is_sent_as_it_is() -> None:
    planner = Planner(FakeTokenizer(), make_job(prompt={"system": "Sys."}, sampling={"max_tokens": 60}), 600)
    (request,) = start(planner, conversation("Hello {question}")).requests()
    assert request.prompt_token_ids == FakeTokenizer().encode_chat(
        [Message("system", "Sys."), Message("user", "Hello {question}")], False
    )


def test_a_conversation_over_the_window() -> None:
    failure = fail(make_planner(), conversation(text_of(600)))
    assert failure.error_type == "too_long"
    assert "at most 600 fit the model, and a conversation cannot be divided" in failure.error


def test_the_last_token_of_a_conversation_that_fits() -> None:
    needed = len(start(make_planner(), conversation(text_of(300))).requests()[0].prompt_token_ids) + 60
    assert start(make_planner(window=needed), conversation(text_of(300))).num_chunks == 1
    assert fail(make_planner(window=needed - 1), conversation(text_of(300))).error_type == "too_long"


def test_a_conversation_without_text() -> None:
    assert fail(make_planner(), conversation(" ", "")).error_type == "empty"


@pytest.mark.parametrize(
    ("error", "error_type"),
    [(RuntimeError("roles"), "bad_record"), (DocumentError("bad_messages", "x"), "bad_messages")],
)
def test_a_conversation_that_the_template_refuses(error: Exception, error_type: str) -> None:
    class Refusing(FakeTokenizer):
        def encode_chat(self, messages: Sequence[Message], thinking: bool) -> list[int]:
            if messages[-1].content == "bad":
                raise error
            return super().encode_chat(messages, thinking)

    planner = Planner(Refusing(), make_job(), 2000)
    assert fail(planner, conversation("bad")).error_type == error_type
    assert start(planner, conversation("good")).num_chunks == 1


def test_documents_together_are_planned_as_each_alone() -> None:
    class Refusing(FakeTokenizer):
        def encode_chat(self, messages: Sequence[Message], thinking: bool) -> list[int]:
            if messages[-1].content == "bad":
                raise RuntimeError("roles")
            return super().encode_chat(messages, thinking)

    documents = [make_document("One."), conversation("bad"), make_document(" "), make_document(text_of(900))]
    job = make_job(sampling={"max_tokens": 60})
    planner, alone = Planner(Refusing(), job, 600), Planner(Refusing(), job, 600)
    outcomes = planner.start_all(documents)
    assert [outcome.error_type for outcome in outcomes if isinstance(outcome, Failure)] == ["bad_record", "empty"]
    for outcome, other in zip(outcomes, map(alone.start, documents), strict=True):
        if isinstance(outcome, DocumentTask):
            assert isinstance(other, DocumentTask)
            assert outcome.requests() == other.requests()
        else:
            assert outcome == other


def test_a_text_that_is_far_too_long_is_never_encoded_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    class Watching(FakeTokenizer):
        longest = 0

        def encode_with_offsets(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
            self.longest = max(self.longest, len(text))
            return super().encode_with_offsets(text)

    job, document = make_job(sampling={"max_tokens": 60}), make_document(text_of(20_000))
    expected = start(Planner(FakeTokenizer(), job, 600), document)
    monkeypatch.setattr("qwen_batch.plan.tokens.SECTION", 10_000)
    monkeypatch.setattr("qwen_batch.plan.tree.SECTION", 10_000)
    tokenizer = Watching()
    task = start(Planner(tokenizer, job, 600), document)
    assert tokenizer.longest <= 10_000 < len(document.text)
    assert task.warnings[0].startswith(
        f"a.pdf: {len(document.text):,} characters are over the threshold of 540 tokens;"
    )
    texts = [len(request.prompt_token_ids) for request in task.requests()]
    assert texts == [len(request.prompt_token_ids) for request in expected.requests()]


def test_very_many_notes_are_not_encoded_together() -> None:
    class Watching(FakeTokenizer):
        longest = 0

        def encode_with_offsets(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
            self.longest = max(self.longest, len(text))
            return super().encode_with_offsets(text)

    tokenizer = Watching()
    task = start(Planner(tokenizer, make_job(sampling={"max_tokens": 60}), 600), make_document(text_of(20_000)))
    tokenizer.longest = 0
    levels = finish(task, "A note of some length, to be merged with others. " * 3)
    assert len(levels) > 2
    assert tokenizer.longest < 8_000 < task.num_chunks * 140


def test_planning_a_long_text_says_how_far_it_is_and_can_be_broken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qwen_batch.plan.tokens.SECTION", 10_000)
    told: list[float] = []
    job, document = make_job(sampling={"max_tokens": 60}), make_document(text_of(20_000))
    task = start(Planner(FakeTokenizer(), job, 600, tick=told.append), document)
    assert told == sorted(told)
    assert told[-1] == 1
    assert len(told) > 2 * task.num_chunks

    class Stop(BaseException):
        pass

    def stop(share: float) -> None:
        if share > 0.9:
            raise Stop

    with pytest.raises(Stop):
        Planner(FakeTokenizer(), job, 600, tick=stop).start(document)


def test_a_long_text_that_fits_is_read_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qwen_batch.plan.tokens.SECTION", 100)
    monkeypatch.setattr("qwen_batch.plan.tree.SECTION", 100)
    planner = Planner(FakeTokenizer(), make_job(sampling={"max_tokens": 60}), 600)
    assert start(planner, make_document(text_of(400))).num_chunks == 1


def test_thinking_reaches_the_template() -> None:
    job = make_job(prompt={"question": "Q", "thinking": "on"})
    (request,) = start(Planner(FakeTokenizer(), job, 2000), make_document("D")).requests()
    message = Message("user", "Q\n\n<document>\nD\n</document>")
    assert request.prompt_token_ids == FakeTokenizer().encode_chat([message], True)
    assert request.prompt_token_ids != FakeTokenizer().encode_chat([message], False)


@pytest.mark.parametrize(("max_tokens", "long_documents"), [(520, {}), (60, {"map_max_tokens": 590})])
def test_where_nothing_can_be_divided_what_fits_is_asked(max_tokens: int, long_documents: dict[str, object]) -> None:
    job = make_job(sampling={"max_tokens": max_tokens}, long_documents=long_documents)
    planner = Planner(FakeTokenizer(), job, 600)
    assert start(planner, make_document("Short.")).num_chunks == 1
    failure = fail(planner, make_document("The sum is due. " * 300))
    assert failure.error_type == "too_long"
    assert failure.error.startswith("it does not fit as a whole, and in a window of 600 tokens the prompts and answers")


@pytest.mark.parametrize(
    ("window", "max_tokens", "long_documents", "message"),
    [
        (600, 600, {}, "sampling.max_tokens: an answer of 600 tokens and a prompt of "),
        (600, 60, {"chunk_size": 590}, "long_documents.chunk_size: 590 is not between 16 and "),
        (600, 60, {"chunk_size": 8}, "long_documents.chunk_size: 8 is not between 16 and "),
        (600, 60, {"chunk_size": 100, "overlap": 50}, "long_documents.overlap: 50 must be below half of"),
    ],
)
def test_jobs_that_cannot_run(window: int, max_tokens: int, long_documents: dict[str, object], message: str) -> None:
    with pytest.raises(JobError) as error:
        make_planner(window, max_tokens, long_documents)
    assert str(error.value).startswith(message)


def test_a_system_message_that_the_template_refuses() -> None:
    class Refusing(FakeTokenizer):
        def encode_chat(self, messages: Sequence[Message], thinking: bool) -> list[int]:
            raise DocumentError("bad_messages", "no system role")

    with pytest.raises(JobError, match=r"^prompt.system: no system role$"):
        Planner(Refusing(), make_job(), 2000)


def test_sizes_that_the_job_does_not_name_follow_the_window() -> None:
    planner = make_planner(window=600)
    assert 300 < planner.chunk_size < 540
    assert planner.overlap == planner.chunk_size // 10
    assert make_planner(window=50_000).chunk_size == 10_000
    assert make_planner(window=50_000).overlap == 200
    assert make_planner(window=50_000).notices == ()


@settings(max_examples=120, deadline=None)
@given(
    st.lists(
        st.sampled_from(["The sum is due. ", "甲方应付款。", "\n\n# A\n\n", "x" * 70, "| a | b |\n"]), max_size=150
    ),
    st.integers(1, 8),
    st.integers(150, 700),
    st.integers(20, 100),
    st.one_of(st.none(), st.integers(10, 60)),
    st.one_of(st.none(), st.integers(20, 300)),
    st.sampled_from([FakeTokenizer, WildTokenizer]),
    st.randoms(use_true_random=False),
)
def test_every_request_fits_and_every_task_ends(
    pieces: list[str],
    times: int,
    window: int,
    max_tokens: int,
    map_max_tokens: int | None,
    threshold: int | None,
    kind: type[FakeTokenizer],
    dice: random.Random,
) -> None:
    limits = {"threshold": threshold} if threshold else {}
    job = make_job(
        prompt={"question": "Who?"},
        sampling={"max_tokens": max_tokens},
        long_documents={**SHORT_PROMPTS, **limits, "map_max_tokens": map_max_tokens},
    )
    document = make_document("".join(pieces) * times)
    try:
        tasks = [Planner(kind(), job, window).start(document) for _ in range(2)]
    except JobError:
        return
    if isinstance(tasks[0], Failure):
        no_room = "leave no room for parts" in tasks[0].error
        assert tasks[0].error_type == "empty" or no_room or kind is WildTokenizer
        assert tasks[1] == tasks[0]
        return
    first, second = (start_task for start_task in tasks if isinstance(start_task, DocumentTask))
    requests, twins = list(first.requests()), list(second.requests())
    sizes, ids = [], set()
    while requests:
        assert requests == twins  # the same document gives the same requests, byte for byte
        sizes.append(len(requests))
        assert not ids & {request.request_id for request in requests}
        ids |= {request.request_id for request in requests}
        assert len({request.request_id for request in requests}) == len(requests)
        answers = {r.request_id: "note 甲 " * dice.randrange(60) for r in requests}
        for request in requests:
            assert len(request.prompt_token_ids) + request.sampling.max_tokens <= window
        shuffled = dice.sample(requests, len(requests))
        requests = [more for r in shuffled for more in first.complete(complete(r, answers[r.request_id]))]
        twins = [more for r in twins for more in second.complete(complete(r, answers[r.request_id]))]
    assert first.is_done
    assert second.is_done
    assert first.result == second.result
    assert isinstance(first.result, Completion) or kind is WildTokenizer
    assert all(after < before for before, after in pairwise(sizes) if before > 1)
    assert first.reduce_levels == len(sizes) - 1 or kind is WildTokenizer


@pytest.mark.corpus
def test_a_book(corpus: Path) -> None:
    corpus_text = (corpus / "text/unstructured__book-war-and-peace-1225p.txt").read_text(encoding="utf-8-sig")[:600_000]
    tokenizer = FakeTokenizer()
    job = make_job(sampling={"max_tokens": 500}, long_documents=SHORT_PROMPTS)
    task = start(Planner(tokenizer, job, 32_768), make_document(corpus_text))
    assert task.num_chunks > 15
    levels = finish(task, "A note of some length, to be merged with others. " * 30)
    assert len(levels) == 2
    assert tokenizer.num_encoded_chars < 8 * len(corpus_text)
