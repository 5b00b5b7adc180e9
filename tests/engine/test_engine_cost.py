"""Predictions of bytes are exact; those of seconds stay near what a measured engine takes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from tiny_models import make_tiny_model

from qwen_batch.engine import Engine, EngineConfig, measure
from qwen_batch.engine.cost import DeviceRates, StepWork, fit_rates, kv_bytes, spans_of, step_seconds, step_work
from qwen_batch.engine.measure import PIECE_TOKENS, StepTimes, measure_steps, step_times
from qwen_batch.engine.runner import Flight, Runner
from qwen_batch.engine.scheduler import Piece
from qwen_batch.model.decoder import Decoder
from qwen_batch.records import Request, SamplingParams


@pytest.fixture
def engine(tiny_qwen3: Path) -> Engine:
    return Engine.load_folder(
        tiny_qwen3, EngineConfig(device="cpu", dtype="float32", backend="torch", num_blocks=64, block_size=8)
    )


@pytest.mark.parametrize(("prompt", "answer"), [(1, 1), (8, 1), (9, 8), (100, 30)])
def test_predicted_kv_bytes_are_those_that_a_request_takes(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, prompt: int, answer: int
) -> None:
    cache = engine._runner._cache
    pool_bytes = sum(tensor.nbytes for tensor in (*cache.keys, *cache.values))
    engine.add(Request("r", range(3, 3 + prompt), SamplingParams(max_tokens=answer, ignore_eos=True)))
    most, launch = 0, Runner.launch

    def noted(self: Runner, pieces: list[Piece], before: Flight | None = None) -> Flight:
        nonlocal most
        most = max(most, engine.stats.num_used_blocks)
        return launch(self, pieces, before)

    monkeypatch.setattr(Runner, "launch", noted)
    while engine.has_unfinished:
        engine.step()
    config = engine._runner._decoder.config
    predicted = kv_bytes(config, 4, 8, prompt + answer - 1)  # the last token of an answer is not computed
    assert predicted * 64 == most * pool_bytes


def test_work_of_a_step_is_what_torch_counts_and_the_pairs_that_attend(engine: Engine) -> None:
    from torch.utils.flop_counter import FlopCounterMode

    decoder = engine._runner._decoder
    with FlopCounterMode(display=False) as counter:  # counts products; attention on a CPU is none to it
        measure._run_step(decoder, 300, 8)
    config, spans = decoder.config, spans_of(300, PIECE_TOKENS)
    pairs = sum(place + 1 for new, length in spans for place in range(length - new, length))
    attention = 4 * config.num_layers * config.q_size * pairs
    assert step_work(config, 4, spans, 1).flops == counter.get_total_flops() + attention


def test_bytes_of_a_step_are_the_weights_and_the_keys_and_values(engine: Engine) -> None:
    decoder = engine._runner._decoder
    config = decoder.config
    matrices = [
        product.weight.nbytes  # type: ignore[attr-defined]
        for layer in decoder.weights.layers
        for product in (layer.qkv, layer.output, layer.gate_up, layer.down)
    ]
    head = config.vocab_size * config.hidden_size * 4
    cache = kv_bytes(config, 4, 1, 1) * ((3 + 3) + (1 + 50))  # written, then read by the whole step
    assert step_work(config, 4, [(3, 3), (1, 50)], 2).bytes == sum(matrices) + head + cache


def test_rates_give_back_what_they_were_fitted_to(engine: Engine) -> None:
    config, rates = engine._runner._decoder.config, DeviceRates(2e11, 1e10)
    table = {n: step_seconds(step_work(config, 4, spans_of(n, 256), 1), rates) for n in (1, 256, 2048)}
    fitted = fit_rates(config, 4, table, 256)
    assert fitted.flops_per_second == pytest.approx(2e11)
    assert fitted.bytes_per_second == pytest.approx(1e10)
    assert step_seconds(StepWork(2e11, 1e10), fitted) == pytest.approx(2.0)


def test_noise_gives_no_negative_rates(engine: Engine) -> None:
    config = engine._runner._decoder.config
    for table in ({1: 5.0, 1024: 1.0}, {1: 1e-9, 1024: 1.0}):
        rates = fit_rates(config, 4, table, 256)
        assert rates.flops_per_second > 0
        assert rates.bytes_per_second > 0


def test_the_largest_step_near_the_best_rate_is_chosen() -> None:
    assert StepTimes({1: 0.01, 256: 0.2, 512: 0.3, 1024: 0.6, 2048: 1.21}).choose() == 2048
    assert StepTimes({1: 0.01, 256: 0.2, 512: 0.3, 1024: 0.6, 2048: 1.4}).choose() == 1024
    assert StepTimes({1: 0.01, 256: 0.2}).describe() == "256 tokens in a step, of measured tokens/s by size 256: 1,280"


def test_auto_measures_once_and_says_so(tiny_qwen3: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QWEN_BATCH_HOME", str(tmp_path))
    options: dict[str, Any] = {"device": "cpu", "dtype": "float32", "backend": "torch", "kv_memory": 1 << 22}
    first = Engine.load(str(tiny_qwen3), max_num_batched_tokens="auto", **options)
    (kept,) = (tmp_path / "steps").iterdir()
    kept.write_text(json.dumps({"1": 0.1, "256": 1.0, "512": 1.5, "1024": 9.0}), encoding="utf-8")
    monkeypatch.setattr(measure, "measure_steps", lambda *_: pytest.fail("measured again"))
    again = Engine.load(str(tiny_qwen3), max_num_batched_tokens="auto", **options)
    assert first.config.max_num_batched_tokens in measure.SIZES
    assert again.config.max_num_batched_tokens == 512
    assert again.describe().endswith(
        "512 tokens in a step, of measured tokens/s by size 256: 256, 512: 341, 1,024: 114"
    )


def test_a_damaged_table_is_measured_again(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QWEN_BATCH_HOME", str(tmp_path))
    monkeypatch.setattr(measure, "measure_steps", lambda *_: StepTimes({1: 1.0, 256: 2.0}))
    decoder = engine._runner._decoder
    step_times(decoder, "torch", 8)
    (kept,) = (tmp_path / "steps").iterdir()
    kept.write_text("{", encoding="utf-8")
    assert step_times(decoder, "torch", 8).seconds == {1: 1.0, 256: 2.0}
    assert json.loads(kept.read_text(encoding="utf-8")) == {"1": 1.0, "256": 2.0}


@pytest.mark.parametrize(("device", "cold"), [("cuda", 9), ("cpu", 1)])
def test_on_a_card_the_first_run_of_a_size_is_not_timed(
    monkeypatch: pytest.MonkeyPatch, device: str, cold: int
) -> None:
    """A device on which a token takes a microsecond, and the first step of each size nine times as long on a card."""
    now, seen = 0.0, set[int]()

    def run_step(part: Decoder, tokens: int, block_size: int) -> None:
        nonlocal now
        now += tokens * 1e-6 * (1 if tokens in seen else cold)
        seen.add(tokens)

    def timed(part: Decoder, work: Callable[[], None], clock: Callable[[], float]) -> float:
        started = now
        work()
        return now - started

    decoder = cast(Decoder, SimpleNamespace(weights=SimpleNamespace(device=SimpleNamespace(type=device))))
    monkeypatch.setattr(measure, "_some_layers", lambda decoder: (decoder, 1.0))
    monkeypatch.setattr(measure, "_run_head", lambda decoder: None)
    monkeypatch.setattr(measure, "_run_step", run_step)
    monkeypatch.setattr(measure, "_timed", timed)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    seconds = measure_steps(decoder, 16, lambda: now).seconds
    assert seconds == {size: pytest.approx(size * 1e-6) for size in measure.SIZES if size <= measure.LARGEST[device]}


def test_predicted_seconds_are_near_measured_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CPU time of one thread, over steps of prompts and of answers; the bound is what a crowded machine leaves."""
    shape = {"hidden_size": 512, "intermediate_size": 1536, "num_hidden_layers": 6, "num_attention_heads": 8}
    folder = make_tiny_model(tmp_path / "model", "llama", tie_word_embeddings=True, **shape, head_dim=64)
    engine = Engine.load_folder(folder, EngineConfig(device="cpu", dtype="float32", max_num_batched_tokens=512))
    decoder = engine._runner._decoder
    assert torch.get_num_threads() == 1
    rates = fit_rates(decoder.config, 4, measure_steps(decoder, 16, time.process_time).seconds, PIECE_TOKENS)
    predicted = measured = 0.0
    launch = Runner.launch

    def timed(self: Runner, pieces: list[Piece], before: Flight | None = None) -> Flight:
        nonlocal predicted, measured
        spans = [(p.num_tokens, p.sequence.num_computed_tokens + p.num_tokens) for p in pieces]
        predicted += step_seconds(step_work(decoder.config, 4, spans, sum(p.reaches_end for p in pieces)), rates)
        started = time.process_time()
        flight = launch(self, pieces, before)
        measured += time.process_time() - started
        return flight

    monkeypatch.setattr(Runner, "launch", timed)
    engine.generate([[*range(3, 3 + n)] for n in (40, 200, 350, 90)], SamplingParams(max_tokens=24, ignore_eos=True))
    assert 0.5 < predicted / measured < 2.0
