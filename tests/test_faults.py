"""What can happen to a run from outside: a clear message and exit code, the table intact, the next run goes on."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import qwen_batch.pipeline
from qwen_batch.engine import Engine
from qwen_batch.read.inputs import iter_inputs
from qwen_batch.read.items import Item

RunCli = Callable[..., int]
PROGRAM = [sys.executable, "-m", "qwen_batch.cli"]


@pytest.fixture
def job(tmp_path: Path, tiny_qwen3: Path) -> Path:
    """A job over two files and twenty records."""
    (tmp_path / "inbox").mkdir()
    for name in "ab":
        (tmp_path / f"inbox/{name}.txt").write_text(f"Text of {name}.")
    lines = [json.dumps({"id": str(number), "text": f"Text {number}."}) for number in range(20)]
    (tmp_path / "inbox/records.jsonl").write_text("\n".join(lines) + "\n")
    path = tmp_path / "job.yaml"
    path.write_text(
        f"name: test\nmodel: {tiny_qwen3}\ninput: inbox\nprompt: List the parties.\nsampling: {{max_tokens: 3}}\n"
        "engine: {device: cpu, dtype: float32, max_num_seqs: 4}\noutput: {dir: out, flush_rows: 5}\n"
    )
    return path


def rows(job: Path) -> dict[str, dict[str, Any]]:
    table = pq.read_table(job.parent / "out/results").to_pylist()
    found = {row["doc_id"]: row for row in table}
    assert len(found) == len(table)
    return found


def when_listed(monkeypatch: pytest.MonkeyPatch, doc_id: str, happens: Callable[[], None]) -> None:
    """Let something happen when this document has been listed, and before it is read."""

    def listed(*arguments: Any, **options: Any) -> Iterator[Item]:
        for item in iter_inputs(*arguments, **options):
            if item.doc_id == doc_id:
                happens()
            yield item

    monkeypatch.setattr(qwen_batch.pipeline, "iter_inputs", listed)


def test_a_file_that_goes_before_it_is_read(job: Path, run_cli: RunCli, monkeypatch: pytest.MonkeyPatch) -> None:
    file = job.parent / "inbox/a.txt"
    with monkeypatch.context() as patch:
        when_listed(patch, "inbox/a.txt", file.unlink)
        assert run_cli("run", job, "-q") == 3
    row = rows(job)["inbox/a.txt"]
    assert (row["status"], row["error_type"], row["stage"]) == ("failed", "not_found", "read")
    assert row["error"] == (
        "was there when the inputs were listed, and is gone; should it come back, the next run reads it"
    )
    assert len(rows(job)) == 22
    assert run_cli("run", job, "-q") == 0
    assert len(rows(job)) == 21, "it is no document any more"
    file.write_text("Text of a.")
    assert run_cli("run", job, "-q") == 0
    assert rows(job)["inbox/a.txt"]["status"] == "ok"


def test_a_row_stays_when_its_file_goes(
    job: Path, run_cli: RunCli, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run_cli("run", job, "-q")
    before = rows(job)
    when_listed(monkeypatch, "inbox/a.txt", (job.parent / "inbox/a.txt").unlink)
    assert run_cli("run", job) == 0
    assert "inbox/a.txt: is gone since the inputs were listed; its row stays" in capfd.readouterr().err
    assert rows(job) == before


def test_an_input_folder_that_goes_during_the_run(job: Path, run_cli: RunCli, monkeypatch: pytest.MonkeyPatch) -> None:
    inbox = job.parent / "inbox"
    shutil.copytree(inbox, job.parent / "copy")
    with monkeypatch.context() as patch:
        when_listed(patch, "inbox/a.txt", lambda: shutil.rmtree(inbox))
        assert run_cli("run", job, "-q") == 3
    found = {name: (row["status"], row["error_type"]) for name, row in rows(job).items()}
    assert set(found.values()) == {("failed", "not_found")}
    assert {"inbox/a.txt", "inbox/b.txt", "inbox/records.jsonl"} <= found.keys()
    (job.parent / "copy").rename(inbox)
    assert run_cli("run", job, "-q") == 0
    assert len(rows(job)) == 22, "what stood for the missing ones is gone"


def test_a_record_file_that_is_cut_off_while_it_is_read(
    job: Path, run_cli: RunCli, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = job.parent / "inbox/records.jsonl"
    whole = "".join(json.dumps({"id": str(number), "text": "x" * 2000}) + "\n" for number in range(20))
    records.write_text(whole)
    with monkeypatch.context() as patch:
        when_listed(patch, "0", lambda: os.truncate(records, 8300))
        assert run_cli("run", job, "-q") == 3
    broken = [row for row in rows(job).values() if row["error_type"] == "bad_record"]
    assert len(broken) == 1
    assert broken[0]["error"].startswith(f"line {broken[0]['source'].rpartition(':')[2]}: not valid JSON")
    records.write_text(whole)
    run_cli("run", job, "-q", "-o", "input.missing=drop")
    assert len(rows(job)) == 22
    assert all(row["error_type"] is None for row in rows(job).values())


def test_a_table_that_is_moved_away_during_the_run(
    job: Path, run_cli: RunCli, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    steps = 0
    step = Engine.step

    def step_and_move(self: Engine, *given: Any) -> Any:
        nonlocal steps
        steps += 1
        if steps == 8:
            (job.parent / "out/results").rename(job.parent / "elsewhere")
        return step(self, *given)

    with monkeypatch.context() as patch:
        patch.setattr(Engine, "step", step_and_move)
        assert run_cli("run", job, "-q") == 1
    said = capfd.readouterr().err
    assert "run again" in said
    assert "damaged" not in said
    assert "Traceback" not in said
    assert run_cli("run", job, "-q") == 0
    assert len(rows(job)) == 22
    assert run_cli("verify", job.parent / "out") == 0


def test_an_output_on_a_read_only_disk(
    job: Path, run_cli: RunCli, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The run says so and leaves all as it is; verify and show still work, with what a killed run left in the log."""
    run_cli("run", job, "-q")
    out = job.parent / "out"
    left = sqlite3.connect(out / ".journal/journal.sqlite")
    left.execute("INSERT INTO meta VALUES ('left', 1)")
    left.commit()
    assert (out / ".journal/journal.sqlite-wal").stat().st_size
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    really_open, access = os.open, os.access

    def open_read_only(path: Any, flags: int, *more: Any, **options: Any) -> int:
        if flags & (os.O_RDWR | os.O_WRONLY) and str(path).startswith(str(out)):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        return really_open(path, flags, *more, **options)

    monkeypatch.setattr(os, "open", open_read_only)
    monkeypatch.setattr(
        os, "access", lambda path, mode: access(path, mode) and not (mode & os.W_OK and str(path).startswith(str(out)))
    )
    assert run_cli("run", job, "-q") == 1
    message = "out/.journal/lock: cannot be locked: Read-only file system; choose a folder on a disk"
    assert message in capfd.readouterr().err
    assert run_cli("verify", out) == 0
    assert "verdict    clean" in capfd.readouterr().out
    assert run_cli("show", out) == 0
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == before
    left.close()


@pytest.mark.parametrize("arguments", [["--help"], ["schema"], ["run", "--help"], ["init", "-"]])
def test_a_reader_that_goes_away_is_no_failed_run(arguments: list[str]) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run([*PROGRAM, *arguments], stdout=write_end, stderr=subprocess.PIPE, check=False, timeout=100)
    os.close(write_end)
    assert (done.returncode, done.stderr) == (141, b"")


READ_ONLY = """
mount --bind {out} {out} && mount -o remount,bind,ro {out} || exit 77
{run}; echo "run $?"
{verify}; echo "verify $?"
"""


@pytest.mark.slow
def test_an_output_that_is_really_read_only(job: Path, run_cli: RunCli) -> None:
    run_cli("run", job, "-q")
    program, out = " ".join(PROGRAM), job.parent / "out"
    script = READ_ONLY.format(out=out, run=f"{program} run {job} -q", verify=f"{program} verify {out}")
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.skip("no unshare here")
    done = subprocess.run([unshare, "-m", "sh", "-c", script], capture_output=True, text=True, check=False, timeout=300)
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("nothing may be mounted here")
    assert "run 1\n" in done.stdout
    assert "cannot be locked: Read-only file system" in done.stderr
    assert done.stdout.endswith("verdict    clean\nverify 0\n")
