"""Engines side by side on the same requests: agreement first, then interleaved rounds, medians, ratios.

Each engine has a process of its own, so that no one's memory is another's. The processes live through the rounds of
one workload and wait while another's clock runs; on CUDA, where each would take the whole card, one begins anew for
every run. The machine's own rates are measured in the same rounds.
"""

from __future__ import annotations

import dataclasses
import datetime
import os
import platform
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import torch
import yaml
from pydantic import TypeAdapter, ValidationError

from qwen_batch import __version__
from qwen_batch.bench.child import EngineFailedError
from qwen_batch.bench.engines import KINDS, ONE_BY_ONE, OURS, Competitor
from qwen_batch.bench.floor import count_work
from qwen_batch.bench.result import Comparison
from qwen_batch.bench.seat import FIRST_TOKENS, Seat
from qwen_batch.bench.workload import AnyWorkload, BenchRequest
from qwen_batch.engine.config import Device, DType, EngineConfig, resolve_device, resolve_dtype
from qwen_batch.errors import UsageError
from qwen_batch.model.config import ModelConfig, read_config
from qwen_batch.model.registry import resolve_model
from qwen_batch.model.tokenizer import ChatTokenizer

AGREEMENT_ROUND = -1  # its texts are no timed round's
_PYTHON = sys.executable
_MACHINE = dataclasses.replace(KINDS[OURS], name="machine", adapter="machine.py")
_REFERENCE = dataclasses.replace(KINDS[ONE_BY_ONE], name="reference")


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """How to measure."""

    model: str = "demo"
    device: Device = "auto"
    dtype: DType = "auto"
    threads: int | None = None  # of every engine; None: torch's own choice
    rounds: int = 3
    sampled_requests: int = 2  # for an engine that answers one at a time
    agreement_requests: int = 16  # whose first tokens are compared with the reference; 0: none
    seed: int = 0
    settings: Mapping[str, str] = field(default_factory=dict)  # of our engine: fields of EngineConfig, as YAML


class Bench:
    """One model on one machine; `compare` measures a workload. `report` gets a line for each step."""

    def __init__(self, options: BenchOptions, report: Callable[[str], None]) -> None:
        self._options = options
        self._report = report
        self._folder = resolve_model(options.model, report=report).folder
        self._config: ModelConfig = read_config(self._folder)
        self._tokenizer = ChatTokenizer.load(self._folder)
        self._device = resolve_device(options.device)
        self._dtype = resolve_dtype(options.dtype, self._device)
        EngineConfig(threads=options.threads)  # raises where this machine has not so many
        self._threads = options.threads or torch.get_num_threads()
        self._settings = _parse_settings(options.settings)

    def check(self, workloads: Sequence[AnyWorkload], competitors: Sequence[Competitor]) -> None:
        """Raises UsageError for what could not be measured, before something else is for minutes."""
        for competitor in competitors:
            _parse_variant(competitor)
        for workload in workloads:
            for request in workload.requests(self._tokenizer, self._options.seed, 0):
                request.check(self._config)

    def compare(self, workload: AnyWorkload, competitors: Sequence[Competitor]) -> Comparison:
        """Measure one workload."""
        rounds = [workload.requests(self._tokenizer, self._options.seed, n) for n in range(self._options.rounds)]
        others = workload.requests(self._tokenizer, self._options.seed, AGREEMENT_ROUND)
        sample = _spread(others, self._options.agreement_requests)
        with ExitStack() as stack:
            seats = [self._seat(competitor, rounds[0], stack) for competitor in competitors]
            machine = self._seat(Competitor(_MACHINE, _PYTHON, "", None), rounds[0], stack)
            self._report(f"{workload.name}: {len(rounds[0])} requests")
            for seat in seats:
                seat.start(others[0])
            self._agreement(seats, sample)
            self._rounds([*seats, machine], rounds)
            rates = [timing.counters for timing in machine.timings]
            if not rates:
                raise EngineFailedError(f"the machine's own rates cannot be measured: {machine.error}")
        return Comparison(
            workload=workload.name,
            model=self._options.model,
            precision=str(self._dtype).removeprefix("torch."),
            device=self._device.type,
            machine=f"{_cpu_name()}, {os.cpu_count()} cores",
            threads=self._threads,
            torch_version=torch.__version__,
            version=__version__,
            date=datetime.date.today().isoformat(),
            seed=self._options.seed,
            rounds=self._options.rounds,
            agreement_requests=len(sample),
            work=count_work(self._config, rounds[0], self._dtype.itemsize),
            matmul_flops=statistics.median(rate["matmul_flops"] for rate in rates),
            copy_bytes=statistics.median(rate["copy_bytes"] for rate in rates),
            engines=tuple(seat.result() for seat in seats),
        )

    def _agreement(self, seats: Sequence[Seat], sample: Sequence[BenchRequest]) -> None:
        """Which engines say what transformers in float32 says; before any clock."""
        if not sample:
            return
        with ExitStack() as stack:
            reference = self._seat(Competitor(_REFERENCE, _PYTHON, "", None), sample, stack, dtype="float32")
            expected = reference.first_tokens(sample)
        for seat in seats:
            found = seat.first_tokens(sample)
            if found is not None and expected is not None:
                seat.agree = _share(found, expected)
                self._report(f"{seat.competitor.name}: first {FIRST_TOKENS} tokens agree: {seat.agree:.0%}")

    def _rounds(self, seats: Sequence[Seat], rounds: Sequence[Sequence[BenchRequest]]) -> None:
        """Every engine once a round, each round beginning with another one."""
        for number, requests in enumerate(rounds):
            few = _spread(requests, self._options.sampled_requests)
            begin = number % len(seats)
            for seat in (*seats[begin:], *seats[:begin]):
                chosen = few if seat.competitor.kind.is_sampled else requests
                timing = seat.measure(chosen)
                if timing is not None and seat.competitor.kind is not _MACHINE:
                    self._report(
                        f"round {number + 1}: {seat.competitor.name} {len(chosen) / timing.seconds:.3f} req/s "
                        f"({len(chosen)} requests in {timing.seconds:.1f} s)"
                    )

    def _seat(
        self, competitor: Competitor, requests: Sequence[BenchRequest], stack: ExitStack, dtype: str | None = None
    ) -> Seat:
        longest = max(len(request.prompt_token_ids) + request.output_tokens for request in requests)
        options = {
            "model": competitor.model or str(self._folder),
            "program": competitor.program,
            "mode": competitor.kind.mode,
            "device": self._device.type,
            "dtype": dtype or str(self._dtype).removeprefix("torch."),
            "threads": self._threads,
            "settings": {**self._settings, **_parse_variant(competitor)},
            "max_model_len": min(longest + 16, self._config.window),
            "shape": [self._config.hidden_size, 2 * self._config.intermediate_size],
        }
        seat = Seat(competitor, options, threads=self._threads, keep=self._device.type == "cpu", report=self._report)
        stack.callback(seat.close)
        return seat


def _parse_variant(competitor: Competitor) -> dict[str, object]:
    return _parse_settings(competitor.kind.settings, f"--variant {competitor.name.removeprefix(f'{OURS}:')}:")


def _parse_settings(settings: Mapping[str, str], flag: str = "--set ") -> dict[str, object]:
    """Fields of EngineConfig from YAML. Raises UsageError that begins with what the user has written."""
    for name in settings:
        if name not in EngineConfig.__dataclass_fields__:
            raise UsageError(f"{flag}{name}: unknown; known: {', '.join(EngineConfig.__dataclass_fields__)}")
    try:
        parsed = {name: yaml.safe_load(value) for name, value in settings.items()}
        fixed = {name: value for name, value in parsed.items() if (name, value) != ("max_num_batched_tokens", "auto")}
        TypeAdapter(EngineConfig).validate_python(fixed)
    except yaml.YAMLError:
        raise UsageError(f"{flag}{_written(settings)}: values are YAML, such as true, 64 or float32") from None
    except ValidationError as error:
        first = error.errors()[0]
        place = str(first["loc"][0])
        raise UsageError(f"{flag}{place}={settings[place]}: {first['msg'].lower()}") from None
    except UsageError as error:
        raise UsageError(f"{flag}{_written(settings)}: {error}") from None
    return parsed


def _written(settings: Mapping[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in settings.items())


def _share(found: Sequence[Sequence[int]], expected: Sequence[Sequence[int]]) -> float:
    return statistics.fmean(one == other for one, other in zip(found, expected, strict=True))


def _spread(requests: Sequence[BenchRequest], count: int) -> list[BenchRequest]:
    """At most `count` of the requests, evenly spread over their lengths."""
    ordered = sorted(requests, key=lambda request: len(request.prompt_token_ids))
    count = min(count, len(ordered))
    return [ordered[(2 * place + 1) * len(ordered) // (2 * count)] for place in range(count)]


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
