"""Entry point of `qwen-batch` and of `python -m qwen_batch`."""

from __future__ import annotations

import sys

from qwen_batch.errors import QwenBatchError


def main() -> None:
    """Run the command line: plain command lines of `extract` without typer (see extraction.py), all else with it."""
    if sys.argv[1:2] == ["extract"]:
        from qwen_batch.extraction import main as extract
        from qwen_batch.extraction import plain_extraction

        try:
            if (wanted := plain_extraction(sys.argv[2:])) is not None:
                sys.exit(extract(wanted))
        except QwenBatchError as error:
            print(f"qwen-batch: {error}", file=sys.stderr)
            sys.exit(error.exit_code)
    from qwen_batch.cli import main as run_command

    run_command()


if __name__ == "__main__":
    main()
