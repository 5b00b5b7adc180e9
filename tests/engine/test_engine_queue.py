"""The order in which the pile is worked off: prefixes depth first, priority above all, nobody for ever last."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ideal import ideal_tokens

from qwen_batch.bench.scheduling import SHAPES, Planned, Shape, Simulation, iter_requests, many, mixed
from qwen_batch.engine import Engine, EngineConfig, queue
from qwen_batch.engine.queue import Picks, WaitingQueue, bucket_of
from qwen_batch.engine.sequence import Sequence
from qwen_batch.records import Request, SamplingParams

BLOCK = 4


def request(name: str, tokens: Iterable[int], *, out: int = 8, priority: int = 0, level: int = 0) -> Request:
    return Request(name, list(tokens), SamplingParams(max_tokens=out), priority, level)


def add(waiting: WaitingQueue, wanted: Request) -> Sequence:
    sequence = Sequence(wanted, None)
    bucket = bucket_of(wanted.sampling.max_tokens, sequence.num_prompt_tokens)
    waiting.add(sequence, sequence.hashes(BLOCK), bucket)
    return sequence


def take_all(waiting: WaitingQueue, limit: int = 10**9) -> list[str]:
    """Ids in the order in which a scheduler with all the room in the world would take them."""
    order: list[str] = []
    while waiting and len(order) < limit:
        sequence = Picks(waiting, lambda hashes, start, end: False).next(may_open=True)
        assert sequence is not None
        waiting.take(sequence)
        order.append(sequence.request.request_id)
    return order


def groups(num_groups: int, size: int, prefix_blocks: int) -> list[Request]:
    """Members of all groups in turn, so that arrival is the worst order."""
    return [
        request(f"{group}-{member}", [group] * prefix_blocks * BLOCK + [100 + group, member, 7, 7, 7])
        for member in range(size)
        for group in range(num_groups)
    ]


def test_groups_are_worked_off_one_after_another() -> None:
    waiting = WaitingQueue()
    for one in groups(3, 4, 2):
        add(waiting, one)
    assert take_all(waiting) == [f"{group}-{member}" for group in range(3) for member in range(4)]


def test_groups_inside_groups_stay_together() -> None:
    waiting = WaitingQueue()
    for number, branch in enumerate((1, 2, 3, 1, 2, 3, 1)):
        add(waiting, request(f"{branch}-{number}", [0] * 8 + [branch] * 8 + [number] * 5))
        add(waiting, request(f"lone-{number}", [50 + number] * 30))
    order = [name for name in take_all(waiting) if not name.startswith("lone")]
    assert [name[0] for name in order] == ["1", "1", "1", "2", "2", "3", "3"]


def test_the_longest_expected_answer_goes_first_then_the_longest_prompt() -> None:
    waiting = WaitingQueue()
    for name, length, out in (("short", 10, 10), ("long prompt", 400, 10), ("long answer", 10, 300), ("last", 10, 10)):
        add(waiting, request(name, [hash(name) % 99] * length, out=out))
    assert take_all(waiting) == ["long answer", "long prompt", "short", "last"]


def test_priority_above_all_and_later_levels_first_among_equals() -> None:
    waiting = WaitingQueue()
    add(waiting, request("plain", [1] * 500, out=500))
    add(waiting, request("merge", [2] * 5, level=1))
    add(waiting, request("urgent", [3] * 5, priority=1))
    assert take_all(waiting) == ["urgent", "merge", "plain"]


def test_a_lower_priority_does_not_fill_up_the_steps_of_a_higher_one() -> None:
    waiting = WaitingQueue()
    add(waiting, request("high", [1] * 8, priority=1))
    add(waiting, request("low", [2] * 8))
    add(waiting, request("equal", [3] * 8, priority=1))
    blocked = Sequence(request("x", [1] * 8), None).hashes(BLOCK)
    picks = Picks(waiting, lambda hashes, start, end: hashes[0] == blocked[0])
    equal = picks.next(may_open=True)
    assert equal is not None
    assert equal.request.request_id == "equal"
    waiting.take(equal)
    assert picks.next(may_open=True) is None


def test_prompts_that_go_on_where_another_ends_make_a_deep_tree() -> None:
    """Deeper than the interpreter would let a function call itself."""
    waiting = WaitingQueue()
    text = [number % 997 for number in range(1200 * BLOCK)]
    for length in range(1200, 0, -1):
        add(waiting, request(str(length), text[: length * BLOCK]))
    assert take_all(waiting, 3) == ["1200", "1199", "1198"], "the first to come opens, then the deepest goes on"


@settings(max_examples=60)
@given(data=st.data())
def test_nobody_is_overtaken_for_ever(data: st.DataObject) -> None:
    """Against an endless stream of better ones: the n-th to come is at the latest the (n + MAX_OVERTAKES)-th to go."""
    limit = data.draw(st.integers(0, 12))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queue, "MAX_OVERTAKES", limit)
        waiting, arrived, taken = WaitingQueue(), 0, 0
        arrivals: dict[Sequence, int] = {}
        for _ in range(60):
            for _ in range(data.draw(st.integers(0, 3))):
                tokens = data.draw(st.lists(st.integers(0, 1), min_size=1, max_size=14))
                arrivals[add(waiting, request(str(arrived), tokens, out=data.draw(st.integers(1, 500))))] = arrived
                arrived += 1
            sequence = Picks(waiting, lambda hashes, start, end: False).next(may_open=True)
            if sequence is None:
                arrived = taken = 0  # an empty level counts anew
                continue
            waiting.take(sequence)
            assert taken <= arrivals[sequence] + limit
            taken += 1


@settings(max_examples=100)
@given(seed=st.integers(0, 10_000))
def test_what_waits_is_what_is_wanted(seed: int) -> None:
    """Random histories: every sequence comes out once, and `num_wanted` is the longest common beginning."""
    draw = random.Random(seed)
    waiting, inside = WaitingQueue(), set[Sequence]()
    for number in range(80):
        if draw.random() < 0.6:
            tokens = [draw.randrange(2) for _ in range(draw.randint(1, 30))]
            inside.add(add(waiting, request(str(number), tokens, priority=draw.randrange(2), out=draw.randint(1, 99))))
        elif inside:
            sequence = draw.choice(sorted(inside, key=lambda s: s.request.request_id))
            inside.remove(sequence)
            waiting.take(sequence)
        if draw.random() < 0.1:
            lengths = {sequence: draw.randint(1, 99) for sequence in inside}
            waiting.rebucket(lambda s, lengths=lengths: bucket_of(lengths[s], s.num_prompt_tokens))  # type: ignore[misc]
        probe = Sequence(request("probe", [draw.randrange(2) for _ in range(20)]), None).hashes(BLOCK)
        common = [sum(a == b for a, b in zip(probe, s.hashes(BLOCK), strict=False)) for s in inside]
        assert waiting.num_wanted(probe) == max(common, default=0)
        assert len(waiting) == len(inside)
        assert waiting.num_tokens == sum(s.num_prompt_tokens for s in inside)
    assert sorted(take_all(waiting)) == sorted(s.request.request_id for s in inside)


@pytest.mark.parametrize("num_blocks", [26, 40, 75, 400])
@pytest.mark.parametrize("max_num_seqs", [1, 5, 64])
def test_each_shared_prefix_is_computed_once_however_small_the_pool(num_blocks: int, max_num_seqs: int) -> None:
    requests = groups(6, 9, 12)  # 12 blocks of prefix, 4 of its own
    simulation = Simulation(
        num_blocks=num_blocks, max_num_seqs=max_num_seqs, max_num_batched_tokens=64, block_size=BLOCK
    )
    planned = simulation.run(requests, watch=True)
    assert planned.num_requests == len(requests)
    assert planned.num_computed_tokens == ideal_tokens(requests, BLOCK)
    assert planned.num_preemptions == 0
    assert simulation.blocks.num_used == 0


def test_tickets_in_a_small_pool_compute_the_shared_prompt_once() -> None:
    requests = list(iter_requests(SHAPES[1], 80))
    planned = Simulation(num_blocks=70, max_num_seqs=64).run(requests, watch=True)
    assert planned.num_computed_tokens == ideal_tokens(requests, 16)
    assert planned.num_preemptions == 0


def test_a_stream_is_looked_through_no_further_than_planned() -> None:
    simulation = Simulation(num_blocks=400, max_num_seqs=8)
    ahead = []

    def stream() -> Iterator[Request]:
        for pulled, one in enumerate(iter_requests(dataclasses.replace(SHAPES[1], output_tokens=1), 6000)):
            ahead.append(pulled - simulation.result.num_requests)
            yield one

    assert simulation.run(stream()).num_requests == 6000
    assert 3000 < max(ahead) <= queue.LOOKAHEAD_REQUESTS


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_the_workloads_run_without_preemption(shape: Shape) -> None:
    requests = list(iter_requests(shape, 64))
    planned = Simulation(num_blocks=3000, max_num_seqs=64).run(requests)
    assert planned.num_requests == 64
    assert planned.num_preemptions == 0
    assert planned.num_computed_tokens == ideal_tokens(requests, 16)


def test_mixed_lengths_run_three_times_as_many_at_once_as_contiguous_slots() -> None:
    planned, slots = mixed()
    assert planned.max_num_running >= 3 * slots
    assert planned.mean_running >= 3 * slots
    assert planned.num_preemptions == 0
    assert planned.max_fragmentation < 0.1


def run_with_drawn_answers(reserve: float) -> Planned:
    draw = random.Random(1)
    lengths = {one.request_id: min(48, 1 + int(draw.expovariate(1 / 9))) for one in iter_requests(SHAPES[1], 1500)}
    simulation = Simulation(
        num_blocks=260, max_num_seqs=64, output_reserve=reserve, answer_tokens=lambda one: lengths[one.request_id]
    )
    return simulation.run(iter_requests(SHAPES[1], 1500))


def test_learned_lengths_let_more_run_and_preemption_stays_the_exception() -> None:
    careful, learned, bold = (run_with_drawn_answers(reserve) for reserve in (1.0, 0.9, 0.0))
    assert careful.num_preemptions == 0
    assert learned.num_steps < 0.97 * careful.num_steps
    assert learned.num_preemptions <= 0.01 * learned.num_requests
    assert bold.num_preemptions > 5 * max(1, learned.num_preemptions)
    assert bold.num_recomputed_tokens > 0


def test_many_requests_are_planned_quickly() -> None:
    """The limit of 60 s for a million, with room for a busy machine; CPU time."""
    planned = many(4000)
    assert planned.num_requests == 4000
    assert planned.seconds < 4000 * 4 * 60e-6


def test_an_engine_reports_how_planning_went(tiny_qwen3: Path) -> None:
    engine = Engine.load_folder(tiny_qwen3, EngineConfig(device="cpu", dtype="float32", max_num_seqs=4))
    prompts = [[*range(20, 60), number] for number in range(3, 11)]
    engine.generate(prompts, SamplingParams(max_tokens=4, ignore_eos=True))
    report = engine.report()
    computed = 41 + 7 * (41 - 32) + 8 * 3  # two blocks of 16 are shared; the last token of an answer is not computed
    assert f"at most 4 requests at once; {computed} tokens computed (100.0% useful; padded batches: 100%)" in report
    assert "224 shared; 0 preemptions" in report
    assert 0.0 < engine.stats.max_fragmentation < 1.0
