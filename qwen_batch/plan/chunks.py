"""A long document -> chunks: parts of at most so many tokens, divided where a reader would turn the page."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator

from qwen_batch.plan.breaks import Breaks, Level, can_cut
from qwen_batch.plan.tokens import EncodedText
from qwen_batch.records import Chunk, CleanDocument

MIN_CHUNK_SIZE = 16  # tokens; below this a single character in byte tokens might not fit
Span = tuple[int, int, int]  # start and end of a chunk, in characters, and its exact tokens
_NOT_SPACE = re.compile(r"\S")

# How far from the balanced size a break may be to be taken, as a share of that size, in this order. A heading is
# worth an uneven part; a paragraph less so. Only when a whole round finds nothing does the next, wider one begin.
_ROUNDS: tuple[tuple[tuple[Level, float], ...], ...] = (
    (
        (Level.HEADING, 0.4),
        (Level.BLOCK, 0.25),
        (Level.LINE, 0.25),
        (Level.SENTENCE, 0.2),
        (Level.ROW, 0.2),
        (Level.GLUED, 0.1),
    ),
    tuple((level, 0.5) for level in Level),
    tuple((level, float("inf")) for level in Level),
)


def iter_spans(text: str, encoded: EncodedText, chunk_size: int, overlap: int = 0) -> Iterator[Span]:
    """Where to divide a text into chunks of at most `chunk_size` tokens each, counted exactly.

    overlap: tokens of a chunk that are repeated at the start of the next, at most, from a sentence (or else a word)
    on. Every character that is not white space is in a chunk.

    Raises ValueError when chunk_size is below MIN_CHUNK_SIZE or the overlap is not below half of it.
    """
    if chunk_size < MIN_CHUNK_SIZE:
        raise ValueError(f"chunk_size must be at least {MIN_CHUNK_SIZE} tokens, not {chunk_size}")
    if not 0 <= 2 * overlap < chunk_size:
        raise ValueError(f"overlap must be below half of chunk_size ({chunk_size} tokens), not {overlap}")
    return _Splitter(text, encoded, chunk_size, overlap).spans()


def iter_chunks(document: CleanDocument, spans: Iterable[Span]) -> Iterator[Chunk]:
    """The chunks one by one: together they are a second copy of the text, and there are texts of 200 MB."""
    for index, (start, end, num_tokens) in enumerate(spans):
        yield Chunk(
            index=index,
            text=document.text[start:end],
            first_page=page_at(document, start),
            last_page=page_at(document, end - 1),
            num_tokens=num_tokens,
            start=start,
            end=end,
        )


def page_at(document: CleanDocument, offset: int) -> int:
    """Number of the page on which the character at `offset` stands; 1 where a document has no pages."""
    if not document.pages:
        return 1
    index = bisect_right(document.page_starts, offset) - 1
    return document.pages[min(max(index, 0), len(document.pages) - 1)].page_number


class _Splitter:
    """One text being divided. `begin` is where a chunk starts, `fresh` where what no chunk had before it starts."""

    def __init__(self, text: str, encoded: EncodedText, chunk_size: int, overlap: int) -> None:
        self._text = text
        self._length = len(text.rstrip())
        self._encoded = encoded
        self._chunk_size = chunk_size
        self._overlap = overlap
        self._breaks = Breaks(text)

    def spans(self) -> Iterator[Span]:
        """Of each chunk, in order."""
        begin = fresh = self._skip_space(0)
        while fresh < self._length:
            span = self._take(begin, fresh)
            yield span
            fresh = self._skip_space(span[1])
            begin = self._overlap_begin(span[0], span[1]) if fresh < self._length else fresh

    def _take(self, begin: int, fresh: int) -> Span:
        """The next chunk: from `begin` to a good place after `fresh`."""
        first = self._token(fresh)
        repeated = first - self._token(begin)
        upper = self._chunk_size - repeated  # tokens that may still be added, estimated
        for attempt in range(self._chunk_size):
            if upper < 1:
                break
            end = self._trim(self._choose_end(fresh, first, upper, repeated))
            count = self._count(begin, end)
            if count <= self._chunk_size:
                return begin, end, count
            # The estimate was too low (tokens do not add up); what was over goes, doubled at each try.
            upper = min(upper, self._token(end) - first) - (count - self._chunk_size) * 2**attempt
        return self._take(fresh, fresh) if begin < fresh else self._take_least(fresh)

    def _choose_end(self, fresh: int, first: int, upper: int, repeated: int) -> int:
        """An end for a chunk that adds at most about `upper` tokens, near the size that makes the rest even."""
        remaining = self._encoded.num_tokens - first
        if remaining <= upper:
            return self._length
        step = self._chunk_size - self._overlap
        chunks = 1 + -(-(remaining - upper) // step)
        even = (remaining + repeated + (chunks - 1) * self._overlap) // chunks - repeated
        target = max(1, min(upper, even))
        for choices in _ROUNDS:
            for level, reach in choices:
                low = self._char(first + target * max(0.0, 1 - reach))
                high = self._char(first + min(upper, target * (1 + reach)))
                found = self._breaks.nearest(level, max(low, fresh), high, self._char(first + target))
                if found is not None:
                    return found
        return self._hard_end(fresh, self._char(first + target))

    def _hard_end(self, fresh: int, high: int) -> int:
        """The last place up to `high` that parts no accent from its letter; for text without any break."""
        high = max(high, fresh + 1)
        for position in range(high, max(fresh, high - 64), -1):
            if can_cut(self._text, position):
                return position
        return high

    def _take_least(self, fresh: int) -> Span:
        """The largest halving of a stretch that fits, for texts whose estimates are useless."""
        end = min(fresh + self._chunk_size, self._length)
        while end > fresh + 1 and self._count(fresh, end) > self._chunk_size:
            end = fresh + (end - fresh) // 2
        end = self._trim(end)
        return fresh, end, self._count(fresh, end)

    def _overlap_begin(self, begin: int, end: int) -> int:
        """Where the chunk after [begin, end) starts: at most `overlap` tokens before its end."""
        fresh = self._skip_space(end)
        low = max(begin, self._char(self._token(end) - self._overlap) - 1)
        if not self._overlap or low >= end:
            return fresh
        whole = sorted(p for level in Level if level <= Level.ROW for p in self._breaks.between(level, low, end - 1))
        words = self._breaks.between(Level.WORD, low, end - 1)
        for position in (*whole, *words):
            if self._count(position, end) <= self._overlap:
                return position
        return fresh

    def _count(self, start: int, end: int) -> int:
        return self._encoded.count(start, end)

    def _token(self, offset: int) -> int:
        """Index of the first token that starts at `offset` or after."""
        return self._encoded.token_at(offset)

    def _char(self, token: float) -> int:
        """Offset at which a token starts."""
        return min(self._encoded.start_of(max(0, int(token))), self._length)

    def _trim(self, end: int) -> int:
        while self._text[end - 1].isspace():
            end -= 1
        return end

    def _skip_space(self, offset: int) -> int:
        match = _NOT_SPACE.search(self._text, offset)
        return match.start() if match else len(self._text)
