"""Steps that overlap give the tokens of steps that do not; the host reads each step's tokens once, one step late."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from qwen_batch.engine import Engine, EngineConfig
from qwen_batch.engine.config import resolve_overlap
from qwen_batch.engine.runner import Flight, Runner
from qwen_batch.engine.sampler import Unread
from qwen_batch.engine.scheduler import Piece
from qwen_batch.engine.sequence import PENDING
from qwen_batch.engine.sequence import Sequence as EngineSequence
from qwen_batch.model.staging import Staging
from qwen_batch.records import Completion, Request, SamplingParams

PROMPTS = [list(range(3 + n, 12 + 7 * n)) for n in range(6)]
KINDS: tuple[dict[str, Any], ...] = (
    {},
    {"temperature": 1.1},
    {"temperature": 0.9, "top_k": 20, "top_p": 0.9, "repetition_penalty": 1.4},
    {"presence_penalty": 1.5},
    {"repetition_penalty": 1.3},
    {"temperature": 1.5, "min_p": 0.05, "presence_penalty": 0.7},
)


def load(folder: Path, *, overlap: bool, **options: Any) -> Engine:
    values = {"device": "cpu", "dtype": "float32", "backend": "torch", "max_model_len": 256, **options}
    return Engine.load_folder(folder, EngineConfig(overlap=overlap, **values))


def sampling(kinds: Sequence[dict[str, Any]], max_tokens: int, **more: Any) -> list[SamplingParams]:
    return [
        SamplingParams(max_tokens=max_tokens + n % 3, seed=n, **{"ignore_eos": True, **kind, **more})
        for n, kind in enumerate(kinds)
    ]


def both(folder: Path, prompts: Sequence[list[int]], params: list[SamplingParams], **options: Any) -> list[Engine]:
    """Engines without and with overlap, after the same work with the same result."""
    engines, answers = [], []
    for overlap in (False, True):
        engine = load(folder, overlap=overlap, **options)
        answers.append(engine.generate(prompts, params))
        engine.check_blocks()
        assert engine.stats.num_used_blocks == 0
        engines.append(engine)
    assert [as_told(completion) for completion in answers[1]] == [as_told(completion) for completion in answers[0]]
    return engines


def as_told(completion: Completion) -> tuple[object, ...]:
    return completion.token_ids, completion.text, completion.finish_reason, completion.error_type


@pytest.mark.parametrize("backend", ["torch", "auto"])
def test_tokens_are_the_same(tiny_qwen3: Path, backend: str) -> None:
    """Greedy, drawn and penalised rows together, prompts in pieces, sequences that come and go."""
    options = {"backend": backend, "max_num_batched_tokens": 20, "max_num_seqs": 4}
    before, after = both(tiny_qwen3, PROMPTS, sampling(KINDS, 12), **options)
    assert after.stats.num_computed_tokens == before.stats.num_computed_tokens
    assert after.stats.num_discarded_tokens == 0, "an answer of known length is not computed beyond it"


def test_tokens_are_the_same_with_our_kernels(tiny_qwen3: Path) -> None:
    """Little, because the interpreter is slow: a prompt in pieces beside penalised rows that decode."""
    kinds = [{"repetition_penalty": 1.4}, {"presence_penalty": 1.5}, {}]
    prompts = [PROMPTS[0][:3], PROMPTS[1][:2], PROMPTS[2]]
    both(tiny_qwen3, prompts, sampling(kinds, 3), backend="triton", max_num_batched_tokens=14)


@pytest.mark.parametrize("kind", ["stop_token_ids", "stop"])
def test_an_end_that_is_known_one_step_late(tiny_qwen3: Path, kind: str) -> None:
    free = load(tiny_qwen3, overlap=False).generate(PROMPTS, sampling([{}] * 6, 16))
    ends = [{kind: [completion.token_ids[7] if kind != "stop" else completion.text[9:12]]} for completion in free]
    _, after = both(tiny_qwen3, PROMPTS, sampling(ends, 16), max_num_seqs=3)
    assert after.stats.num_discarded_tokens > 0


def test_shared_prefixes_are_computed_once(tiny_qwen3: Path) -> None:
    prompts = [[*range(5, 85), 100 + n] for n in range(5)]
    before, after = both(tiny_qwen3, prompts, sampling([{}] * 5, 6), max_num_batched_tokens=24)
    assert after.stats.num_computed_tokens == before.stats.num_computed_tokens
    assert after.stats.num_cached_tokens == before.stats.num_cached_tokens == 4 * 80


@pytest.mark.parametrize("share_prefixes", [True, False])
def test_preemption(tiny_qwen3: Path, share_prefixes: bool) -> None:
    options = {"num_blocks": 12, "output_reserve": 0.0, "max_num_batched_tokens": 50, "share_prefixes": share_prefixes}
    prompts = [[n] * 60 for n in range(5, 11)]
    before, after = both(tiny_qwen3, prompts, sampling(KINDS, 24), **options)
    assert before.stats.num_preemptions > 0
    assert after.stats.num_preemptions > 0


def test_a_broken_row_hurts_itself_alone(tiny_qwen3: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launch = Runner.launch

    def broken(self: Runner, pieces: Sequence[Piece], before: Flight | None = None) -> Flight:
        flight = launch(self, pieces, before)
        for sequence, row in flight.unread.rows.items():
            if sequence.request.request_id == "generate-2" and sequence.num_output_tokens == 3:
                flight.unread.tokens[row] = -1
        return flight

    monkeypatch.setattr(Runner, "launch", broken)
    _, after = both(tiny_qwen3, PROMPTS, sampling(KINDS, 8))
    bad = after.generate(PROMPTS, sampling(KINDS, 8))[2]
    assert (bad.finish_reason, bad.error_type, len(bad.token_ids)) == ("error", "not_finite", 3)


@pytest.mark.parametrize("overlap", [False, True])
def test_what_a_broken_row_leaves_in_its_blocks_hurts_nobody(
    tiny_qwen3: Path, monkeypatch: pytest.MonkeyPatch, overlap: bool
) -> None:
    params = SamplingParams(max_tokens=6, ignore_eos=True)
    expected = load(tiny_qwen3, overlap=False).generate(PROMPTS[:1], params)
    launch = Runner.launch

    def broken(self: Runner, pieces: Sequence[Piece], before: Flight | None = None) -> Flight:
        flight = launch(self, pieces, before)
        for tensor in (*self._cache.keys, *self._cache.values):
            tensor[torch.tensor([block for piece in pieces for block in piece.sequence.block_table])] = torch.nan
        flight.unread.tokens.fill_(-1)
        return flight

    engine = load(tiny_qwen3, overlap=overlap, num_blocks=16)
    with monkeypatch.context() as patch:
        patch.setattr(Runner, "launch", broken)
        assert engine.generate(PROMPTS[3:4], params)[0].error_type == "not_finite"
    assert list(map(as_told, engine.generate(PROMPTS[:1], params))) == list(map(as_told, expected))


@pytest.mark.parametrize("error", [torch.cuda.OutOfMemoryError("CUDA out of memory"), MemoryError()])
def test_no_memory_left_while_a_step_is_under_way(
    tiny_qwen3: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    expected = load(tiny_qwen3, overlap=False).generate(PROMPTS, sampling(KINDS, 12))
    launch, count = Runner.launch, iter(range(10_000))

    def limited(self: Runner, pieces: Sequence[Piece], before: Flight | None = None) -> Flight:
        if next(count) in (4, 9, 10):
            raise error
        return launch(self, pieces, before)

    monkeypatch.setattr(Runner, "launch", limited)
    engine = load(tiny_qwen3, overlap=True)
    assert list(map(as_told, engine.generate(PROMPTS, sampling(KINDS, 12)))) == list(map(as_told, expected))
    assert engine._limits.num_shrinks == 3
    engine.check_blocks()


def test_a_stream_that_is_left_forgets_the_step_under_way(tiny_qwen3: Path) -> None:
    engine = load(tiny_qwen3, overlap=True)
    params = SamplingParams(max_tokens=3, ignore_eos=True)
    stream = engine.stream(Request(str(n), PROMPTS[n], params) for n in range(6))
    next(stream)
    stream.close()
    assert not engine.has_unfinished
    expected = load(tiny_qwen3, overlap=False).generate(PROMPTS, params)
    assert list(map(as_told, engine.generate(PROMPTS, params))) == list(map(as_told, expected))
    engine.check_blocks()


@pytest.fixture
def host_reads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often our own code, by function, has made a value on the device known to the host."""
    counts: Counter[str] = Counter()

    def counted(name: str) -> Callable[..., Any]:
        original = getattr(torch.Tensor, name)

        def read(self: torch.Tensor, *arguments: Any, **options: Any) -> Any:
            frame = sys._getframe(1)
            if frame.f_globals.get("__name__", "").startswith(("qwen_batch.engine", "qwen_batch.model")):
                counts[frame.f_code.co_name] += 1
            return original(self, *arguments, **options)

        return read

    for name in ("tolist", "item", "cpu", "numpy", "__bool__", "__int__", "__float__", "__index__", "nonzero"):
        monkeypatch.setattr(torch.Tensor, name, counted(name))
    return counts


def test_the_host_reads_the_tokens_of_a_step_and_nothing_else(tiny_qwen3: Path, host_reads: Counter[str]) -> None:
    engine = load(tiny_qwen3, overlap=True, backend="triton", max_num_batched_tokens=24, max_num_seqs=4)
    host_reads.clear()
    engine.generate([PROMPTS[0], PROMPTS[1][:2]], sampling([{}, {"presence_penalty": 1.0}], 2))
    assert host_reads == {"read_tokens": engine.stats.num_steps}


def test_a_step_is_read_after_the_next_is_launched(tiny_qwen3: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    for owner, name in ((Runner, "launch"), (Flight, "read")):
        original = getattr(owner, name)

        def noted(*arguments: Any, original: Any = original, name: str = name) -> Any:
            events.append(name)
            return original(*arguments)

        monkeypatch.setattr(owner, name, noted)
    load(tiny_qwen3, overlap=True).generate(PROMPTS[:1], SamplingParams(max_tokens=3, ignore_eos=True))
    assert events == ["launch", "launch", "read", "launch", "read", "read"]


def test_a_broken_rows_token_is_a_row_of_the_embedding_in_the_next_step() -> None:
    """What a row with a NaN has for a token is -1, which would be an index outside of the embedding."""
    one, other = (EngineSequence(Request(name, [5, 6, 7], SamplingParams()), None) for name in "ab")
    for sequence in (one, other):
        sequence.token_ids.append(PENDING)
        sequence.num_computed_tokens, sequence.block_table = 3, [0]
    decoder = SimpleNamespace(
        staging=Staging(torch.device("cpu")), weights=SimpleNamespace(device=torch.device("cpu")), use_triton=False
    )
    runner = Runner(cast(Any, decoder), cast(Any, SimpleNamespace(block_size=16)))
    unread = Unread(torch.tensor([9, -1]), {one: 0, other: 1})
    step = runner._step_input([Piece(other, 1), Piece(one, 1)], unread)
    assert step.token_ids.tolist() == [0, 9]


def test_when_steps_overlap() -> None:
    cpu, cuda = torch.device("cpu"), torch.device("cuda", 0)
    assert [resolve_overlap(asked, device) for asked in ("auto", True, False) for device in (cpu, cuda)] == [  # type: ignore[arg-type]
        False, True, True, True, False, False,
    ]  # fmt: skip


@pytest.mark.gpu
def test_no_step_waits_for_the_device(tiny_qwen3: Path) -> None:
    """In a process of its own, because this one runs kernels in the interpreter."""
    import os
    import subprocess

    script = (
        "import sys, torch\n"
        "from qwen_batch.engine import Engine\n"
        "from qwen_batch.records import Request, SamplingParams\n"
        "engine = Engine.load(sys.argv[1], device='cuda', dtype='bfloat16', backend='triton', max_model_len=256)\n"
        "params = SamplingParams(max_tokens=24, temperature=0.8, top_k=20, repetition_penalty=1.2, ignore_eos=True)\n"
        "prompts = [list(range(3, 20 + 9 * n)) for n in range(8)]\n"
        "first = engine.generate(prompts, params)\n"  # compiles and captures
        "engine.forget_prefixes()\n"
        "for n, prompt in enumerate(prompts):\n    engine.add(Request(str(n), prompt, params))\n"
        "done = []\n"
        "torch.cuda.set_sync_debug_mode('error')\n"
        "while engine.has_unfinished:\n    done += engine.step()\n"
        "assert {c.token_ids for c in done} == {c.token_ids for c in first}\n"
    )
    environment = {**os.environ, "TRITON_INTERPRET": "0"}
    command = [sys.executable, "-W", "ignore", "-c", script, str(tiny_qwen3)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("overlap", [False, True])
def test_who_begins_is_told_right_before_the_device_has_it(
    tiny_qwen3: Path, monkeypatch: pytest.MonkeyPatch, overlap: bool
) -> None:
    """Also who begins again after a preemption; never who only waits, nor who was refused."""
    engine = load(tiny_qwen3, overlap=overlap, max_num_seqs=3, num_blocks=16, output_reserve=0.0, max_model_len=128)
    told: set[str] = set()
    num_told = 0
    launch = Runner.launch

    def launch_and_check(self: Runner, pieces: Any, before: Flight | None = None) -> Flight:
        assert {piece.sequence.request.request_id for piece in pieces} <= told
        return launch(self, pieces, before)

    def begin(requests: Sequence[Request]) -> None:
        nonlocal num_told
        num_told += len(requests)
        told.update(request.request_id for request in requests)

    monkeypatch.setattr(Runner, "launch", launch_and_check)
    for number in range(7):
        prompt = [] if number == 6 else list(range(3 + number, 30 + 3 * number))
        engine.add(Request(str(number), prompt, SamplingParams(max_tokens=60, ignore_eos=True)))
    engine.step(begin)
    assert 1 <= len(told) <= 3, "the others wait"
    while engine.has_unfinished:
        engine.step(begin)
    assert told == set("012345")
    assert num_told == 6 + engine.stats.num_preemptions
    assert engine.stats.num_preemptions > 0
