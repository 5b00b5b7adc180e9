"""What goes between a reading process and its parent: eight bytes of length, then a pickle."""

from __future__ import annotations

import pickle
import struct
from typing import NamedTuple

HEADER = struct.Struct(">Q")


class Trouble(NamedTuple):
    """Why a task has no result."""

    error_type: str
    error: str
    num_pages: int | None = None  # of the document, where they could be counted


def frame(value: object) -> bytes:
    """A value as it goes through a pipe."""
    data = pickle.dumps(value, protocol=5)
    return HEADER.pack(len(data)) + data
