"""Synthetic requests: the same seed gives the same token ids, on any machine."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Workload:
    """Prompts of random lengths, and answers of one forced length."""

    num_requests: int = 64
    min_prompt_tokens: int = 100
    max_prompt_tokens: int = 1000
    output_tokens: int = 48
    seed: int = 0

    def prompts(self, vocab_size: int) -> list[list[int]]:
        """Token ids drawn evenly from the vocabulary; the speed of a dense model does not depend on which they are."""
        draw = random.Random(self.seed)
        lengths = [draw.randint(self.min_prompt_tokens, self.max_prompt_tokens) for _ in range(self.num_requests)]
        return [[draw.randrange(vocab_size) for _ in range(length)] for length in lengths]
