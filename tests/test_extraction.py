"""The command `extract`, with and without typer."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qwen_batch.extraction import Extraction, plain_extraction
from qwen_batch.job import CleanSection, InputSection
from qwen_batch.records import CleanSteps, ReadSettings


def settings(**changes: Any) -> ReadSettings:
    return ReadSettings(**changes)


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["a.pdf", "--json"], Extraction((Path("a.pdf"),), frozenset({"json"}))),
        (["--password", "x y", "a", "b"], Extraction((Path("a"), Path("b")), settings=settings(passwords=("x y",)))),
        (["--password", "x", "a", "--password=y"], Extraction((Path("a"),), settings=settings(passwords=("x", "y")))),
        (
            ["--password=--x", "--password-file", "f", "a"],
            Extraction((Path("a"),), settings=settings(passwords=("--x",), password_file="f")),
        ),
        (
            ["--timeout", "2.5", "a", "--max-pages=7", "--ocr", "off"],
            Extraction((Path("a"),), settings=settings(timeout_seconds=2.5, max_pages=7, ocr="off")),
        ),
        (["--without", "tables", "--without=stamps", "a"], Extraction((Path("a"),), without=("tables", "stamps"))),
        (["a", "--no-clean"], Extraction((Path("a"),), no_clean=True)),
    ],
)
def test_plain_command_lines(arguments: list[str], wanted: Extraction) -> None:
    assert plain_extraction(arguments) == wanted


OTHER = """
--help|a --jsn|a --password|-- a|--json|a --timeout x|a --timeout 0|a --timeout nan|a --timeout 1e9|a --ocr always
a --max-pages 0|a --max-pages -1|a --max-pages 1.5|a --memory-limit 2GiB
"""


@pytest.mark.parametrize("arguments", [[], *(line.split() for line in OTHER.strip().replace("\n", "|").split("|"))])
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
    assert (done.returncode, done.stderr) == (141, "")


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


def extract_in(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "qwen_batch", "extract", *arguments]
    return subprocess.run(command, env={**os.environ, **environment}, capture_output=True, timeout=60, check=False)


POSIX = {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.mark.parametrize("environment", [POSIX, {"PYTHONIOENCODING": "utf-8"}])
def test_names_and_texts_in_any_locale(tmp_path: Path, environment: dict[str, str]) -> None:
    file = tmp_path / "中文.txt"
    file.write_text("第一条 Größe.")
    done = extract_in(environment, "--json", str(file))
    report = json.loads(done.stdout)
    assert (report["source"], report["text"], done.returncode) == (str(file), "第一条 Größe.", 0)
    for arguments in ([str(file)], ["--diff", str(file)], ["--html", str(file)], [str(tmp_path / "没有.txt")]):
        done = extract_in(environment, *arguments)
        assert done.stderr == b""
        assert done.returncode == (3 if "没有" in arguments[0] else 0)
    assert extract_in(environment, "--html", str(file)).stdout.isascii() == (
        environment != {"PYTHONIOENCODING": "utf-8"}
    )


@pytest.mark.parametrize("name", ["a\x1b[31m\nb.txt", os.fsdecode(b"caf\xe9\x9b1m.txt")])
def test_names_do_not_drive_the_terminal(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("A\x1b[31m text\x07.\u202e")
    for flags in ([], ["--diff"], ["--html"], ["--no-clean"], ["--no-clean", "--json"]):
        shown = extract_in({}, *flags, str(tmp_path / name), str(tmp_path / f"no{name}")).stdout
        assert not {*b"\x07\x1b\x9b"} & {*shown}
        assert "\u202e".encode() not in shown or "--json" in flags
    done = extract_in({}, "--password-file", str(tmp_path / f"no{name}"), str(tmp_path / name))
    assert done.returncode == 2
    assert b"\x1b" not in done.stderr


def test_steps_are_left_out_by_name(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    lines = [
        "These words fill the whole width of a line up to the end of a",
        "line, and the o\ufb03ce is what follows.",
    ]
    file.write_text("\n".join(lines * 5))
    for flags, joined, spelled in (
        ([], True, True),
        (["--without", "join-lines"], False, True),
        (["--without=unicode"], True, False),
        (["--no-clean"], False, False),
    ):
        text = json.loads(extract_in({}, "--json", *flags, str(file)).stdout)["text"]
        assert ("end of a line" in text, "office" in text) == (joined, spelled)
    done = extract_in({}, "--without", "headers", str(file))
    assert done.returncode == 2
    assert done.stderr.startswith(b"qwen-batch: --without headers: there is no such cleaning step; known: unicode, ")


def test_limits_are_those_of_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("Words of a text. " * 200_000)
    for flags, error_type in (
        (["--timeout", "0.05"], "timeout"),
        (["--memory-limit", "128MiB"], "memory"),
    ):
        assert json.loads(extract_in({}, "--json", *flags, str(file)).stdout)["error_type"] == error_type
    done = extract_in({}, "--memory-limit", "much", str(file))
    assert (
        done.stderr == b"qwen-batch: --memory-limit: 'much' is not a size; write a number such as 24000, 24k or 2GiB\n"
    )
    done = extract_in({}, "--memory-limit", "1k", str(file))
    assert (done.returncode, done.stderr) == (
        2,
        b"qwen-batch: --memory-limit 1k: nothing is read in less than 128MiB; write 256MiB or more\n",
    )


def test_what_cannot_be_opened_is_a_report(tmp_path: Path) -> None:
    (tmp_path / "circle.pdf").symlink_to(tmp_path / "circle.pdf")
    (tmp_path / "nowhere.pdf").symlink_to(tmp_path / "none.pdf")
    (tmp_path / "a.txt").write_text("Text.")
    names = ["circle.pdf", "nowhere.pdf", "a.txt/b.pdf", "x" * 300 + ".pdf", "a.txt"]
    done = extract_in({}, "--json", *(str(tmp_path / name) for name in names))
    types = [json.loads(line)["error_type"] for line in done.stdout.splitlines()]
    assert (types, done.returncode, done.stderr) == (
        ["unreadable", "not_found", "unreadable", "unreadable", None],
        3,
        b"",
    )


@pytest.mark.parametrize("closed", ["<&-", "2>&-", "<&- 2>&-"])
def test_standard_streams_that_are_closed_get_in_no_way(tmp_path: Path, closed: str) -> None:
    (tmp_path / "a.txt").write_text("One paragraph.")
    command = f'"{sys.executable}" -m qwen_batch extract "{tmp_path}/a.txt" {closed}'
    done = subprocess.run(command, shell=True, stdout=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 0
    assert "\n\nOne paragraph.\n" in done.stdout


@pytest.mark.parametrize("delay", [0.02, 0.1, 0.5])
def test_interrupted_twice_it_ends_at_once_and_quietly(tmp_path: Path, delay: float) -> None:
    """In the middle of loading its modules, too; only Python's own start before that is Python's."""
    (tmp_path / "a.txt").write_text("Words of a text. " * 1_000_000)
    start = "import os; from qwen_batch.__main__ import main; os.write(2, b'\\n'); main()"
    command = [sys.executable, "-c", start, "extract", str(tmp_path / "a.txt")]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        process.stderr.readline()
        time.sleep(delay)
        for _ in range(2):
            process.send_signal(signal.SIGINT)
            time.sleep(0.01)
        said = process.stderr.read()
    assert (process.returncode, said) == (130, b"")
