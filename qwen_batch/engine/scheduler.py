"""What runs in the next step.

Sequences that decode come first, one token each; what is left of max_num_batched_tokens goes to prefills, the running
ones before new ones (Sarathi-Serve's mixed steps, Agrawal et al. 2024). New ones come in the order of the waiting queue
(engine/queue.py). One is admitted when the blocks that it and all running sequences may still need are there, so that
preemption is the exception; when memory runs out all the same, the sequence that came last gives its blocks back and is
computed again later.
"""

from __future__ import annotations

from dataclasses import dataclass

from qwen_batch.engine.block_manager import BlockManager
from qwen_batch.engine.estimate import OutputEstimator
from qwen_batch.engine.queue import Bucket, Hashes, Picks, WaitingQueue, bucket_of
from qwen_batch.engine.sequence import Sequence

ENOUGH_SEQS = 8  # the rows of a tile of products


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
        self,
        blocks: BlockManager,
        *,
        max_num_seqs: int,
        max_num_batched_tokens: int,
        output_reserve: float,
        enough_blocks: int | None = None,
    ) -> None:
        self._blocks = blocks
        self.max_num_seqs = max_num_seqs
        self.max_num_batched_tokens = max_num_batched_tokens
        self._output_reserve = output_reserve  # share of the answers for whose length admission keeps blocks
        self._enough_blocks = enough_blocks  # with so many in use, no more than ENOUGH_SEQS sequences begin
        self._estimator = OutputEstimator()
        self._next_rebucket = 8  # answers learned
        self._waiting = WaitingQueue()
        self._prefilling: dict[Sequence, Hashes] = {}  # running -> its blocks in `_in_flight`
        self._in_flight: dict[int, Sequence] = {}  # chain hash of a block -> the running sequence that computes it
        self.running: list[Sequence] = []  # in order of admission
        self.started: list[Sequence] = []  # in the step that was scheduled last
        self.num_preemptions = 0
        self.num_recomputed_tokens = 0  # had been computed before a preemption
        self.max_num_running = 0

    @property
    def num_waiting(self) -> int:
        return len(self._waiting)

    @property
    def may_preempt(self) -> bool:
        """Whether the running sequences' next pieces may not all find room without what is held for waiting ones."""
        wanted = ((s, min(s.num_uncomputed_tokens, self.max_num_batched_tokens)) for s in self.running)
        return sum(self._blocks.missing(*pair) for pair in wanted) > self._blocks.num_available

    @property
    def wants_more(self) -> bool:
        """Whether planning is helped by more requests: up to the look-ahead, two batches, and all that memory holds."""
        return self._waiting.has_room(2 * self.max_num_seqs, self._blocks.num_blocks * self._blocks.block_size)

    def add(self, sequence: Sequence) -> None:
        hashes = sequence.hashes(self._blocks.block_size) if self._blocks.shares_prefixes else ()
        sequence.block_hashes = hashes
        self._waiting.add(sequence, hashes, self._bucket(sequence))

    def schedule(self) -> list[Piece]:
        """Pieces of the next step, with room for their tokens. Empty only when nothing waits or runs."""
        pieces: dict[Sequence, Piece] = {}
        self.started = []
        budget, preemptions = self.max_num_batched_tokens, self.num_preemptions
        size = self._blocks.block_size
        for sequence in sorted(self.running, key=_is_prefilling):
            num_tokens = min(len(sequence.token_ids) - sequence.num_computed_tokens, budget)
            if not num_tokens or not sequence.block_table:  # no block table: preempted in this step
                continue
            if sequence.num_computed_tokens + num_tokens > size * len(sequence.block_table):
                freed = self._make_room(sequence, num_tokens, pieces)
                if freed is None:
                    continue
                budget += freed
                self._blocks.grow(sequence, num_tokens)
            pieces[sequence] = Piece(sequence, num_tokens)
            budget -= num_tokens
        if self.num_preemptions == preemptions:  # what was just taken out must not come back in the same step
            self._admit(pieces, budget)
        self.max_num_running = max(self.max_num_running, len(self.running))
        return list(pieces.values())

    def finish(self, sequence: Sequence) -> None:
        """Take a sequence out that has its answer, and learn from its length."""
        self.running.remove(sequence)
        self._release(sequence)
        if sequence.num_output_tokens:
            self._estimator.learn(sequence.request, sequence.num_output_tokens)
        if self._estimator.num_learned >= self._next_rebucket:
            self._next_rebucket *= 2
            self._waiting.rebucket(self._bucket)

    def preempt_all(self) -> None:
        """Let every running sequence give its blocks back and wait; they go first when there is room again."""
        for sequence in reversed(self.running[:]):
            self._preempt(sequence)

    def drop_all(self) -> None:
        """Take everything out, finished or not."""
        for _ in self._waiting.drain():
            pass
        for sequence in self.running:
            self._release(sequence)
        self.running.clear()
        self._blocks.unhold_all()

    def _make_room(self, sequence: Sequence, num_tokens: int, pieces: dict[Sequence, Piece]) -> int | None:
        """Make the tokens fit: first by what is held for waiting ones, then by preempting from the end of the running.

        Returns the tokens that others had in this step and have no more; None when the sequence itself had to go.
        """
        freed = 0
        while not self._blocks.can_grow(sequence, num_tokens):
            if self._blocks.unhold_all():
                continue
            victim = min(reversed(self.running), key=lambda s: s.request.priority)
            self._preempt(victim)
            if victim in pieces:
                freed += pieces.pop(victim).num_tokens
            if victim is sequence:
                return None
        return freed

    def _preempt(self, sequence: Sequence) -> None:
        self.running.remove(sequence)
        sequence.num_lost_tokens = sequence.num_computed_tokens
        self._release(sequence)
        sequence.num_preemptions += 1
        self.num_preemptions += 1
        self._waiting.resume(sequence)

    def _release(self, sequence: Sequence) -> None:
        hashes = sequence.block_hashes or ()
        if sequence in self._prefilling:
            self._forget_in_flight(sequence)
        self._blocks.release(sequence, self._waiting.num_wanted(hashes))

    def _admit(self, pieces: dict[Sequence, Piece], budget: int) -> None:
        if budget <= 0 or len(self.running) >= self.max_num_seqs or not self._waiting:
            return
        self._note_prefilled()
        promised = sum(self._still_needed(sequence) for sequence in self.running)
        picks = Picks(self._waiting, self._is_in_flight)
        while budget > 0 and len(self.running) < self.max_num_seqs and not self._is_enough(promised):
            may_open = 2 * (self._blocks.num_available - promised) >= self._blocks.num_blocks
            sequence = picks.next(may_open)
            if sequence is None:
                return
            needed = self._try(sequence, promised)
            if needed is not None:
                num_tokens = min(sequence.num_uncomputed_tokens, budget)
                self._run(sequence, num_tokens, pieces)
                promised += self._still_needed(sequence)
                budget -= num_tokens
            elif not picks.pass_over(sequence):
                return

    def _is_enough(self, promised: int) -> bool:
        if self._enough_blocks is None or len(self.running) < ENOUGH_SEQS:
            return False
        return self._blocks.num_blocks - self._blocks.num_available + promised >= self._enough_blocks

    def _try(self, sequence: Sequence, promised: int) -> int | None:
        """Give it the blocks of its prefix and return how many more it may need; None when they are not there."""
        blocks = self._blocks
        blocks.start(sequence)
        reserve = self._estimator.enough(sequence.request, self._output_reserve)
        sequence.reserved_tokens = sequence.num_prompt_tokens + reserve
        needed = self._still_needed(sequence)
        if promised + needed <= blocks.num_available:
            return needed
        if not self.running and blocks.unhold_all():  # nothing will come free but what is held for others
            return needed
        blocks.release(sequence, self._waiting.num_wanted(sequence.block_hashes or ()))
        return None

    def _run(self, sequence: Sequence, num_tokens: int, pieces: dict[Sequence, Piece]) -> None:
        self._waiting.take(sequence)
        hashes = sequence.block_hashes or ()
        self._blocks.unhold(hashes[self._waiting.num_wanted(hashes) :])
        if sequence.num_preemptions:
            self.num_recomputed_tokens += max(0, sequence.num_lost_tokens - sequence.num_computed_tokens)
        else:
            sequence.num_cached_tokens = sequence.num_computed_tokens
        computed = hashes[sequence.num_computed_tokens // self._blocks.block_size :]
        if computed:
            self._prefilling[sequence] = computed
            self._in_flight.update(dict.fromkeys(computed, sequence))
        self._blocks.grow(sequence, num_tokens)
        self.running.append(sequence)
        self.started.append(sequence)
        pieces[sequence] = Piece(sequence, num_tokens)

    def _still_needed(self, sequence: Sequence) -> int:
        """Blocks that the sequence may still ask for, by its prompt and the reserve for its output."""
        length = len(sequence.token_ids)
        if length > sequence.reserved_tokens:  # it has outgrown what was expected: it may need all that it asked for
            asked = sequence.request.sampling.max_tokens if self._output_reserve else 0
            sequence.reserved_tokens = max(length, sequence.num_prompt_tokens + asked)
        return max(0, self._blocks.blocks_for(sequence.reserved_tokens) - len(sequence.block_table))

    def _bucket(self, sequence: Sequence) -> Bucket:
        return bucket_of(self._estimator.expected(sequence.request), sequence.num_prompt_tokens)

    def _is_in_flight(self, hashes: Hashes, start: int, end: int) -> bool:
        """Whether one of hashes[start:end] is being computed: another that begins with it does well to wait for it.

        What is computed can be had when it is shared, which is when its step has landed.
        """
        if self._in_flight.keys().isdisjoint(hashes[start:end]):
            return False
        for index in range(start, end):
            owner = self._in_flight.get(hashes[index])
            if owner is not None and len(owner.nodes) <= index:
                return True
        return False

    def _note_prefilled(self) -> None:
        done = [s for s in self._prefilling if len(s.nodes) >= len(s.block_hashes or ())]
        for sequence in done:
            self._forget_in_flight(sequence)

    def _forget_in_flight(self, sequence: Sequence) -> None:
        for chain in self._prefilling.pop(sequence):
            if self._in_flight.get(chain) is sequence:
                del self._in_flight[chain]


def _is_prefilling(sequence: Sequence) -> bool:
    return len(sequence.token_ids) - sequence.num_computed_tokens > 1
