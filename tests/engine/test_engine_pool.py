"""How much memory keys and values get on a card, and how many tokens fill it: sums, and the steps that are tried."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from qwen_batch.bench.roofline import Rates, compute_bound_tokens, measure_rates
from qwen_batch.engine import Engine
from qwen_batch.engine.config import EngineConfig, lowered_window, resolve_num_blocks
from qwen_batch.engine.memory import CudaMeter, Meter, kv_pool_bytes, measure_kv_pool
from qwen_batch.errors import ModelError, UsageError
from qwen_batch.model.attention import StepInput
from qwen_batch.model.config import ModelConfig, parse_config, read_config
from qwen_batch.model.decoder import Decoder
from qwen_batch.model.kv_cache import KVCache
from qwen_batch.model.weights import Checkpoint, _Loader, read_weights

GB = 10**9
CPU = torch.device("cpu")
QWEN3_32B: dict[str, Any] = {
    "model_type": "qwen3", "vocab_size": 151_936, "hidden_size": 5120, "intermediate_size": 25_600,
    "num_hidden_layers": 64, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 128,
    "max_position_embeddings": 40_960, "rope_theta": 1e6,
}  # fmt: skip


class GivenMeter(Meter):
    """A card of 80 GB that others have 5 GB of."""

    def __init__(self, *peaks: int) -> None:
        self._peaks = list(peaks)

    def total_and_free(self) -> tuple[int, int]:
        return 80 * GB, 75 * GB

    def start(self) -> None:
        pass

    def peak(self) -> int:
        return self._peaks.pop(0)


def test_the_pool_is_what_is_left_of_the_share() -> None:
    assert kv_pool_bytes(total=80 * GB, free=14 * GB, share=0.9, step_bytes=2 * GB) == 4 * GB
    assert kv_pool_bytes(total=80 * GB, free=5 * GB, share=0.9, step_bytes=2 * GB) == 0


def test_the_largest_steps_are_tried(tiny_qwen3: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decoder = Decoder.load(tiny_qwen3, torch.float32, CPU)
    tried: list[StepInput] = []
    forward = decoder.forward

    def noted(step: StepInput, cache: KVCache) -> torch.Tensor:
        tried.append(step)
        logits = forward(step, cache)
        assert not logits.isnan().any()
        return logits

    monkeypatch.setattr(decoder, "forward", noted)
    config = EngineConfig(max_num_seqs=7, max_num_batched_tokens=50, max_model_len=300, gpu_memory=0.5)
    pool = measure_kv_pool(decoder, config, GivenMeter(2 * GB, 3 * GB), has_graphs=False)
    assert pool == 40 * GB - 5 * GB - 3 * GB
    prefill, decode = tried
    assert (len(prefill.token_ids), len(prefill.logit_indices)) == (50, 7)
    assert (decode.piece_lengths, decode.context_lens) == ([1] * 7, [300] * 7)
    assert measure_kv_pool(decoder, config, GivenMeter(0, 0), has_graphs=True) < 35 * GB


def test_what_the_driver_takes_for_kernels_counts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A card of which torch's allocator took 2 GB for the step, and the driver 1 GB more."""
    free = [75 * GB, 72 * GB]
    for name, answer in (
        ("mem_get_info", lambda device: (free.pop(0), 80 * GB)),
        ("memory_reserved", lambda device: 4 * GB),
        ("max_memory_reserved", lambda device: 6 * GB),
        ("reset_peak_memory_stats", lambda device: None),
        ("synchronize", lambda device: None),
    ):
        monkeypatch.setattr(torch.cuda, name, answer)
    meter = CudaMeter(torch.device("cuda", 0))
    meter.start()
    assert meter.peak() == 3 * GB


def test_weights_that_leave_no_room_are_refused_in_words(tiny_qwen3: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decoder = Decoder.load(tiny_qwen3, torch.float32, CPU)

    def full(step: StepInput, cache: KVCache) -> torch.Tensor:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(decoder, "forward", full)
    with pytest.raises(ModelError, match=r"no room for a step of 2,048 tokens and 64 sequences; lower engine\.max_num"):
        measure_kv_pool(decoder, EngineConfig(), GivenMeter(0), has_graphs=False)


def test_memory_is_measured_only_where_it_is_left_open() -> None:
    model = parse_config(QWEN3_32B, "config.json")

    def never() -> int:
        raise AssertionError

    asked = EngineConfig(kv_memory=20 * GB, max_model_len=8192)
    assert resolve_num_blocks(asked, model, torch.bfloat16, never) == 20 * GB // (16 * 256 * 1024)
    assert resolve_num_blocks(EngineConfig(num_blocks=7), model, torch.bfloat16, never) == 7
    with pytest.raises(UsageError, match="gpu_memory must be above 0 and at most 1"):
        EngineConfig(gpu_memory=1.5)


class ShapesOnly(Checkpoint):
    """In place of 65 GB of files: any tensor, of the shape that is asked for."""

    def read_into(self, target: torch.Tensor, name: str) -> None:
        self.used.add(name)

    def check_all_used(self) -> None:
        pass


def test_qwen3_32b_fits_a_card_of_80_gb(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted on a device that has shapes and no memory: each weight is made once, in the place where it stays."""
    model = parse_config(QWEN3_32B, "config.json")
    made = count_bytes(monkeypatch, model)
    assert made == 2 * 32_762_123_264  # the published number of parameters, in bfloat16
    card, context, step = int(79.1 * 2**30), GB // 2, 3 * GB // 2  # as an H100 tells, the driver's part, a step's
    config = EngineConfig()
    rest = kv_pool_bytes(card, card - made - context, config.gpu_memory, step)
    num_blocks = resolve_num_blocks(config, model, torch.bfloat16, lambda: rest)
    assert lowered_window(config, model, num_blocks) == 33_792, "of 40,960, with everything as it is by default"
    assert lowered_window(config, model, num_blocks + 9) == 33_792, "a little more is no other window"
    with pytest.raises(ModelError, match=r"one sequence may have 40,960; lower engine\.max_model_len"):
        resolve_num_blocks(EngineConfig(max_model_len=40_960), model, torch.bfloat16, lambda: rest)
    with pytest.raises(ModelError, match="one sequence may have 40,960"):
        resolve_num_blocks(config, model, torch.bfloat16, lambda: 1000 * model.kv_bytes_per_token(2))


def test_a_window_that_fits_or_was_asked_for_is_kept() -> None:
    model = parse_config(QWEN3_32B, "config.json")
    assert lowered_window(EngineConfig(), model, 40_960 // 16) == 40_960
    assert lowered_window(EngineConfig(max_model_len=8192), model, 512) == 8192
    assert lowered_window(EngineConfig(num_blocks=7), model, 7) == 40_960, "blocks that were asked for are the limit"
    assert lowered_window(EngineConfig(), model, 64) == 1024
    small = parse_config({**QWEN3_32B, "max_position_embeddings": 512}, "config.json")
    assert lowered_window(EngineConfig(), small, 32) == 512


def test_a_lowered_window_is_told(
    tiny_qwen3: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    options = EngineConfig(device="cpu", dtype="float32", backend="torch")
    model = read_config(tiny_qwen3)
    tokens = 1100 * model.kv_bytes_per_token(4)
    monkeypatch.setattr("qwen_batch.engine.config._free_bytes", lambda: 4 * tokens)
    with caplog.at_level(logging.WARNING, "qwen_batch"):
        engine = Engine.load_folder(tiny_qwen3, options)
    assert engine.max_model_len == 1024
    assert "window 1,024 tokens" in engine.describe()
    assert [record.getMessage() for record in caplog.records] == [
        "the window is lowered from 2,048 to 1,024 tokens: beside the weights, memory holds keys and values of no "
        "more; longer documents are divided"
    ]


def count_bytes(monkeypatch: pytest.MonkeyPatch, model: ModelConfig) -> int:
    """Bytes of all tensors that loading makes."""
    sizes: list[int] = []
    empty = torch.empty

    def counted(shape: Sequence[int], *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        sizes.append(torch.Size(shape).numel() * dtype.itemsize)
        return empty(shape, dtype=dtype, device=device)

    monkeypatch.setattr(torch, "empty", counted)
    loader = _Loader(ShapesOnly(Path("nowhere"), {}), torch.bfloat16, torch.device("meta"), None, int8=False)
    read_weights(loader, model)
    return sum(sizes)


def test_a_step_is_as_large_as_makes_it_compute_bound() -> None:
    h200 = Rates(matmul_flops=790e12, copy_bytes=4.3e12)
    assert compute_bound_tokens(h200, itemsize=2) == 4096
    assert compute_bound_tokens(h200, itemsize=1) == 2048
    assert compute_bound_tokens(Rates(1e12, 1e12), itemsize=2) == 256
    assert compute_bound_tokens(Rates(1e18, 1e12), itemsize=2) == 16_384


def test_rates_are_measured() -> None:
    rates = measure_rates(CPU, torch.float32, size=64, copy_elements=1 << 14)
    assert rates.matmul_flops > 1e6
    assert rates.copy_bytes > 1e6


@pytest.mark.gpu
def test_a_card_keeps_its_share_free(tiny_qwen3: Path) -> None:
    from qwen_batch.engine import Engine

    Engine.load_folder(tiny_qwen3, EngineConfig(device="cuda", gpu_memory=0.5, max_num_seqs=10_000))
    free, total = torch.cuda.mem_get_info()
    assert free > 0.45 * total
