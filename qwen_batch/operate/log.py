"""What the run says while it works: lines for people, or JSON lines for collectors. No document text by itself."""

from __future__ import annotations

import datetime
import json
import logging
import os
import sys
from typing import Literal, TextIO

from qwen_batch.terminal import one_line

LogFormat = Literal["text", "json"]

_OWN_FIELDS = frozenset({*vars(logging.makeLogRecord({})), "message", "asctime", "event"})
_COLORS = {"DEBUG": "\x1b[2m", "WARNING": "\x1b[33m", "ERROR": "\x1b[31m", "CRITICAL": "\x1b[31m"}
_RESET = "\x1b[0m"


def configure_logging(
    *, quiet: bool = False, verbose: bool = False, log_format: LogFormat = "text", stream: TextIO | None = None
) -> logging.Logger:
    """Set up the logger `qwen_batch` and return it. Calling again replaces the earlier set-up.

    quiet: errors only. stream None: standard error, whatever that is when a line is written. Other libraries' loggers
    and the root logger are left alone.
    """
    logger = logging.getLogger("qwen_batch")
    for handler in logger.handlers[:]:
        if isinstance(handler, _Handler):
            logger.removeHandler(handler)
    handler = _Handler(stream)
    handler.setFormatter(_JsonFormatter() if log_format == "json" else _TextFormatter(handler))
    logger.addHandler(handler)
    logger.setLevel(logging.ERROR if quiet else logging.DEBUG if verbose else logging.INFO)
    logger.propagate = False
    return logger


class _Handler(logging.Handler):
    """Writes lines to a stream, by default to what sys.stderr is at that moment (a progress display replaces it)."""

    def __init__(self, stream: TextIO | None) -> None:
        super().__init__()
        self._stream = stream

    @property
    def stream(self) -> TextIO:
        return self._stream or sys.stderr

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self.stream.write(self.format(record) + "\n")
            self.stream.flush()
        except Exception:
            self.handleError(record)


class _TextFormatter(logging.Formatter):
    """`2026-11-29 02:05:00 WARNING message`, in local time; a traceback follows where there is one."""

    def __init__(self, handler: _Handler) -> None:
        super().__init__(datefmt="%Y-%m-%d %H:%M:%S")
        self._handler = handler

    def format(self, record: logging.LogRecord) -> str:
        level = f"{record.levelname:<7}"
        if record.levelname in _COLORS and _has_colors(self._handler.stream):
            level = _COLORS[record.levelname] + level + _RESET
        line = f"{self.formatTime(record, self.datefmt)} {level} {one_line(record.getMessage())}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class _JsonFormatter(logging.Formatter):
    """An object a line: ts (UTC), level, event, message, and what was passed as `extra`. `extra={"event": ...}` names
    the event; without it the event is the logger's name."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, object] = {
            "ts": datetime.datetime.fromtimestamp(record.created, datetime.UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": getattr(record, "event", record.name),
            "message": record.getMessage(),
        }
        extra = {name: value for name, value in vars(record).items() if name not in _OWN_FIELDS}
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        # ASCII: a lone surrogate in a file name, or a stream that is not UTF-8, must not lose the line
        return json.dumps({**extra, **fields}, default=str)


def _has_colors(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
