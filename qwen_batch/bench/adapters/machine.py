"""No engine: what the machine itself does at best, measured between the others' runs."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from qwen_batch.model.linear import make_linear

COPY_BYTES = 1 << 28  # far beyond any cache
MIN_SECONDS, MIN_CALLS = 0.3, 5


class Machine:
    """Its counters are rates: FLOP a second of the best of some products in the run's precision, bytes of a copy."""

    def __init__(self, options: dict[str, Any]) -> None:
        torch.set_num_threads(options["threads"])
        self._device = torch.device(options["device"])
        dtype = getattr(torch, options["dtype"])
        width, out = options["shape"]  # of the model's largest product
        size = 2048 if self._device.type == "cpu" else 8192
        self._products = [self._product(size, size, size, dtype), self._product(1024, width, out, dtype)]
        self._source = torch.ones(COPY_BYTES // 8, dtype=torch.float64, device=self._device)
        self._target = torch.empty_like(self._source)

    def describe(self) -> str:
        return f"torch {torch.__version__}, {torch.get_num_threads()} threads"

    def run(self, prompts: list[list[int]], output_tokens: list[int]) -> list[list[int]]:
        rates = [flops / self._seconds(product) for flops, product in self._products]
        copied = 2 * self._source.nbytes / self._seconds(lambda: self._target.copy_(self._source))
        self._rates = {"matmul_flops": max(rates), "copy_bytes": copied}
        return [[0] * count for count in output_tokens]

    def counters(self) -> dict[str, float]:
        return self._rates

    def _product(self, rows: int, width: int, out: int, dtype: torch.dtype) -> tuple[float, Callable[[], torch.Tensor]]:
        x = torch.randn(rows, width, device=self._device).to(dtype)
        linear = make_linear(torch.randn(out, width, device=self._device).to(dtype))
        return 2.0 * rows * width * out, lambda: linear(x)

    def _seconds(self, call: Callable[[], object]) -> float:
        """Median of a call."""
        call()
        times: list[float] = []
        while len(times) < MIN_CALLS or sum(times) < MIN_SECONDS:
            self._wait()
            started = time.perf_counter()
            call()
            self._wait()
            times.append(time.perf_counter() - started)
        return statistics.median(times)

    def _wait(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)


def load(options: dict[str, Any]) -> Machine:
    return Machine(options)
