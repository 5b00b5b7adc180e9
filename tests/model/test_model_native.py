"""native.c computes what torch computes, over irregular shapes; and what happens where it cannot be had."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from qwen_batch.engine import Engine, EngineConfig
from qwen_batch.errors import ModelError
from qwen_batch.model import native_library
from qwen_batch.model.attention import StepInput
from qwen_batch.model.backend import TorchBackend
from qwen_batch.model.config import ModelConfig
from qwen_batch.model.kv_cache import KVCache
from qwen_batch.model.layers import LayerWeights
from qwen_batch.model.native import NativeBackend
from qwen_batch.model.native_library import NativeLibrary, load_native
from qwen_batch.model.rope import Rope, RopeConfig
from qwen_batch.model.workspace import NewMemory

CPU = torch.device("cpu")
# Half a unit in the last place of bfloat16 is 2^-9; inputs that were rounded apart (a rotated query) add to it.
TOLERANCE = {torch.float32: 2e-5, torch.bfloat16: 2**-6}


@pytest.fixture(params=[torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def library(request: pytest.FixtureRequest) -> NativeLibrary:
    try:
        return load_native(request.param)
    except ModelError as error:
        pytest.skip(str(error))


def make_config(heads: int, kv_heads: int, dim: int, qk_norm: bool) -> ModelConfig:
    return ModelConfig(
        family="qwen3",
        vocab_size=50,
        hidden_size=48,
        intermediate_size=37,
        num_layers=2,
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=dim,
        rms_norm_eps=1e-6,
        rope=RopeConfig("default", 10_000.0, dim),
        window=4096,
        tie_word_embeddings=True,
        qk_norm=qk_norm,
        qkv_bias=False,
        output_bias=False,
        mlp_bias=False,
    )


def make_step(pieces: list[tuple[int, int]], block_size: int, num_blocks: int, seed: int) -> StepInput:
    """pieces: (tokens that are there, new tokens) of each sequence; blocks are drawn without order."""
    draw = random.Random(seed)
    free = draw.sample(range(num_blocks), num_blocks)
    tables, positions, slots, offsets = [], [], [], [0]
    for context, new in pieces:
        table = [free.pop() for _ in range(-(-(context + new) // block_size))]
        tables.append(table)
        positions += range(context, context + new)
        slots += [table[at // block_size] * block_size + at % block_size for at in range(context, context + new)]
        offsets.append(offsets[-1] + new)
    widest = max(map(len, tables))
    return StepInput(
        token_ids=torch.zeros(len(positions), dtype=torch.int64),
        positions=torch.tensor(positions),
        slot_mapping=torch.tensor(slots),
        block_tables=torch.tensor([table + [0] * (widest - len(table)) for table in tables]),
        logit_indices=torch.tensor([end - 1 for end in offsets[1:]]),
        cu_seqlens_q=offsets,
        context_lens=[context + new for context, new in pieces],
    )


def filled_cache(config: ModelConfig, block_size: int, num_blocks: int, dtype: torch.dtype) -> KVCache:
    cache = KVCache.allocate(config, num_blocks, block_size, dtype, CPU)
    generator = torch.Generator().manual_seed(1)
    for layer in (*cache.keys, *cache.values):
        layer.copy_(torch.randn(layer.shape, generator=generator))
    return cache


@pytest.mark.parametrize(
    "pieces", [[(0, 1)], [(5, 1), (0, 7), (300, 1), (129, 40), (1, 1)], [(n, 1) for n in range(9)]]
)
@pytest.mark.parametrize(
    ("heads", "kv_heads", "dim", "block_size", "qk_norm"),
    [(3, 1, 64, 16, False), (4, 4, 16, 3, True), (8, 1, 128, 32, True), (6, 3, 80, 1, False), (14, 2, 64, 16, False)],
)
def test_attention(
    library: NativeLibrary,
    pieces: list[tuple[int, int]],
    heads: int,
    kv_heads: int,
    dim: int,
    block_size: int,
    qk_norm: bool,
) -> None:
    config, dtype = make_config(heads, kv_heads, dim, qk_norm), library.dtype
    num_blocks = sum(-(-(a + b) // block_size) for a, b in pieces) + 3
    step = make_step(pieces, block_size, num_blocks, seed=3)
    generator = torch.Generator().manual_seed(2)
    qkv = torch.randn(len(step.positions), config.q_size + 2 * config.kv_size, generator=generator).to(dtype)
    norms = [(1 + 0.2 * torch.randn(dim, generator=generator)).to(dtype) for _ in range(2)] if qk_norm else [None, None]
    layer = fake_layer(*norms)
    rope = Rope(config.rope, CPU, dtype)
    ours, theirs = (filled_cache(config, block_size, num_blocks, dtype) for _ in range(2))
    found = NativeBackend(library, config, rope, step, ours, NewMemory(CPU)).attend(1, layer, qkv.clone())
    expected = TorchBackend(config, rope, step, theirs, NewMemory(CPU)).attend(1, layer, qkv.clone())
    close(found, expected)
    for mine, other in ((ours.keys, theirs.keys), (ours.values, theirs.values)):
        close(mine[1], other[1])
        assert torch.equal(mine[0], other[0]), "the other layer is not touched"


def fake_layer(q_norm: Tensor | None, k_norm: Tensor | None) -> LayerWeights:
    return LayerWeights(
        input_norm=torch.ones(1),
        qkv=unused,
        q_norm=q_norm,
        k_norm=k_norm,
        output=unused,
        post_norm=torch.ones(1),
        gate_up=unused,
        down=unused,
    )


def unused(x: Tensor) -> Tensor:
    raise AssertionError("attention multiplies with no weights")


def close(found: Tensor, expected: Tensor) -> None:
    tolerance = TOLERANCE[found.dtype]
    torch.testing.assert_close(found.float(), expected.float(), atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize(("rows", "size"), [(1, 48), (5, 37), (130, 576)])
@pytest.mark.parametrize("with_delta", [False, True])
def test_norm_and_silu(library: NativeLibrary, rows: int, size: int, with_delta: bool) -> None:
    config, dtype = make_config(2, 1, 16, qk_norm=False), library.dtype
    rope, step = Rope(config.rope, CPU, dtype), make_step([(0, 1)], 16, 2, seed=0)
    cache = filled_cache(config, 16, 2, dtype)
    generator = torch.Generator().manual_seed(4)
    residual, delta = (torch.randn(rows, size, generator=generator).to(dtype) * 3 for _ in range(2))
    weight = torch.randn(size, generator=generator).to(dtype)
    gate_up = torch.cat((residual * 20, delta), dim=-1)
    memory = NewMemory(CPU)
    mine = NativeBackend(library, config, rope, step, cache, memory)
    theirs = TorchBackend(config, rope, step, cache, memory)
    results = [backend.add_norm(residual.clone(), delta if with_delta else None, weight) for backend in (mine, theirs)]
    for found, expected in zip(*results, strict=True):
        close(found, expected)
    close(mine.silu_mul(gate_up.contiguous()), theirs.silu_mul(gate_up))


def test_argmax_takes_the_first_of_equals_and_names_broken_rows(library: NativeLibrary) -> None:
    logits = torch.randn(4, 1001, generator=torch.Generator().manual_seed(5)).to(library.dtype)
    logits[1, 30] = logits[1, 700] = 50.0
    logits[2, 8] = float("nan")
    logits[3] = float("-inf")
    assert library.argmax(logits).tolist() == [logits[0].float().argmax().item(), 30, -1, 0]


def test_without_a_compiler_auto_says_so_and_native_is_refused(
    tiny_qwen3: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    config = EngineConfig(device="cpu", dtype="float32")
    engine = Engine.load_folder(tiny_qwen3, config)
    assert "backend torch (native not available: there is no C compiler" in engine.describe()
    with pytest.raises(ModelError, match=r"engine\.backend native: there is no C compiler"):
        Engine.load_folder(tiny_qwen3, replace(config, backend="native"))


def test_a_compiler_that_fails_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho 'no such target' >&2\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    monkeypatch.setenv("QWEN_BATCH_HOME", str(tmp_path / "home"))
    with pytest.raises(ModelError, match="does not compile it: no such target"):
        load_native(torch.float32)
    assert list((tmp_path / "home" / "native").iterdir()) == []


def test_it_is_compiled_once(monkeypatch: pytest.MonkeyPatch, library: NativeLibrary) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("compiled again")

    monkeypatch.setattr(native_library, "_compile", refuse)
    load_native(library.dtype)
