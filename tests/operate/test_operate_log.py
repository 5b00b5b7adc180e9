from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator

import pytest

from qwen_batch.operate.log import configure_logging


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _restore_logger() -> Iterator[None]:
    logger = logging.getLogger("qwen_batch")
    before = logger.handlers[:], logger.level, logger.propagate
    yield
    logger.handlers[:], logger.level, logger.propagate = before


def test_a_text_line() -> None:
    stream = io.StringIO()
    configure_logging(stream=stream)
    logging.getLogger("qwen_batch.read").warning("%s: 文件 is long", "a.pdf")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d WARNING a\.pdf: 文件 is long\n", stream.getvalue())


def test_a_name_cannot_break_the_line_or_drive_the_terminal() -> None:
    stream = io.StringIO()
    configure_logging(stream=stream)
    logging.getLogger("qwen_batch").info("%s", "a\nERROR fake\x1b[2J\u2028\udc80.pdf")
    assert stream.getvalue().endswith(r"a\nERROR fake\x1b[2J\u2028\udc80.pdf" + "\n")
    assert stream.getvalue().count("\n") == 1


def test_a_json_line() -> None:
    stream = io.StringIO()
    configure_logging(log_format="json", stream=stream)
    logger = logging.getLogger("qwen_batch.read")
    logger.info("%d pages", 3, extra={"event": "document_read", "doc_id": "文\udc80", "pages": 3, "path": {1}})
    logger.info("plain")
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", first.pop("ts"))
    assert first == {
        "level": "info",
        "event": "document_read",
        "message": "3 pages",
        "doc_id": "文\udc80",
        "pages": 3,
        "path": "{1}",
    }
    assert second.keys() == {"ts", "level", "event", "message"}
    assert second["event"] == "qwen_batch.read"


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_a_traceback_follows(log_format: str) -> None:
    stream = io.StringIO()
    configure_logging(log_format=log_format, stream=stream)  # type: ignore[arg-type]
    try:
        raise KeyError("lost")
    except KeyError:
        logging.getLogger("qwen_batch").exception("oh")
    assert "Traceback" in stream.getvalue()
    assert "KeyError: 'lost'" in stream.getvalue()
    if log_format == "json":
        assert "KeyError" in json.loads(stream.getvalue())["exception"]


def test_levels() -> None:
    def shown(**flags: bool) -> str:
        stream = io.StringIO()
        configure_logging(stream=stream, **flags)  # type: ignore[arg-type]
        logger = logging.getLogger("qwen_batch.x")
        for level in ("debug", "info", "warning", "error"):
            getattr(logger, level)(level)
        return " ".join(line.split()[-1] for line in stream.getvalue().splitlines())

    assert shown() == "info warning error"
    assert shown(quiet=True) == "error"
    assert shown(verbose=True) == "debug info warning error"


def test_configuring_twice_writes_once_and_only_here() -> None:
    root = logging.getLogger()
    before = root.handlers[:], root.level
    seen = io.StringIO()
    handler = logging.StreamHandler(seen)
    root.addHandler(handler)
    try:
        first, second = io.StringIO(), io.StringIO()
        configure_logging(stream=first)
        logger = configure_logging(stream=second)
        logger.error("once")
        logging.getLogger("another_library").error("theirs")
    finally:
        root.removeHandler(handler)
    assert (root.handlers, root.level) == before
    assert first.getvalue() == ""
    assert second.getvalue().count("\n") == 1
    assert seen.getvalue() == "theirs\n"


def test_colors_only_on_a_terminal_that_wants_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def shown(stream: io.StringIO) -> str:
        configure_logging(stream=stream).error("oh")
        return stream.getvalue()

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert "\x1b[31mERROR  \x1b[0m oh" in shown(Terminal())
    assert "\x1b" not in shown(io.StringIO())
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in shown(Terminal())
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert "\x1b" not in shown(Terminal())


def test_standard_error_is_looked_up_when_a_line_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    logger = configure_logging()
    later = io.StringIO()
    monkeypatch.setattr("sys.stderr", later)
    logger.info("here")
    assert later.getvalue().endswith("here\n")
