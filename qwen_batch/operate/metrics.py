"""Numbers of a run for Prometheus: a text file for node_exporter, and an HTTP port while the run lasts.

The file is replaced as a whole every WRITE_SECONDS and at the end. The time of the last success is kept in the output
folder too, so that a night that failed does not hide when the last good one was, and a port that is open only while a
run lasts tells of the runs before; 0 means that there was none yet. Names end in their unit,
as https://prometheus.io/docs/practices/naming/ asks; the label is `batch_job` because Prometheus uses `job` itself.
"""

from __future__ import annotations

import logging
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from qwen_batch.errors import RunError, UsageError
from qwen_batch.operate.progress import ProgressState
from qwen_batch.operate.stages import STAGES, StageTimes

logger = logging.getLogger(__name__)

WRITE_SECONDS = 15.0
DOCUMENT_SECONDS = (0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000, 3000)  # bounds of the histogram
_TOKEN_KINDS = ("prompt", "completion", "cached")
_FINISHED = (0, 3)  # exit codes of a run that came to its end
_LAST_SUCCESS = re.compile(r'^qwen_batch_last_success_timestamp_seconds\{batch_job="([^"]*)"\} (\S+)$', re.MULTILINE)


class Metrics(Protocol):
    """What a run tells while it goes on."""

    def add_row(self, status: str, seconds: float) -> None:
        """A document has its row, after so long."""

    def add_unchanged(self, status: str) -> None:
        """A document has its row from an earlier run."""

    def update(self, state: ProgressState, times: StageTimes, tokens: Mapping[str, int]) -> None:
        """Where the run stands, where its main thread's time went, and its tokens: prompt, completion, cached."""

    def finish(self, exit_code: int) -> None:
        """The run ends with this exit code."""


class NoMetrics:
    """When nobody asked."""

    def add_row(self, status: str, seconds: float) -> None:
        pass

    def add_unchanged(self, status: str) -> None:
        pass

    def update(self, state: ProgressState, times: StageTimes, tokens: Mapping[str, int]) -> None:
        pass

    def finish(self, exit_code: int) -> None:
        pass


class RunMetrics:
    """Counts into a registry of its own."""

    def __init__(
        self, job: str, output: Path | None, file: Path | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        # Here and not above: a run without metrics does not pay for it.
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

        self.registry = CollectorRegistry()
        self._job = job
        self._output = output
        self._file = file
        self._clock = clock
        self._started = clock()
        self._next_write = clock()
        self._counted: Mapping[str, float] = dict.fromkeys(STAGES, 0.0)  # of `_stages`
        self._token_counts: Mapping[str, int] = dict.fromkeys(_TOKEN_KINDS, 0)  # of `_tokens`
        self._warned = False

        registry = self.registry

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"qwen_batch_{name}", text, ["batch_job", *labels], registry=registry)

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(f"qwen_batch_{name}", text, ["batch_job"], registry=registry).labels(job)

        self._documents = counter("documents", "Documents by the status of their row.", "status")
        self._unchanged = counter("unchanged_documents", "Documents that an earlier run had finished.").labels(job)
        text = "Tokens of calls that the engine made: prompt, completion, cached (prompt tokens not computed)."
        self._tokens = counter("tokens", text, "kind")
        self._stages = counter("stage_seconds", "Time of the main thread; see operate/stages.py.", "stage")
        text = "From the plan of a document to its row."
        self._document_seconds = Histogram(
            "qwen_batch_document_seconds", text, ["batch_job"], buckets=DOCUMENT_SECONDS, registry=registry
        ).labels(job)
        text = "Documents under way, requests running and waiting."
        self._queue = Gauge("qwen_batch_queue_length", text, ["batch_job", "queue"], registry=registry)
        self._busy = gauge("device_busy_ratio", "Share of the time with work in which the device computed.")
        self._kv_use = gauge("kv_used_ratio", "Share of KV memory that is in use, kept prefixes included.")
        self._disk_free = gauge("disk_free_bytes", "Free space where the output is.")
        self._active = gauge("run_active", "1 while a run works; stays 1 when it was killed.")
        self._exit_code = gauge("run_exit_code", "Exit code of the last run that ended.")
        self._start = gauge("run_start_timestamp_seconds", "When the last run began, seconds since 1970.")
        self._wall = gauge("run_wall_seconds", "Duration of the last run so far.")
        self._success = gauge("last_success_timestamp_seconds", "When a run last came to its end (exit code 0 or 3).")
        self._start.set(time.time())
        self._active.set(1)
        self._note = output / ".journal" / "last_success" if output is not None else None
        self._success.set(max(_last_success(file, job), _noted_success(self._note)))
        for status in ("ok", "flagged", "failed", "skipped"):
            self._documents.labels(job, status)
        for kind in _TOKEN_KINDS:
            self._tokens.labels(job, kind)

    def add_row(self, status: str, seconds: float) -> None:
        self._documents.labels(self._job, status).inc()
        self._document_seconds.observe(max(0.0, seconds))  # the wall clock may have been set back

    def add_unchanged(self, status: str) -> None:
        self._documents.labels(self._job, status).inc()
        self._unchanged.inc()

    def update(self, state: ProgressState, times: StageTimes, tokens: Mapping[str, int]) -> None:
        for kind, count in self._token_counts.items():
            self._tokens.labels(self._job, kind).inc(tokens[kind] - count)
        self._token_counts = {kind: tokens[kind] for kind in _TOKEN_KINDS}
        for stage, seconds in times.seconds.items():  # what was moved between stages must not count down
            self._stages.labels(self._job, stage).inc(max(0.0, seconds - self._counted[stage]))
        self._counted = times.seconds
        self._queue.labels(self._job, "documents").set(state.documents_known - state.documents_done)
        self._queue.labels(self._job, "requests_running").set(state.requests_running)
        self._queue.labels(self._job, "requests_waiting").set(state.requests_waiting)
        if times.busy_share is not None:
            self._busy.set(times.busy_share)
        if state.kv_use is not None:
            self._kv_use.set(state.kv_use)
        if self._clock() >= self._next_write:
            self._next_write = self._clock() + WRITE_SECONDS
            self.write()

    def finish(self, exit_code: int) -> None:
        self._active.set(0)
        self._exit_code.set(exit_code)
        if exit_code in _FINISHED:
            self._success.set(now := time.time())
            self._note_success(now)
        self.write()

    def _note_success(self, moment: float) -> None:
        if self._note is not None:
            with suppress(OSError):  # it can be read in the text file too, and a full disk has been told of
                self._note.write_text(f"{moment}\n", encoding="ascii")

    def write(self) -> None:
        """Replace the text file. A file that cannot be written costs a warning, not the night."""
        from prometheus_client import write_to_textfile

        self._wall.set(self._clock() - self._started)
        if self._output is not None:
            with suppress(OSError):
                self._disk_free.set(shutil.disk_usage(self._output).free)
        if self._file is None:
            return
        try:
            write_to_textfile(str(self._file), self.registry)
        except OSError as error:
            if not self._warned:
                logger.warning("%s: metrics cannot be written: %s", self._file, error.strerror or error)
            self._warned = True


def _last_success(file: Path | None, job: str) -> float:
    if file is not None:
        with suppress(OSError, ValueError):
            for name, value in _LAST_SUCCESS.findall(file.read_text(encoding="utf-8")):
                if name == job:
                    return float(value)
    return 0.0


def _noted_success(note: Path | None) -> float:
    if note is not None:
        with suppress(OSError, ValueError):
            return float(note.read_text(encoding="ascii"))
    return 0.0


@contextmanager
def open_metrics(job: str, output: Path | None, *, file: str | None, host: str, port: int | None) -> Iterator[Metrics]:
    """Metrics while the block lasts, where they are asked for; an exception is the exit code that it leads to.

    Raises UsageError when there is no folder for the file, RunError when the port is taken.
    """
    if file is None and port is None:
        yield NoMetrics()
        return
    if file is not None and Path(file).is_dir():
        raise UsageError(f"{file}: is a folder; name the metrics file in it, such as {Path(file) / 'qwen_batch.prom'}")
    if file is not None and not Path(file).absolute().parent.is_dir():
        raise UsageError(f"{file}: there is no such folder for the metrics file; create it, or name another file")
    metrics = RunMetrics(job, output, Path(file) if file else None)
    with _serving(metrics, host, port):
        try:
            yield metrics
        except BaseException as error:
            metrics.finish(getattr(error, "exit_code", 1))
            raise


@contextmanager
def _serving(metrics: RunMetrics, host: str, port: int | None) -> Iterator[None]:
    if port is None:
        yield
        return
    from prometheus_client import start_http_server

    try:
        server, thread = start_http_server(port, host, metrics.registry)
    except OSError as error:
        raise RunError(
            f"operate.metrics_port: {host}:{port} cannot be opened: {error.strerror}; choose another port"
        ) from error
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=5.0)
