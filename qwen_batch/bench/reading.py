"""How fast documents are read and cleaned, in a worker that is warm.

    python -m qwen_batch.bench.reading FILE... [--repeat N]

Every file is read N times after a first time that does not count, by one thread of this process, with tables and
without; the best time of each counts, in seconds of processor time. Pages that are images are left alone.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from qwen_batch.errors import DocumentError
from qwen_batch.read.items import FileItem, Task
from qwen_batch.readers import read_and_clean
from qwen_batch.records import CleanSteps

MAX_PAGES = 20_000


@dataclass(frozen=True, slots=True)
class Reading:
    """What one file took."""

    file: Path
    num_pages: int
    num_tables: int
    seconds: float  # of processor time, with tables
    plain_seconds: float  # without


def measure(file: Path, repeat: int) -> Reading:
    """Read a file again and again. Raises DocumentError, as reading does."""
    task = Task(FileItem(file.name, file, str(file)), (), MAX_PAGES, CleanSteps())
    document = read_and_clean(task)
    tables = sum(len(page.tables) for page in document.pages)
    plain = task._replace(clean=task.clean._replace(tables=False))
    return Reading(file, len(document.pages), tables, _best(task, repeat), _best(plain, repeat))


def _best(task: Task, repeat: int) -> float:
    return min(_seconds(task) for _ in range(repeat))


def _seconds(task: Task) -> float:
    start = time.process_time()
    read_and_clean(task)
    return time.process_time() - start


def format_readings(readings: Sequence[Reading]) -> Iterator[str]:
    """A line for each file, and one for all."""
    yield f"{'pages':>6} {'tables':>6} {'pages/CPU s':>12} {'without tables':>15}  file"
    for reading in readings:
        yield _line(reading.num_pages, reading.num_tables, reading.seconds, reading.plain_seconds, str(reading.file))
    totals = [(each.num_pages, each.num_tables, each.seconds, each.plain_seconds) for each in readings]
    if len(totals) > 1:
        pages, tables, seconds, plain = (sum(column) for column in zip(*totals, strict=True))
        yield _line(int(pages), int(tables), seconds, plain, "all")


def _line(pages: int, tables: int, seconds: float, plain: float, name: str) -> str:
    return f"{pages:>6} {tables:>6} {_rate(pages, seconds):>12} {_rate(pages, plain):>15}  {name}"


def _rate(pages: int, seconds: float) -> str:
    return f"{pages / seconds:.1f}" if seconds else "-"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 1 where a file could not be read."""
    parser = argparse.ArgumentParser(prog="python -m qwen_batch.bench.reading", description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--repeat", type=int, default=3, help="how often each file is read; the best time counts")
    wanted = parser.parse_args(arguments)
    readings: list[Reading] = []
    for file in wanted.files:
        try:
            readings.append(measure(file, max(1, wanted.repeat)))
        except DocumentError as error:
            print(f"{file}: {error}", file=sys.stderr)
    print("\n".join(format_readings(readings)))
    return 0 if len(readings) == len(wanted.files) else 1


if __name__ == "__main__":
    sys.exit(main())
