"""The whole run on one page: read -> clean -> plan -> generate -> answer -> write.

    feed thread    inputs -> unfinished ones -> child processes (read, clean) -> planner -> queue
    main thread    queue -> calls -> engine step -> completions -> next calls or a finished document
    writer thread  completions -> journal; finished documents -> answers -> rows -> journal, table

A completion comes to the main thread a step after the device had it: when the journal has it. A document is in flight
from right before the device begins with the first of its calls until its row; what merely waits for its turn is not.

Only what has to be computed needs the model: torch and the weights are loaded when the first such document comes.
"""

from __future__ import annotations

import datetime
import logging
import secrets
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from qwen_batch.answer.rows import RunFacts
from qwen_batch.calls import Answered, CallBook
from qwen_batch.errors import QwenBatchError, UsageError
from qwen_batch.feed import Asking, Event, Exhausted, Feed, PlannerWanted, Ready, Unchanged
from qwen_batch.finish import Finished, Finisher, defect
from qwen_batch.job import Job
from qwen_batch.model.registry import ModelFiles, model_sha256, resolve_model
from qwen_batch.operate.lock import OutputLock
from qwen_batch.operate.metrics import Metrics, open_metrics
from qwen_batch.operate.progress import Progress, ProgressState, open_progress
from qwen_batch.operate.signals import StopFlag
from qwen_batch.operate.stages import StageClock, StageTimes
from qwen_batch.operate.summary import RunSummary
from qwen_batch.plan.tree import DocumentTask, Planner
from qwen_batch.read.inputs import iter_inputs
from qwen_batch.records import Completion, Failure, ResultRow
from qwen_batch.unattended import claim_folder, drop_mended, drop_missing, recorded
from qwen_batch.write.in_flight import MAX_DEATHS
from qwen_batch.write.jsonl import JsonlWriter, write_openai_batch
from qwen_batch.write.store import ResultStore, RowSink
from qwen_batch.writer import Task, Writer

if TYPE_CHECKING:
    from qwen_batch.engine import Engine

logger = logging.getLogger(__name__)

MAX_EVENTS_AT_ONCE = 256  # from the feed between two steps; some are rows that wait for their transaction
IDLE_SECONDS = 0.1  # how long to wait for the feed when the engine has nothing to do
# The first step is the better, the more it is planned over: it waits until so many batches are there, while documents
# come with shorter pauses than this, and no longer than that. Records come at thousands a second.
GATHER_BATCHES = 8
GATHER_PAUSE_SECONDS = 0.05
GATHER_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What the command line adds to a job."""

    inputs: Sequence[str] = ()  # instead of the job's; `-` is JSONL on standard input
    to_stdout: bool = False  # rows as JSON lines on standard output instead of an output folder
    limit: int | None = None  # documents
    fresh: bool = False  # compute everything again
    retry_failed: bool = False  # compute failed documents again
    quiet: bool = False
    metrics_file: str | None = None  # instead of the job's


def run_job(job: Job, options: RunOptions) -> RunSummary:
    """Run a job to its end. Raises RunError or StoppedError with everything finished on disk."""
    started = time.monotonic()
    with ExitStack() as stack:
        stop = stack.enter_context(StopFlag())
        folder = Path(job.output.dir or "")
        if not options.to_stdout:
            stack.enter_context(OutputLock(folder))
            claim_folder(folder, job.name)
        metrics = stack.enter_context(
            open_metrics(
                job.name,
                None if options.to_stdout else folder,
                file=options.metrics_file or job.operate.metrics_file,
                host=job.operate.metrics_host,
                port=job.operate.metrics_port,
            )
        )
        model = resolve_model(job.model.name, job.model.revision, report=logger.info)
        facts = RunFacts(
            model=model.name,
            model_sha256=model_sha256(model.folder),
            precision=job.engine.precision,
            job_sha256=job.sha256,
            run_id=f"{datetime.datetime.now(datetime.UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}",
        )
        sink = _open_sink(job, options, folder)
        stack.push(lambda kind, error, trace: sink.close(in_order=_is_in_order(error)))
        progress = stack.enter_context(open_progress("off" if options.quiet else "auto", sys.stderr))
        paths = options.inputs or job.input.paths
        items = iter_inputs(paths, stdin=_open_stdin() if "-" in paths else None)
        feed = stack.enter_context(
            Feed(items, job, facts, sink, limit=options.limit, retry_failed=options.retry_failed)
        )
        writer = stack.enter_context(Writer())  # ends before the sink is closed
        run = _Run(job, model, facts, sink, feed, stop, progress, metrics, writer)
        asked = {"inputs": list(options.inputs), "limit": options.limit, "fresh": options.fresh}
        with recorded(sink, job, facts, {**asked, "retry_failed": options.retry_failed}) as end:
            run.run()
            if not options.inputs and options.limit is None:
                missing = drop_missing(sink, feed) if job.input.missing == "drop" else 0
                end["dropped"] = missing + drop_mended(sink, feed)
            elif job.input.missing == "drop":
                logger.warning("input.missing is drop, but not all inputs of the job were looked at: every row is kept")
            end["documents"] = run.counts()
            end["stage_seconds"] = {name: round(spent, 3) for name, spent in run.times().seconds.items()}
        sink.close()
        if job.output.format == "openai-batch" and not options.to_stdout:
            write_openai_batch(folder / "results", folder / "openai-batch.jsonl")
        metrics.finish(run.summary(0.0, "").exit_code)
    where = "standard output" if options.to_stdout else str(folder / "results")
    return run.summary(time.monotonic() - started, where)


def _is_in_order(error: BaseException | None) -> bool:
    """Whether a run ended as runs end: by itself, by a signal, or for a reason that is no document's."""
    return not isinstance(error, Exception) or isinstance(error, QwenBatchError)


def _open_sink(job: Job, options: RunOptions, folder: Path) -> RowSink:
    output = job.output
    if options.to_stdout:
        if sys.stdout is None:
            raise UsageError("--output - needs standard output, which is closed")
        return JsonlWriter(sys.stdout.buffer, output.format, metadata=output.metadata)
    return ResultStore.open(
        folder,
        metadata=output.metadata,
        flush_rows=output.flush_rows,
        flush_seconds=output.flush_seconds,
        keep_completions=output.completions,
        fresh=options.fresh,
        audit_days=job.audit.retention_days,
        audit_text=job.audit.text,
    )


def _open_stdin() -> BinaryIO:
    # Not sys.stdin.buffer: the interpreter aborts at its end when a thread is still waiting inside that.
    if sys.stdin is None:  # descriptor 0 may by now be any file that we opened ourselves
        raise UsageError("`-` among the inputs needs standard input, which is closed")
    return open(0, "rb", closefd=False)


class _Run:
    """The main thread's side: owns the engine and knows which documents are under way."""

    def __init__(
        self,
        job: Job,
        model: ModelFiles,
        facts: RunFacts,
        sink: RowSink,
        feed: Feed,
        stop: StopFlag,
        progress: Progress,
        metrics: Metrics,
        writer: Writer,
    ) -> None:
        self._job = job
        self._model = model
        self._facts = facts
        self._sink = sink
        self._feed = feed
        self._stop = stop
        self._progress = progress
        self._metrics = metrics
        self._writer = writer
        self._engine: Engine | None = None
        self._calls: CallBook | None = None
        self._engine_since = 0.0
        self._clock = StageClock()
        self._device_seconds = 0.0  # of the engine, as far as the clock knows them
        self._finisher = Finisher(job)
        self._under_way: dict[DocumentTask, Ready] = {}
        self._in_flight: set[DocumentTask] = set()  # those under way that the device has begun with
        self._gather_until: float | None = None  # when the first step waits no longer; None: nothing is asked yet
        self._writing: Task[list[ResultRow]] | None = None  # rows of the step before
        self._suspects: list[tuple[DocumentTask, Ready]] = []  # were in flight when a run died: one at a time, last
        self._finished: list[Finished] = []  # documents whose rows nobody is making yet
        self._redacted: defaultdict[DocumentTask, list[str]] = defaultdict(list)  # rules that its completions broke
        self._num_warned: Counter[DocumentTask] = Counter()
        self._feed_exhausted = False
        self._statuses: Counter[str] = Counter()
        self._error_types: Counter[str] = Counter()
        self._num_known = self._num_unchanged = 0

    def run(self) -> None:
        """Until every document has its row."""
        while not (self._feed_exhausted and not self._under_way and not self._suspects):
            self._stop.raise_if_requested()
            with self._clock.stage("take"):
                self._take_documents()
                self._take_a_suspect()
            with self._clock.stage("answer"):
                self._compute()
            with self._clock.stage("write"):
                self._keep_rows()
            self._tell()
        with self._clock.stage("write"):
            self._wait_for_rows()
        self._tell()  # of the last step's rows too
        self._clock.stop()
        if self._engine is not None:
            logger.info("planning: %s", self._engine.report(), extra={"event": "planning"})

    def _tell(self) -> None:
        state = self._state()
        self._progress.update(state)
        self._metrics.update(state, self.times(), self._tokens())

    def _tokens(self) -> Counter[str]:
        """Of the calls that this run made."""
        return self._calls.tokens if self._calls is not None else Counter()

    def times(self) -> StageTimes:
        """Where the time has gone so far."""
        device = self._engine.stats.device_seconds if self._engine is not None else 0.0
        self._clock.move(device - self._device_seconds, "schedule", "device")
        self._device_seconds = device
        return self._clock.times()

    def _take_documents(self) -> None:
        """Take what the feed has while planning wants to see more; wait only when there is nothing else to do."""
        for _ in range(MAX_EVENTS_AT_ONCE):
            event = self._next_event() if self._wants_documents else None
            if event is None:
                if self._gather_until is not None:
                    self._gather_until = 0.0
                return
            if isinstance(event, Ready):
                self._begin(event)
            elif isinstance(event, Unchanged):
                self._num_known += 1
                self._num_unchanged += 1
                self._statuses[event.status] += 1
                self._metrics.add_unchanged(event.status)
            elif isinstance(event, PlannerWanted):
                with self._clock.stage("load"):
                    event.reply.set_result(self._load_model())
            elif isinstance(event, Exhausted):
                self._feed_exhausted = True
                if event.error is not None:
                    raise event.error

    @property
    def _wants_documents(self) -> bool:
        return not self._feed_exhausted and (self._calls is None or self._calls.wants_more)

    def _next_event(self) -> Event | None:
        if self._under_way or self._finished:
            return self._feed.get(GATHER_PAUSE_SECONDS if self._is_gathering() else 0)
        self._writer.start()
        with self._clock.stage("feed"):
            return self._feed.get(IDLE_SECONDS)

    def _is_gathering(self) -> bool:
        """Whether the first step is still to come, and documents are just coming that it is to be planned over."""
        if self._gather_until is None or self._feed_exhausted or time.monotonic() >= self._gather_until:
            return False
        assert self._calls is not None
        return self._calls.num_open < GATHER_BATCHES * self._job.engine.max_num_seqs

    def _load_model(self) -> Asking:
        # Here and not above: nothing of this is needed, and paid for, before there is something to compute.
        from qwen_batch.engine import Engine, EngineConfig

        self._stop.raise_if_requested()  # loading torch has taken seconds
        job = self._job
        engine = Engine.load_folder(self._model.folder, EngineConfig.from_options(job.engine.model_dump()))
        logger.info("model %s: %s", self._model.name, engine.describe(), extra={"event": "engine"})
        self._sink.record("engine_loaded", {"run_id": self._facts.run_id, "engine": engine.describe()})
        thinking = job.prompt.thinking == "on"
        if thinking and not engine.tokenizer.supports_thinking:
            logger.warning("prompt.thinking is on, but the chat template of %s has no such switch", self._model.name)
        self._finisher.load(engine.tokenizer)
        self._facts = replace(self._facts, precision=engine.precision)
        self._calls = CallBook(
            engine,
            self._sink,
            self._finisher.filter,
            model_sha256=self._facts.model_sha256,
            precision=engine.precision,
            run_id=self._facts.run_id,
            window=2 * engine.config.max_num_seqs,
            begin=self._note_begin,
            submit=self._writer.submit,
            stage=self._clock.stage,
        )
        self._engine, self._engine_since = engine, time.monotonic()
        planner = Planner(
            engine.tokenizer,
            job,
            engine.max_model_len,
            answer_text=lambda completion: self._finisher.parse(completion).text,
            tick=self._feed.note_planned,
        )
        for notice in planner.notices:
            logger.info("%s", notice)
        return Asking(planner, self._calls.prepare)

    def _begin(self, ready: Ready) -> None:
        self._num_known += 1
        task = ready.outcome
        if isinstance(task, Failure):
            self._finished.append(Finished(ready, task, None, self._facts))
            return
        deaths = self._sink.deaths(task.document.doc_id)
        if deaths >= MAX_DEATHS:
            self._finished.append(Finished(ready, _quarantined(task, deaths), None, self._facts))
        elif deaths:
            self._suspects.append((task, ready))
        else:
            self._ask(task, ready)

    def _take_a_suspect(self) -> None:
        """When nothing else is left, and all other rows are kept, one document that was in flight when a run died."""
        if self._suspects and self._feed_exhausted and not self._under_way:
            self._wait_for_rows()  # the document before it is no longer in flight when its row is kept
            task, ready = self._suspects.pop()
            logger.warning("%s: asked by itself: a run died while it was in flight", task.document.doc_id)
            self._ask(task, ready)
            self._note_begin([task])  # whatever it dies of this time, and be it a check of an answer that was kept

    def _ask(self, task: DocumentTask, ready: Ready) -> None:
        assert self._calls is not None
        if self._gather_until is None:
            self._gather_until = time.monotonic() + GATHER_SECONDS
        self._under_way[task] = replace(ready, calls=())  # their prompts are long
        self._warn(task)
        self._calls.ask_prepared(task, ready.calls)

    def _note_begin(self, tasks: Iterable[DocumentTask]) -> None:
        """Let the journal know that the device begins with calls of these, right before it does.

        The writer, which has had nothing to do since it told of the step before, starts when that is done.
        """
        begun = {task for task in tasks if task in self._under_way} - self._in_flight  # others have failed meanwhile
        if begun:
            with self._clock.stage("keep"):
                self._sink.begin([task.document.doc_id for task in begun])
            self._in_flight |= begun
        self._writer.start()

    def _compute(self) -> None:
        """One step of the engine; then completions become next calls or rows."""
        if self._calls is None or not self._calls.has_work or self._is_gathering():
            return
        self._gather_until = 0.0
        for answered in self._calls.advance():
            self._take_answer(answered)

    def _take_answer(self, answered: Answered) -> None:
        task = answered.task
        assert self._calls is not None
        if task not in self._under_way:
            return  # it has failed, and this is the answer to another of its calls
        if answered.completion.redacted:
            self._redacted[task] += answered.completion.redacted
        try:
            self._calls.ask(task, task.complete(answered.completion))
        except Exception as error:  # the prompt of a merge could not be made, by a defect that is no DocumentError
            self._end(task, defect(task, "plan", error))
            return
        self._warn(task)
        if task.is_done:
            self._end(task, task.result)

    def _end(self, task: DocumentTask, result: Completion | Failure) -> None:
        self._in_flight.discard(task)
        del self._num_warned[task]
        redacted = tuple(self._redacted.pop(task, ()))
        self._finished.append(Finished(self._under_way.pop(task), result, task, self._facts, redacted))

    def _keep_rows(self) -> None:
        """Have the rows of this step made and kept, all in one transaction, while the device goes on."""
        self._wait_for_rows()
        finished, self._finished = self._finished, []
        self._writing = self._writer.submit(partial(self._write, finished))

    def _write(self, finished: list[Finished]) -> list[ResultRow]:
        """In the writer's thread: answers are parsed and checked, and their rows are durable when it returns."""
        rows = [(self._finisher.row(document), document.ready.key) for document in finished]
        if rows:
            self._sink.add_rows(rows)
        self._sink.tick()
        return [row for row, _ in rows]

    def _wait_for_rows(self) -> None:
        """Those of the step before. Raises what went wrong with them."""
        writing, self._writing = self._writing, None
        for row in writing.result() if writing is not None else ():
            self._statuses[row.status] += 1
            if row.error_type is not None:
                self._error_types[row.error_type] += 1
            self._metrics.add_row(row.status, (row.finished_at - row.started_at).total_seconds())

    def _warn(self, task: DocumentTask) -> None:
        """Log the task's warnings that are new."""
        for warning in task.warnings[self._num_warned[task] :]:
            logger.warning("%s", warning, extra={"doc_id": task.document.doc_id})
        self._num_warned[task] = len(task.warnings)

    def _state(self) -> ProgressState:
        stats = self._engine.stats if self._engine is not None else None
        seconds = max(time.monotonic() - self._engine_since, 1e-9)
        return ProgressState(
            documents_done=sum(self._statuses.values()),
            documents_known=self._num_known,
            reading_done=self._feed_exhausted,
            documents_failed=self._statuses["failed"],
            requests_running=stats.num_running if stats else 0,
            requests_waiting=(self._calls.num_open if self._calls else 0) - (stats.num_running if stats else 0),
            tokens_per_second=(stats.num_computed_tokens + stats.num_cached_tokens) / seconds if stats else 0.0,
            kv_use=stats.num_used_blocks / stats.num_blocks if stats else None,
            documents_reading=self._feed.num_reading,
            documents_planning=self._feed.num_planning,
            planned_share=self._feed.planned_share,
        )

    def counts(self) -> dict[str, int]:
        """Documents by status, and how many of them an earlier run had finished."""
        return {**self._statuses, "unchanged": self._num_unchanged}

    def summary(self, wall_seconds: float, table: str) -> RunSummary:
        """The run in numbers."""
        count, tokens = self._statuses, self._tokens()
        return RunSummary(
            ok=count["ok"],
            flagged=count["flagged"],
            failed=count["failed"],
            skipped=count["skipped"],
            unchanged=self._num_unchanged,
            prompt_tokens=tokens["prompt"],
            completion_tokens=tokens["completion"],
            cached_tokens=tokens["cached"],
            kept_answers=self._calls.num_kept if self._calls is not None else 0,
            wall_seconds=wall_seconds,
            table=table,
            error_types=dict(self._error_types),
            stage_seconds=self.times().seconds,
        )


def _quarantined(task: DocumentTask, deaths: int) -> Failure:
    document = task.document
    message = (
        f"{deaths} runs died while they worked on this document, so it is left out; look into it, "
        "then run again with --retry-failed"
    )
    return Failure(
        document.doc_id,
        document.source,
        "generate",
        "quarantined",
        message,
        document.content_sha256,
        len(document.pages) or None,
        document.metadata,
    )
