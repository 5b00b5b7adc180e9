"""Whole runs through the command line's entry point, with a tiny random model."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from qwen_batch.engine import Engine

SAMPLES = Path(__file__).resolve().parents[1] / "sample_data"
COLUMNS = [
    *("doc_id", "source", "content_sha256", "status", "error_type", "error", "stage", "answer", "evidence"),
    *("thinking", "flags", "num_pages", "num_chunks", "reduce_levels", "prompt_tokens", "completion_tokens"),
    *("cached_tokens", "finish_reason", "model", "model_sha256", "precision", "job_sha256", "run_id"),
    *("started_at", "finished_at"),
]
WORDS = "the supplier shall pay the customer a penalty of two percent for each week of delay under this agreement"

RunCli = Callable[..., int]


@pytest.fixture
def job(tmp_path: Path, tiny_qwen3: Path) -> Path:
    """A job over `inbox/` beside it, answering in at most 6 tokens."""
    (tmp_path / "inbox").mkdir()
    path = tmp_path / "job.yaml"
    path.write_text(
        f"name: test\nmodel: {tiny_qwen3}\ninput: inbox\nprompt: List the parties.\n"
        "sampling: {max_tokens: 6}\nengine: {device: cpu, dtype: float32}\noutput: {dir: out}\n",
        encoding="utf-8",
    )
    return path


def put(job: Path, name: str, text: str) -> Path:
    path = job.parent / "inbox" / name
    path.write_text(text, encoding="utf-8")
    return path


def rows(job: Path) -> dict[str, dict[str, Any]]:
    table = pq.read_table(job.parent / "out/results").to_pylist()
    assert len({row["doc_id"] for row in table}) == len(table)
    return {row["doc_id"].removeprefix("inbox/"): row for row in table}


def fingerprint(job: Path) -> dict[str, str]:
    parts = sorted((job.parent / "out/results").iterdir())
    return {part.name: hashlib.sha256(part.read_bytes()).hexdigest() for part in parts}


def forbid_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the model was loaded")

    monkeypatch.setattr(Engine, "load_folder", refuse)


def count_prompts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Ids of the requests that reach the engine from now on."""
    seen: list[str] = []
    add = Engine.add

    def counting(self: Engine, request: Any) -> None:
        seen.append(request.request_id)
        add(self, request)

    monkeypatch.setattr(Engine, "add", counting)
    return seen


def test_every_document_becomes_a_row(job: Path, run_cli: RunCli, capfd: pytest.CaptureFixture[str]) -> None:
    put(job, "a.txt", "First text.")
    put(job, "b.md", "# Second text")
    (job.parent / "inbox/deep").mkdir()
    shutil.copy(SAMPLES / "troublesome/good.pdf", job.parent / "inbox/deep/c.pdf")
    assert run_cli("run", job, "-o", "engine.max_model_len=2048") in (0, 3)  # a random model may loop: flagged
    table = pq.read_table(job.parent / "out/results")
    assert table.column_names == COLUMNS
    found = rows(job)
    assert set(found) == {"a.txt", "b.md", "deep/c.pdf"}
    for row in found.values():
        assert row["status"] in ("ok", "flagged")
        assert row["answer"] is not None
        assert row["prompt_tokens"] > 0
        assert row["completion_tokens"] > 0
        assert row["precision"] == "float32"
        assert row["started_at"] <= row["finished_at"]
    assert found["a.txt"]["content_sha256"] == hashlib.sha256(b"First text.").hexdigest()
    captured = capfd.readouterr()
    assert captured.out == ""
    assert "documents  3: " in captured.err
    assert f"table      {job.parent / 'out/results'}" in captured.err
    assert re.search(r"device     \d+\.\d% busy while there was work", captured.err)
    assert run_cli("show", job.parent / "out") == 0
    assert re.search(r"device     \d+\.\d% busy .* \(last run\)", capfd.readouterr().out)


def test_a_second_run_computes_and_changes_nothing(job: Path, run_cli: RunCli, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(SAMPLES / "troublesome", job.parent / "inbox", dirs_exist_ok=True)
    first = run_cli("run", job)
    before = fingerprint(job)
    forbid_the_model(monkeypatch)
    assert run_cli("run", job) == first == 3
    assert fingerprint(job) == before


def test_a_deleted_source_changes_nothing_else(job: Path, run_cli: RunCli, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = put(job, "a.txt", "First text.")
    put(job, "b.txt", "Second text.")
    run_cli("run", job)
    before = rows(job)
    gone.unlink()
    forbid_the_model(monkeypatch)
    run_cli("run", job)
    assert rows(job) == before


def test_only_new_and_changed_documents_are_computed(
    job: Path, run_cli: RunCli, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.txt", "b.txt", "c.txt"):
        put(job, name, f"Text of {name}.")
    run_cli("run", job)
    before = rows(job)
    put(job, "b.txt", "Another text.")
    put(job, "d.txt", "A new text.")
    asked = count_prompts(monkeypatch)
    run_cli("run", job)
    after = rows(job)
    assert len(asked) == 2
    assert set(after) == {"a.txt", "b.txt", "c.txt", "d.txt"}
    assert {name for name in before if before[name] != after[name]} == {"b.txt"}


def test_a_changed_question_computes_everything_again(
    job: Path, run_cli: RunCli, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(job, "a.txt", "First text.")
    run_cli("run", job)
    asked = count_prompts(monkeypatch)
    run_cli("run", job, "-o", "prompt.question=Why?")
    assert len(asked) == 1
    run_cli("run", job, "-o", "prompt.question=Why?", "--fresh")
    assert len(asked) == 2


def test_trouble_costs_the_troublesome_alone(job: Path, run_cli: RunCli) -> None:
    shutil.copytree(SAMPLES / "troublesome", job.parent / "inbox", dirs_exist_ok=True)
    assert run_cli("run", job, "-o", "input.ocr=off") == 3
    found = rows(job)
    errors = {name: row["error_type"] for name, row in found.items() if row["status"] == "failed"}
    assert errors == {
        "truncated.pdf": "damaged",
        "encrypted.pdf": "encrypted",
        "image_only.pdf": "needs_ocr",
        "blank.pdf": "empty",
        "zero_bytes.pdf": "empty",
        "html_named.pdf": "wrong_type",
        "bad_lines.jsonl:2": "bad_record",
        "bad_lines.jsonl:3": "bad_record",
        "L-4": "bad_record",
        "bad_lines.jsonl:6": "bad_record",
        "L-1@inbox/bad_lines.jsonl:5": "duplicate_id",
    }
    assert all(found[name]["answer"] is None and found[name]["error"] for name in errors)
    assert set(found) - set(errors) == {"good.pdf", "good.txt", "L-1", "L-7"}


def test_retry_failed_opens_what_now_can_be_opened(job: Path, run_cli: RunCli) -> None:
    shutil.copy(SAMPLES / "troublesome/encrypted.pdf", job.parent / "inbox")
    put(job, "a.txt", "First text.")
    assert run_cli("run", job) == 3
    before = rows(job)
    run_cli("run", job, "-o", "input.passwords=[open-sesame]")
    assert rows(job) == before, "a failed row stays until --retry-failed"
    run_cli("run", job, "-o", "input.passwords=[open-sesame]", "--retry-failed")
    after = rows(job)
    assert after["encrypted.pdf"]["status"] in ("ok", "flagged")
    assert after["a.txt"] == before["a.txt"]


def test_long_documents_are_mapped_and_reduced(
    job: Path, run_cli: RunCli, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    put(job, "long.txt", "\n\n".join(f"{n}. {WORDS}." for n in range(150)))
    put(job, "short.txt", "Short.")
    run_cli("run", job, "-o", "long_documents={threshold: 800, chunk_size: 300, overlap: 20}")
    found = rows(job)
    assert found["long.txt"]["num_chunks"] > 10
    assert found["long.txt"]["reduce_levels"] >= 1
    assert (found["short.txt"]["num_chunks"], found["short.txt"]["reduce_levels"]) == (1, 0)
    assert found["long.txt"]["prompt_tokens"] > 10 * found["short.txt"]["prompt_tokens"]
    assert "long.txt: " in (err := capfd.readouterr().err)
    assert "over the threshold of 800" in err


def test_a_document_is_merged_while_others_are_still_read(job: Path, run_cli: RunCli) -> None:
    for name in ("first", "second"):
        put(job, f"{name}.txt", "\n\n".join(f"{name} {n}. {WORDS}." for n in range(60)))
    long = "long_documents={threshold: 500, chunk_size: 300, overlap: 20}"
    run_cli("run", job, "-o", long, "-o", "engine.max_num_seqs=1", "-o", "output={dir: out, completions: true}")
    calls = pq.read_table(job.parent / "out/completions").to_pylist()
    order = [(call["doc_id"], call["level"]) for call in calls]
    earlier, later = ("inbox/first.txt", "inbox/second.txt")
    if order[0][0] != earlier:
        earlier, later = later, earlier
    last_part = max(at for at, call in enumerate(order) if call == (later, 0))
    assert order.index((earlier, 1)) < last_part


def test_equal_documents_are_two_rows_and_one_call(job: Path, run_cli: RunCli, monkeypatch: pytest.MonkeyPatch) -> None:
    put(job, "a.txt", "The same text.")
    put(job, "b.txt", "The same text.")
    asked = count_prompts(monkeypatch)
    run_cli("run", job)
    found = rows(job)
    assert len(asked) == 1
    assert found["a.txt"]["answer"] == found["b.txt"]["answer"]


def test_records_to_standard_output(
    job: Path, run_cli: RunCli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    records = [{"id": str(n), "text": f"Ticket {n}.", "metadata": {"n": n}} for n in range(5)]
    done = subprocess.run(
        [sys.executable, "-m", "qwen_batch.cli", "run", str(job), "-", "--output", "-", "-q"],
        input="".join(json.dumps(record) + "\n" for record in records).encode() + b"{broken\n",
        capture_output=True,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    lines = [json.loads(line) for line in done.stdout.decode().splitlines()]
    assert {line["doc_id"] for line in lines} == {*"01234", "stdin:6"}
    assert all(list(line) == COLUMNS for line in lines)
    assert not (job.parent / "out").exists()


def test_openai_batch_is_answered_in_kind(job: Path, run_cli: RunCli, capfdbinary: Any) -> None:
    body = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 3, "temperature": 0.5, "seed": 7}
    request = {"custom_id": "r1", "method": "POST", "url": "/v1/chat/completions", "body": body}
    (job.parent / "inbox/batch.jsonl").write_text(json.dumps(request) + "\n")
    run_cli("run", job, "-q", "--output", "-", "-o", "output.format=openai-batch")
    (line,) = capfdbinary.readouterr().out.splitlines()
    answer = json.loads(line)
    assert answer["custom_id"] == "r1"
    assert answer["response"]["status_code"] == 200
    assert answer["response"]["body"]["usage"]["completion_tokens"] <= 3
    run_cli("run", job, "-q", "-o", "output.format=openai-batch")
    (line,) = (job.parent / "out/openai-batch.jsonl").read_bytes().splitlines()
    assert json.loads(line)["response"]["body"]["choices"] == answer["response"]["body"]["choices"]


def test_the_json_log_is_json_to_its_last_line(job: Path, run_cli: RunCli, capfd: pytest.CaptureFixture[str]) -> None:
    put(job, "a.txt", "First text.")
    run_cli("run", job, "--log-format", "json")
    events = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    assert events[-1]["event"] == "summary"
    assert events[-1]["ok"] + events[-1]["flagged"] == 1


def test_a_document_keeps_its_row_when_others_come_and_go(job: Path, run_cli: RunCli) -> None:
    for folder in ("A", "B"):
        (job.parent / folder).mkdir()
    inputs = [job.parent / "A", job.parent / "B"]
    (job.parent / "B/x.txt").write_text("beta")
    run_cli("run", job, *inputs)
    before = rows(job)
    (job.parent / "A/x.txt").write_text("alpha")
    run_cli("run", job, *reversed(inputs))
    (job.parent / "A/x.txt").unlink()
    run_cli("run", job, *inputs)
    after = rows(job)
    assert set(after) == {"A/x.txt", "B/x.txt"}
    assert after["B/x.txt"] == before["B/x.txt"]


def test_short_records_run_where_no_document_could_be_divided(job: Path, run_cli: RunCli) -> None:
    put(job, "short.txt", "Short.")
    put(job, "long.txt", WORDS * 40)
    assert run_cli("run", job, "-o", "sampling={max_tokens: 1900, stop_token_ids: [0, 1, 2, 3, 4, 5, 6]}") == 3
    found = rows(job)
    assert found["short.txt"]["status"] in ("ok", "flagged")
    assert (found["long.txt"]["error_type"], found["long.txt"]["stage"]) == ("too_long", "plan")
    assert "leave no room for parts" in found["long.txt"]["error"]


@pytest.mark.parametrize(
    ("arguments", "closed", "message"),
    [
        (["inbox", "--output", "-"], ">&-", "--output - needs standard output, which is closed"),
        (["-"], "<&-", "`-` among the inputs needs standard input, which is closed"),
        (["inbox", "--output", "-"], ">/dev/full", "rows that are not out are lost"),
    ],
)
def test_closed_or_full_streams_are_said(job: Path, arguments: list[str], closed: str, message: str) -> None:
    put(job, "a.txt", "First text.")
    command = f'"{sys.executable}" -m qwen_batch.cli run job.yaml {" ".join(arguments)} -q {closed}'
    done = subprocess.run(["sh", "-c", command], cwd=job.parent, capture_output=True, text=True, check=False)
    assert done.returncode in (1, 2)
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_another_job_is_kept_out_of_the_folder(job: Path, run_cli: RunCli, capfd: pytest.CaptureFixture[str]) -> None:
    put(job, "a.txt", "First text.")
    run_cli("run", job)
    before = fingerprint(job)
    assert run_cli("run", job, "-o", "name=other", "-o", "prompt.question=Why?") == 1
    assert "holds the table of the job 'test', and this is 'other'" in capfd.readouterr().err
    assert fingerprint(job) == before


def test_limit(job: Path, run_cli: RunCli) -> None:
    for number in range(5):
        put(job, f"{number}.txt", f"Text {number}.")
    run_cli("run", job, "--limit", 2)
    assert len(rows(job)) == 2


def test_an_empty_inbox_leaves_an_empty_table(
    job: Path, run_cli: RunCli, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    forbid_the_model(monkeypatch)
    assert run_cli("run", job) == 0
    assert rows(job) == {}
    assert "inbox: no files there" in capfd.readouterr().err


def test_an_input_that_is_not_there_is_a_failed_row(job: Path, run_cli: RunCli) -> None:
    assert run_cli("run", job, job.parent / "none.pdf") == 3
    (row,) = rows(job).values()
    assert (row["status"], row["error_type"], row["stage"]) == ("failed", "not_found", "read")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["-o", "prompt.qestion=x"], 2, "prompt.qestion: unknown key; did you mean `question`?"),
        (["-o", "model.name=./nowhere"], 1, "no such folder"),
        (["-o", "engine.max_model_len=99999"], 2, "the model's window is 2048 tokens"),
        (["-o", "sampling.max_tokens=5000"], 2, "sampling.max_tokens"),
        (["-o", "engine={kv_memory: 1k, device: cpu}"], 1, "lower engine.max_model_len or raise engine.kv_memory"),
    ],
)
def test_what_stops_a_run_is_said(
    job: Path, run_cli: RunCli, capfd: pytest.CaptureFixture[str], arguments: list[str], code: int, message: str
) -> None:
    put(job, "a.txt", "First text.")
    assert run_cli("run", job, *arguments) == code
    captured = capfd.readouterr()
    assert message in captured.err
    assert "Traceback" not in captured.err
    assert captured.out == ""


def start(job: Path, *arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "qwen_batch.cli", "run", str(job), "-q", *arguments]
    return subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError(f"not in time; exit code {process.poll()}")


def wait_for_rows(job: Path, count: int, process: subprocess.Popen[bytes]) -> None:
    results = job.parent / "out/results"
    wait_for(lambda: results.is_dir() and any(results.glob("part-*")) and len(rows(job)) >= count, process)


def kept_calls(job: Path) -> set[str]:
    """Keys of the model calls that the journal has."""
    with contextlib.suppress(sqlite3.OperationalError):  # no journal yet
        path = job.parent / "out/.journal/journal.sqlite"
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as journal:
            return {key for (key,) in journal.execute("SELECT key FROM completions")}
    return set()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_a_stopped_run_keeps_its_rows_and_goes_on(
    job: Path, run_cli: RunCli, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, code: int
) -> None:
    for index in range(40):
        put(job, f"{index:02}.txt", f"Text {index}. {WORDS}")
    answers = ["-o", "sampling={max_tokens: 200, ignore_eos: true}"]
    process = start(job, *answers, "-o", "engine.max_num_seqs=1", "-o", "output={dir: out, flush_rows: 1}")
    wait_for_rows(job, 3, process)
    os.kill(process.pid, number)
    assert process.wait(timeout=10) == code
    kept = rows(job)
    assert 3 <= len(kept) < 40
    asked = count_prompts(monkeypatch)
    run_cli("run", job, *answers)
    found = rows(job)
    assert len(found) == 40
    assert len(asked) <= 40 - len(kept)
    assert all(found[name] == kept[name] for name in kept)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_long_document_goes_on_where_it_was_stopped(
    job: Path, run_cli: RunCli, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    put(job, "long.txt", "\n\n".join(f"{n}. {WORDS}." for n in range(150)))
    changes = ["-o", "long_documents={threshold: 800, chunk_size: 300, overlap: 20}", "-o", "engine.max_num_seqs=1"]
    changes += ["-o", "sampling={max_tokens: 40, ignore_eos: true}"]
    process = start(job, *changes)
    wait_for(lambda: len(kept_calls(job)) >= 4, process)
    os.kill(process.pid, number)
    process.wait(timeout=20)
    kept = kept_calls(job)
    asked = count_prompts(monkeypatch)
    run_cli("run", job, *changes)
    found = rows(job)["long.txt"]
    assert len(asked) == len(set(asked)) == len(kept_calls(job)) - len(kept) > 0
    assert not set(asked) & kept
    run_cli("run", job, "--fresh", *changes)
    again = rows(job)["long.txt"]
    for name in ("answer", "num_chunks", "reduce_levels", "completion_tokens"):
        assert found[name] == again[name]


def test_one_run_at_a_time(job: Path, run_cli: RunCli, capfd: pytest.CaptureFixture[str]) -> None:
    for index in range(40):
        put(job, f"{index:02}.txt", f"Text {index}. {WORDS}")
    slow = ["-o", "engine.max_num_seqs=1", "-o", "sampling={max_tokens: 200, ignore_eos: true}"]
    process = start(job, *slow, "-o", "output={dir: out, flush_rows: 1}")
    wait_for_rows(job, 1, process)
    assert run_cli("run", job) == 75
    assert f"process {process.pid} on " in capfd.readouterr().err
    process.terminate()
    assert process.wait(timeout=10) == 143
