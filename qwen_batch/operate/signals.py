"""Ctrl-C, kill and a closed terminal: the first asks the run to save and stop, the second ends it at once."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self

from qwen_batch.errors import StoppedError

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopFlag:
    """Context manager that turns signals into a flag which the run looks at between steps.

    A second signal of any kind ends the process where it stands, with exit code 128 + n; nothing durable is lost by
    that. A signal that was ignored when we came (`nohup`, a shell's background job) stays ignored. Outside the main
    thread Python cannot install handlers: the flag is then never set.
    """

    def __init__(self) -> None:
        self.requested: int | None = None  # number of the first signal
        self._old_handlers: dict[signal.Signals, Any] = {}

    def raise_if_requested(self) -> None:
        """Raise StoppedError (exit 128 + n) once a signal has come."""
        if self.requested is not None:
            name = signal.Signals(self.requested).name
            raise StoppedError(f"stopped by {name}; run again to go on where it stopped", self.requested)

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                if signal.getsignal(number) != signal.SIG_IGN:
                    self._old_handlers[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in self._old_handlers.items():
            # None: a handler that was not installed from Python cannot be put back from Python
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._old_handlers.clear()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested is not None:
            os._exit(128 + number)
        self.requested = number
