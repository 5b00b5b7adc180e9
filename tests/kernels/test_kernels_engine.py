"""The whole engine on our kernels, in Triton's interpreter, against the torch backend; and when they are chosen."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path
from typing import Any

import pytest
import torch

from qwen_batch.engine import Engine, EngineConfig
from qwen_batch.engine.config import resolve_backend
from qwen_batch.errors import ModelError
from qwen_batch.kernels import attention_prefix
from qwen_batch.model import triton_backend, triton_plan
from qwen_batch.model.attention import StepAttention, StepInput
from qwen_batch.model.config import read_config
from qwen_batch.model.kv_cache import KVCache
from qwen_batch.model.staging import Staging
from qwen_batch.model.workspace import NewMemory
from qwen_batch.records import SamplingParams


def make_prompts(lengths: list[int], *, shared: int = 0) -> list[list[int]]:
    generator = random.Random(7)
    prefix = [generator.randrange(3, 490) for _ in range(shared)]
    return [prefix + [generator.randrange(3, 490) for _ in range(length)] for length in lengths]


GREEDY = SamplingParams(max_tokens=4, ignore_eos=True)


def tokens(
    folder: Path, backend: str, prompts: list[list[int]], sampling: Any = GREEDY, **options: Any
) -> list[tuple[int, ...]]:
    config = EngineConfig(device="cpu", dtype="float32", backend=backend, max_model_len=256, **options)  # type: ignore[arg-type]
    engine = Engine.load_folder(folder, config)
    assert f"backend {backend}" in engine.describe()
    completions = engine.generate(prompts, sampling)
    engine.check_blocks()
    return [completion.token_ids for completion in completions]


@pytest.mark.parametrize("name", ["tiny_qwen3", "tiny_qwen2", "tiny_llama"])
def test_tokens_equal_those_of_the_torch_backend(name: str, request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue(name)
    prompts = make_prompts([1, 31, 50])
    options = {"max_num_batched_tokens": 40, "max_num_seqs": 2}  # prompts in pieces, beside sequences that decode
    assert tokens(folder, "triton", prompts, **options) == tokens(folder, "torch", prompts, **options)


def test_sampled_tokens_equal_those_of_the_torch_backend(tiny_qwen3: Path) -> None:
    prompts = make_prompts([5, 9, 3, 7])
    sampling = [
        SamplingParams(max_tokens=4, ignore_eos=True, seed=seed, **asked)
        for seed, asked in enumerate(
            (
                {"temperature": 0.9},
                {"temperature": 1.4, "top_k": 20, "top_p": 0.95, "repetition_penalty": 1.3},
                {"presence_penalty": 1.5},
                {"temperature": 2.0, "min_p": 0.02},
            )
        )
    ]
    ours, theirs = (tokens(tiny_qwen3, backend, prompts, sampling) for backend in ("triton", "torch"))
    assert ours == theirs
    assert ours != tokens(tiny_qwen3, "torch", prompts)


def test_a_shared_prefix_is_read_once_and_changes_no_token(tiny_qwen3: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launches = []
    kernel = attention_prefix.attention_prefix

    def counted(*arguments: Any, **options: Any) -> None:
        launches.append(len(arguments[5].members))
        kernel(*arguments, **options)

    monkeypatch.setattr(triton_plan, "MIN_PREFIX_TOKENS", 32)
    monkeypatch.setattr(attention_prefix, "attention_prefix", counted)
    prompts = make_prompts([3, 9, 1, 22, 5], shared=40)
    assert tokens(tiny_qwen3, "triton", prompts) == tokens(tiny_qwen3, "torch", prompts)
    assert max(launches) == 5


def test_attention_equals_torch_in_a_mixed_step() -> None:
    kv_heads, heads, head_dim, block_size = 2, 6, 32, 16
    generator = torch.Generator().manual_seed(3)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator)

    lists = [[5, 1, 9], [0, 0, 0], [7, 2, 3]]
    step = StepInput(
        token_ids=torch.zeros(14, dtype=torch.int64),
        positions=torch.tensor([40, *range(1), *range(20, 32)]),
        slot_mapping=torch.tensor([9 * 16 + 8, 0, *range(2 * 16 + 4, 2 * 16 + 16)]),
        block_tables=torch.tensor(lists),
        logit_indices=torch.tensor([0, 1, 13]),
        cu_seqlens_q=[0, 1, 2, 14],
        context_lens=[41, 1, 32],
        block_lists=lists,
    )
    filled = [draw(10, block_size, kv_heads, head_dim) for _ in range(2)]
    queries, keys, values = draw(14, heads, head_dim), draw(14, kv_heads, head_dim), draw(14, kv_heads, head_dim)
    shape = triton_plan.AttentionShape(kv_heads, heads // kv_heads, head_dim, block_size, torch.float32, 1)
    plan = triton_plan.plan_attention(step, shape, Staging(torch.device("cpu")))
    memory, results = NewMemory(torch.device("cpu")), []
    for build in (
        StepAttention,
        lambda step, cache: triton_backend.TritonAttention(plan, cache, step.slot_mapping, memory),
    ):
        cache = KVCache((filled[0].clone(),), (filled[1].clone(),), block_size)
        results.append(build(step, cache).attend(0, queries, keys, values))
    torch.testing.assert_close(results[1], results[0], rtol=1e-5, atol=1e-5)


def test_what_is_chosen(tiny_qwen3: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = read_config(tiny_qwen3)
    cpu, cuda = torch.device("cpu"), torch.device("cuda", 0)

    def chosen(asked: Any, device: torch.device, shape: Any = model, block_size: int = 16) -> str:
        return resolve_backend(asked, shape, torch.float16, device, block_size)[1]

    assert chosen("auto", cpu) == "torch"  # float16 on a CPU is not for native either
    assert chosen("auto", cuda) == "triton"
    assert chosen("torch", cuda) == "torch"
    assert chosen("triton", cpu) == "triton", "the interpreter takes CPU tensors"
    odd = dataclasses.replace(model, head_dim=48)
    assert chosen("auto", cuda, odd).startswith("torch (triton not available: head_dim 48 is not one of")
    with pytest.raises(ModelError, match="the kernels cannot run: head_dim 48 is not one of"):
        chosen("triton", cuda, odd)
    with pytest.raises(ModelError, match="the kernels cannot run: block_size 10 is not one of"):
        chosen("triton", cuda, block_size=10)
    monkeypatch.setattr(triton_backend, "INTERPRETED", False)
    with pytest.raises(
        ModelError,
        match=r"engine\.backend triton: the kernels cannot run: they need a CUDA device, and this is cpu; "
        "use auto or torch",
    ):
        chosen("triton", cpu)
