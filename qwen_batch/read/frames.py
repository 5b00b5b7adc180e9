"""What goes between a reading process and its parent: eight bytes of length, then a pickle."""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable
from typing import NamedTuple

from qwen_batch.records import CleanDocument, CleanPage

HEADER = struct.Struct(">Q")


class Trouble(NamedTuple):
    """Why a task has no result."""

    error_type: str
    error: str
    num_pages: int | None = None  # of the document, where they could be counted


class LongText:
    """A document whose text is still UTF-8. Its parent makes the text of it: a text of 200 MB with one emoji has 800,
    and would be here twice, under the limit of a child."""

    __slots__ = ("_data", "_document")

    def __init__(self, document: CleanDocument, data: bytearray) -> None:
        self._document = document  # without a text
        self._data = data

    def whole(self) -> CleanDocument:
        return _with_text(self._document, self._data)

    def __reduce__(self) -> tuple[Callable[..., CleanDocument], tuple[CleanDocument, bytearray]]:
        return _with_text, (self._document, self._data)


def _with_text(document: CleanDocument, data: bytearray) -> CleanDocument:
    text = data.decode("utf-8", "surrogatepass")
    return document._replace(text=text, pages=(CleanPage(1, text),), page_starts=(0,))


def frame(value: object) -> bytes:
    """A value as it goes through a pipe."""
    data = pickle.dumps(value, protocol=5)
    return HEADER.pack(len(data)) + data
