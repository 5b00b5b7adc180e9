"""A long text that is encoded once: what any part of it is in tokens is then known, but for a word at its ends.

The text is encoded in sections that end at seams (model/seams.py), so that the ids of all sections are those of the
text, and those between two seams are those of what stands between them. What is outside of the first and the last
seam of a part is encoded with what stands around it there. Where a tokenizer has no seams, places are estimates, and
each part is encoded anew.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from qwen_batch.model.seams import SEAM
from qwen_batch.records import Message

# Characters that are encoded at a time: a tokenizer takes some 150 bytes for each. Not more, so that a place within a
# section takes two bytes.
SECTION = 1 << 16
_NEAR = 256  # characters; nearly every seam has another one nearer than that
_NOTHING: npt.NDArray[np.uint16] = np.empty(0, np.uint16)


class Encoder(Protocol):
    """What of a model's tokenizer is used here."""

    vocab_size: int

    @property
    def has_seams(self) -> bool: ...
    def encode(self, text: str) -> list[int]: ...
    def encode_with_starts(self, text: str) -> tuple[Sequence[int], npt.NDArray[np.int64]]: ...
    def encode_chat(self, messages: Sequence[Message], thinking: bool) -> list[int]: ...
    def encode_chat_around(
        self, messages: Sequence[Message], thinking: bool, known: str, ids: array[int]
    ) -> array[int] | None: ...


class EncodedText:
    """`tick` is told after each section how many characters are encoded, and may raise to break off."""

    def __init__(self, encoder: Encoder, text: str, tick: Callable[[int], None] = lambda done: None) -> None:
        self._encoder = encoder
        self._text = text
        self._offsets = array("I")  # of the sections, in characters
        self._firsts = array("I")  # number of each section's first token
        self._starts: list[npt.NDArray[np.uint16]] = []  # of each section's tokens, from its own start
        self._ids: list[npt.NDArray[np.unsignedinteger]] = []  # of each section's tokens, where there are seams
        self._blind_cuts = array("I")  # where a section had to end without a seam
        self._num_forgotten = 0  # sections
        self.num_tokens = 0
        for start, end in self._sections():
            self._add(start, end)
            tick(end)

    def _sections(self) -> Iterator[tuple[int, int]]:
        start, length = 0, len(self._text)
        while start < length:
            end = min(start + SECTION, length)
            if end < length:
                seam = self._last_seam(start + 1, end) if self._encoder.has_seams else None
                end = self._blind_cut(start, end) if seam is None else seam
            yield start, end
            start = end

    def _blind_cut(self, start: int, end: int) -> int:
        cut = max(self._text.rfind("\n", start + 1, end), self._text.rfind(" ", start + 1, end))
        end = end if cut == -1 else cut
        self._blind_cuts.append(end)
        return end

    def _add(self, start: int, end: int) -> None:
        ids, starts = self._encoder.encode_with_starts(self._text[start:end])
        self._offsets.append(start)
        self._firsts.append(self.num_tokens)
        self._starts.append(starts.astype(np.uint16))
        if self._encoder.has_seams:
            self._ids.append(np.array(ids, np.uint16 if self._encoder.vocab_size <= 1 << 16 else np.uint32))
        self.num_tokens += len(starts)

    def token_at(self, offset: int) -> int:
        """Number of the first token that starts at `offset` or after."""
        section = bisect_right(self._offsets, offset) - 1
        if section < 0:
            return 0
        inside = min(offset - self._offsets[section], SECTION)
        return self._firsts[section] + int(self._starts[section].searchsorted(inside))

    def start_of(self, token: int) -> int:
        """Offset at which a token starts; the text's length for numbers beyond the last."""
        if token >= self.num_tokens:
            return len(self._text)
        section = bisect_right(self._firsts, token) - 1
        return self._offsets[section] + int(self._starts[section][token - self._firsts[section]])

    def count(self, start: int, end: int) -> int:
        """Tokens of a part by itself, exactly."""
        text, seams = self._text, self._seams(start, end)
        if seams is None:
            return len(self._encoder.encode(text[start:end]))
        first, last = seams
        known = self.token_at(last) - self.token_at(first)
        return len(self._encoder.encode(text[start:first])) + known + len(self._encoder.encode(text[last:end]))

    def encode_chat(self, messages: Sequence[Message], thinking: bool, start: int, end: int) -> array[int]:
        """Ids of a whole prompt, one of whose messages holds the part [start, end)."""
        seams = self._seams(start, end)
        if seams is not None:
            first, last = seams
            known = self._between(self.token_at(first), self.token_at(last))
            ids = self._encoder.encode_chat_around(messages, thinking, self._text[first - 1 : last + 1], known)
            if ids is not None:
                return ids
        return array("I", self._encoder.encode_chat(messages, thinking))

    def forget(self, offset: int) -> None:
        """Let go of what is before this place, of which nothing is asked any more."""
        section = bisect_right(self._offsets, offset) - 1
        for number in range(self._num_forgotten, section):
            self._starts[number], self._ids[number : number + 1] = _NOTHING, [_NOTHING][: len(self._ids)]
        self._num_forgotten = max(self._num_forgotten, section)

    def _between(self, first: int, last: int) -> array[int]:
        """Ids of the tokens [first, last)."""
        ids = array("I")
        section = bisect_right(self._firsts, first) - 1
        while first < last:
            begin = self._firsts[section]
            piece = self._ids[section][first - begin : last - begin]
            ids.frombytes(piece.astype(np.uint32).tobytes())
            first, section = first + len(piece), section + 1
        return ids

    def _seams(self, start: int, end: int) -> tuple[int, int] | None:
        """The first and the last seam inside of a part; None where what is between them is not known."""
        if not self._encoder.has_seams:
            return None
        found = SEAM.search(self._text, start + 1, end)
        if found is None:
            return None
        first, last = found.start(), self._last_seam(found.start(), end)
        if last is None or bisect_left(self._blind_cuts, last) > bisect_right(self._blind_cuts, first):
            return None
        return first, last

    def _last_seam(self, start: int, end: int) -> int | None:
        """The last one in [start, end)."""
        low = end
        while low > start:
            low = max(start, end - _NEAR if low == end else end - 2 * (end - low))
            found = [match.start() for match in SEAM.finditer(self._text, low, end)]
            if found:
                return found[-1]
        return None
