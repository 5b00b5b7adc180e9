"""Compile every kernel for cards that need not be here, and show what each compilation takes.

    python -m qwen_batch.bench.kernels [--arch 90] [--kernel NAME] [--match TEXT] [--qwen3] [--json]

Registers, stack and local memory come from the machine code (`cuobjdump -res-usage`, which Triton carries); shared
memory is what Triton asks for at launch. Bytes of stack or local memory are spilled registers: none is allowed.
`ahead`: groups of copies that stay under way while a loop computes; 0 where it waits for all of them.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import triton

from qwen_batch.bench.arguments import positive_number
from qwen_batch.errors import UsageError
from qwen_batch.kernels.launch import SHARED_BYTES, Variant

KERNELS = (
    "rms_norm", "qk_norm_rope_store", "attention_prefill", "attention_decode", "attention_prefix", "attention_merge",
    "silu_mul", "gather_logits", "sample",
)  # fmt: skip
ARCHS = (80, 89, 90, 100)  # compute capabilities


@dataclass(frozen=True, slots=True)
class Resources:
    """What one compilation takes."""

    kernel: str
    label: str
    arch: int
    num_warps: int
    num_stages: int
    registers: int  # a thread
    shared_bytes: int  # a program
    spill_bytes: int  # a thread: stack and local memory
    copies_ahead: int  # groups of copies to shared memory that are still under way where a loop waits for others

    @property
    def fits(self) -> bool:
        """Whether it runs on its card, without spilled registers."""
        return self.spill_bytes == 0 and self.shared_bytes <= SHARED_BYTES[self.arch]


def iter_variants(kernels: Iterable[str] = KERNELS, match: str = "") -> Iterator[Variant]:
    """Everything that the launchers may compile."""
    for name in kernels:
        for variant in importlib.import_module(f"qwen_batch.kernels.{name}").variants():
            if match in variant.label:
                yield variant


def is_for_qwen3(variant: Variant) -> bool:
    """Whether a published Qwen3 model in bfloat16 comes to this one: what `--qwen3` and the default tests compile."""
    label = variant.label
    width = re.search(r"width<=(\d+)", label)
    return (
        label.startswith("bf16")
        and not any(word in label for word in (" window", " odd", " penalties", " bitmask"))
        and ("head_dim" not in label or "head_dim=128" in label)
        and (variant.name != "qk_norm_rope_store" or " norm" in label)
        and (width is None or int(width[1]) in (1024, 2048, 4096, 8192))
    )


def _compile_named(names: tuple[str, str], arch: int) -> Resources:
    """For other processes, to which kernels cannot be handed over."""
    return next(compile_variant(v, arch) for v in iter_variants([names[0]]) if v.label == names[1])


def compile_all(variants: Sequence[Variant], archs: Sequence[int], num_processes: int) -> Iterator[Resources]:
    """Each variant for each card, in order."""
    asked = [((variant.name, variant.label), arch) for arch, variant in product(archs, variants)]
    if num_processes == 1:
        yield from (compile_variant(variant, arch) for arch, variant in product(archs, variants))
        return
    with ProcessPoolExecutor(num_processes, multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(_compile_named, *zip(*asked, strict=True), chunksize=4)


def compile_variant(variant: Variant, arch: int) -> Resources:
    """Compile to machine code; needs no card. Raises UsageError where the interpreter was asked for."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    if not hasattr(variant.kernel, "arg_names") or type(variant.kernel).__name__ == "InterpretedFunction":
        raise UsageError("kernels were imported for the interpreter; unset TRITON_INTERPRET to compile them")
    names = list(variant.kernel.arg_names)
    # torch's memory is aligned; launches tell Triton so, and loads become 16 bytes wide.
    aligned = {
        (at,): [["tt.divisibility", 16]]
        for at, name in enumerate(names)
        if variant.signature[name].startswith("*") or name in variant.divisible
    }
    source = ASTSource(
        fn=variant.kernel,
        signature={name: variant.signature[name] for name in names},
        constexprs={(names.index(name),): value for name, value in variant.constants.items()},
        attrs=aligned,
    )
    config = variant.config.on(arch)
    compiled = triton.compile(source, target=GPUTarget("cuda", arch, 32), options=config.options)
    registers, spilled = _resource_usage(compiled.asm["cubin"])
    waits = map(int, re.findall(r"cp\.async\.wait_group\s+(\d+)", compiled.asm["ptx"]))
    return Resources(
        variant.name, variant.label, arch, config.num_warps, config.num_stages, registers, compiled.metadata.shared,
        spilled, max(waits, default=0),
    )  # fmt: skip


def _resource_usage(cubin: bytes) -> tuple[int, int]:
    """(registers, bytes of stack and local memory) of a thread."""
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        done = subprocess.run([tool, "-res-usage", file.name], capture_output=True, text=True, check=True)
    found = re.search(r"REG:(\d+) STACK:(\d+) .*?LOCAL:(\d+)", done.stdout)
    if found is None:
        raise RuntimeError(f"cuobjdump printed no resource usage: {done.stdout}{done.stderr}")
    registers, stack, local = map(int, found.groups())
    return registers, stack + local


def format_table(rows: Sequence[Resources]) -> str:
    """A Markdown table."""
    lines = [
        "| kernel | variant | sm | warps | stages | registers | shared KiB | spilled | ahead |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        lines.append(
            f"| {row.kernel} | {row.label} | {row.arch} | {row.num_warps} | {row.num_stages} | {row.registers} "
            f"| {row.shared_bytes / 1024:.1f} | {row.spill_bytes} | {row.copies_ahead} |"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 when every variant fits its card, 1 otherwise."""
    parser = argparse.ArgumentParser(prog="python -m qwen_batch.bench.kernels", description=__doc__.splitlines()[0])
    parser.add_argument("--arch", type=int, action="append", choices=ARCHS, help="compute capability; repeatable")
    parser.add_argument("--kernel", action="append", choices=KERNELS, help="only this kernel; repeatable")
    parser.add_argument("--match", default="", help="only variants with this text in their label")
    parser.add_argument("--qwen3", action="store_true", help="only what Qwen3 in bfloat16 comes to")
    parser.add_argument(
        "--jobs", type=positive_number, default=os.cpu_count() or 1, help="processes; default: one for each core"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object for each variant")
    options = parser.parse_args(arguments)
    variants = [*iter_variants(options.kernel or KERNELS, options.match)]
    if options.qwen3:
        variants = [variant for variant in variants if is_for_qwen3(variant)]
    if not variants:
        parser.error(f"no form of these kernels has {options.match!r} in its label; without --match all are shown")
    rows = []
    for row in compile_all(variants, options.arch or [*ARCHS], options.jobs):
        rows.append(row)
        if options.json:
            print(json.dumps(dataclasses.asdict(row)), flush=True)
    if not options.json:
        print(format_table(rows))
    bad = [row for row in rows if not row.fits]
    for row in bad:
        print(f"does not fit sm_{row.arch}: {row.kernel} {row.label}", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
