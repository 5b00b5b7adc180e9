"""Entry point of `qwen-batch` and of `python -m qwen_batch`."""

from __future__ import annotations

import gc
import os
import sys
from typing import NoReturn

from qwen_batch.errors import QwenBatchError
from qwen_batch.terminal import take_any_text, visible


def main() -> None:
    """Run the command line: plain command lines of `extract` without typer (see extraction.py), all else with it."""
    take_any_text()
    if sys.argv[1:2] == ["extract"]:
        gc.disable()  # modules leave no garbage; with what follows, a page's worth of time (read/worker.py turns it on)
        from qwen_batch.extraction import main as extract
        from qwen_batch.extraction import plain_extraction

        try:
            if (wanted := plain_extraction(sys.argv[2:])) is not None:
                _end(extract(wanted))
        except QwenBatchError as error:
            print(f"qwen-batch: {visible(str(error))}", file=sys.stderr)
            sys.exit(error.exit_code)
    from qwen_batch.cli import main as run_command

    run_command()


def _end(code: int) -> NoReturn:
    """End at once: all is written, the children are gone, and taking every module down again takes 4 ms."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
