"""The command `extract`, apart from the others so that it starts fast.

typer loads pydantic as soon as a command has arguments, which takes longer than reading a page. Plain command lines
of `extract` are therefore read here; whatever else is asked (help, a mistake) is left to typer.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from qwen_batch.errors import UsageError
from qwen_batch.ingest import extract_all
from qwen_batch.records import CleanSteps, ReadSettings
from qwen_batch.reports import extract_report, iter_report

Form = Literal["text", "json", "diff", "html"]
MAX_TIMEOUT_SECONDS = 1e6
_FORMS: dict[str, Form] = {"--json": "json", "--diff": "diff", "--html": "html"}
_ACTING = re.compile("[\x7f-\x9f\u2028\u2029]")  # what JSON leaves as it is, and terminals and line readers act on


class Extraction(NamedTuple):
    """What to show of which files, read and cleaned how."""

    files: tuple[Path, ...]
    forms: frozenset[Form] = frozenset()  # empty: text
    settings: ReadSettings = ReadSettings()
    without: tuple[str, ...] = ()  # cleaning steps that are left out
    no_clean: bool = False  # all of them are


def plain_extraction(arguments: Sequence[str]) -> Extraction | None:
    """What the arguments of `extract` ask, where they are nothing but known flags and files; None: something else.

    Raises UsageError for a file without a name.
    """
    files: list[Path] = []
    forms: set[Form] = set()
    without: list[str] = []
    settings: dict[str, Any] = {}
    no_clean = False
    rest = list(reversed(arguments))
    while rest:
        word = rest.pop()
        name, equals, value = word.partition("=")
        if word in _FORMS:
            forms.add(_FORMS[word])
        elif word == "--no-clean":
            no_clean = True
        elif name in ("--without", *_SETTINGS) and (equals or (rest and not rest[-1].startswith("-"))):
            value = value if equals else rest.pop()
            if name == "--without":
                without.append(value)
            elif (setting := _SETTINGS[name](value)) is None:
                return None
            elif name == "--password":
                settings["passwords"] = (*settings.get("passwords", ()), value)
            else:
                settings |= setting
        elif word.startswith("-"):
            return None
        elif not word:
            raise UsageError("a file's name is empty: is a variable of the shell not set?")
        else:
            files.append(Path(word))
    return (
        Extraction(tuple(files), frozenset(forms), ReadSettings(**settings), tuple(without), no_clean)
        if files
        else None
    )


def _timeout(value: str) -> dict[str, Any] | None:
    try:
        seconds = float(value)
    except ValueError:
        return None
    return {"timeout_seconds": seconds} if 0 < seconds <= MAX_TIMEOUT_SECONDS else None


def _max_pages(value: str) -> dict[str, Any] | None:
    return {"max_pages": int(value)} if value.isdecimal() and len(value) < 10 and int(value) > 0 else None


# What typer reads, too (cli.py): a value that is none of the kind is for its message.
_SETTINGS: Mapping[str, Callable[[str], dict[str, Any] | None]] = {
    "--password": lambda value: {"passwords": (value,)},
    "--password-file": lambda value: {"password_file": value},
    "--ocr": lambda value: {"ocr": value} if value in ("auto", "all", "off") else None,
    "--timeout": _timeout,
    "--max-pages": _max_pages,
}


def clean_steps(wanted: Extraction) -> CleanSteps:
    """The steps that are not left out. Raises UsageError for one that there is not."""
    known = CleanSteps._fields
    without = [name.replace("-", "_") for name in wanted.without]
    for name in without:
        if name not in known:
            raise UsageError(f"--without {name}: there is no such cleaning step; known: {', '.join(known)}")
    left_out = known if wanted.no_clean else without
    return CleanSteps(**dict.fromkeys(left_out, False))


def run_extraction(wanted: Extraction, lean: bool = False) -> int:
    """Print what was asked for; returns the exit code: 0, or 3 when a file could not be read.

    `lean`: see ProcessPool.
    """
    if len(wanted.forms) > 1:
        raise UsageError("--json, --diff and --html are three ways to show a file: choose one")
    form: Form = next(iter(wanted.forms), "text")
    code = 0
    results = extract_all(wanted.files, wanted.settings, clean_steps(wanted), lean)
    for file, result in zip(wanted.files, results, strict=True):
        report = extract_report(file, result)
        _show(file, form, wanted.settings, report)
        code = code if report["status"] == "ok" else 3
    return code


def _show(file: Path, form: Form, settings: ReadSettings, report: Mapping[str, Any]) -> None:
    out = sys.stdout
    if form == "json":
        out.write(_json(report) + "\n")
    elif form == "text" or report["status"] != "ok":
        out.writelines(iter_report(report))
        out.write("\n")
    elif form == "diff":
        from qwen_batch.views import format_diff

        out.write(format_diff(file, settings, report))
    else:
        from qwen_batch.views import format_html

        page = format_html(file, settings, report)
        out.write(page if _is_utf8() else page.encode("ascii", "xmlcharrefreplace").decode())
    out.flush()


def _json(report: Mapping[str, Any]) -> str:
    if not _is_utf8():
        return json.dumps(report)
    return _ACTING.sub(lambda match: f"\\u{ord(match.group()):04x}", json.dumps(report, ensure_ascii=False))


def _is_utf8() -> bool:
    return sys.stdout.encoding.lower().replace("-", "") == "utf8"


def main(wanted: Extraction) -> int:
    """The whole command: its exit code, also where its output cannot be written."""
    if sys.stdout is None:
        print("qwen-batch: there is no standard output to write to", file=sys.stderr)
        return 1
    try:
        return run_extraction(wanted, lean=True)
    except OSError as error:  # a file that cannot be read is a report, not an error
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left in the buffer goes there
        if isinstance(error, BrokenPipeError):
            return 128 + signal.SIGPIPE
        print(f"qwen-batch: standard output cannot be written: {error.strerror}", file=sys.stderr)
        return 1
