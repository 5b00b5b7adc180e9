"""What surrounds a run that nobody watches: its events in the audit log, and rows of documents that are gone."""

from __future__ import annotations

import getpass
import hashlib
import json
import logging
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from qwen_batch import __version__
from qwen_batch.answer.rows import RunFacts
from qwen_batch.errors import OutputError, StoppedError
from qwen_batch.feed import INPUT_TROUBLES, Feed
from qwen_batch.job import Job
from qwen_batch.write.disk import Disk, output_errors, write_durably
from qwen_batch.write.store import RowSink

logger = logging.getLogger(__name__)


@contextmanager
def recorded(sink: RowSink, job: Job, facts: RunFacts, options: Mapping[str, object]) -> Iterator[dict[str, object]]:
    """Write the run's beginning and its end into the audit log; put what the end should tell into what is yielded."""
    sink.record("run_started", {**_who(), **_what(job, facts), "options": dict(options)})
    end: dict[str, object] = {"run_id": facts.run_id}
    try:
        yield end
    except BaseException as error:
        reason = str(error) if isinstance(error, StoppedError | OutputError) else repr(error)
        with suppress(OutputError):  # the disk that ended the run may refuse this too
            sink.record("run_stopped", {**end, "reason": reason})
        raise
    sink.record("run_finished", end)


def claim_folder(folder: Path, job_name: str) -> None:
    """Note whose table this folder holds. Raises OutputError when it is another job's.

    Two jobs in one folder would give one table of answers to two questions.
    """
    note = folder / ".journal" / "job"
    with output_errors(note):
        owner = note.read_text(encoding="utf-8", errors="replace") if note.is_file() else None
        if owner is None:
            write_durably(Disk(), note, [job_name.encode()])
    if owner not in (None, job_name):
        raise OutputError(
            f"{folder}: holds the table of the job {owner!r}, and this is {job_name!r}; choose another folder with "
            "--output, or give the job its old name"
        )


def _who() -> dict[str, object]:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # an id without a name, as in containers
        user = str(os.getuid())
    return {"user": user, "host": socket.gethostname(), "pid": os.getpid(), "version": __version__}


def _what(job: Job, facts: RunFacts) -> dict[str, object]:
    prompt = json.dumps(job.prompt.model_dump(mode="json"), sort_keys=True)
    return {
        "run_id": facts.run_id,
        "job": job.name,
        "job_sha256": facts.job_sha256,
        "prompt_sha256": hashlib.sha256(prompt.encode()).hexdigest(),
        "model": facts.model,
        "model_sha256": facts.model_sha256,
        "precision": facts.precision,
    }


def drop_mended(sink: RowSink, feed: Feed) -> int:
    """Take out rows of inputs that were not found, or could not be searched, and that a complete pass over the inputs
    found, or did not look for any more; how many there were. They are no documents, so nobody would ever replace them.
    """
    return sink.drop_failed(INPUT_TROUBLES, lambda doc_id: doc_id in feed.troubles)


def drop_missing(sink: RowSink, feed: Feed) -> int:
    """Take out the rows of documents that a complete pass over the inputs did not meet; how many there were.

    Nothing is dropped when an input could not be searched, or when there was no document at all: a disk that is not
    mounted looks like an empty folder.
    """
    if not feed.num_present:
        logger.warning("input.missing is drop, but there is no document at all: every row is kept")
        return 0
    if feed.unsearched is not None:
        logger.warning("input.missing is drop, but %s could not be searched: every row is kept", feed.unsearched)
        return 0
    dropped = sink.drop_missing(feed.is_present)
    if dropped:
        logger.info("dropped the rows of %d documents that are gone", dropped, extra={"event": "dropped"})
    return dropped
