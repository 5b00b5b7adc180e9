"""The command `extract`, apart from the others so that it starts fast.

typer loads pydantic as soon as a command has arguments, which takes longer than reading a page. Plain command lines
of `extract` are therefore read here; whatever else is asked (help, a mistake) is left to typer.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from qwen_batch.errors import UsageError
from qwen_batch.ingest import extract, extract_report, format_report
from qwen_batch.records import CleanSteps, ReadSettings

Form = Literal["text", "json", "diff", "html"]
_FORMS: dict[str, Form] = {"--json": "json", "--diff": "diff", "--html": "html"}
_PASSWORD, _PASSWORD_FILE = "--password", "--password-file"


@dataclass(frozen=True, slots=True)
class Extraction:
    """What to show of which files."""

    files: tuple[Path, ...]
    forms: frozenset[Form] = frozenset()  # empty: text
    password: str | None = None
    password_file: Path | None = None


def plain_extraction(arguments: Sequence[str]) -> Extraction | None:
    """What the arguments of `extract` ask, where they are nothing but known flags and files; None: something else.

    Raises UsageError for a file without a name.
    """
    files: list[Path] = []
    forms: set[Form] = set()
    values: dict[str, str] = {}
    rest = list(reversed(arguments))
    while rest:
        word = rest.pop()
        name, equals, value = word.partition("=")
        if word in _FORMS:
            forms.add(_FORMS[word])
        elif name in (_PASSWORD, _PASSWORD_FILE) and (equals or (rest and not rest[-1].startswith("-"))):
            values[name] = value if equals else rest.pop()
        elif word.startswith("-"):
            return None
        elif not word:
            raise UsageError("a file's name is empty: is a variable of the shell not set?")
        else:
            files.append(Path(word))
    if not files:
        return None
    file = values.get(_PASSWORD_FILE)
    return Extraction(tuple(files), frozenset(forms), values.get(_PASSWORD), Path(file) if file else None)


def run_extraction(wanted: Extraction, lean: bool = False) -> int:
    """Print what was asked for; returns the exit code: 0, or 3 when a file could not be read.

    `lean`: see ProcessPool.
    """
    if len(wanted.forms) > 1:
        raise UsageError("--json, --diff and --html are three ways to show a file: choose one")
    settings = ReadSettings(
        passwords=(wanted.password,) if wanted.password is not None else (),
        password_file=str(wanted.password_file) if wanted.password_file is not None else None,
    )
    form: Form = next(iter(wanted.forms), "text")
    codes = [_show(file, form, settings, lean) for file in wanted.files]
    return max(codes, default=0)


def _show(file: Path, form: Form, settings: ReadSettings, lean: bool) -> int:
    report = extract_report(file, extract(file, settings, CleanSteps(), lean))
    is_read = report["status"] == "ok"
    if form == "json":
        sys.stdout.write(json.dumps(report, ensure_ascii=False) + "\n")
    elif form == "text" or not is_read:
        sys.stdout.write(format_report(report) + "\n")
    else:
        from qwen_batch import views

        sys.stdout.write((views.format_diff if form == "diff" else views.format_html)(file, settings, report))
    sys.stdout.flush()
    return 0 if is_read else 3


def main(wanted: Extraction) -> int:
    """The whole command: its exit code, also where its output cannot be written, or Ctrl-C was pressed."""
    if sys.stdout is None:
        print("qwen-batch: there is no standard output to write to", file=sys.stderr)
        return 1
    try:
        return run_extraction(wanted, lean=True)
    except OSError as error:  # a file that cannot be read is a report, not an error
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left in the buffer goes there
        if not isinstance(error, BrokenPipeError):
            print(f"qwen-batch: standard output cannot be written: {error.strerror}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
