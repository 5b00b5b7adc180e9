"""Blocks are neither lost nor held twice, whatever the history."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from qwen_batch.engine.block_manager import BlockManager
from qwen_batch.engine.scheduler import Scheduler
from qwen_batch.engine.sequence import Sequence
from qwen_batch.records import Request, SamplingParams

BLOCK_SIZE = 4


def make_sequence(tokens: list[int], *, max_tokens: int = 8, priority: int = 0, name: str = "r") -> Sequence:
    return Sequence(Request(name, tokens, SamplingParams(max_tokens=max_tokens), priority), None)


class BlockHistories(RuleBasedStateMachine):
    """Starts, grows, shares and releases sequences in any order; what stands in each slot is kept beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = BlockManager(20, BLOCK_SIZE)
        self.sequences: list[Sequence] = []
        self.written: dict[int, tuple[int, ...]] = {}  # slot -> the tokens up to and with the one computed there

    @rule(tokens=st.lists(st.integers(0, 1), min_size=1, max_size=24))
    def start(self, tokens: list[int]) -> None:
        sequence = make_sequence(tokens)
        self.blocks.start(sequence)
        self.sequences.append(sequence)

    @precondition(lambda self: self.sequences)
    @rule(data=st.data(), num_tokens=st.integers(1, 9))
    def compute(self, data: st.DataObject, num_tokens: int) -> None:
        sequence = data.draw(st.sampled_from(self.sequences))
        num_tokens = min(num_tokens, sequence.num_uncomputed_tokens)
        if not num_tokens or not self.blocks.can_grow(sequence, num_tokens):
            return
        self.blocks.grow(sequence, num_tokens)
        start = sequence.num_computed_tokens
        for at in range(start, start + num_tokens):
            slot = sequence.block_table[at // BLOCK_SIZE] * BLOCK_SIZE + at % BLOCK_SIZE
            self.written[slot] = tuple(sequence.token_ids[: at + 1])
        sequence.num_computed_tokens += num_tokens
        self.blocks.share(sequence)
        if not sequence.num_uncomputed_tokens:
            sequence.token_ids.append(data.draw(st.integers(0, 1)))

    @precondition(lambda self: self.sequences)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        sequence = data.draw(st.sampled_from(self.sequences))
        self.sequences.remove(sequence)
        self.blocks.release(sequence)

    @invariant()
    def every_block_is_in_one_place(self) -> None:
        self.blocks.check(self.sequences)

    @invariant()
    def computed_tokens_are_where_the_table_says(self) -> None:
        for sequence in self.sequences:
            for at in range(sequence.num_computed_tokens):
                slot = sequence.block_table[at // BLOCK_SIZE] * BLOCK_SIZE + at % BLOCK_SIZE
                assert self.written[slot] == tuple(sequence.token_ids[: at + 1])

    def teardown(self) -> None:
        for sequence in self.sequences:
            self.blocks.release(sequence)
        self.blocks.check([])
        assert self.blocks.num_available == self.blocks.num_blocks


class FewIdleHistories(BlockHistories):
    """With blocks of unused branches taken again before fresh ones."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = BlockManager(20, BLOCK_SIZE, max_idle_blocks=3)


def test_few_idle_blocks_are_kept_where_fresh_memory_costs() -> None:
    """Ten sequences of five blocks, one after another, touch 5 + 4 blocks and not 50; all are kept without a bound."""
    for bound, touched in ((4, 9), (None, 50)):
        blocks = BlockManager(60, BLOCK_SIZE, max_idle_blocks=bound)
        seen: set[int] = set()
        for number in range(10):
            sequence = make_sequence([number] * (5 * BLOCK_SIZE))
            blocks.start(sequence)
            blocks.grow(sequence, 5 * BLOCK_SIZE)
            seen.update(sequence.block_table)
            sequence.num_computed_tokens = 5 * BLOCK_SIZE
            blocks.share(sequence)
            blocks.release(sequence)
            blocks.check([])
        assert len(seen) == touched


TestFewIdleHistories = FewIdleHistories.TestCase
TestFewIdleHistories.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
TestBlockHistories = BlockHistories.TestCase
TestBlockHistories.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)


@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    num_blocks=st.integers(8, 24),
    budget=st.integers(1, 40),
    max_num_seqs=st.integers(1, 6),
    reserve=st.sampled_from([0.0, 0.5, 1.0]),
)
def test_scheduler_finishes_everything(
    seed: int, num_blocks: int, budget: int, max_num_seqs: int, reserve: float
) -> None:
    """Any load is worked off; a full reserve never preempts; no step exceeds its budget or its blocks."""
    draw = random.Random(seed)
    blocks = BlockManager(num_blocks, BLOCK_SIZE)
    scheduler = Scheduler(blocks, max_num_seqs=max_num_seqs, max_num_batched_tokens=budget, output_reserve=reserve)
    unfinished = 0
    for number in range(12):
        prompt = [draw.randrange(2) for _ in range(draw.randint(1, 20))]
        max_tokens = draw.randint(1, num_blocks * BLOCK_SIZE - len(prompt))
        scheduler.add(make_sequence(prompt, max_tokens=max_tokens, priority=draw.randint(0, 2), name=str(number)))
        unfinished += 1
    for _ in range(20_000):
        pieces = scheduler.schedule()
        assert bool(pieces) == bool(unfinished)
        if not pieces:
            break
        assert sum(piece.num_tokens for piece in pieces) <= budget
        assert len({id(piece.sequence) for piece in pieces}) == len(pieces)
        for piece in pieces:
            sequence, ends = piece.sequence, piece.reaches_end
            sequence.num_computed_tokens += piece.num_tokens
            assert sequence.num_computed_tokens <= len(sequence.block_table) * BLOCK_SIZE
            blocks.share(sequence)
            if ends:
                sequence.token_ids.append(draw.randrange(2))
                if sequence.num_output_tokens >= sequence.request.sampling.max_tokens or draw.random() < 0.05:
                    scheduler.finish(sequence)
                    unfinished -= 1
        assert len(scheduler.running) <= max_num_seqs
        blocks.check(scheduler.running)
    assert unfinished == 0
    assert blocks.num_available == num_blocks
    if reserve == 1.0:
        assert scheduler.num_preemptions == 0


def test_higher_priority_runs_first() -> None:
    blocks = BlockManager(100, BLOCK_SIZE)
    scheduler = Scheduler(blocks, max_num_seqs=1, max_num_batched_tokens=100, output_reserve=1.0)
    low, high = make_sequence([1, 2], name="low"), make_sequence([3, 4], priority=5, name="high")
    scheduler.add(low)
    scheduler.add(high)
    assert [piece.sequence for piece in scheduler.schedule()] == [high]


@pytest.mark.parametrize(("enough_blocks", "expected"), [(None, 14), (1, 8), (20, 10), (100, 14)])
def test_where_blocks_are_enough_a_few_sequences_run(enough_blocks: int | None, expected: int) -> None:
    """Each needs two blocks; more than eight run only while fewer blocks than are enough are in use or promised."""
    blocks = BlockManager(100, BLOCK_SIZE)
    scheduler = Scheduler(
        blocks, max_num_seqs=14, max_num_batched_tokens=100, output_reserve=1.0, enough_blocks=enough_blocks
    )
    for number in range(20):
        scheduler.add(make_sequence([number] * 3, max_tokens=4, name=str(number)))
    scheduler.schedule()
    assert len(scheduler.running) == expected


def test_lowest_priority_is_preempted() -> None:
    blocks = BlockManager(4, BLOCK_SIZE)
    scheduler = Scheduler(blocks, max_num_seqs=4, max_num_batched_tokens=100, output_reserve=0.0)
    low, high = make_sequence([1] * 7, name="low"), make_sequence([2] * 7, priority=1, name="high")
    scheduler.add(low)
    scheduler.schedule()
    scheduler.add(high)
    scheduler.schedule()
    assert scheduler.running == [low, high]
    for sequence in (low, high):
        sequence.num_computed_tokens = 8
        sequence.token_ids += [0, 0]
    assert [piece.sequence for piece in scheduler.schedule()] == [high]
    assert (low.num_preemptions, high.num_preemptions) == (1, 0)


def test_eviction_takes_the_longest_unused_branch_leaf_first() -> None:
    blocks = BlockManager(4, BLOCK_SIZE)
    for tokens in ([1] * 8, [2] * 8):
        sequence = make_sequence(tokens)
        blocks.start(sequence)
        blocks.grow(sequence, 8)
        sequence.num_computed_tokens = 8
        blocks.share(sequence)
        blocks.release(sequence)
    newcomer = make_sequence([3] * 4)
    blocks.start(newcomer)
    blocks.grow(newcomer, 4)
    again = {first: make_sequence([first] * 8 + [0]) for first in (1, 2)}
    for sequence in again.values():
        blocks.start(sequence)
    assert {first: s.num_computed_tokens for first, s in again.items()} == {1: 4, 2: 8}
