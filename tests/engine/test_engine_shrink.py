"""No memory left in the middle of a step: smaller steps, the same answers, and one failure where nothing helps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from qwen_batch.engine import Engine, EngineConfig
from qwen_batch.engine.runner import Flight, Runner
from qwen_batch.engine.scheduler import Piece
from qwen_batch.engine.shrink import is_out_of_memory
from qwen_batch.model.tokenizer import TokenStream
from qwen_batch.records import SamplingParams

PROMPTS = [list(range(3 + number, 40 + 9 * number)) for number in range(12)]
PARAMS = SamplingParams(max_tokens=24, ignore_eos=True)


def load(folder: Path, **options: Any) -> Engine:
    return Engine.load_folder(folder, EngineConfig(device="cpu", dtype="float32", num_blocks=400, **options))


def limit_memory(monkeypatch: pytest.MonkeyPatch, max_tokens: int, max_context: int = 10**9) -> list[int]:
    """Steps of more tokens, or with a longer context, run out of memory; returns the sizes of those that did not."""
    sizes: list[int] = []
    launch = Runner.launch

    def limited(self: Runner, pieces: Sequence[Piece], before: Flight | None = None) -> Flight:
        size = sum(piece.num_tokens for piece in pieces)
        longest = max(len(piece.sequence.token_ids) for piece in pieces)
        if size > max_tokens or longest > max_context:
            raise torch.OutOfMemoryError("CUDA out of memory")
        sizes.append(size)
        return launch(self, pieces, before)

    monkeypatch.setattr(Runner, "launch", limited)
    return sizes


def test_smaller_steps_give_the_same_answers(tiny_qwen3: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = [completion.token_ids for completion in load(tiny_qwen3).generate(PROMPTS, PARAMS)]
    sizes = limit_memory(monkeypatch, max_tokens=64)
    engine = load(tiny_qwen3)
    assert [completion.token_ids for completion in engine.generate(PROMPTS, PARAMS)] == expected
    assert max(sizes) <= 64
    assert 1 <= engine._limits.num_shrinks < 10
    engine.check_blocks()


def test_limits_grow_again_after_a_while(tiny_qwen3: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = load(tiny_qwen3, max_num_seqs=8, max_num_batched_tokens=128)
    with monkeypatch.context() as patch:
        limit_memory(patch, max_tokens=64)
        engine.generate(PROMPTS, PARAMS)
    assert engine._scheduler.max_num_batched_tokens < 128
    for _ in range(12):
        engine.generate(PROMPTS, PARAMS)
    assert (engine._scheduler.max_num_seqs, engine._scheduler.max_num_batched_tokens) == (8, 128)


def test_what_never_fits_fails_alone(tiny_qwen3: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = [completion.token_ids for completion in load(tiny_qwen3).generate(PROMPTS[:-1], PARAMS)]
    limit_memory(monkeypatch, max_tokens=10**9, max_context=len(PROMPTS[-1]) - 1)
    shorter = [prompt for prompt in PROMPTS if len(prompt) + PARAMS.max_tokens < len(PROMPTS[-1])]
    done = load(tiny_qwen3).generate([*shorter, PROMPTS[-1]], PARAMS)
    assert [completion.token_ids for completion in done[:-1]] == expected[: len(shorter)]
    assert (done[-1].finish_reason, done[-1].error_type) == ("error", "out_of_memory")


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (torch.OutOfMemoryError("CUDA out of memory"), True),
        (RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory"), True),
        (MemoryError(), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), True),
        (RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported"), True),
        (RuntimeError("Triton Error [CUDA]: out of memory"), True),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), False),
        (RuntimeError("shapes do not match"), False),
        (ValueError("can't allocate memory"), False),
    ],
)
def test_what_counts(error: Exception, answer: bool) -> None:
    assert is_out_of_memory(error) is answer


def test_the_cpu_says_it_as_we_expect() -> None:
    with pytest.raises(RuntimeError) as raised:
        torch.empty(2**50, dtype=torch.uint8)
    assert is_out_of_memory(raised.value), str(raised.value)


def break_on(monkeypatch: pytest.MonkeyPatch, token: int, times: int = 10**9) -> list[int]:
    """Steps fail while a sequence with this token is in them; returns the numbers of sequences in those that did."""
    sizes: list[int] = []
    launch = Runner.launch

    def breaking(self: Runner, pieces: Sequence[Piece], before: Flight | None = None) -> Flight:
        if len(sizes) < times and any(token in piece.sequence.token_ids for piece in pieces):
            sizes.append(len(pieces))
            raise IndexError("index out of range in self")
        return launch(self, pieces, before)

    monkeypatch.setattr(Runner, "launch", breaking)
    return sizes


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("place", [0, 5, 11])
def test_a_request_that_breaks_steps_fails_alone(
    tiny_qwen3: Path, monkeypatch: pytest.MonkeyPatch, place: int, overlap: bool
) -> None:
    expected = [completion.token_ids for completion in load(tiny_qwen3).generate(PROMPTS, PARAMS)]
    token = 509
    prompts = [*PROMPTS[:place], [*PROMPTS[place], token], *PROMPTS[place + 1 :]]
    assert not any(token in ids for ids in [*PROMPTS, *expected]), "the test needs a token that nobody else has"
    sizes = break_on(monkeypatch, token)
    engine = load(tiny_qwen3, overlap=overlap)
    done = engine.generate(prompts, PARAMS)
    broken = done.pop(place)
    assert (broken.finish_reason, broken.error_type) == ("error", "generate_failed")
    assert broken.error == "the model failed on it: IndexError('index out of range in self')"
    assert [completion.token_ids for completion in done] == expected[:place] + expected[place + 1 :]
    assert sizes[-2:] == [1, 1], "it was tried twice by itself"
    assert len(sizes) <= 7
    engine.check_blocks()
    assert engine._scheduler.max_num_seqs == engine.config.max_num_seqs


@pytest.mark.parametrize("overlap", [False, True])
def test_a_step_that_failed_once_costs_nothing(
    tiny_qwen3: Path, monkeypatch: pytest.MonkeyPatch, overlap: bool
) -> None:
    expected = [completion.token_ids for completion in load(tiny_qwen3).generate(PROMPTS, PARAMS)]
    break_on(monkeypatch, PROMPTS[0][0], times=1)
    engine = load(tiny_qwen3, overlap=overlap)
    assert [completion.token_ids for completion in engine.generate(PROMPTS, PARAMS)] == expected


@pytest.mark.parametrize("times", [1, 2, 10**9])
def test_a_step_that_fails_when_its_tokens_are_read(
    tiny_qwen3: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    """As CUDA tells of what went wrong in a kernel: the step after it is lost, too, and both are computed again."""
    expected = [completion.token_ids for completion in load(tiny_qwen3).generate(PROMPTS, PARAMS)]
    read, failures = Flight.read, 0

    def breaking(self: Flight) -> list[int | None]:
        nonlocal failures
        is_hit = any(p.sequence.request.request_id == "generate-5" and p.num_computed_tokens > 90 for p in self.pieces)
        if is_hit and failures < times:
            failures += 1
            raise RuntimeError("CUDA error: unspecified launch failure")
        return read(self)

    monkeypatch.setattr(Flight, "read", breaking)
    engine = load(tiny_qwen3, overlap=True)
    done = engine.generate(PROMPTS, PARAMS)
    if times > 2:
        broken = done.pop(5)
        assert broken.error == "the model failed on it: RuntimeError('CUDA error: unspecified launch failure')"
        del expected[5]
    assert [completion.token_ids for completion in done] == expected
    assert min(times, 2) <= failures <= 7
    engine.check_blocks()
    assert engine.stats.num_used_blocks == 0


@pytest.mark.parametrize("overlap", [False, True])
def test_a_token_that_cannot_be_decoded_costs_its_own_answer(
    tiny_qwen3: Path, monkeypatch: pytest.MonkeyPatch, overlap: bool
) -> None:
    params = [PARAMS] * 3 + [SamplingParams(max_tokens=24, ignore_eos=True, stop="never")]
    expected = [completion.token_ids for completion in load(tiny_qwen3).generate(PROMPTS[:4], params)]

    def refuse(self: TokenStream, token_id: int) -> str:
        raise ValueError("Invalid prefix encountered")

    monkeypatch.setattr(TokenStream, "push", refuse)
    engine = load(tiny_qwen3, overlap=overlap)
    done = engine.generate(PROMPTS[:4], params)
    engine.check_blocks()
    assert [completion.token_ids for completion in done[:3]] == expected[:3]
    assert done[3].error == "the model failed on it: ValueError('Invalid prefix encountered')"


@pytest.mark.parametrize("overlap", [False, True])
def test_a_broken_engine_is_not_blamed_on_requests(
    tiny_qwen3: Path, monkeypatch: pytest.MonkeyPatch, overlap: bool
) -> None:
    def broken(self: Runner, pieces: Sequence[Piece], before: Flight | None = None) -> Flight:
        raise RuntimeError("a defect")

    monkeypatch.setattr(Runner, "launch", broken)
    with pytest.raises(RuntimeError, match="a defect"):
        load(tiny_qwen3, overlap=overlap).generate(PROMPTS, PARAMS)
