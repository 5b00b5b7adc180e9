"""Decoding through graphs, here objects that only replay: padding, the ladder, what falls back, and the same tokens."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from qwen_batch.engine import Engine, EngineConfig
from qwen_batch.engine.graphs import DecodeGraphs, ladder
from qwen_batch.model import triton_plan
from qwen_batch.model.attention import StepInput
from qwen_batch.model.decoder import Decoder
from qwen_batch.model.kv_cache import KVCache
from qwen_batch.model.staging import Staging
from qwen_batch.model.static_decode import StaticDecode
from qwen_batch.model.tokenizer import ChatTokenizer
from qwen_batch.model.triton_plan import AttentionShape
from qwen_batch.records import SamplingParams

CPU = torch.device("cpu")


class Replay:
    """Captures by running once, as CudaCapture does, and replays by running again."""

    def __init__(self, *, broken: bool = False) -> None:
        self.num_replays = 0
        self._broken = broken

    def __call__(self, compute: Callable[[], None]) -> Callable[[], None]:
        if self._broken:
            raise RuntimeError("CUDA error: operation not permitted\nmore lines")
        compute()

        def replay() -> None:
            self.num_replays += 1
            compute()

        return replay


def load(folder: Path, capture: Replay, *, overlap: bool = False) -> tuple[Engine, DecodeGraphs]:
    """An engine on our kernels whose decoding steps go through graphs."""
    options = EngineConfig(
        device="cpu", dtype="float32", backend="triton", max_model_len=160, max_num_seqs=5, num_blocks=60,
        overlap=overlap,
    )  # fmt: skip
    decoder = Decoder.load(folder, torch.float32, CPU, use_triton=True)
    engine = Engine(decoder, ChatTokenizer.load(folder), options, "triton")
    cache = KVCache.allocate(decoder.config, options.num_blocks + 1, 16, torch.float32, CPU)  # type: ignore[operator]
    for layer in (*cache.keys, *cache.values):
        layer[-1] = torch.nan  # the reserved block: what padding has not written must not be read
    graphs = DecodeGraphs(decoder, cache, max_num_seqs=5, max_model_len=160, capture=capture)
    engine._runner._cache, engine._runner._graphs = cache, graphs
    return engine, graphs


def prompts(lengths: tuple[int, ...], shared: int = 0) -> list[list[int]]:
    draw = random.Random(5)
    prefix = [draw.randrange(3, 490) for _ in range(shared)]
    return [prefix + [draw.randrange(3, 490) for _ in range(length)] for length in lengths]


def expected(folder: Path, given: list[list[int]], params: list[SamplingParams]) -> list[tuple[int, ...]]:
    engine = Engine.load_folder(folder, EngineConfig(device="cpu", dtype="float32", backend="torch"))
    return [completion.token_ids for completion in engine.generate(given, params)]


def forced(*lengths: int) -> list[SamplingParams]:
    return [SamplingParams(max_tokens=length, ignore_eos=True) for length in lengths]


@pytest.mark.parametrize("overlap", [False, True])
def test_tokens_are_the_same_whatever_is_padded(tiny_qwen3: Path, overlap: bool) -> None:
    """Batches of 3, 2 and 1: the largest graph comes first, then each size when it is wanted."""
    capture = Replay()
    engine, graphs = load(tiny_qwen3, capture, overlap=overlap)
    given, params = prompts((3, 17, 9)), forced(3, 4, 5)
    assert [c.token_ids for c in engine.generate(given, params)] == expected(tiny_qwen3, given, params)
    assert graphs.sizes == [(8, False), (4, False), (2, False), (1, False)]
    assert capture.num_replays == 4
    engine.check_blocks()


def test_shared_prefixes_have_graphs_of_their_own(tiny_qwen3: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton_plan, "MIN_PREFIX_TOKENS", 32)
    capture = Replay()
    engine, graphs = load(tiny_qwen3, capture)
    given, params = prompts((3, 9, 1, 6), shared=40), forced(3, 3, 3, 2)
    assert [c.token_ids for c in engine.generate(given, params)] == expected(tiny_qwen3, given, params)
    assert {(8, True), (4, True)} <= set(graphs.sizes)
    assert capture.num_replays >= 2


def decoding_step(contexts: list[int], groups: list[int]) -> StepInput:
    """One token each; rows of a group share their first two blocks of 16 tokens."""
    tables = [[1 + 2 * group, 2 + 2 * group, 20 + row] for row, group in enumerate(groups)]
    return StepInput(
        token_ids=torch.arange(len(contexts)), positions=torch.tensor(contexts) - 1,
        slot_mapping=torch.arange(len(contexts)) + 300, block_tables=torch.tensor(tables, dtype=torch.int32),
        logit_indices=torch.arange(len(contexts)), cu_seqlens_q=[*range(len(contexts) + 1)], context_lens=contexts,
        block_lists=tables,
    )  # fmt: skip


def test_nothing_of_the_step_before_reaches_a_later_one() -> None:
    """Two groups and eight rows, then one group and five rows: a graph of eight reads three tiles of prefixes."""
    shape = AttentionShape(num_kv_heads=2, group=2, head_dim=32, block_size=16, dtype=torch.float32, num_processors=1)
    staging = Staging(CPU)
    used, fresh = (StaticDecode(shape, 8, 160, 99, CPU) for _ in range(2))
    used.fill(decoding_step([40] * 8, [0] * 4 + [1] * 4), [([0, 1, 2, 3], 32), ([4, 5, 6, 7], 32)], 8, staging)
    assert int(used.plan(8, True).decodes.prefixes.tiles[:, 1].count_nonzero()) == 2  # type: ignore[union-attr]
    later, shared = decoding_step([45, 41, 42, 43, 7], [0, 0, 0, 0, 1]), [([0, 1, 2, 3], 32)]
    for one in (used, fresh):
        one.fill(later, shared, 8, staging)
    got, want = used.plan(8, True), fresh.plan(8, True)
    assert got.decodes is not None
    assert want.decodes is not None
    assert got.decodes.prefixes is not None
    assert want.decodes.prefixes is not None
    assert (
        got.decodes.prefixes.tiles.tolist() == want.decodes.prefixes.tiles.tolist() == [[0, 4, 0, 32], [0] * 4, [0] * 4]
    )
    assert got.decodes.starts.tolist() == want.decodes.starts.tolist() == [32] * 4 + [0] * 4  # type: ignore[union-attr]
    assert got.context_lens.tolist() == want.context_lens.tolist() == [45, 41, 42, 43, 7, 1, 1, 1]
    assert got.tables[5:, 0].tolist() == [99] * 3
    assert used.slots.tolist()[5:] == [99 * 16] * 3


def test_a_failed_capture_is_said_once_and_changes_no_token(tiny_qwen3: Path, caplog: pytest.LogCaptureFixture) -> None:
    engine, graphs = load(tiny_qwen3, Replay(broken=True))
    given, params = prompts((3, 17)), forced(3, 3)
    with caplog.at_level(logging.WARNING, "qwen_batch"):
        answers = [c.token_ids for c in engine.generate(given, params)]
    assert answers == expected(tiny_qwen3, given, params)
    assert [record.getMessage() for record in caplog.records] == [
        "CUDA graphs are off, steps are launched kernel by kernel: a graph of 8 sequences cannot be captured: "
        "CUDA error: operation not permitted"
    ]
    assert graphs.sizes == []


def test_the_ladder() -> None:
    assert ladder(1) == [1]
    assert ladder(5) == [1, 2, 4, 8]
    assert ladder(64) == [1, 2, 4, 8, 16, 24, 32, 40, 48, 56, 64]
    for wanted in range(17, 1000):
        sizes = ladder(wanted)
        size = next(size for size in sizes if size >= wanted)
        assert size == sizes[-1]
        assert size - wanted <= size / 3
