"""The command `extract`, with and without typer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from qwen_batch.extraction import Extraction, plain_extraction
from qwen_batch.job import CleanSection, InputSection
from qwen_batch.records import CleanSteps, ReadSettings


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["a.pdf", "--json"], Extraction((Path("a.pdf"),), frozenset({"json"}))),
        (["--password", "x y", "a", "b"], Extraction((Path("a"), Path("b")), password="x y")),
        (["--password=--x", "--password-file", "f", "a"], Extraction((Path("a"),), frozenset(), "--x", Path("f"))),
    ],
)
def test_plain_command_lines(arguments: list[str], wanted: Extraction) -> None:
    assert plain_extraction(arguments) == wanted


@pytest.mark.parametrize("arguments", [[], ["--help"], ["a", "--jsn"], ["a", "--password"], ["--", "a"], ["--json"]])
def test_other_command_lines_are_left_to_typer(arguments: list[str]) -> None:
    assert plain_extraction(arguments) is None


def test_both_ways_print_the_same(
    tmp_path: Path, run_cli: Callable[..., int], capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.txt"
    file.write_text("One paragraph.\n\nAnd 中文.")
    arguments = ["extract", "--json", str(file), str(tmp_path / "none.pdf")]
    done = subprocess.run([sys.executable, "-m", "qwen_batch", *arguments], capture_output=True, check=False)
    assert run_cli(*arguments) == done.returncode == 3
    assert capfd.readouterr().out.encode() == done.stdout
    assert [json.loads(line)["status"] for line in done.stdout.splitlines()] == ["ok", "failed"]


def test_mistakes_are_told_in_both_ways(
    tmp_path: Path, run_cli: Callable[..., int], capfd: pytest.CaptureFixture[str]
) -> None:
    arguments = ["extract", "--json", "--diff", str(tmp_path)]
    done = subprocess.run([sys.executable, "-m", "qwen_batch", *arguments], capture_output=True, text=True, check=False)
    assert run_cli(*arguments) == done.returncode == 2
    assert done.stderr == capfd.readouterr().err
    assert done.stderr == "qwen-batch: --json, --diff and --html are three ways to show a file: choose one\n"


def test_what_is_no_file_is_named_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, code, message in (
        ("", 2, "qwen-batch: a file's name is empty: is a variable of the shell not set?\n"),
        (str(tmp_path / "pipe"), 3, "a device or a pipe; save what it gives as a file, and name that\n"),
        (os.devnull, 3, "a device or a pipe; save what it gives as a file, and name that\n"),
        (str(tmp_path), 3, "a folder; name a file\n"),
    ):
        command = [sys.executable, "-m", "qwen_batch", "extract", name]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == code
        assert (done.stdout + done.stderr).endswith(message)
        assert "Traceback" not in done.stderr


def test_a_reader_that_goes_away_is_no_crash(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("word " * 100_000)
    read_end, write_end = os.pipe()
    os.close(read_end)
    command = [sys.executable, "-m", "qwen_batch", "extract", str(tmp_path / "a.txt")]
    done = subprocess.run(command, stdout=write_end, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write_end)
    assert (done.returncode, done.stderr) == (1, "")


def test_the_light_forms_have_the_defaults_of_the_job() -> None:
    assert InputSection().settings == ReadSettings()
    assert CleanSection().steps == CleanSteps()


@pytest.mark.parametrize(
    ("redirection", "message"),
    [
        (">/dev/full", "qwen-batch: standard output cannot be written: No space left on device"),
        (">&-", "qwen-batch: there is no standard output to write to"),
    ],
)
def test_an_output_that_cannot_be_written_is_one_line(tmp_path: Path, redirection: str, message: str) -> None:
    file = tmp_path / "a.txt"
    file.write_text("One paragraph.")
    command = f'"{sys.executable}" -m qwen_batch extract "{file}" {redirection}'
    done = subprocess.run(command, shell=True, stderr=subprocess.PIPE, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (1, message + "\n")
