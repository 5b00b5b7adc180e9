"""Is the answer about its document? Asked of a small encoder, not of the model that answered.

The answer and the document are cut into passages; each passage of the answer is compared with the nearest of the
document, and the mean over the answer, weighted by length, is its similarity. A low one says that the answer speaks of
something else; a high one does not say that it is right.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, Protocol

from qwen_batch.errors import DocumentError
from qwen_batch.records import Answer, CleanDocument

OFF_SOURCE = "off_source"
PASSAGE_CHARS = 600  # some 150 tokens of English; encoders of this kind take 256
MAX_PASSAGES = 400  # of a document: evenly spread over a longer one; a passage costs some 10 ms on a CPU core
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|(?<=[。！？；])|\n+")


class Encoder(Protocol):
    """What of the encoder is used here."""

    def similarities(self, texts: Sequence[str], sources: Sequence[str]) -> list[float]: ...


class SourceCheck:
    """Flags answers, or lets them fail, whose similarity to their document is too low."""

    def __init__(self, encoder: Encoder, min_similarity: float, action: Literal["flag", "fail"]) -> None:
        self._encoder = encoder
        self._min_similarity = min_similarity
        self._action = action

    def apply(self, answer: Answer, document: CleanDocument) -> Answer:
        """The answer, flagged if need be. Raises DocumentError when it is to fail."""
        similarity = self.similarity(answer.text, _source(document))
        if similarity is None or similarity >= self._min_similarity:
            return answer
        if self._action == "fail":
            raise DocumentError(
                OFF_SOURCE,
                f"the answer is not about the document: similarity {similarity:.2f}, below "
                f"filter.source_check.min_similarity ({self._min_similarity:g})",
            )
        return replace(answer, flags=(*answer.flags, OFF_SOURCE))

    def similarity(self, answer: str, source: str) -> float | None:
        """-1 to 1; None when there is nothing to compare."""
        texts, sources = passages(answer), spread(passages(source), MAX_PASSAGES)
        if not texts or not sources:
            return None
        nearest = self._encoder.similarities(texts, sources)
        weights = [len(text) for text in texts]
        return sum(value * weight for value, weight in zip(nearest, weights, strict=True)) / sum(weights)


def passages(text: str) -> list[str]:
    """Sentences and lines, put together up to PASSAGE_CHARS; longer ones are cut."""
    found: list[str] = []
    for sentence in filter(None, map(str.strip, _SENTENCE.split(text))):
        for start in range(0, len(sentence), PASSAGE_CHARS):
            piece = sentence[start : start + PASSAGE_CHARS]
            if found and len(found[-1]) + len(piece) < PASSAGE_CHARS:
                found[-1] += f" {piece}"
            else:
                found.append(piece)
    return found


def spread(items: list[str], limit: int) -> list[str]:
    """At most `limit` of the items, evenly spread."""
    return items if len(items) <= limit else [items[index * len(items) // limit] for index in range(limit)]


def _source(document: CleanDocument) -> str:
    return document.text or "\n".join(message.content for message in document.messages)
