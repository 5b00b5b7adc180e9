"""What the commands for a card share: numbers that are checked, and a trial that starts in Triton's interpreter."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Sequence

from qwen_batch.kernels.launch import INTERPRETED


def positive_seconds(text: str) -> float:
    """For argparse, which turns the ValueError into exit code 2."""
    value = float(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds above 0")
    return value


def positive_number(text: str) -> int:
    """For argparse."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is below 1")
    return value


def restart_interpreted(module: str, arguments: Sequence[str] | None) -> None:
    """Begin the command anew in Triton's interpreter, unless it runs in it: whether kernels are interpreted is decided
    when they are imported. Does not return then."""
    if INTERPRETED:
        return
    given = sys.argv[1:] if arguments is None else arguments
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, "-m", module, *given], {**os.environ, "TRITON_INTERPRET": "1"})
