"""What is measured: requests as token ids with a forced length of the answer. The same seed gives the same requests.

    seed       64 requests of 256 tokens, 128 out
    tickets    256 requests: one prompt of 180 tokens, a body of 30 to 250, 48 out
    contracts  64 requests: one instruction of 200 tokens, a body of 100 to 3,000 with a long tail, 96 out
    uniform    64 requests of 100 to 1,000 tokens, 48 out; the command line can change its lengths

or a JSONL file, a request a line: {"prompt_token_ids": [...]}, {"text": "..."} or {"messages": [...]}, each with an
optional "max_tokens". Every round has other texts of the same lengths, so that no engine can live on a round before.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from qwen_batch.bench.prose import token_ids
from qwen_batch.errors import UsageError
from qwen_batch.model.config import ModelConfig
from qwen_batch.model.tokenizer import ChatTokenizer
from qwen_batch.records import Message

FILE_OUTPUT_TOKENS = 96  # of a request in a file that names no max_tokens


@dataclass(frozen=True, slots=True)
class BenchRequest:
    """One request of a workload."""

    prompt_token_ids: tuple[int, ...]
    output_tokens: int  # forced: the end token does not end it
    where: str = field(default="", compare=False)  # FILE:LINE

    def check(self, config: ModelConfig) -> None:
        """Raises UsageError where this model cannot answer it."""
        where = self.where or "the workload"
        unknown = next((token for token in self.prompt_token_ids if not 0 <= token < config.vocab_size), None)
        if unknown is not None:
            raise UsageError(
                f"{where}: token id {unknown:,} is not in the model's vocabulary, whose last is "
                f"{config.vocab_size - 1:,}; encode the prompt with this model's tokenizer, or give its text"
            )
        length = len(self.prompt_token_ids)
        if length + self.output_tokens > config.window:
            raise UsageError(
                f"{where}: {length:,} prompt tokens and {self.output_tokens:,} for the answer are more than the "
                f"model's window of {config.window:,}; shorten the prompt, or lower max_tokens"
            )


@dataclass(frozen=True, slots=True)
class Workload:
    """Requests by their lengths. `tail` 0: bodies are drawn evenly; 1: evenly in their logarithm, a long tail."""

    name: str
    num_requests: int
    shared_tokens: int
    min_body_tokens: int
    max_body_tokens: int
    output_tokens: int
    tail: bool = False

    def requests(self, tokenizer: ChatTokenizer, seed: int, number: int) -> list[BenchRequest]:
        """Those of round `number`. Lengths depend on the seed alone, texts on the round too."""
        draw = random.Random(f"{self.name} {seed} {number}")
        shared = token_ids(tokenizer.encode, self.shared_tokens, draw, f"Instruction {draw.randint(10_000, 99_999)}.\n")
        return [
            BenchRequest((*shared, *self._body(tokenizer, length, draw)), self.output_tokens)
            for length in self.body_lengths(seed)
        ]

    def body_lengths(self, seed: int) -> list[int]:
        """One from each of `num_requests` equal shares of the distribution, so that few requests are like many."""
        draw = random.Random(f"{self.name} {seed} lengths")
        places = [(index + draw.random()) / self.num_requests for index in range(self.num_requests)]
        draw.shuffle(places)
        low, high = self.min_body_tokens, self.max_body_tokens
        if self.tail:
            return [round(low * (high / low) ** place) for place in places]
        return [low + int(place * (high - low + 1)) for place in places]

    def _body(self, tokenizer: ChatTokenizer, length: int, draw: random.Random) -> list[int]:
        return token_ids(tokenizer.encode, length, draw, f"{draw.randint(10_000, 99_999)} is its number.\n\n")


@dataclass(frozen=True, slots=True)
class FileWorkload:
    """The first `num_requests` requests of a JSONL file; every round has the same."""

    name: str  # the path
    num_requests: int

    def requests(self, tokenizer: ChatTokenizer, seed: int, number: int) -> list[BenchRequest]:
        """Raises UsageError with the line that cannot be used."""
        found: list[BenchRequest] = []
        try:
            with Path(self.name).open(encoding="utf-8-sig", newline="\n") as file:
                for line_number, line in enumerate(file, 1):
                    if len(found) == self.num_requests:
                        break
                    if line.strip():
                        found.append(_parse_line(line, tokenizer, f"{self.name}:{line_number}"))
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{self.name}: cannot be read: {error}") from None
        if not found:
            raise UsageError(f"{self.name}: holds no request; a line is {_FORMS}")
        return found


AnyWorkload = Workload | FileWorkload
WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload("seed", 64, 0, 256, 256, 128),
        Workload("tickets", 256, 180, 30, 250, 48),
        Workload("contracts", 64, 200, 100, 3000, 96, tail=True),
        Workload("uniform", 64, 0, 100, 1000, 48),
    )
}
_FORMS = '{"prompt_token_ids": [...]}, {"text": "..."} or {"messages": [...]}, with an optional "max_tokens"'


def find_workload(name: str, num_requests: int | None, lengths: Mapping[str, int | None]) -> AnyWorkload:
    """A workload by its name, or of a JSONL file, with at most `num_requests`; `lengths` are fields of `uniform`.

    Raises UsageError for a name that is neither, and for lengths that cannot be.
    """
    known = WORKLOADS.get(name)
    if known is None:
        if name.endswith((".jsonl", ".json")) or Path(name).is_file():
            return FileWorkload(name, num_requests or 1 << 30)
        raise UsageError(f"--workload {name}: unknown; known: {', '.join(WORKLOADS)}, or a JSONL file")
    count = min(num_requests or known.num_requests, known.num_requests)
    changed: dict[str, Any] = {key: value for key, value in lengths.items() if value is not None}
    if changed and name != "uniform":
        raise UsageError(f"--workload {name}: its lengths are fixed; give lengths with --workload uniform")
    asked = replace(known, num_requests=count, **changed)
    if asked.max_body_tokens < asked.min_body_tokens:
        raise UsageError(f"--max-tokens {asked.max_body_tokens} is below --min-tokens {asked.min_body_tokens}")
    return asked


def _parse_line(line: str, tokenizer: ChatTokenizer, where: str) -> BenchRequest:
    try:
        record = json.loads(line)
        prompt = _prompt(record, tokenizer)
        output_tokens = int(record.get("max_tokens", FILE_OUTPUT_TOKENS))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UsageError(f"{where}: is no request; a line is {_FORMS}") from None
    if not prompt or output_tokens < 1:
        raise UsageError(f"{where}: a request has at least one token in and one out")
    return BenchRequest(tuple(prompt), output_tokens, where)


def _prompt(record: Mapping[str, Any], tokenizer: ChatTokenizer) -> Sequence[int]:
    if "prompt_token_ids" in record:
        return [int(token) for token in record["prompt_token_ids"]]
    if "messages" in record:
        messages = [Message(str(turn["role"]), str(turn["content"])) for turn in record["messages"]]
        return tokenizer.encode_chat(messages, False)
    encode: Callable[[str], list[int]] = tokenizer.encode
    return encode(record["text"])
