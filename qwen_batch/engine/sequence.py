"""A request while it is in the engine."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Protocol

from qwen_batch.engine.prefix_tree import Node
from qwen_batch.records import Completion, Request

if TYPE_CHECKING:
    from qwen_batch.engine.queue import Group

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
        "_block_keys",
        "arrival",
        "block_hashes",
        "block_table",
        "bucket",
        "group",
        "is_finished",
        "nodes",
        "num_cached_tokens",
        "num_computed_tokens",
        "num_failures",
        "num_lost_tokens",
        "num_preemptions",
        "num_prompt_tokens",
        "request",
        "reserved_tokens",
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
        self.num_lost_tokens = 0  # that were computed when it was preempted last
        self.reserved_tokens = 0  # prompt and answer for which admission kept blocks
        self.num_failures = 0  # steps that it had to itself and that failed
        self.is_finished = False
        self.block_table: list[int] = []
        self.nodes: list[Node] = []
        self._block_keys: list[bytes] = []
        self.block_hashes: tuple[int, ...] | None = None  # of the prompt's full blocks, made when first asked
        self.arrival = 0  # number in its level, and below, its place: the waiting queue's own
        self.group: Group | None = None
        self.bucket = (0, 0)
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

    def block_keys(self, block_size: int, num_blocks: int) -> list[bytes]:
        """Tokens of (at least) the first `num_blocks` blocks, each as bytes; all of them must be full."""
        keys = self._block_keys
        if len(keys) < num_blocks:
            tokens = array("i", self.token_ids[len(keys) * block_size : num_blocks * block_size])
            width, raw = tokens.itemsize * block_size, tokens.tobytes()
            keys += [raw[at : at + width] for at in range(0, len(raw), width)]
        return keys

    def hashes(self, block_size: int) -> tuple[int, ...]:
        """Chain hash of each full block of the prompt: equal hashes mean (almost surely) equal prefixes."""
        if self.block_hashes is None:
            hashes, chain = [], 0
            for key in self.block_keys(block_size, self.num_prompt_tokens // block_size):
                chain = hash((chain, key))
                hashes.append(chain)
            self.block_hashes = tuple(hashes)
        return self.block_hashes


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
