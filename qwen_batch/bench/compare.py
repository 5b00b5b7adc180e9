"""This engine against `transformers.generate`, one request at a time: interleaved rounds in one process.

Each round times the baseline on an evenly spread sample of the requests (its rate does not depend on how many there
are), then the engine on all of them. The medians over the rounds are compared. Loading is not part of any time.
"""

from __future__ import annotations

import dataclasses
import datetime
import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers

from qwen_batch.bench.workload import Workload
from qwen_batch.engine import Engine, EngineConfig
from qwen_batch.engine.config import Device, DType
from qwen_batch.model.registry import resolve_model
from qwen_batch.records import SamplingParams

Prompts = Sequence[Sequence[int]]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What was measured, where and when. Rates are requests a second, one for each round."""

    model: str
    precision: str
    device: str
    machine: str
    threads: int
    torch_version: str
    transformers_version: str
    date: str
    workload: Workload
    baseline_requests: int
    baseline_rates: tuple[float, ...]
    engine_rates: tuple[float, ...]

    @property
    def baseline_rate(self) -> float:
        return statistics.median(self.baseline_rates)

    @property
    def engine_rate(self) -> float:
        return statistics.median(self.engine_rates)

    @property
    def ratio(self) -> float:
        """How many times the baseline's rate the engine reaches."""
        return self.engine_rate / self.baseline_rate

    def to_json(self) -> dict[str, object]:
        return {**dataclasses.asdict(self), "ratio": self.ratio}


def compare(
    model: str,
    workload: Workload,
    *,
    device: Device,
    dtype: DType,
    rounds: int,
    baseline_requests: int,
    report: Callable[[str], None],
) -> Comparison:
    """Measure. `report` gets a line for each round."""
    files = resolve_model(model, report=report)
    engine = Engine.load_folder(files.folder, EngineConfig(device=device, dtype=dtype))
    baseline = _load_baseline(files.folder, engine.dtype, engine.device)
    prompts = workload.prompts(engine.tokenizer.vocab_size)
    step = max(1, len(prompts) // baseline_requests)
    sample = sorted(prompts, key=len)[step // 2 :: step][:baseline_requests]
    report(f"{model}: {engine.describe()}")
    _one_by_one(baseline, sample[:1], 2)  # both are warm before the clock starts
    _batched(engine, sample[:1], 2)
    baseline_rates, engine_rates = [], []
    for number in range(rounds):
        baseline_rates.append(_rate(len(sample), _one_by_one, baseline, sample, workload.output_tokens))
        engine_rates.append(_rate(len(prompts), _batched, engine, prompts, workload.output_tokens))
        report(
            f"round {number + 1}: transformers one by one {baseline_rates[-1]:.3f} req/s, "
            f"qwen-batch {engine_rates[-1]:.3f} req/s"
        )
    return Comparison(
        model=model,
        precision=engine.precision,
        device=engine.device.type,
        machine=f"{_cpu_name()}, {os.cpu_count()} cores",
        threads=torch.get_num_threads(),
        torch_version=torch.__version__,
        transformers_version=transformers.__version__,
        date=datetime.date.today().isoformat(),
        workload=workload,
        baseline_requests=len(sample),
        baseline_rates=tuple(baseline_rates),
        engine_rates=tuple(engine_rates),
    )


def format_comparison(result: Comparison) -> str:
    """The comparison as lines of text."""
    work = result.workload
    return "\n".join(
        (
            f"{result.date}, {result.machine}, {result.threads} threads, torch {result.torch_version}, "
            f"transformers {result.transformers_version}",
            f"{result.model} in {result.precision} on {result.device}: {work.num_requests} requests of "
            f"{work.min_prompt_tokens}..{work.max_prompt_tokens} tokens, {work.output_tokens} out, seed {work.seed}; "
            f"median of {len(result.engine_rates)} rounds",
            f"transformers one by one  {result.baseline_rate:8.3f} req/s  1.00 x  "
            f"(measured on {result.baseline_requests} of them)",
            f"qwen-batch               {result.engine_rate:8.3f} req/s  {result.ratio:.2f} x",
        )
    )


def _load_baseline(folder: Path, dtype: torch.dtype, device: torch.device) -> Any:
    transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    model: Any = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
    model = model.to(device).eval()
    model.generation_config.eos_token_id = None  # lengths are forced
    return model


def _one_by_one(model: Any, prompts: Prompts, output_tokens: int) -> None:
    for prompt in prompts:
        ids = torch.tensor([list(prompt)], device=model.device)
        with torch.inference_mode():
            model.generate(
                ids, attention_mask=torch.ones_like(ids), max_new_tokens=output_tokens, do_sample=False, pad_token_id=0
            )


def _batched(engine: Engine, prompts: Prompts, output_tokens: int) -> None:
    engine.forget_prefixes()  # a round must not live on the one before
    engine.generate(prompts, SamplingParams(max_tokens=output_tokens, ignore_eos=True))


def _rate(count: int, run: Callable[..., None], *arguments: object) -> float:
    start = time.perf_counter()
    run(*arguments)
    return count / (time.perf_counter() - start)


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
