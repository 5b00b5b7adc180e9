"""How many tokens make a step compute-bound, from what the device itself does.

A step of T tokens multiplies each weight T times, 2 T P operations, and reads it once, P * itemsize bytes. Both take
equally long at T = itemsize * (operations a second) / (2 * bytes a second); the reading is 1/k of the time at k times
that (Williams et al. 2009, the roofline model).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

# Reading the weights then takes a sixteenth as long as multiplying with them: 3,000 tokens at 790 TFLOP/s and 4.3 TB/s.
COMPUTE_SHARE = 16
MIN_TOKENS, MAX_TOKENS = 256, 16_384
IN_LINE = 5  # calls between two events


@dataclass(frozen=True, slots=True)
class Rates:
    """What the device itself does, measured here and now on random data."""

    matmul_flops: float  # a second, in the dtype that was asked for
    copy_bytes: float  # a second, read plus written


def compute_bound_tokens(rates: Rates, itemsize: int) -> int:
    """Tokens of a step, the next power of two. itemsize: bytes of a weight."""
    wanted = COMPUTE_SHARE * itemsize * rates.matmul_flops / (2 * rates.copy_bytes)
    tokens = MIN_TOKENS
    while tokens < min(wanted, MAX_TOKENS):
        tokens *= 2
    return tokens


def measure_rates(device: torch.device, dtype: torch.dtype, size: int = 8192, copy_elements: int = 1 << 28) -> Rates:
    """A square product of `size`, and a copy of so many float32: 0.2 s on a large card."""
    a, b = (torch.randn((size, size), device=device).to(dtype) for _ in range(2))
    product = torch.empty_like(a)
    source = torch.randn(copy_elements, device=device)
    target = torch.empty_like(source)
    return Rates(
        matmul_flops=2 * size**3 / seconds(lambda: torch.mm(a, b, out=product), device),
        copy_bytes=2 * source.nbytes / seconds(lambda: target.copy_(source), device),
    )


def seconds(run: Callable[[], object], device: torch.device, repeat: int = 10) -> float:
    """Median time of a call, by device events on CUDA; the first call is not counted.

    On CUDA calls stand in line, so that the device does not wait for the host between them: a decoding step's attention
    takes half a millisecond, and its launch a tenth of one.
    """
    run()
    times: list[float] = []
    for _ in range(repeat):
        if device.type == "cuda":
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
            run()  # the device has work while the host comes to the next calls
            start.record()
            for _ in range(IN_LINE):
                run()
            end.record()
            end.synchronize()
            times.append(start.elapsed_time(end) / 1e3 / IN_LINE)
        else:
            began = time.perf_counter()
            run()
            times.append(time.perf_counter() - began)
    return statistics.median(times)
