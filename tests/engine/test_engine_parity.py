"""Greedy tokens of the engine equal those of transformers on the same weights, however the work is cut up."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from qwen_batch.engine import Engine, EngineConfig
from qwen_batch.records import Completion, SamplingParams

OUTPUT_TOKENS = 24
LENGTHS = (1, 2, 15, 16, 17, 33, 64, 130, 301, 600)

OPTIONS: dict[str, Any] = {"device": "cpu", "dtype": "float32"}


@lru_cache(maxsize=8)
def reference(folder: Path) -> Any:
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    model.generation_config.eos_token_id = None  # lengths are forced
    return model


@lru_cache(maxsize=512)
def reference_tokens(folder: Path, prompt: tuple[int, ...], num_tokens: int = OUTPUT_TOKENS) -> tuple[int, ...]:
    """What transformers generates greedily, the end token ignored."""
    model = reference(folder)
    with torch.inference_mode():
        output = model.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.int64),
            max_new_tokens=num_tokens,
            do_sample=False,
            pad_token_id=0,
        )
    return tuple(output[0, len(prompt) :].tolist())


@pytest.fixture(params=["tiny_qwen3", "tiny_qwen2", "tiny_llama"])
def folder(request: pytest.FixtureRequest) -> Path:
    path: Path = request.getfixturevalue(request.param)
    return path


@pytest.fixture(params=["torch", "auto"], autouse=True)
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every test of this file runs through torch and through what this machine takes by itself."""
    name: str = request.param
    monkeypatch.setitem(OPTIONS, "backend", name)
    return name


@pytest.fixture
def prompts() -> list[tuple[int, ...]]:
    return make_prompts(LENGTHS)


def make_prompts(lengths: Sequence[int], *, shared: int = 0, seed: int = 1) -> list[tuple[int, ...]]:
    draw = random.Random(seed)
    prefix = tuple(draw.randrange(3, 490) for _ in range(shared))
    return [prefix + tuple(draw.randrange(3, 490) for _ in range(length)) for length in lengths]


def run(folder: Path, prompts: Sequence[tuple[int, ...]], **options: Any) -> tuple[Engine, list[Completion]]:
    engine = Engine.load_folder(folder, EngineConfig(**{**OPTIONS, **options}))
    params = SamplingParams(max_tokens=OUTPUT_TOKENS, ignore_eos=True)
    completions = engine.generate(prompts, params)
    engine.check_blocks()
    return engine, completions


def assert_equals_reference(folder: Path, prompts: Sequence[tuple[int, ...]], completions: list[Completion]) -> None:
    for prompt, completion in zip(prompts, completions, strict=True):
        assert completion.token_ids == reference_tokens(folder, prompt), f"prompt of {len(prompt)} tokens"
        assert completion.finish_reason == "length"
        assert completion.num_prompt_tokens == len(prompt)


def test_one_at_a_time(folder: Path, prompts: list[tuple[int, ...]]) -> None:
    engine, completions = run(folder, prompts, max_num_seqs=1, share_prefixes=False)
    assert_equals_reference(folder, prompts, completions)
    assert engine.stats.num_steps == len(prompts) * OUTPUT_TOKENS


@pytest.mark.parametrize("chunk", [1, 7, 64, 4096])
def test_mixed_lengths_with_chunked_prefill(folder: Path, prompts: list[tuple[int, ...]], chunk: int) -> None:
    if chunk == 1:
        prompts = prompts[:7]  # one token a step is slow, and the same at any length
    engine, completions = run(folder, prompts, max_num_batched_tokens=chunk)
    assert_equals_reference(folder, prompts, completions)
    computed = sum(map(len, prompts)) + len(prompts) * (OUTPUT_TOKENS - 1)
    assert engine.stats.num_computed_tokens == computed, "with nothing shared, every token is computed once"


@pytest.mark.parametrize("block_size", [1, 3, 16, 64])
def test_block_sizes(folder: Path, prompts: list[tuple[int, ...]], block_size: int) -> None:
    _, completions = run(folder, prompts, block_size=block_size)
    assert_equals_reference(folder, prompts, completions)


@pytest.mark.parametrize("chunk", [40, 4096])
def test_shared_prefix_is_computed_once(folder: Path, chunk: int) -> None:
    prompts = make_prompts((5, 9, 30, 41, 1, 17), shared=100)
    engine, completions = run(folder, prompts, max_num_batched_tokens=chunk)
    assert_equals_reference(folder, prompts, completions)
    assert [c.num_cached_tokens for c in completions] == [0, 96, 96, 96, 96, 96]  # 6 full blocks of 16
    ideal = sum(map(len, prompts)) - 5 * 96 + len(prompts) * (OUTPUT_TOKENS - 1)
    assert engine.stats.num_computed_tokens == ideal


def test_equal_prompts_share_all_but_the_last_block(folder: Path) -> None:
    prompts = make_prompts((64,)) * 4
    _, completions = run(folder, prompts)
    assert_equals_reference(folder, prompts, completions)
    assert [c.num_cached_tokens for c in completions] == [0, 48, 48, 48]


def test_prefix_survives_from_one_call_to_the_next(tiny_qwen3: Path) -> None:
    prompts = make_prompts((20, 33), shared=64)
    engine, first = run(tiny_qwen3, prompts[:1])
    again = prompts[1:]
    second = engine.generate(again, SamplingParams(max_tokens=OUTPUT_TOKENS, ignore_eos=True))
    assert_equals_reference(tiny_qwen3, again, second)
    assert (first[0].num_cached_tokens, second[0].num_cached_tokens) == (0, 64)


@pytest.mark.parametrize("share_prefixes", [True, False])
def test_forced_preemption(folder: Path, share_prefixes: bool) -> None:
    prompts = make_prompts((60, 61, 62, 63, 90, 10))
    engine, completions = run(
        folder, prompts, num_blocks=12, output_reserve=0.0, share_prefixes=share_prefixes, max_num_batched_tokens=50
    )
    assert_equals_reference(folder, prompts, completions)
    assert engine.stats.num_preemptions > 0
    assert any(c.num_preemptions for c in completions)


def test_full_reserve_never_preempts(tiny_qwen3: Path) -> None:
    prompts = make_prompts((60, 61, 62, 63, 90, 10))
    engine, completions = run(tiny_qwen3, prompts, num_blocks=12)
    assert_equals_reference(tiny_qwen3, prompts, completions)
    assert engine.stats.num_preemptions == 0


def test_small_pool_evicts_unused_prefixes(tiny_qwen3: Path) -> None:
    prompts = make_prompts((70,) * 6) + make_prompts((10,) * 3, shared=64, seed=2)
    engine, completions = run(tiny_qwen3, prompts, num_blocks=14, max_num_seqs=2)
    assert_equals_reference(tiny_qwen3, prompts, completions)
    assert engine.stats.num_used_blocks == 0


@pytest.mark.parametrize("family", ["tiny_qwen3", "tiny_qwen2", "tiny_llama"])
def test_bfloat16_logits_are_near(family: str, request: pytest.FixtureRequest) -> None:
    """Stated distance: the mean error of bfloat16 logits is within 1.5 times that of transformers' own bfloat16."""
    folder: Path = request.getfixturevalue(family)
    prompt = make_prompts((200,))[0]
    exact = all_logits(folder, prompt, torch.float32)
    theirs = all_logits(folder, prompt, torch.bfloat16)
    ours = engine_logits(folder, prompt)
    assert (ours - exact).abs().mean() <= 1.5 * (theirs - exact).abs().mean()


def all_logits(folder: Path, prompt: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval()
    with torch.inference_mode():
        logits: torch.Tensor = model(torch.tensor([prompt])).logits[0].float()
    return logits


def engine_logits(folder: Path, prompt: tuple[int, ...]) -> torch.Tensor:
    from qwen_batch.model.attention import StepInput
    from qwen_batch.model.decoder import Decoder
    from qwen_batch.model.kv_cache import KVCache

    decoder = Decoder.load(folder, torch.bfloat16, torch.device("cpu"))
    length = len(prompt)
    cache = KVCache.allocate(decoder.config, -(-length // 16), 16, torch.bfloat16, torch.device("cpu"))
    everything = torch.arange(length)
    step = StepInput(
        token_ids=torch.tensor(prompt),
        positions=everything,
        slot_mapping=everything,
        block_tables=torch.arange(-(-length // 16))[None],
        logit_indices=everything,
        cu_seqlens_q=[0, length],
        context_lens=[length],
    )
    return decoder.forward(step, cache).float()


def test_demo_equals_transformers(demo_model: Path) -> None:
    engine = Engine.load_folder(demo_model, EngineConfig(**OPTIONS, max_num_batched_tokens=64))
    texts = ("The capital of France is", "This agreement is made between " * 12, "请列出合同的当事人", "def f(x):")
    prompts = [tuple(engine.tokenizer.encode(text)) for text in texts]
    completions = engine.generate(prompts, SamplingParams(max_tokens=12, ignore_eos=True))
    for prompt, completion in zip(prompts, completions, strict=True):
        assert completion.token_ids == reference_tokens(demo_model, prompt, 12)
