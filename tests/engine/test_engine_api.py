"""What callers of the engine can rely on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from qwen_batch import Engine as PublicEngine
from qwen_batch.engine import Engine, EngineConfig
from qwen_batch.engine.config import resolve_device, resolve_dtype
from qwen_batch.errors import ModelError, UsageError
from qwen_batch.records import Completion, Request, SamplingParams

PROMPT = list(range(20, 60))


@pytest.fixture
def engine(tiny_qwen3: Path) -> Engine:
    return Engine.load(str(tiny_qwen3), dtype="float32", device="cpu")


def one(engine: Engine, params: SamplingParams, prompt: list[int] | None = None) -> Completion:
    (completion,) = engine.generate([prompt or PROMPT], params)
    engine.check_blocks()
    return completion


def test_public_name() -> None:
    assert PublicEngine is Engine


def test_stop_token_ends_the_answer_and_is_kept_in_the_ids(engine: Engine) -> None:
    free = one(engine, SamplingParams(max_tokens=12, ignore_eos=True))
    stop = free.token_ids[5]
    first = free.token_ids.index(stop)
    stopped = one(engine, SamplingParams(max_tokens=12, ignore_eos=True, stop_token_ids=[stop]))
    assert stopped.finish_reason == "stop"
    assert stopped.token_ids == free.token_ids[: first + 1]


def test_end_token_ends_the_answer_unless_ignored(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    free = one(engine, SamplingParams(max_tokens=12, ignore_eos=True))
    monkeypatch.setattr(engine.tokenizer, "eos_token_ids", frozenset({free.token_ids[3]}))
    ended = one(engine, SamplingParams(max_tokens=12))
    assert ended.finish_reason == "stop"
    assert ended.token_ids == free.token_ids[: free.token_ids.index(free.token_ids[3]) + 1]
    assert one(engine, SamplingParams(max_tokens=12, ignore_eos=True)).token_ids == free.token_ids


def test_stop_string_cuts_the_text_before_it(engine: Engine) -> None:
    free = one(engine, SamplingParams(max_tokens=24, ignore_eos=True))
    stop = free.text[8:11]
    cut = free.text.index(stop)
    stopped = one(engine, SamplingParams(max_tokens=24, ignore_eos=True, stop=["never to be seen", stop]))
    assert stopped.finish_reason == "stop"
    assert stopped.text == free.text[:cut]
    assert len(stopped.token_ids) < 24
    assert stopped.token_ids == free.token_ids[: len(stopped.token_ids)]


def test_answers_keep_the_order_of_the_prompts(engine: Engine) -> None:
    prompts = [PROMPT[:length] for length in (30, 3, 17, 40, 1)]
    params = [SamplingParams(max_tokens=n, ignore_eos=True) for n in (9, 1, 20, 2, 5)]
    completions = engine.generate(prompts, params)
    assert [len(c.token_ids) for c in completions] == [9, 1, 20, 2, 5]
    assert [c.num_prompt_tokens for c in completions] == [30, 3, 17, 40, 1]


def test_texts_are_taken_as_they_are(engine: Engine) -> None:
    text = "This agreement is made"
    by_text = engine.generate([text], SamplingParams(max_tokens=8))
    by_ids = engine.generate([engine.tokenizer.encode(text)], SamplingParams(max_tokens=8))
    assert by_text[0].token_ids == by_ids[0].token_ids


def test_stream_yields_as_requests_finish_and_pulls_them_as_there_is_room(tiny_qwen3: Path) -> None:
    engine = Engine.load_folder(tiny_qwen3, EngineConfig(device="cpu", dtype="float32", max_num_seqs=2))
    pulled = []

    def requests() -> Iterator[Request]:
        for number in range(20):
            pulled.append(number)
            yield Request(str(number), PROMPT, SamplingParams(max_tokens=1 + number % 3, ignore_eos=True))

    stream = engine.stream(requests())
    first = next(stream)
    assert first.request_id in {"0", "1"}
    assert len(pulled) < 10
    assert {first.request_id, *(c.request_id for c in stream)} == {str(n) for n in range(20)}


def test_a_stream_that_is_left_gives_its_blocks_back(engine: Engine) -> None:
    stream = engine.stream(Request(str(n), PROMPT, SamplingParams(max_tokens=50)) for n in range(5))
    stream.close()
    assert not engine.has_unfinished
    assert engine.stats.num_used_blocks == 0
    engine.check_blocks()


@pytest.mark.parametrize(
    ("prompt", "params", "error_type", "error"),
    [
        ([], SamplingParams(), "empty", "the prompt has no tokens"),
        ([1, 512], SamplingParams(), "bad_token", "a token id is not in the model's vocabulary of 512"),
        ([1, -1], SamplingParams(), "bad_token", "a token id is not in the model's vocabulary of 512"),
        (
            [1] * 2000,
            SamplingParams(max_tokens=49),
            "too_long",
            "2,000 prompt tokens and 49 for the answer exceed 2,048 tokens",
        ),
    ],
)
def test_a_request_that_cannot_run_hurts_itself_alone(
    engine: Engine, prompt: list[int], params: SamplingParams, error_type: str, error: str
) -> None:
    bad, good = engine.generate([prompt, PROMPT], [params, SamplingParams(max_tokens=3, ignore_eos=True)])
    assert (bad.finish_reason, bad.error_type, bad.error) == ("error", error_type, error)
    assert len(good.token_ids) == 3


def test_a_broken_row_of_logits_hurts_itself_alone(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    forward = engine._runner._decoder.forward

    def broken(step: object, cache: object) -> torch.Tensor:
        logits = forward(step, cache).clone()  # type: ignore[arg-type]
        logits[0] = float("nan")
        return logits

    monkeypatch.setattr(engine._runner._decoder, "forward", broken)
    bad, good = engine.generate([PROMPT, PROMPT[:7]], SamplingParams(max_tokens=1))
    assert (bad.finish_reason, bad.error_type) == ("error", "not_finite")
    assert good.finish_reason in ("length", "stop")
    engine.check_blocks()


def test_a_seed_gives_the_same_tokens_alone_and_in_company(engine: Engine) -> None:
    params = SamplingParams(max_tokens=16, temperature=1.0, top_k=50, seed=11, ignore_eos=True)
    alone = one(engine, params)
    others = [PROMPT[: n + 2] for n in range(9)]
    mixed = engine.generate([*others, PROMPT], [SamplingParams(max_tokens=20, temperature=2.0, seed=5)] * 9 + [params])
    assert mixed[-1].token_ids == alone.token_ids
    assert one(engine, SamplingParams(max_tokens=16, temperature=1.0, seed=12, ignore_eos=True)) != alone


def test_a_seed_survives_preemption(tiny_qwen3: Path) -> None:
    params = SamplingParams(max_tokens=30, temperature=1.0, seed=3, ignore_eos=True)
    prompts = [[n] * 50 for n in range(5, 10)]

    def run(**options: object) -> tuple[list[Completion], int]:
        engine = Engine.load(str(tiny_qwen3), dtype="float32", device="cpu", **options)
        return engine.generate(prompts, params), engine.stats.num_preemptions

    roomy, _ = run()
    tight, preemptions = run(num_blocks=9, output_reserve=0.0)
    assert preemptions > 0
    assert [c.token_ids for c in tight] == [c.token_ids for c in roomy]


@pytest.mark.parametrize("prompts", ["abc", [None], [3.5], [[1, 2, "a"]]])
def test_what_is_no_prompt_is_refused_in_words(engine: Engine, prompts: object) -> None:
    with pytest.raises(UsageError, match=r"generate takes a list of prompts|a prompt is a text or a list of token ids"):
        engine.generate(prompts)  # type: ignore[arg-type]


def test_an_id_in_flight_is_refused(engine: Engine) -> None:
    engine.add(Request("a", PROMPT))
    with pytest.raises(UsageError, match="request id 'a' is already in flight"):
        engine.add(Request("a", PROMPT))


def test_a_loop_over_a_stream_does_not_lose_it_to_another_call(engine: Engine) -> None:
    stream = engine.stream([Request(f"r{i}", (5, 6, i), SamplingParams(max_tokens=i + 1)) for i in range(4)])
    ids = [next(stream).request_id]
    with pytest.raises(UsageError, match="for themselves"):
        engine.generate([[5, 6, 7]])
    ids += [completion.request_id for completion in stream]
    assert sorted(ids) == ["r0", "r1", "r2", "r3"]


def test_unknown_options_are_refused(tiny_qwen3: Path) -> None:
    with pytest.raises(UsageError, match=r"unknown option 'blocksize'; known: device, dtype"):
        Engine.load(str(tiny_qwen3), blocksize=3)
    with pytest.raises(UsageError, match="dtype 'int3' is not one of auto, float32, bfloat16, float16"):
        Engine.load(str(tiny_qwen3), dtype="int3")
    with pytest.raises(UsageError, match=r"threads must be from 1 to \d+: this machine has \d+ cores"):
        EngineConfig(threads=100_000)
    with pytest.raises(UsageError, match="max_num_seqs must be at least 1"):
        Engine.load(str(tiny_qwen3), max_num_seqs=0)


def test_lists_of_unequal_length_are_refused(engine: Engine) -> None:
    with pytest.raises(UsageError, match="2 prompts but 1 sampling parameters"):
        engine.generate([PROMPT, PROMPT], [SamplingParams()])
    with pytest.raises(UsageError, match="0 sampling parameters"):
        engine.generate([[5, 6]], [])


def test_memory_that_holds_no_sequence_is_refused_at_load(tiny_qwen3: Path) -> None:
    with pytest.raises(ModelError, match=r"one sequence may have 2,048; lower engine\.max_model_len"):
        Engine.load(str(tiny_qwen3), dtype="float32", device="cpu", kv_memory=100_000)


def test_a_window_beyond_the_models_is_refused(tiny_qwen3: Path) -> None:
    with pytest.raises(UsageError, match=r"engine\.max_model_len is 4096, but the model's window is 2048 tokens"):
        Engine.load(str(tiny_qwen3), device="cpu", max_model_len=4096)


def test_auto_is_said(engine: Engine) -> None:
    device = resolve_device("cpu")
    assert resolve_dtype("auto", device) in (torch.bfloat16, torch.float32)
    assert engine.precision == "float32"
    assert engine.describe().startswith("device cpu, ")
    assert "float32, window 2,048 tokens" in engine.describe()


@pytest.mark.skipif(torch.cuda.is_available(), reason="a CUDA device is there")
def test_cuda_that_is_not_there_is_refused(tiny_qwen3: Path) -> None:
    with pytest.raises(UsageError, match=r"engine\.device is cuda, but torch sees no CUDA device here"):
        Engine.load(str(tiny_qwen3), device="cuda")
