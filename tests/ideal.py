"""What the best plan computes."""

from __future__ import annotations

from collections.abc import Iterable

from qwen_batch.engine.sequence import Sequence
from qwen_batch.records import Request


def ideal_tokens(requests: Iterable[Request], block: int) -> int:
    """Each block that prompts share once, everything else of each prompt, and all of the answers but their ends."""
    seen: set[int] = set()
    total = 0
    for one in requests:
        own = Sequence(one, None).hashes(block)[: (len(one.prompt_token_ids) - 1) // block]
        total += len(one.prompt_token_ids) - block * sum(chain in seen for chain in own)
        total += one.sampling.max_tokens - 1
        seen.update(own)
    return total
