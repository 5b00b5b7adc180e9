"""What runs in the next step.

Sequences that decode come first, one token each; what is left of max_num_batched_tokens goes to prefills, the running
ones before new ones (Sarathi-Serve's mixed steps, Agrawal et al. 2024). A new sequence is admitted when the blocks that
it and all running sequences may still need are there, so that preemption is the exception; when memory runs out all
the same, the sequence that came last gives its blocks back and is computed again later.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from qwen_batch.engine.block_manager import BlockManager
from qwen_batch.engine.sequence import Sequence

# Waiting sequences that one step looks past when those in front have to wait for a prefix.
LOOKAHEAD = 256


@dataclass(frozen=True, slots=True)
class Piece:
    """The next `num_tokens` tokens of a sequence, to be computed in one step."""

    sequence: Sequence
    num_tokens: int

    @property
    def reaches_end(self) -> bool:
        """Whether the step computes the sequence's last token, so that its logits are wanted."""
        return self.num_tokens == self.sequence.num_uncomputed_tokens


class Scheduler:
    """Holds the waiting and the running sequences."""

    def __init__(
        self, blocks: BlockManager, *, max_num_seqs: int, max_num_batched_tokens: int, output_reserve: float
    ) -> None:
        self._blocks = blocks
        self.max_num_seqs = max_num_seqs
        self.max_num_batched_tokens = max_num_batched_tokens
        self._output_reserve = output_reserve  # share of max_tokens for which admission keeps blocks
        self._waiting: list[tuple[int, int, Sequence]] = []  # heap of (-priority, order, sequence)
        self._num_added = 0
        self.running: list[Sequence] = []  # in order of admission
        self.num_preemptions = 0

    @property
    def num_waiting(self) -> int:
        return len(self._waiting)

    @property
    def may_preempt(self) -> bool:
        """Whether the running sequences' next pieces may not all find room."""
        wanted = ((s, min(s.num_uncomputed_tokens, self.max_num_batched_tokens)) for s in self.running)
        return sum(self._blocks.missing(*pair) for pair in wanted) > self._blocks.num_available

    def add(self, sequence: Sequence) -> None:
        self._num_added += 1
        heapq.heappush(self._waiting, (-sequence.request.priority, self._num_added, sequence))

    def schedule(self) -> list[Piece]:
        """Pieces of the next step, with room for their tokens. Empty only when nothing waits or runs."""
        pieces: dict[Sequence, Piece] = {}
        budget, preemptions = self.max_num_batched_tokens, self.num_preemptions
        for sequence in sorted(self.running, key=lambda s: s.is_prefilling):
            num_tokens = min(sequence.num_uncomputed_tokens, budget)
            was_preempted = not sequence.block_table
            if num_tokens and not was_preempted and self._make_room(sequence, num_tokens, pieces):
                self._blocks.grow(sequence, num_tokens)
                pieces[sequence] = Piece(sequence, num_tokens)
                budget = self.max_num_batched_tokens - sum(piece.num_tokens for piece in pieces.values())
        if self.num_preemptions == preemptions:  # what was just taken out must not come back in the same step
            self._admit(pieces, budget)
        return list(pieces.values())

    def finish(self, sequence: Sequence) -> None:
        self.running.remove(sequence)
        self._blocks.release(sequence)

    def preempt_all(self) -> None:
        """Let every running sequence give its blocks back and wait; they go first when there is room again."""
        for sequence in reversed(self.running[:]):
            self._preempt(sequence)

    def drop_all(self) -> list[Sequence]:
        """Take everything out, finished or not."""
        dropped = [*self.running, *(sequence for _, _, sequence in self._waiting)]
        for sequence in list(self.running):
            self.finish(sequence)
        self._waiting.clear()
        return dropped

    def _make_room(self, sequence: Sequence, num_tokens: int, pieces: dict[Sequence, Piece]) -> bool:
        """Preempt from the end of the running ones until the tokens fit; False when the sequence itself had to go."""
        while not self._blocks.can_grow(sequence, num_tokens):
            victim = min(reversed(self.running), key=lambda s: s.request.priority)
            self._preempt(victim)
            pieces.pop(victim, None)
            if victim is sequence:
                return False
        return True

    def _preempt(self, sequence: Sequence) -> None:
        self.running.remove(sequence)
        self._blocks.release(sequence)
        sequence.num_preemptions += 1
        self.num_preemptions += 1
        # Order 0: before all that have not run yet, among those of its priority.
        heapq.heappush(self._waiting, (-sequence.request.priority, -self.num_preemptions, sequence))

    def _admit(self, pieces: dict[Sequence, Piece], budget: int) -> None:
        promised = sum(self._still_needed(sequence) for sequence in self.running)
        in_flight = {h for sequence in self.running for h in self._unshared_hashes(sequence)}
        put_back: list[tuple[int, int, Sequence]] = []
        while self._waiting and budget > 0 and len(self.running) < self.max_num_seqs and len(put_back) < LOOKAHEAD:
            entry = heapq.heappop(self._waiting)
            sequence = entry[2]
            self._blocks.start(sequence)
            if self._next_hash(sequence) in in_flight:
                self._blocks.release(sequence)
                put_back.append(entry)
                continue
            needed = self._still_needed(sequence)
            num_tokens = min(sequence.num_uncomputed_tokens, budget)
            if promised + needed > self._blocks.num_available or not self._blocks.can_grow(sequence, num_tokens):
                self._blocks.release(sequence)
                put_back.append(entry)
                break
            self._run(sequence, num_tokens, pieces)
            promised += self._still_needed(sequence)
            in_flight.update(self._unshared_hashes(sequence))
            budget -= num_tokens
        for entry in put_back:
            heapq.heappush(self._waiting, entry)

    def _run(self, sequence: Sequence, num_tokens: int, pieces: dict[Sequence, Piece]) -> None:
        if not sequence.num_preemptions:
            sequence.num_cached_tokens = sequence.num_computed_tokens
        self._blocks.grow(sequence, num_tokens)
        self.running.append(sequence)
        pieces[sequence] = Piece(sequence, num_tokens)

    def _still_needed(self, sequence: Sequence) -> int:
        """Blocks that the sequence may still ask for, by its prompt and the reserve for its output."""
        reserve = int(self._output_reserve * sequence.request.sampling.max_tokens)
        expected = max(sequence.num_prompt_tokens + reserve, len(sequence.token_ids))
        return max(0, self._blocks.blocks_for(expected) - len(sequence.block_table))

    def _unshared_hashes(self, sequence: Sequence) -> tuple[int, ...]:
        """Prefixes that the sequence is about to share: another that begins with one does well to wait for it."""
        if not self._blocks.shares_prefixes:
            return ()
        return sequence.hashes(self._blocks.block_size)[len(sequence.nodes) :]

    def _next_hash(self, sequence: Sequence) -> int | None:
        size = self._blocks.block_size
        index = sequence.num_computed_tokens // size
        hashes = sequence.hashes(size) if self._blocks.shares_prefixes else ()
        return hashes[index] if index < len(hashes) else None
