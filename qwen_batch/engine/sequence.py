"""A request while it is in the engine."""

from __future__ import annotations

from collections.abc import Sequence as Tokens
from typing import Protocol

from qwen_batch.engine.prefix_tree import Node
from qwen_batch.records import Completion, Request

# Stands for a token that the device has computed and the host has not read yet; at most the last one of a sequence.
PENDING = -1


class TokenStream(Protocol):
    """Incremental detokenisation."""

    def push(self, token_id: int) -> str: ...


class Sequence:
    """Tokens of one request, what of them is computed, and where their keys and values stand.

    `block_table` holds first the blocks of `nodes` (shared, in the prefix tree), then blocks of its own.
    """

    __slots__ = (
        "block_hashes",
        "block_table",
        "is_finished",
        "nodes",
        "num_cached_tokens",
        "num_computed_tokens",
        "num_preemptions",
        "num_prompt_tokens",
        "request",
        "stream",
        "stream_text",
        "token_ids",
    )

    def __init__(self, request: Request, stream: TokenStream | None) -> None:
        self.request = request
        self.token_ids: list[int] = list(request.prompt_token_ids)
        self.num_prompt_tokens = len(self.token_ids)
        self.num_computed_tokens = 0
        self.num_cached_tokens = 0  # of the prompt, found in the prefix tree at first admission
        self.num_preemptions = 0
        self.is_finished = False
        self.block_table: list[int] = []
        self.nodes: list[Node] = []
        self.block_hashes: tuple[int, ...] | None = None  # of the prompt's full blocks, made when first asked
        self.stream = stream  # only for requests with stop strings
        self.stream_text = ""

    def __repr__(self) -> str:
        return f"Sequence({self.request.request_id!r}, {self.num_computed_tokens}/{len(self.token_ids)} computed)"

    @property
    def num_uncomputed_tokens(self) -> int:
        return len(self.token_ids) - self.num_computed_tokens

    @property
    def is_prefilling(self) -> bool:
        """More than the token that was sampled last is still to be computed."""
        return self.num_uncomputed_tokens > 1

    @property
    def output_ids(self) -> list[int]:
        return self.token_ids[self.num_prompt_tokens :]

    @property
    def num_output_tokens(self) -> int:
        return len(self.token_ids) - self.num_prompt_tokens

    def hashes(self, block_size: int) -> tuple[int, ...]:
        """Chain hash of each full block of the prompt: equal hashes mean (almost surely) equal prefixes."""
        if self.block_hashes is None:
            self.block_hashes = tuple(_chain_hashes(self.token_ids[: self.num_prompt_tokens], block_size))
        return self.block_hashes


def _chain_hashes(tokens: Tokens[int], block_size: int) -> list[int]:
    hashes, chain = [], 0
    for start in range(0, len(tokens) - block_size + 1, block_size):
        chain = hash((chain, *tokens[start : start + block_size]))
        hashes.append(chain)
    return hashes


def failed(request: Request, error_type: str, error: str) -> Completion:
    """The completion of a request that cannot be run."""
    return Completion(
        request_id=request.request_id,
        token_ids=(),
        text="",
        finish_reason="error",
        num_prompt_tokens=len(request.prompt_token_ids),
        error_type=error_type,
        error=error,
    )
