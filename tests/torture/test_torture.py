"""Sixty-odd documents with map-reduce, killed or starved of disk at every named step and at random moments, resumed.

Every document then has one row, equal to that of a night without trouble; nothing that was durable is computed again;
`verify` is clean. The short form takes a sample of the steps, `make torture` all of them and 200 random moments.
"""

from __future__ import annotations

import errno
import json
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from qwen_batch.write.verify import verify

# Of a run, not of a document. cached_tokens tells what had been computed shortly before, which a kill changes.
NOT_COMPARED = {"run_id", "started_at", "finished_at", "cached_tokens"}
WORDS = "the supplier shall pay the customer a penalty of two percent for each week of delay under this agreement"
NUM_LONG, NUM_SHORT, NUM_FILES = 6, 52, 2
NUM_RANDOM = 200


class Nights:
    """The server of runs, and what a night without trouble gives."""

    def __init__(self, folder: Path, model: Path) -> None:
        self.folder = folder
        self.job = write_job(folder, model)
        command = [sys.executable, str(Path(__file__).with_name("night_server.py")), str(model)]
        self._server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.quiet = self.run(folder / "quiet")
        assert self.quiet.code in (0, 3), self.quiet.log.read_text()
        self.rows = read_rows(folder / "quiet")
        self.seconds = self.run(folder / "timed").seconds  # the first run also loads what later ones find in memory
        self.steps = self.quiet.lines("step")
        self.operations = self.quiet.lines("operation")

    def run(self, output: Path, **order: Any) -> Night:
        log = output.with_suffix(".log")
        order |= {"arguments": ["run", str(self.job), "-q", "--output", str(output)], "log": str(log)}
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(order) + "\n")
        self._server.stdin.flush()
        answer = json.loads(self._server.stdout.readline())
        return Night(answer["code"], answer["seconds"], log)

    def close(self) -> None:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.close()
        self._server.wait(timeout=30)
        self._server.stdout.close()

    def check_resumed(self, output: Path) -> None:
        """Run again to the end, and look."""
        before = read_rows(output) if any((output / "results").glob("part-*")) else {}
        assert before.keys() <= self.rows.keys()
        assert all(before[doc_id] == self.rows[doc_id] for doc_id in before), "a reader saw a wrong row"
        durable = durable_calls(output)
        resumed = self.run(output)
        assert resumed.code == self.quiet.code, resumed.log.read_text()
        assert read_rows(output) == self.rows
        again = durable & set(resumed.lines("call"))
        assert not again, f"{len(again)} durable completions were computed again"
        assert verify(output).problems == []
        shutil.rmtree(output)


@dataclass(frozen=True)
class Night:
    """How a run ended."""

    code: int
    seconds: float
    log: Path

    def lines(self, kind: str) -> list[str]:
        words = [line.split() for line in self.log.read_text(encoding="utf-8", errors="replace").split("\n")]
        return [line[1] for line in words if len(line) == 2 and line[0] == kind]


def write_job(folder: Path, model: Path) -> Path:
    (folder / "inbox").mkdir()
    with (folder / "inbox/records.jsonl").open("w") as file:
        for number in range(NUM_LONG):
            text = "\n\n".join(f"{number}.{part} {WORDS}." for part in range(14 + 2 * number))
            file.write(json.dumps({"id": f"long-{number}", "text": text}) + "\n")
        for number in range(NUM_SHORT):  # every seventh as one before it: two rows, one call
            file.write(json.dumps({"id": f"short-{number}", "text": f"Ticket {number % 40}. {WORDS}"}) + "\n")
        file.write(json.dumps({"id": "longest", "text": ". ".join([WORDS] * 10)}) + "\n")  # of those that are not split
        file.write("{broken\n")
    for number in range(NUM_FILES):
        (folder / f"inbox/file-{number}.txt").write_text(f"File {number}. {WORDS}")
    job = folder / "job.yaml"
    job.write_text(
        f"name: torture\nmodel: {model}\ninput: inbox\nprompt: List the parties.\n"
        "long_documents: {threshold: 500, chunk_size: 250, overlap: 10}\nsampling: {max_tokens: 5}\n"
        "engine: {device: cpu, dtype: float32, max_num_seqs: 16, max_model_len: 1024, kv_memory: 16MiB}\n"
        "output: {flush_rows: 12, flush_seconds: 600, completions: true}\n"
    )
    return job


def read_rows(output: Path) -> dict[str, dict[str, Any]]:
    table = pq.read_table(output / "results").to_pylist()
    rows = {row["doc_id"]: {name: row[name] for name in row.keys() - NOT_COMPARED} for row in table}
    assert len(rows) == len(table), "a document stands there twice"
    return rows


def durable_calls(output: Path) -> set[str]:
    journal = output / ".journal/journal.sqlite"
    if not journal.exists():
        return set()
    connection = sqlite3.connect(journal)
    try:
        return {key for (key,) in connection.execute("SELECT key FROM completions")}
    except sqlite3.OperationalError:  # not even its tables were made
        return set()
    finally:
        connection.close()


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory, tiny_qwen3: Path) -> Iterator[Nights]:
    memory = Path("/dev/shm")  # a killed process loses nothing that the system has: no need to wait for a medium
    folder = Path(tempfile.mkdtemp(dir=memory)) if memory.is_dir() else tmp_path_factory.mktemp("torture")
    nights = Nights(folder, tiny_qwen3)
    yield nights
    nights.close()
    shutil.rmtree(folder)


def occurrences(names: list[str], positions: tuple[float, ...]) -> dict[str, list[int]]:
    """For each name, which of its occurrences (from 1) stand at these relative positions among them."""
    return {
        name: sorted({1 + round(position * (count - 1)) for position in positions})
        for name, count in Counter(names).items()
    }


def test_the_night_is_what_it_should_be(nights: Nights) -> None:
    rows = nights.rows
    assert len(rows) == NUM_LONG + NUM_SHORT + NUM_FILES + 2 >= 60
    assert sum(row["num_chunks"] is not None and row["num_chunks"] > 1 for row in rows.values()) == NUM_LONG
    assert all(rows[f"long-{number}"]["reduce_levels"] >= 1 for number in range(NUM_LONG))
    assert set(nights.steps) >= {
        f"{when}_{what}"
        for when in ("before", "after")
        for what in ("write", "append", "exchange", "rename", "sync", "sync_folder", "remove_folder", "commit")
    }
    assert verify(nights.folder / "quiet").problems == []


def kill_at_steps(nights: Nights, positions: tuple[float, ...], names: Collection[str] | None = None) -> int:
    count = 0
    for name, numbers in occurrences(nights.steps, positions).items():
        for number in numbers if names is None or name in names else ():
            output = nights.folder / f"step-{name}-{number}"
            count += nights.run(output, stop_at=[name, number]).code == -9  # the last ones may not come, by timing
            nights.check_resumed(output)
    return count


def kill_at_random(nights: Nights, count: int) -> None:
    """Kill so many runs, each after another while, and resume them; one that ended earlier does not count."""
    draw = random.Random(5)
    killed = tries = 0
    while killed < count:
        output = nights.folder / f"random-{tries}"
        killed += nights.run(output, seconds=draw.uniform(0.0, nights.seconds)).code == -9
        nights.check_resumed(output)
        tries += 1
        assert tries < 10 + 3 * count, f"only {killed} of {tries} runs were killed"


ADVICE = {
    errno.ENOSPC: "no space is left on the disk",
    errno.EIO: "look at the disk and run again",
    errno.EROFS: "it may not be written; check its permissions, or choose another folder with --output",
}


def starve(nights: Nights, number: int, positions: tuple[float, ...], names: Collection[str] | None = None) -> int:
    """The disk refuses from some operation on; the run says so and ends, and the next one goes on. How many did."""
    starved = 0
    for name, places in occurrences(nights.operations, positions).items():
        for place in places if names is None or name in names else ():
            output = nights.folder / f"starved-{name}-{place}"
            night = nights.run(output, fail_at=[name, place], errno=number)
            said = night.log.read_text(encoding="utf-8")
            if night.code != nights.quiet.code:  # else the last operation of that name did not come, by timing
                assert night.code == 1, f"{name} {place}: {said}"
                assert ADVICE[number] in said
                starved += 1
            assert "Traceback" not in said
            nights.check_resumed(output)
    return starved


def test_killed_at_a_sample_of_the_steps(nights: Nights) -> None:
    operations = set(nights.operations) - {"make_folder"}
    names = {f"before_{name}" for name in operations} | {"after_commit", "after_rename", "after_engine_step"}
    assert kill_at_steps(nights, (0.6,), names) >= 11


def test_killed_at_a_few_random_moments(nights: Nights) -> None:
    kill_at_random(nights, 5)


def test_a_disk_that_is_full_from_a_sample_of_calls_on(nights: Nights) -> None:
    assert starve(nights, errno.ENOSPC, (0.5,)) >= 8


def test_a_disk_that_becomes_read_only(nights: Nights) -> None:
    """As file systems do when their disk fails."""
    assert starve(nights, errno.EROFS, (0.5,), {"write", "commit"}) == 2


def test_a_document_that_kills_runs_is_set_aside(nights: Nights) -> None:
    """Three runs die; the fourth leaves the document out and names it, and all others have their rows."""
    output = nights.folder / "poison"
    deadly_tokens = nights.rows["longest"]["prompt_tokens"] - 1
    assert nights.rows["longest"]["num_chunks"] == 1
    for _ in range(3):
        assert nights.run(output, deadly_tokens=deadly_tokens).code == -9
    assert nights.run(output, deadly_tokens=deadly_tokens).code == 3
    rows = read_rows(output)
    failed = rows.pop("longest")
    assert (failed["status"], failed["error_type"], failed["stage"]) == ("failed", "quarantined", "generate")
    assert failed["error"] == (
        "3 runs died while they worked on this document, so it is left out; look into it, "
        "then run again with --retry-failed"
    )
    assert rows == {doc_id: row for doc_id, row in nights.rows.items() if doc_id != "longest"}
    assert verify(output).problems == []


def documents_of(nights: Nights, keys: Collection[str]) -> set[str]:
    """Whose calls these are: of the first that asked, and of the one with the same text."""
    connection = sqlite3.connect(nights.folder / "quiet/.journal/journal.sqlite")
    owners = {key: json.loads(row)["doc_id"] for key, row in connection.execute("SELECT key, row FROM completions")}
    connection.close()
    found = {owners[key] for key in keys}
    texts = {f"short-{number}": number % 40 for number in range(NUM_SHORT)}
    return found | {doc_id for doc_id, text in texts.items() if text in {texts.get(owner) for owner in found}}


@pytest.mark.parametrize("moment", ["before_flight", "after_flight", "before_launch", "after_launch"])
def test_a_death_counts_for_what_the_device_had_and_not_for_what_waited(nights: Nights, moment: str) -> None:
    """Around the first step, and around the second that begins something."""
    for number in (1, 2):
        output = nights.folder / f"death-{moment}-{number}"
        night = nights.run(output, stop_at=[moment, number])
        assert night.code == -9
        had = documents_of(nights, night.lines("computed"))
        connection = sqlite3.connect(output / ".journal/journal.sqlite")
        suspects = {doc_id for (doc_id,) in connection.execute("SELECT doc_id FROM in_flight WHERE is_open")}
        finished = {doc_id for (doc_id,) in connection.execute("SELECT doc_id FROM documents")}
        connection.close()
        waited = documents_of(nights, night.lines("call")) - suspects - finished
        assert len(waited) > 16, "planning sees more than a batch"
        if moment == "after_launch" or (number == 1 and moment == "before_flight"):
            assert suspects == had - finished
        elif moment == "before_flight":
            assert suspects <= had, "what the step begins with, nobody knows yet"
        else:
            assert suspects > had - finished, "what the step begins with, the device has not had"
        nights.check_resumed(output)


@pytest.mark.slow
def test_killed_at_every_step(nights: Nights) -> None:
    assert kill_at_steps(nights, tuple(n / 7 for n in range(8))) >= 100


@pytest.mark.slow
def test_killed_at_many_random_moments(nights: Nights) -> None:
    kill_at_random(nights, NUM_RANDOM)


@pytest.mark.slow
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO], ids=["ENOSPC", "EIO"])
def test_a_disk_that_refuses_every_call_in_turn(nights: Nights, number: int) -> None:
    assert starve(nights, number, tuple(n / 999 for n in range(1000))) >= 100
