"""Night after night: only what changed is computed, what is gone goes on request, and everything is on record."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from qwen_batch.answer.filters import AnswerFilter
from qwen_batch.cli import main
from qwen_batch.engine import Engine
from qwen_batch.engine.runner import Flight, Runner
from qwen_batch.plan.tree import DocumentTask
from qwen_batch.write.in_flight import InFlight
from qwen_batch.write.store import ResultStore

RunCli = Callable[..., int]


@pytest.fixture
def job(tmp_path: Path, tiny_qwen3: Path) -> Path:
    """A job over 60 records and 2 files."""
    (tmp_path / "inbox").mkdir()
    write_records(tmp_path, {str(number): f"Text {number}." for number in range(58)})
    for name in "ab":
        (tmp_path / f"inbox/{name}.txt").write_text(f"Text of {name}.")
    path = tmp_path / "job.yaml"
    path.write_text(
        f"name: test\nmodel: {tiny_qwen3}\ninput: {{paths: [inbox]}}\nprompt: List the parties.\n"
        "sampling: {max_tokens: 3}\nengine: {device: cpu, dtype: float32}\noutput: {dir: out}\n"
    )
    return path


def write_records(folder: Path, texts: dict[str, str], **more: object) -> None:
    lines = [json.dumps({"id": doc_id, "text": text, **more}) for doc_id, text in texts.items()]
    (folder / "inbox/records.jsonl").write_text("\n".join(lines) + "\n")


def rows(job: Path) -> dict[str, dict[str, Any]]:
    table = pq.read_table(job.parent / "out/results").to_pylist()
    assert len({row["doc_id"] for row in table}) == len(table)
    return {row["doc_id"]: row for row in table}


def audit(job: Path) -> list[dict[str, Any]]:
    files = sorted((job.parent / "out/audit").iterdir())
    return [json.loads(line) for path in files for line in path.read_text().split("\n")[:-1]]


def next_night(job: Path) -> None:
    """3 changed, 2 new, 1 gone."""
    texts = {str(number): f"Text {number}." for number in range(57)}
    write_records(job.parent, {**texts, "3": "Changed.", "4": "Changed too.", "new-1": "New 1.", "new-2": "New 2."})
    (job.parent / "inbox/a.txt").write_text("Changed as well.")


def test_night_two(job: Path, run_cli: RunCli, monkeypatch: pytest.MonkeyPatch) -> None:
    run_cli("run", job, "-q")
    first = rows(job)
    assert len(first) == 60
    next_night(job)
    asked: list[str] = []
    add = Engine.add

    def add_and_note(self: Engine, request: Any) -> None:
        asked.append(request.request_id)
        add(self, request)

    monkeypatch.setattr(Engine, "add", add_and_note)
    run_cli("run", job, "-q", "-o", "input.missing=drop")
    second = rows(job)
    assert len(asked) == 5
    assert first.keys() - second.keys() == {"57"}
    assert second.keys() - first.keys() == {"new-1", "new-2"}
    assert {name for name in first.keys() & second.keys() if first[name] != second[name]} == {"3", "4", "inbox/a.txt"}
    started = time.process_time()
    run_cli("run", job, "-q", "-o", "input.missing=drop")
    assert time.process_time() - started < 2.0
    assert len(asked) == 5
    assert rows(job) == second
    assert run_cli("verify", job.parent / "out") == 0


def test_switching_metadata_computes_nothing(
    job: Path, run_cli: RunCli, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    write_records(job.parent, {"1": "Text."}, metadata={"customer": 7})
    run_cli("run", job, "-q")
    before = rows(job)
    monkeypatch.delattr(Engine, "load_folder")
    run_cli("run", job, "-o", "output.metadata=true")
    assert "documents  3: 3 ok; 3 unchanged since an earlier run" in capfd.readouterr().err
    after = rows(job)
    assert [after[name].pop("metadata") for name in ("1", "inbox/a.txt")] == ['{"customer":7}', "{}"]
    assert after["1"] == before["1"]
    run_cli("run", job, "-q", "-o", "output.metadata=false")
    assert rows(job) == before


def test_changed_metadata_costs_a_row_and_no_call(
    job: Path, run_cli: RunCli, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    write_records(job.parent, {"1": "Text.", "2": "Text 2."}, metadata={"customer": 7})
    run_cli("run", job, "-q", "-o", "output.metadata=true")
    answer = rows(job)["1"]["answer"]

    def refuse(self: Engine, request: Any) -> None:
        raise AssertionError("a call was made")

    monkeypatch.setattr(Engine, "add", refuse)
    write_records(job.parent, {"1": "Text.", "2": "Text 2."}, metadata={"customer": 8})
    run_cli("run", job, "-o", "output.metadata=true")
    assert (rows(job)["1"]["answer"], rows(job)["1"]["metadata"]) == (answer, '{"customer":8}')
    assert "tokens     0 in, 0 out; 2 answers were kept from before\n" in capfd.readouterr().err


def test_every_run_and_document_is_on_record(job: Path, run_cli: RunCli) -> None:
    run_cli("run", job, "-q")
    next_night(job)
    run_cli("run", job, "-q", "-o", "input.missing=drop")
    lines = audit(job)
    names = [line["event"] for line in lines if line["event"] != "engine_loaded"]
    (engine,) = {line["engine"] for line in lines if line["event"] == "engine_loaded"}
    assert engine.startswith("device cpu, ")
    assert names == [
        "run_started",
        *["document"] * 60,
        "run_finished",
        "run_started",
        *["document"] * 5,
        "document_dropped",
        "run_finished",
    ]
    start, end = lines[0], lines[-1]
    assert {"user", "host", "pid", "version", "job_sha256", "prompt_sha256", "model_sha256"} <= start.keys()
    assert (end["dropped"], end["documents"]["unchanged"]) == (1, 56)
    assert "Text 7" not in json.dumps(lines)


def test_missing_documents_stay_unless_asked(job: Path, run_cli: RunCli) -> None:
    run_cli("run", job, "-q")
    next_night(job)
    run_cli("run", job, "-q")
    assert "57" in rows(job)


@pytest.mark.parametrize("later", ["later", "later/*.txt", "later/**/*.txt", "later/c.txt"])
def test_the_row_of_an_input_that_was_not_there_goes_when_it_is(job: Path, run_cli: RunCli, later: str) -> None:
    paths = ["-q", "-o", f"input.paths=[inbox, '{later}']"]
    assert run_cli("run", job, *paths) == 3
    (trouble,) = (row for row in rows(job).values() if row["status"] == "failed")
    assert trouble["error_type"] == "not_found"
    assert run_cli("run", job, *paths, "--limit", 3) == 0
    assert len(rows(job)) == 61, "who does not look at everything takes nothing out"
    assert run_cli("run", job, *paths) == 3
    assert len(rows(job)) == 61, "it is not there yet"
    (job.parent / "later").mkdir()
    (job.parent / "later/c.txt").write_text("Text of c.")
    assert run_cli("run", job, *paths) in (0, 3)
    assert rows(job).keys() - {str(number) for number in range(58)} == {"inbox/a.txt", "inbox/b.txt", "later/c.txt"}
    assert rows(job)["later/c.txt"]["status"] != "failed"
    assert [line["doc_id"] for line in audit(job) if line["event"] == "document_dropped"] in ([], [trouble["doc_id"]])
    assert run_cli("verify", job.parent / "out") == 0


@pytest.mark.parametrize("pattern", ["inbox/**/*.txt", "inbox/*.txt"])
def test_nothing_is_dropped_when_a_glob_cannot_search_a_folder(
    job: Path, run_cli: RunCli, monkeypatch: pytest.MonkeyPatch, pattern: str
) -> None:
    run_cli("run", job, "-q")
    before = rows(job)
    real = os.scandir

    def refuse(path: Any = ".") -> Any:
        if Path(os.fsdecode(path)).name == "inbox":
            raise PermissionError(13, "Permission denied", os.fsdecode(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", refuse)
    assert run_cli("run", job, "-q", "-o", "input.missing=drop", "-o", f"input.paths=[{pattern}]") == 3
    assert before.keys() <= rows(job).keys()


def test_a_document_that_breaks_the_engine_is_a_suspect(
    job: Path, run_cli: RunCli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error that is not ours ends the run; who was in flight is counted, as after a death."""

    def broken(self: Runner, *given: object) -> Any:
        raise RuntimeError("device-side assert")

    with monkeypatch.context() as patch:
        patch.setattr(Runner, "launch", broken)
        for _ in range(3):
            patch.setattr(sys, "argv", ["qwen-batch", "run", str(job), "-q", "--limit", "1"])
            with pytest.raises(RuntimeError, match="device-side assert"):
                main()
    assert run_cli("run", job, "-q", "--limit", 1) == 3
    (row,) = rows(job).values()
    assert row["error_type"] == "quarantined"


def test_suspects_are_in_flight_one_at_a_time(job: Path, run_cli: RunCli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the next death would name the one before, too, whose row was just being kept."""
    run_cli("run", job, "-q", "--limit", 4)
    suspects = sorted(rows(job))
    shutil.rmtree(job.parent / "out")
    store = ResultStore.open(job.parent / "out", metadata=True, flush_rows=9, flush_seconds=9.0)
    store.begin(suspects)
    store.close(in_order=False)
    in_flight: list[list[str]] = []
    real = InFlight.begin

    def begin(self: InFlight, doc_ids: Iterable[str]) -> None:
        real(self, doc_ids)
        with closing(sqlite3.connect(job.parent / "out/.journal/journal.sqlite")) as connection:
            in_flight.append([doc_id for (doc_id,) in connection.execute("SELECT doc_id FROM in_flight WHERE is_open")])

    monkeypatch.setattr(InFlight, "begin", begin)
    assert run_cli("run", job, "-q", "--limit", 4) in (0, 3)
    assert sorted(in_flight) == [[doc_id] for doc_id in suspects]


def prompt_holds(engine: Any, pieces: Any, word: str) -> list[bool]:
    return [word in engine.tokenizer.decode(piece.sequence.token_ids) for piece in pieces]


@pytest.mark.parametrize("trouble", ["a step fails", "not a number"])
def test_what_one_document_does_to_the_model_costs_one_row(
    job: Path, run_cli: RunCli, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    launch, load = Runner.launch, Engine.load_folder
    engines: list[Engine] = []
    monkeypatch.setattr(Engine, "load_folder", lambda *given: engines.append(load(*given)) or engines[-1])

    def troubled(self: Runner, pieces: Any, before: Flight | None = None) -> Flight:
        marks = prompt_holds(engines[0], pieces, "Text 41.")
        if trouble == "a step fails" and any(marks):
            raise IndexError("index out of range in self")
        flight = launch(self, pieces, before)
        for piece, mark in zip(pieces, marks, strict=True):
            if mark and piece.reaches_end:
                flight.unread.tokens[flight.unread.rows[piece.sequence]] = -1
        return flight

    monkeypatch.setattr(Runner, "launch", troubled)
    assert run_cli("run", job, "-q") == 3
    found = rows(job)
    assert {doc_id for doc_id, row in found.items() if row["status"] == "failed"} == {"41"}
    assert (len(found), found["41"]["stage"]) == (60, "generate")
    assert (found["41"]["error_type"], found["41"]["error"]) == {
        "a step fails": ("generate_failed", "the model failed on it: IndexError('index out of range in self')"),
        "not a number": ("not_finite", "the model's logits are not numbers"),
    }[trouble]
    monkeypatch.setattr(Runner, "launch", launch)
    assert run_cli("run", job, "-q", "--retry-failed") in (0, 3)
    assert rows(job)["41"]["status"] != "failed"


@pytest.mark.parametrize(
    ("owner", "name", "stage"), [(DocumentTask, "complete", "plan"), (AnswerFilter, "apply", "answer")]
)
def test_a_defect_on_the_way_to_the_row_costs_one_row(
    job: Path, run_cli: RunCli, monkeypatch: pytest.MonkeyPatch, owner: type, name: str, stage: str
) -> None:
    real, calls = getattr(owner, name), []

    def third_time_fails(self: Any, *given: Any) -> Any:
        calls.append(given)
        if len(calls) == 3:
            raise KeyError("unforeseen")
        return real(self, *given)

    monkeypatch.setattr(owner, name, third_time_fails)
    assert run_cli("run", job, "-q") == 3
    (failed,) = (row for row in rows(job).values() if row["status"] == "failed")
    assert (failed["error_type"], failed["stage"]) == ("internal", stage)
    assert failed["error"] == f"the stage '{stage}' failed: KeyError('unforeseen'); please report this"
    assert len(rows(job)) == 60


def test_a_fresh_start_with_kept_calls_verifies(job: Path, run_cli: RunCli) -> None:
    kept = ["-q", "--limit", 3, "-o", "output={dir: out, completions: true}"]
    run_cli("run", job, *kept)
    run_cli("run", job, *kept, "--fresh", "-o", "prompt.question=Why?")
    assert run_cli("verify", job.parent / "out") == 0


@pytest.mark.parametrize("trouble", ["not mounted", "a folder is missing", "other inputs", "a limit"])
def test_nothing_is_dropped_when_the_inputs_are_not_all_there(job: Path, run_cli: RunCli, trouble: str) -> None:
    run_cli("run", job, "-q")
    (job.parent / "inbox/b.txt").unlink()
    arguments: list[object] = ["-o", "input.missing=drop"]
    if trouble == "not mounted":
        shutil.rmtree(job.parent / "inbox")
        (job.parent / "inbox").mkdir()
    elif trouble == "a folder is missing":
        arguments += ["-o", "input.paths=[inbox, archive]"]
    elif trouble == "other inputs":
        arguments.append(job.parent / "inbox/a.txt")
    else:
        arguments += ["--limit", 3]
    run_cli("run", job, "-q", *arguments)
    assert {"inbox/a.txt", "inbox/b.txt", "0", "57"} <= rows(job).keys()


def test_verify_says_what_is_wrong(job: Path, run_cli: RunCli, capfd: pytest.CaptureFixture[str]) -> None:
    run_cli("run", job, "-q")
    assert run_cli("verify", job.parent / "out") == 0
    assert capfd.readouterr().out == "table      60 rows in 1 parts\naudit      63 lines\nverdict    clean\n"
    (job.parent / "out/results/part-000000.parquet").unlink()
    assert run_cli("verify", job.parent / "out") == 3
    out = capfd.readouterr().out
    line = r"problem    results/part-000000\.parquet: \S+: the journal says that it stands here, and it does not\n"
    assert len(re.findall(line, out)) == 20, "of one kind"
    assert "problem    ... and 40 more\n" in out
    assert "verdict    60 problems" in out
    for command in ("verify", "show"):
        for folder in (job.parent / "inbox", job.parent / "nowhere"):
            assert run_cli(command, folder) == 2
            assert "name " in capfd.readouterr().err


def test_a_short_retention_is_refused(job: Path, run_cli: RunCli, capfd: pytest.CaptureFixture[str]) -> None:
    assert run_cli("run", job, "-o", "audit.retention_days=30") == 2
    message = "audit.retention_days: the audit log is kept for half a year and more: write 180 or a larger number"
    assert message in capfd.readouterr().err


def test_two_runs_started_together(job: Path) -> None:
    command = [sys.executable, "-m", "qwen_batch.cli", "run", str(job), "-q", "-o", "sampling.max_tokens=60"]
    started = time.monotonic()
    runs = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [run.communicate(timeout=100)[1] for run in runs]
    (refused,) = (number for number, run in enumerate(runs) if run.returncode == 75)
    assert runs[1 - refused].returncode in (0, 3), said
    assert f"another run works here (process {runs[1 - refused].pid} on " in said[refused]
    assert len(rows(job)) == 60
    assert time.monotonic() - started < 100


def test_an_output_that_cannot_be_written(job: Path, run_cli: RunCli, capfd: pytest.CaptureFixture[str]) -> None:
    (job.parent / "out").write_text("a file")
    assert run_cli("run", job, "-q") == 1
    error = capfd.readouterr().err
    assert "choose" in error
    assert "Traceback" not in error


def test_a_reader_that_goes_away(job: Path) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    command = [sys.executable, "-m", "qwen_batch.cli", "run", str(job), "-q", "--output", "-"]
    done = subprocess.run(command, stdout=write_end, stderr=subprocess.PIPE, text=True, check=False, timeout=100)
    os.close(write_end)
    assert done.returncode == 141
    assert done.stderr == "qwen-batch: the reader of standard output has gone away\n"


@pytest.mark.parametrize("action", ["flag", "redact", "fail"])
def test_answers_are_filtered_on_their_way_to_the_table(job: Path, run_cli: RunCli, action: str) -> None:
    rule = [r"-o", r"filter.patterns=\w+", "-o", f"filter.action={action}"]
    assert run_cli("run", job, "-q", "--limit", 3, *rule) == 3
    found = list(rows(job).values())
    status, answers = ("failed" if action == "fail" else "flagged"), [row["answer"] for row in found]
    assert [row["status"] for row in found] == [status] * 3
    if action == "fail":
        assert answers == [None] * 3
        assert {(row["error_type"], row["stage"]) for row in found} == {("filtered", "answer")}
        assert all(row["completion_tokens"] for row in found), "what it cost is told"
    else:
        assert all(r"filter:\w+" in row["flags"] for row in found)
        assert all(("[redacted]" in answer) == (action == "redact") for answer in answers)
        assert all(r"filter:\w+" in line["flags"] for line in audit(job) if line["event"] == "document")


def test_a_redacted_word_is_nowhere_in_the_folder(job: Path, run_cli: RunCli) -> None:
    """Long documents included, whose parts are answered too; and from the night on which the rule is made."""
    long = "\n\n".join(f"{number}. The supplier shall pay." for number in range(40))
    write_records(job.parent, {"long": long, **{str(number): f"Text {number}." for number in range(20)}})
    settings = ["-q", "-o", "long_documents={threshold: 200, chunk_size: 120, overlap: 10}", "-o", "engine.threads=1"]
    settings += ["-o", "sampling.max_tokens=20", "-o", "output={dir: out, completions: true}"]
    run_cli("run", job, *settings)
    before = rows(job)
    assert before["long"]["num_chunks"] > 1
    calls = pq.read_table(job.parent / "out/completions")["text"].to_pylist()
    word = max((word for text in calls for word in re.findall(r"[a-z]{4,}", text)), key=len)
    assert word.encode() in contents(job.parent / "out")
    # The flag names the rule as the job has it: this one finds the word without spelling it.
    rule = ["-o", f"filter={{patterns: ['{word[:2]}(?={word[2:]}){word[2:]}'], action: redact}}"]
    assert run_cli("run", job, *settings, *rule) == 3
    assert word.encode() not in contents(job.parent / "out")
    hit = [row for row in rows(job).values() if any(flag.startswith("filter:") for flag in row["flags"])]
    assert hit
    assert all("[redacted]" in (row["answer"] or "") or row["num_chunks"] > 1 for row in hit)
    assert run_cli("verify", job.parent / "out") == 0
    first = rows(job)
    shutil.rmtree(job.parent / "out")
    assert run_cli("run", job, *settings, *rule) == 3
    assert word.encode() not in contents(job.parent / "out")
    names = first["long"].keys() - {"run_id", "started_at", "finished_at", "cached_tokens"}
    assert {i: {n: row[n] for n in names} for i, row in rows(job).items()} == {
        i: {n: row[n] for n in names} for i, row in first.items()
    }
    assert run_cli("verify", job.parent / "out") == 0


def contents(folder: Path) -> bytes:
    """All that the files of a folder hold, tables unpacked."""
    tables = [str(pq.read_table(path).to_pylist()).encode() for path in folder.rglob("*.parquet")]
    return b"".join([path.read_bytes() for path in folder.rglob("*") if path.is_file()] + tables)


COUNT = 'import pyarrow.parquet as pq; print(len(pq.read_table("{folder}/out/results")))'
FULL_DISK = """
mount -t tmpfs -o size=400k tmpfs {folder} || exit 77
{run}; echo "first $?"
mount -o remount,size=64m {folder}
{run}; echo "second $?"
{verify}; echo "verify $?"
{count}
"""


@pytest.mark.slow
def test_a_disk_that_is_really_full(job: Path) -> None:
    """A small tmpfs in a mount namespace of its own: the run stops with a message, and goes on when there is room."""
    folder = job.parent / "full"
    folder.mkdir()
    program = f"{sys.executable} -m qwen_batch.cli"
    script = FULL_DISK.format(
        folder=folder,
        run=f"{program} run {job} -q --output {folder}/out -o output.flush_rows=5",
        verify=f"{program} verify {folder}/out",
        count=f"{sys.executable} -c '{COUNT.format(folder=folder)}'",
    )
    command = ["unshare", "-rm", "sh", "-c", script]
    if shutil.which("unshare") is None:
        pytest.skip("there is no unshare here")
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip(f"no mount namespace here: {done.stderr.strip()}")
    assert "no space is left on the disk; free some and run again: what is finished is saved" in done.stderr
    assert "Traceback" not in done.stderr
    lines = done.stdout.split("\n")
    assert lines[0] == "first 1", done.stderr
    assert lines[1] in ("second 0", "second 3")
    assert "verify 0" in lines
    assert lines[-2] == "60"
