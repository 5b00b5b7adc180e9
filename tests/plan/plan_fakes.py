"""A small deterministic tokenizer whose counts do not add up, and shorthands for plan's inputs."""

from __future__ import annotations

import re
import zlib
from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import accumulate

from qwen_batch.job import Job
from qwen_batch.plan.tokens import iter_sections
from qwen_batch.records import CleanDocument, CleanPage, Completion, Message, Request

_PIECE = re.compile(r" ?[A-Za-z]+|\d|\n+|\s+|[^\sA-Za-z\d]", re.ASCII)


class FakeTokenizer:
    """Words with their leading space in steps of four characters, digits one by one, other characters as two bytes.

    Like byte-level BPE: cutting a text inside a word changes how the rest is merged, and characters outside of ASCII
    are several tokens with the same offsets.
    """

    def __init__(self) -> None:
        self.num_encoded_chars = 0

    def encode(self, text: str) -> list[int]:
        return self.encode_with_offsets(text)[0]

    def encode_with_offsets(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        self.num_encoded_chars += len(text)
        ids: list[int] = []
        offsets: list[tuple[int, int]] = []
        for match in _PIECE.finditer(text):
            for start in range(match.start(), match.end(), 4):
                end = min(start + 4, match.end())
                for copy in range(1 if text[start:end].isascii() else 2):
                    ids.append(zlib.crc32(f"{copy}{text[start:end]}".encode()))
                    offsets.append((start, end))
        return ids, offsets

    def encode_text(self, text: str, tick: Callable[[int], None] = lambda done: None) -> FakeEncodedText:
        return FakeEncodedText(self, text, tick)

    def encode_chat(self, messages: Sequence[Message], thinking: bool) -> list[int]:
        turns = "".join(f"<|{message.role}|>\n{message.content}<|end|>\n" for message in messages)
        return self.encode(turns + ("<|assistant|>\n" if thinking else "<|assistant|>\n<think>\n\n</think>\n\n"))

    def encode_chats(self, chats: Sequence[Sequence[Message]], thinking: bool) -> list[list[int]]:
        return [self.encode_chat(messages, thinking) for messages in chats]


class FakeEncodedText:
    """Places by section; every part is encoded anew."""

    def __init__(self, tokenizer: FakeTokenizer, text: str, tick: Callable[[int], None]) -> None:
        self._tokenizer = tokenizer
        self._text = text
        self._starts: list[int] = []
        self._first = 0
        for begin, end in iter_sections(text):
            offsets = tokenizer.encode_with_offsets(text[begin:end])[1]
            self._starts += accumulate((begin + start for start, _ in offsets), max)
            tick(end)

    @property
    def num_tokens(self) -> int:
        return len(self._starts)

    def token_at(self, offset: int) -> int:
        return bisect_left(self._starts, offset)

    def start_of(self, token: int) -> int:
        return self._starts[token] if token < len(self._starts) else len(self._text)

    def count(self, start: int, end: int) -> int:
        return len(self._tokenizer.encode(self._text[start:end]))

    def encode_chat(self, messages: Sequence[Message], thinking: bool, start: int, end: int) -> list[int]:
        assert self._first <= start
        assert self._text[start:end] in messages[-1].content
        return self._tokenizer.encode_chat(messages, thinking)

    def forget(self, offset: int) -> None:
        self._first = offset


class WildTokenizer(FakeTokenizer):
    """Sums are useless: a text costs up to twice as much when it stands alone, depending on its characters."""

    def encode_with_offsets(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        ids, offsets = super().encode_with_offsets(text)
        extra = len(ids) // 2 * (zlib.crc32(text.encode()) % 3)
        return ids + [0] * extra, offsets + [(len(text), len(text))] * extra


def make_job(**sections: object) -> Job:
    prompt = {"question": "List the parties and the dates."}
    return Job.model_validate({"name": "test", "model": {"name": "demo"}, "prompt": prompt, **sections})


def make_document(text: str = "", **fields: object) -> CleanDocument:
    return CleanDocument(**{"doc_id": "a.pdf", "source": "in/a.pdf", "content_sha256": "00", "text": text, **fields})


def paged_document(texts: Sequence[str], separator: str = "\n\n") -> CleanDocument:
    pages = tuple(CleanPage(number, text) for number, text in enumerate(texts, start=1))
    starts, offset = [], 0
    for text in texts:
        starts.append(offset)
        offset += len(text) + len(separator)
    return make_document(separator.join(texts), pages=pages, page_starts=tuple(starts))


def complete(request: Request, text: str = "a note", **fields: object) -> Completion:
    return Completion(
        **{
            "request_id": request.request_id,
            "token_ids": (1, 2, 3),
            "text": text,
            "finish_reason": "stop",
            "num_prompt_tokens": len(request.prompt_token_ids),
            "num_cached_tokens": 1,
            **fields,
        }
    )
