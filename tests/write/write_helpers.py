"""Rows to write, a disk that stops the world, and a look at what readers see."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from qwen_batch.records import Completion, Evidence, ResultRow
from qwen_batch.write.calls import ModelCall
from qwen_batch.write.disk import Disk
from qwen_batch.write.store import ResultStore

START = datetime.datetime(2026, 11, 29, 2, 5, tzinfo=datetime.UTC)


def make_row(doc_id: str = "a.pdf", answer: str | None = "yes", seconds: int = 1, **changes: Any) -> ResultRow:
    values: dict[str, Any] = {
        "doc_id": doc_id,
        "source": f"in/{doc_id}",
        "content_sha256": "c0ffee",
        "status": "ok",
        "error_type": None,
        "error": None,
        "stage": None,
        "answer": answer,
        "evidence": (Evidence("parties", "A and B", 3, True), Evidence("date", "合同", None, False)),
        "thinking": None,
        "flags": ("cut_off",),
        "num_pages": 3,
        "num_chunks": 1,
        "reduce_levels": 0,
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "cached_tokens": 30,
        "finish_reason": "stop",
        "model": "demo",
        "model_sha256": "beef",
        "precision": "bfloat16",
        "job_sha256": "f00d",
        "run_id": "run-1",
        "started_at": START,
        "finished_at": START + datetime.timedelta(seconds=seconds),
        "metadata": {"team": "法务", "n": [1, 2.5, None]},
    }
    return ResultRow(**{**values, **changes})


def make_call(key: str = "k", doc_id: str = "a.pdf", text: str = "yes", **changes: Any) -> ModelCall:
    completion = Completion("r-1", (5, 6, 7), text, "stop", num_prompt_tokens=11, num_cached_tokens=4)
    values: dict[str, Any] = {"key": key, "completion": completion, "doc_id": doc_id, "level": 0, "index": 0}
    return ModelCall(**{**values, "run_id": "run-1", **changes})


class Killed(BaseException):
    """The process is gone: nothing runs any more, no clean-up either."""


class StoppingDisk(Disk):
    """Calls `stop(name)` in place of its nth operation (from 1) and of all later ones; a write is done by half."""

    def __init__(self, stop_at: int, stop: Callable[[str], None] | None = None) -> None:
        self.names: list[str] = []
        self._stop_at = stop_at
        self._stop = stop or self._raise

    @staticmethod
    def _raise(name: str) -> None:
        raise Killed(name)

    def _step(self, name: str) -> None:
        self.names.append(name)
        if len(self.names) >= self._stop_at:
            self._stop(name)

    def make_folder(self, folder: Path) -> None:
        self._step("make_folder")
        super().make_folder(folder)

    def write(self, path: Path, chunks: Iterable[bytes | memoryview]) -> None:
        content = b"".join(chunks)
        path.write_bytes(content[: len(content) // 2])
        self._step("write")
        super().write(path, [content])

    def append(self, path: Path, content: bytes) -> None:
        self._step("append")
        super().append(path, content)
        super().truncate(path, path.stat().st_size - len(content) // 2)
        self._step("append_half")
        super().append(path, content[len(content) - len(content) // 2 :])

    def truncate(self, path: Path, num_bytes: int) -> None:
        self._step("truncate")
        super().truncate(path, num_bytes)

    def link(self, source: Path, target: Path) -> None:
        self._step("link")
        super().link(source, target)

    def exchange(self, one: Path, other: Path) -> bool:
        self._step("exchange")
        return super().exchange(one, other)

    def remove_folder(self, folder: Path) -> None:
        if folder.exists():
            self._step("remove_folder")
        super().remove_folder(folder)

    def sync(self, path: Path) -> None:
        self._step("sync")  # and no more: what the medium holds makes no difference to the end of a process

    def rename(self, source: Path, target: Path) -> None:
        self._step("rename")
        super().rename(source, target)

    def sync_folder(self, folder: Path) -> None:
        self._step("sync_folder")

    def remove(self, path: Path) -> None:
        self._step("remove")
        super().remove(path)

    def commit(self, connection: Any) -> None:
        self._step("commit")
        super().commit(connection)


def open_store(folder: Path, **changes: Any) -> ResultStore:
    """A store that waits for no medium once it is open: a process that ends loses nothing that was written."""
    store = ResultStore.open(folder, **{"metadata": False, "flush_rows": 3, "flush_seconds": 1e9, **changes})
    store._journal._connection.execute("PRAGMA synchronous = OFF")
    return store


def abandon(store: ResultStore) -> None:
    """What the end of the process does to a store: its files are closed, nothing is written."""
    store._journal.close()


def read_results(folder: Path, name: str = "results") -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(folder / name).to_pylist()
    return rows


def answers(folder: Path) -> dict[str, str]:
    """Answer by document, as a reader finds them; fails if a document stands there twice."""
    rows = read_results(folder)
    found = {row["doc_id"]: row["answer"] for row in rows}
    assert len(found) == len(rows), f"a document stands twice in {[row['doc_id'] for row in rows]}"
    return found


@contextmanager
def collect_log() -> Iterator[list[str]]:
    """Warnings of the write room, whatever other tests have made of the package's logger."""
    messages: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: messages.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("qwen_batch.write")
    old_level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.WARNING)
    try:
        yield messages
    finally:
        logger.setLevel(old_level)
        logger.removeHandler(handler)
