"""What every launcher shares: checks of its tensors, and the list of what it may compile.

Triton decides when this package is imported whether kernels are compiled or, with TRITON_INTERPRET=1, run by its
interpreter, which works on CPU tensors and is made for tests.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"

DTYPES = (torch.bfloat16, torch.float16, torch.float32)
# Options of every compilation. Multiply and add as one instruction: Triton's default, which it means to change.
OPTIONS = {"enable_fp_fusion": True}
# Names of types in Triton's signatures.
TYPE_NAMES = {torch.bfloat16: "bf16", torch.float16: "fp16", torch.float32: "fp32"}


# Compute capability -> bytes of shared memory that one program may have (CUDA C++ Programming Guide, technical
# specifications by compute capability). Cards that are not named are taken for small ones.
SHARED_BYTES = {80: 163 * 1024, 87: 163 * 1024, 89: 99 * 1024, 90: 227 * 1024, 100: 227 * 1024, 103: 227 * 1024}


@functools.lru_cache
def arch_of(device: torch.device) -> int:
    """Compute capability of a device, as 90; 0 for a CPU."""
    if device.type != "cuda":
        return 0
    major, minor = torch.cuda.get_device_capability(device)
    return 10 * major + minor


@dataclass(frozen=True, slots=True)
class Config:
    """What a launcher chooses besides its arguments: tile sizes (compile-time constants), warps, pipeline stages."""

    tiles: Mapping[str, int]
    num_warps: int
    num_stages: int
    max_registers: int | None = None  # a thread; None: as the assembler likes, which may spill to run more at once
    deep_stages: int | None = None  # instead of num_stages where a program may have `deep_from` bytes of shared memory
    deep_from: int = 0

    def is_deep_on(self, arch: int) -> bool:
        """Whether cards of this compute capability have room for the deeper pipeline."""
        return self.deep_stages is not None and SHARED_BYTES.get(arch, 0) >= self.deep_from

    def on(self, arch: int) -> Config:
        """As it is chosen for cards of this compute capability."""
        if self.deep_stages is None:
            return self
        stages = self.deep_stages if self.is_deep_on(arch) else self.num_stages
        return dataclasses.replace(self, num_stages=stages, deep_stages=None)

    @property
    def options(self) -> dict[str, int]:
        """What the compiler is told beside the constants."""
        bound = {} if self.max_registers is None else {"maxnreg": self.max_registers}
        return {**OPTIONS, "num_warps": self.num_warps, "num_stages": self.num_stages, **bound}

    @property
    def launch(self) -> dict[str, int]:
        """Keyword arguments of a launch."""
        return {**self.tiles, **self.options}


@dataclass(frozen=True, slots=True)
class Variant:
    """One thing that a launcher may compile: for proofs without a device, and to warm up before a run."""

    name: str  # of the kernel
    label: str  # what sets it apart from the kernel's other variants
    kernel: Any
    signature: Mapping[str, str]  # argument -> type, in the kernel's order: `*bf16`, `i32`, `fp32` or `constexpr`
    constants: Mapping[str, Any]  # compile-time constants, those of `config` too
    config: Config
    divisible: tuple[str, ...] = ()  # integer arguments that 16 divides: Triton compiles for them apart


def by_alignment(name: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """(label, what 16 divides) of the two forms in which Triton compiles a kernel with this integer argument: where 16
    divides it, as it does in all published models, rows begin at multiples of 16 bytes and are read in such pieces."""
    return (("", (name,)), (" odd", ()))


def check(tensor: Tensor, name: str, shape: tuple[int | None, ...], *dtypes: torch.dtype) -> None:
    """Raise ValueError unless the tensor is contiguous and has this shape (None: any) and one of these dtypes."""
    right_shape = tensor.dim() == len(shape) and all(
        want is None or want == got for want, got in zip(shape, tensor.shape, strict=True)
    )
    if not right_shape:
        raise ValueError(f"{name} has shape {list(tensor.shape)}, expected {list(shape)}")
    if tensor.dtype not in dtypes:
        raise ValueError(f"{name} is {tensor.dtype}, expected one of {list(dtypes)}")
    if not tensor.is_contiguous():
        raise ValueError(f"{name} is not contiguous")
    if not (INTERPRETED or tensor.is_cuda):
        raise ValueError(f"{name} is on {tensor.device}: kernels need CUDA tensors (or TRITON_INTERPRET=1, for tests)")


def next_power_of_2(number: int) -> int:
    """Smallest power of two that is not below `number`, which is at least 1."""
    return 1 << (number - 1).bit_length()
