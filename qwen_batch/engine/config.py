"""What the engine is asked to be, and what that comes to on this machine. "auto" is resolved here, once."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from qwen_batch.errors import ModelError, UsageError
from qwen_batch.model.config import ModelConfig
from qwen_batch.model.native_library import NativeLibrary, can_run, load_native

Device = Literal["auto", "cpu", "cuda"]
DType = Literal["auto", "float32", "bfloat16", "float16"]
WeightsForm = Literal["auto", "int8"]
Backend = Literal["auto", "torch", "native", "triton"]
# Share of the memory that is free after the weights are loaded: the readers and the page cache need room too.
CPU_KV_SHARE = 0.25
ENOUGH_TOKENS = 20_480  # of keys and values on a CPU; what ENOUGH_SEQS sequences need comes before it
LEAST_WINDOW = 1024  # tokens: a model's window is not lowered below that to what memory holds
WINDOW_STEP = 1024  # tokens
THREADS_PER_CORE = 4  # beyond that threads only wait for one another, and thousands end the process


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """As asked. Raises UsageError for values that cannot work."""

    device: Device = "auto"
    dtype: DType = "auto"
    weights: WeightsForm = "auto"  # int8: the layers' products, activations too
    backend: Backend = "auto"  # what computes between the matrix products
    threads: int | None = None  # CPU threads; None: torch's own choice
    block_size: int = 16  # tokens
    num_blocks: int | None = None  # None: from kv_memory
    kv_memory: int | Literal["auto"] = "auto"  # bytes
    gpu_memory: float = 0.9  # share of a card that weights, steps and keys and values may take together
    max_num_seqs: int = 64
    max_num_batched_tokens: int = 2048
    measure_steps: bool = False  # choose max_num_batched_tokens by measuring the device: what `auto` stands for
    max_model_len: int | None = None  # tokens; None: the model's window
    share_prefixes: bool = True
    overlap: bool | Literal["auto"] = "auto"  # prepare a step while the device computes the one before; auto: on CUDA
    cuda_graphs: bool = True  # with the triton backend on CUDA
    deterministic: bool = False  # the same bytes whatever the batch
    output_reserve: float = 1.0  # share of the answers for whose length admission keeps blocks; below 1 may preempt

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> EngineConfig:
        """As in a job file, where max_num_batched_tokens may be `auto`."""
        if options.get("max_num_batched_tokens") == "auto":
            kept = {name: value for name, value in options.items() if name != "max_num_batched_tokens"}
            return cls(**kept, measure_steps=True)
        return cls(**options)

    def __post_init__(self) -> None:
        for name in ("block_size", "max_num_seqs", "max_num_batched_tokens"):
            if getattr(self, name) < 1:
                raise UsageError(f"engine: {name} must be at least 1")
        for name in ("num_blocks", "max_model_len", "kv_memory"):
            value = getattr(self, name)
            if isinstance(value, int) and value < 1:
                raise UsageError(f"engine: {name} must be at least 1")
        most = THREADS_PER_CORE * (os.cpu_count() or 1)
        if self.threads is not None and not 1 <= self.threads <= most:
            raise UsageError(f"engine: threads must be from 1 to {most}: this machine has {os.cpu_count()} cores")
        if not 0.0 <= self.output_reserve <= 1.0:
            raise UsageError("engine: output_reserve must be in [0, 1]")
        if not 0.0 < self.gpu_memory <= 1.0:
            raise UsageError("engine: gpu_memory must be above 0 and at most 1, a share of the card's memory")
        if self.device not in ("auto", "cpu", "cuda"):
            raise UsageError(f"engine: device {self.device!r} is not one of auto, cpu, cuda")
        if self.backend not in ("auto", "torch", "native", "triton"):
            raise UsageError(f"engine: backend {self.backend!r} is not one of auto, torch, native, triton")
        if self.weights not in ("auto", "int8"):
            raise UsageError(f"engine: weights {self.weights!r} is not one of auto, int8")
        if self.dtype not in ("auto", *_DTYPES):
            raise UsageError(f"engine: dtype {self.dtype!r} is not one of auto, {', '.join(_DTYPES)}")


_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def resolve_device(asked: Device) -> torch.device:
    """The device, with its index. Raises UsageError when cuda is asked for and not there."""
    if asked == "cuda" and not torch.cuda.is_available():
        raise UsageError("engine.device is cuda, but torch sees no CUDA device here; use cpu or auto")
    if asked == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", torch.cuda.current_device())


def resolve_dtype(asked: DType, device: torch.device) -> torch.dtype:
    """bfloat16 where the device computes it in hardware; else float16 on CUDA, float32 on a CPU."""
    if asked != "auto":
        return _DTYPES[asked]
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.get_device_capability(device)[0] >= 8 else torch.float16
    return torch.bfloat16 if _cpu_has_bfloat16() else torch.float32


def _cpu_has_bfloat16() -> bool:
    try:
        words = set(Path("/proc/cpuinfo").read_text().split())
    except OSError:
        return False
    return not words.isdisjoint({"avx512_bf16", "amx_bf16", "bf16"})


def resolve_backend(
    asked: Backend, model: ModelConfig, dtype: torch.dtype, device: torch.device, block_size: int
) -> tuple[NativeLibrary | None, str]:
    """(the native library or None for the others, the backend's name with the reason when auto had to do without).

    Raises ModelError when `native` or `triton` is asked for and cannot be had.
    """
    if asked == "triton" or (asked == "auto" and device.type == "cuda"):
        reason = _no_triton(model, block_size, dtype, device)
        if reason is None:
            return None, "triton"
        if asked == "triton":
            raise ModelError(f"engine.backend triton: the kernels cannot run: {reason}; use auto or torch")
        return None, f"torch (triton not available: {reason})"
    if asked == "torch" or (asked == "auto" and not can_run(model, dtype, device)):
        return None, "torch"
    if not can_run(model, dtype, device):
        raise ModelError("engine.backend native is for bfloat16 and float32 on a CPU; use auto or torch")
    try:
        return load_native(dtype), "native"
    except ModelError as error:
        if asked == "native":
            raise ModelError(f"engine.backend native: {error}; use auto or torch") from None
        return None, f"torch (native not available: {error})"


def _no_triton(model: ModelConfig, block_size: int, dtype: torch.dtype, device: torch.device) -> str | None:
    """Why our kernels cannot run here; None when they can."""
    if importlib.util.find_spec("triton") is None:
        return "the package triton is not installed"
    if device.type == "cuda" and not any(map(shutil.which, filter(None, (os.environ.get("CC"), "gcc", "clang", "cc")))):
        return "there is no C compiler, which triton needs"
    from qwen_batch.model.triton_backend import unsupported

    reason = unsupported(model, block_size, dtype, device)
    if reason is not None or not _is_card_here(device):
        return reason
    from qwen_batch.model.kernel_checks import first_wrong_kernel

    wrong = first_wrong_kernel(model, block_size, dtype, device)
    return None if wrong is None else f"a kernel is wrong on this device, please report it: {wrong}"


def _is_card_here(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.is_available()


def resolve_overlap(asked: bool | Literal["auto"], device: torch.device) -> bool:
    """On a CPU the host is the device, and a step of lag would only compute tokens that are thrown away."""
    return device.type == "cuda" if asked == "auto" else asked


def resolve_max_model_len(asked: int | None, model: ModelConfig) -> int:
    """Longest prompt plus answer in tokens. Raises UsageError for more than the model's window."""
    if asked is not None and asked > model.window:
        raise UsageError(f"engine.max_model_len is {asked}, but the model's window is {model.window} tokens")
    return asked or model.window


def resolve_num_blocks(config: EngineConfig, model: ModelConfig, dtype: torch.dtype, measure: Callable[[], int]) -> int:
    """Blocks of KV memory: as asked, or what is free, and never more than max_num_seqs of the longest sequences.

    measure: bytes that keys and values may take; asked where the config leaves it open.

    Raises ModelError when not even one sequence of the longest length fits, where that or the memory was asked for: a
    run must not find that out at 3 a.m. Where neither was, `lowered_window` is the longest, and at least LEAST_WINDOW.
    """
    block_bytes = config.block_size * model.kv_bytes_per_token(dtype.itemsize)
    max_model_len = resolve_max_model_len(config.max_model_len, model)
    longest = -(-max_model_len // config.block_size)
    if config.num_blocks is not None:
        return config.num_blocks
    memory = measure() if config.kv_memory == "auto" else config.kv_memory
    num_blocks = min(memory // block_bytes, longest * config.max_num_seqs)
    least = longest
    if config.max_model_len is None and config.kv_memory == "auto":
        least = min(longest, -(-LEAST_WINDOW // config.block_size))
    if num_blocks < least:
        raise ModelError(
            f"{memory:,} bytes of KV memory hold {num_blocks * config.block_size:,} tokens, but one sequence may have "
            f"{max_model_len:,}; lower engine.max_model_len or raise engine.kv_memory"
        )
    return num_blocks


def lowered_window(config: EngineConfig, model: ModelConfig, num_blocks: int) -> int:
    """Longest prompt plus answer in tokens: what was asked for, or the model's window, or what fits of that.

    What fits is rounded down, so that it is the same on the next night, when a little more or less is free.
    """
    longest, fits = resolve_max_model_len(config.max_model_len, model), num_blocks * config.block_size
    if config.max_model_len is not None or config.num_blocks is not None or fits >= longest:
        return longest
    return max(min(fits, LEAST_WINDOW), fits // WINDOW_STEP * WINDOW_STEP)


def resolve_enough_blocks(config: EngineConfig, device: torch.device) -> int | None:
    """Blocks in use above which a CPU runs no more sequences at once than a few: its rate no longer grows with them.

    64 contracts of 300 to 3,200 tokens ran at 1.21 requests/s with 21,000 tokens of keys and values as with 63,000, in
    1.3 GB instead of 2.3 (`demo`, two Zen 4 cores, 2026-11-30). None where the KV memory was asked for, and on CUDA.
    """
    asked = config.num_blocks is not None or config.kv_memory != "auto"
    return None if asked or device.type != "cpu" else -(-ENOUGH_TOKENS // config.block_size)


def cpu_kv_bytes() -> int:
    """Bytes that keys and values may take of the machine's memory."""
    return int(CPU_KV_SHARE * _free_bytes())


def _free_bytes() -> int:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
