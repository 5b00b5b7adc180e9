"""The end of a document: its completion is parsed and checked, and becomes a row. Works in the writer's thread."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from qwen_batch.answer.filters import AnswerFilter
from qwen_batch.answer.parse import parse_answer
from qwen_batch.answer.rows import RunFacts, answered_row, failed_row
from qwen_batch.answer.source_check import SourceCheck
from qwen_batch.errors import DocumentError
from qwen_batch.feed import Ready
from qwen_batch.job import Job
from qwen_batch.plan.task import plan_failure
from qwen_batch.plan.tree import DocumentTask
from qwen_batch.records import Answer, CleanDocument, Completion, Failure, Message, ResultRow, Stage

if TYPE_CHECKING:
    from qwen_batch.model.tokenizer import ChatTokenizer

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Finished:
    """A document that waits for its row."""

    ready: Ready
    result: Completion | Failure
    task: DocumentTask | None  # None: it was never asked about
    facts: RunFacts  # when it was finished
    redacted: tuple[str, ...] = ()  # rules of the filter that its completions broke


class Finisher:
    """Makes rows. `load` comes before the first completion."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self.filter = AnswerFilter(job.filter.words, job.filter.patterns, job.filter.action)
        self._source_check: SourceCheck | None = None
        self._prompt_opens_think = False

    def load(self, tokenizer: ChatTokenizer) -> None:
        """Learn how prompts end, and load the encoder of the source check, if there is one."""
        probe = tokenizer.encode_chat((Message("user", "?"),), self._job.prompt.thinking == "on")
        self._prompt_opens_think = tokenizer.prompt_opens_think(probe)
        section = self._job.filter.source_check
        if section.model is None:
            return
        from qwen_batch.model.encoder import SentenceEncoder

        encoder = SentenceEncoder.load(section.model, report=logger.info)
        logger.info("answers are compared with their documents by %s", section.model)
        self._source_check = SourceCheck(encoder, section.min_similarity, section.action)

    def parse(self, completion: Completion) -> Answer:
        return parse_answer(completion, prompt_opens_think=self._prompt_opens_think)

    def row(self, finished: Finished) -> ResultRow:
        """The document's row; a failed one is logged."""
        result, task, started_at = finished.result, finished.task, finished.ready.started_at
        if isinstance(result, Completion):
            assert task is not None
            try:
                answer = self._checked_answer(result, task.document, finished.redacted)
                now = datetime.datetime.now(datetime.UTC)
                return answered_row(task, answer, finished.facts, started_at=started_at, finished_at=now)
            except DocumentError as error:
                result = plan_failure(task.document, error)._replace(stage="answer")
            except Exception as error:  # whatever an answer does to the checks hurts its document alone
                result = defect(task, "answer", error)
        logger.warning("%s: failed: %s: %s", result.doc_id, result.error_type, result.error)
        now = datetime.datetime.now(datetime.UTC)
        return failed_row(result, finished.facts, task=task, started_at=started_at, finished_at=now)

    def _checked_answer(self, completion: Completion, document: CleanDocument, redacted: Sequence[str]) -> Answer:
        """The answer as the table gets it. Raises DocumentError when a check lets it fail."""
        answer = self.parse(completion)
        if self._source_check is not None:
            answer = self._source_check.apply(answer, document)
        return self.filter.apply(answer, redacted)


def defect(task: DocumentTask, stage: Stage, error: Exception) -> Failure:
    """A defect of ours, or of a library: it must cost one row, not the night."""
    logger.error("%s: stage %s failed", task.document.doc_id, stage, exc_info=error)
    message = f"the stage {stage!r} failed: {error!r}; please report this"
    return plan_failure(task.document, DocumentError("internal", message))._replace(stage=stage)
