"""Entry point of `qwen-batch` and of `python -m qwen_batch`."""

from __future__ import annotations

import contextlib
import os
import sys

INTERRUPTED = 130  # 128 and the number of SIGINT


def main() -> None:
    """Run the command line: plain command lines of `extract` without typer (see extraction.py), all else with it."""
    try:
        _have_standard_streams()
        if sys.argv[1:2] == ["extract"]:
            _run_extract()
        from qwen_batch.cli import main as run_command

        run_command()
    except KeyboardInterrupt:  # also while modules are loaded
        os._exit(INTERRUPTED)
    except SystemExit as end:
        if isinstance(end.code, int) and end.code > 128:  # stopped: all is kept, and taking down torch and a text that
            _end_at_once(end.code)  # is still being planned takes seconds
        raise


def _run_extract() -> None:
    """Ends the process, or comes back where typer must look at the command line."""
    import gc
    import signal

    signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))  # children end with us; nothing is to be saved
    gc.disable()  # modules leave no garbage; with what follows, a page's worth of time (read/worker.py turns it on)
    from qwen_batch.errors import QwenBatchError
    from qwen_batch.extraction import main as extract
    from qwen_batch.extraction import plain_extraction
    from qwen_batch.terminal import take_any_text, visible

    take_any_text()
    code: int | None = None
    try:
        if (wanted := plain_extraction(sys.argv[2:])) is not None:
            code = extract(wanted)
    except QwenBatchError as error:
        if sys.stderr is not None:
            print(f"qwen-batch: {visible(str(error))}", file=sys.stderr)
        code = error.exit_code
    if code is not None:  # end at once: the children are gone, and taking every module down again takes 4 ms
        _end_at_once(code)


def _end_at_once(code: int) -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            with contextlib.suppress(BrokenPipeError):
                stream.flush()
    os._exit(code)


def _have_standard_streams() -> None:
    """Numbers 0 to 2 that the caller has closed would be given to the next files, and a child puts its own there."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


if __name__ == "__main__":
    main()
