"""Statements for many rows at once.

`executemany` lets go of the interpreter at every row, and gets it back only when the other thread of a run gives way,
up to 5 ms later; one statement with all the values waits once. With a busy feed thread, keeping 64 rows took 17 ms a
step that way and takes 3 ms this way.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")

MAX_VALUES = 900  # of a statement; an SQLite that was built long ago takes 999


def insert_rows(connection: sqlite3.Connection, insert: str, rows: Sequence[Sequence[object]], after: str = "") -> None:
    """`insert` is what stands before VALUES, `after` what stands behind them. Rows are taken in their order."""
    if not rows:
        return
    one = f"({', '.join('?' * len(rows[0]))})"
    for some in _groups(rows, MAX_VALUES // len(rows[0])):
        values = [value for row in some for value in row]
        connection.execute(f"{insert} VALUES {', '.join([one] * len(some))} {after}", values)


def for_ids(connection: sqlite3.Connection, statement: str, ids: Sequence[str], *before: object) -> None:
    """A DELETE or UPDATE for the rows of these ids: `statement` ends before IN. `before`: its other values."""
    for some in _groups(ids, MAX_VALUES - len(before)):
        connection.execute(f"{statement} IN ({', '.join('?' * len(some))})", (*before, *some))


def _groups(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (items[start : start + size] for start in range(0, len(items), size))
