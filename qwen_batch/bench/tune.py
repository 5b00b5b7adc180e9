"""Other tiles for the attention kernels, timed on the card at hand: rows for kernels/tuning.py, the fastest first.

    python -m qwen_batch.bench.tune [--kernel attention_decode] [--seconds 120] [--tiny]

At the heads of Qwen3-32B in bfloat16: a prompt of 8k tokens, 64 sequences that decode after 8k, 64 branches over a
shared prefix of 4k. A tile that does not compile, or whose result is not that of the table's, is named and left.
`--tiny` tries the command on a CPU, in Triton's interpreter; its times mean nothing.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product

import torch

from qwen_batch.bench.arguments import positive_seconds, restart_interpreted
from qwen_batch.bench.roofline import seconds
from qwen_batch.bench.shapes import shape_config
from qwen_batch.kernels.launch import Config, arch_of
from qwen_batch.kernels.tuning import ATTENTION
from qwen_batch.model.kernel_checks import Draw, PagedStep
from qwen_batch.model.triton_plan import AttentionShape

DTYPE = torch.bfloat16
BLOCK_SIZE = 16
TOLERANCE = 0.02  # of the norm: two results that are each rounded to bfloat16
# (rows of queries, keys, warps, stages)
CHOICES = {
    "attention_prefill": ((64, 128), (32, 64, 128), (4, 8), (2, 3, 4, 5, 6)),
    "attention_decode": ((16,), (32, 64, 128), (2, 4, 8), (2, 3, 4, 5, 6)),
    "attention_prefix": ((16, 32, 64, 128), (32, 64), (4, 8), (2, 3, 4, 5, 6)),
}


def make_step(kernel: str, shape: AttentionShape, draw: Draw, scale: int) -> PagedStep:
    """Work for one kernel; `scale` 1: as large as on a card."""
    context = 8192 // scale
    if kernel == "attention_prefill":
        return PagedStep(draw, shape, [context], [context])
    count = max(4, 64 // scale)
    if kernel == "attention_decode":
        return PagedStep(draw, shape, [1] * count, [context] * count)
    shared = max(256, context // 2)
    return PagedStep(draw, shape, [1] * count, [shared + 1] * count, range(count), shared_tokens=shared)


def candidates(kernel: str, table: Config, *, is_large: bool) -> Iterator[Config]:
    """All of its choices, those with the table's tile first, the deepest before others.

    is_large: the card has much shared memory, and its stages are the table's last column; the other column then is the
    table's where that is not more.
    """
    found = []
    for rows, keys, num_warps, stages in product(*CHOICES[kernel]):
        small = min(stages, table.num_stages) if is_large else stages
        found.append(Config({"BLOCK_M": rows, "BLOCK_N": keys}, num_warps, small, None, stages, table.deep_from))
    yield from sorted(found, key=lambda one: (one.tiles != table.tiles, -(one.deep_stages or 0)))


def tune(
    kernel: str,
    device: torch.device,
    deadline: float,
    *,
    heads_of: str = "Qwen3-32B",
    scale: int = 1,
    most: int | None = None,
) -> list[str]:
    """Time the candidates until the deadline (of time.monotonic); lines to print, fastest first, then what was left."""
    shape = AttentionShape.of(shape_config(heads_of), BLOCK_SIZE, DTYPE, device)
    step = make_step(kernel, shape, Draw.on(device, DTYPE), scale)
    key = kernel, shape.head_dim, DTYPE.itemsize
    table, wanted = ATTENTION[key], step.attend().clone()
    choices = candidates(kernel, table, is_large=table.is_deep_on(arch_of(device)))
    timed, left = [(seconds(step.attend, device, repeat=3), table)], list[str]()
    try:
        for candidate in [one for one in choices if one != table][:most]:
            if time.monotonic() > deadline:
                left.append("out of time: not all were tried")
                break
            ATTENTION[key] = candidate
            try:
                step.plan()
                got = step.attend()
                error = float((got - wanted).float().norm() / wanted.float().norm())
                if not error <= TOLERANCE:
                    left.append(f"{describe(kernel, shape, candidate)} is off by {error:.2g}")
                    continue
                timed.append((seconds(step.attend, device, repeat=3), candidate))
            except Exception as problem:  # a compiler may fail in any way
                left.append(f"{describe(kernel, shape, candidate)} {type(problem).__name__}: {str(problem)[:80]!r}")
    finally:
        ATTENTION[key] = table
    ordered = sorted(timed, key=lambda one: one[0])
    return [
        *(f"{took * 1e3:9.4f} ms  {describe(kernel, shape, c)}{'  <- now' * (c == table)}" for took, c in ordered),
        *(f"     left  {line}" for line in left),
    ]


def describe(kernel: str, shape: AttentionShape, config: Config) -> str:
    """As a row of the table."""
    rows, keys = config.tiles["BLOCK_M"], config.tiles["BLOCK_N"]
    stages = config.num_stages, config.deep_stages or config.num_stages
    row = (kernel, DTYPE.itemsize, (shape.head_dim,), rows, keys, config.num_warps, *stages)
    return str(row).replace("'", '"')


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0."""
    parser = argparse.ArgumentParser(prog="python -m qwen_batch.bench.tune", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--kernel", action="append", choices=CHOICES, help="only this kernel; repeatable")
    parser.add_argument("--seconds", type=positive_seconds, default=120.0, help="for each kernel")
    parser.add_argument("--tiny", action="store_true", help="a trial on a CPU")
    options = parser.parse_args(arguments)
    if options.tiny:
        restart_interpreted("qwen_batch.bench.tune", arguments)
    if not (torch.cuda.is_available() or options.tiny):
        parser.error("torch sees no CUDA device here; --tiny tries the command on a CPU")
    device = torch.device("cpu") if options.tiny else torch.device("cuda", 0)
    run = partial(tune, heads_of="tiny", scale=128, most=2) if options.tiny else tune
    for kernel in options.kernel or CHOICES:
        print("\n".join(run(kernel, device, time.monotonic() + options.seconds)), flush=True)
    print("Put the first of each into kernels/tuning.py, then: python -m qwen_batch.bench.kernels (spills, every card)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
