"""The native backend: native.c, compiled once for this machine with its C compiler, and called on torch's tensors.

What it saves over torch, operation by operation, is passes over memory: keys and values are read where they stand in
their blocks, and normalising, rotating and storing are one pass. Without a compiler the engine says so and uses torch.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from qwen_batch.errors import ModelError
from qwen_batch.model.attention import PrefillAttention, StepInput
from qwen_batch.model.backend import StepBackend
from qwen_batch.model.config import ModelConfig
from qwen_batch.model.home import home
from qwen_batch.model.kv_cache import KVCache
from qwen_batch.model.rope import Rope
from qwen_batch.model.weights import LayerWeights
from qwen_batch.model.workspace import Memory

SOURCE = Path(__file__).with_name("native.c")
# Everything of -ffast-math that keeps infinities and NaN, and nothing that changes the process when it is linked.
FLAGS = (
    *("-O3", "-march=native", "-fopenmp", "-fPIC", "-ffp-contract=fast"),
    *("-fno-math-errno", "-fno-trapping-math", "-fno-signed-zeros", "-fassociative-math", "-freciprocal-math"),
)
COMPILE_SECONDS = 120
MAX_HEAD_DIM, MAX_GROUP = 256, 16  # as in native.c

_POINTER, _INT, _FLOAT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float
_SIGNATURES = {
    "add_rms_norm": (*[_POINTER] * 4, _INT, _INT, _FLOAT),
    "silu_mul": (_POINTER, _POINTER, _INT, _INT),
    "prepare_qkv": (*[_POINTER] * 8, *[_INT] * 4, _FLOAT),
    "attend_decode": (_POINTER, _INT, *[_POINTER] * 3, _INT, _INT, _POINTER, _POINTER, *[_INT] * 4, _POINTER),
    "argmax_rows": (_POINTER, _POINTER, _INT, _INT),
}


@dataclass(frozen=True, slots=True)
class NativeLibrary:
    """The compiled functions, for one dtype."""

    functions: Any
    dtype: torch.dtype

    def argmax(self, logits: Tensor) -> Tensor:
        """logits [rows, vocab] -> int64 [rows], -1 for a row with a NaN."""
        best = torch.empty(len(logits), dtype=torch.int64)
        self.functions.argmax_rows(logits.data_ptr(), best.data_ptr(), *logits.shape)
        return best


def can_run(config: ModelConfig, dtype: torch.dtype, device: torch.device) -> bool:
    """Whether native.c has this model's shape and types."""
    return (
        device.type == "cpu"
        and dtype in (torch.bfloat16, torch.float32)
        and config.head_dim <= MAX_HEAD_DIM
        and config.num_heads // config.num_kv_heads <= MAX_GROUP
    )


def load_native(dtype: torch.dtype) -> NativeLibrary:
    """Compile (once for each machine, compiler and version of the source) and load. Raises ModelError."""
    compiler = _find_compiler()
    flags = (*FLAGS, *(("-DUSE_BFLOAT16",) if dtype == torch.bfloat16 else ()))
    path = home() / "native" / f"{_fingerprint(compiler, flags)}.so"
    if not path.is_file():
        _compile(compiler, flags, path)
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise ModelError(f"{path}: cannot be loaded: {error}") from None
    for name, arguments in _SIGNATURES.items():
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, None
    return NativeLibrary(library, dtype)


def _find_compiler() -> str:
    for name in (os.environ.get("CC"), "cc", "gcc", "clang"):
        if name and (found := shutil.which(name)):
            return found
    raise ModelError("there is no C compiler (cc, gcc or clang) on the PATH")


def _fingerprint(compiler: str, flags: Sequence[str]) -> str:
    version = subprocess.run([compiler, "--version"], capture_output=True, check=False).stdout
    text = "\0".join((*flags, platform.machine(), _cpu_flags())).encode()
    return hashlib.sha256(SOURCE.read_bytes() + version + text).hexdigest()[:32]


def _cpu_flags() -> str:
    """What -march=native depends on: a cache that several machines share must not mix them up."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), "")


def _compile(compiler: str, flags: Sequence[str], path: Path) -> None:
    """Compile into a temporary file beside `path` and rename, so that two processes at once do no harm.

    OpenMP's functions stay undefined: they are found in the runtime that torch has loaded.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            unit, library = f"{folder}/native.o", f"{folder}/native.so"
            for command in (
                [compiler, *flags, "-c", str(SOURCE), "-o", unit],
                [compiler, "-shared", unit, "-o", library, "-lm"],
            ):
                done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_SECONDS, check=False)
                if done.returncode:
                    raise ModelError(f"{compiler} does not compile it: {done.stderr.strip()[-300:]}")
            os.replace(library, path)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ModelError(f"it cannot be compiled: {error}") from None


class NativeBackend(StepBackend):
    """One step through native.c; prefill attention through torch. See StepBackend."""

    def __init__(
        self,
        library: NativeLibrary,
        config: ModelConfig,
        rope: Rope,
        step: StepInput,
        cache: KVCache,
        memory: Memory,
    ) -> None:
        self._functions = library.functions
        self._config = config
        self._cache = cache
        self._slots = step.slot_mapping
        self._prefill = PrefillAttention(step, cache)
        self._cos, self._sin = rope.half_angles(step.positions, memory)
        self._memory = memory
        decodes = [row for row, length in enumerate(step.piece_lengths) if length == 1]
        self._num_decodes = len(decodes)
        self._tokens = torch.tensor([step.cu_seqlens_q[row] for row in decodes], dtype=torch.int64)
        self._contexts = torch.tensor([step.context_lens[row] for row in decodes], dtype=torch.int64)
        all_decode = self._num_decodes == len(step.context_lens)
        self._tables = step.block_tables if all_decode else step.block_tables[decodes].contiguous()

    def add_norm(self, residual: Tensor, delta: Tensor | None, weight: Tensor) -> tuple[Tensor, Tensor]:
        normed = self._memory.take("normed", tuple(residual.shape), residual.dtype)
        self._functions.add_rms_norm(
            residual.data_ptr(),
            None if delta is None else delta.data_ptr(),
            weight.data_ptr(),
            normed.data_ptr(),
            *residual.shape,
            self._config.rms_norm_eps,
        )
        return residual, normed

    def attend(self, index: int, layer: LayerWeights, qkv: Tensor) -> Tensor:
        config, keys, values = self._config, self._cache.keys[index], self._cache.values[index]
        sizes = (config.num_heads, config.num_kv_heads, config.head_dim)
        self._functions.prepare_qkv(
            qkv.data_ptr(),
            None if layer.q_norm is None else layer.q_norm.data_ptr(),
            None if layer.k_norm is None else layer.k_norm.data_ptr(),
            self._cos.data_ptr(),
            self._sin.data_ptr(),
            self._slots.data_ptr(),
            keys.data_ptr(),
            values.data_ptr(),
            len(qkv),
            *sizes,
            config.rms_norm_eps,
        )
        output = self._memory.take("attended", (len(qkv), config.q_size), qkv.dtype)
        if self._num_decodes:
            self._functions.attend_decode(
                qkv.data_ptr(),
                qkv.shape[1],
                self._tokens.data_ptr(),
                self._tables.data_ptr(),
                self._contexts.data_ptr(),
                self._num_decodes,
                self._tables.shape[1],
                keys.data_ptr(),
                values.data_ptr(),
                self._cache.block_size,
                *sizes,
                output.data_ptr(),
            )
        if self._prefill.has_pieces:
            heads = [config.q_size, config.kv_size, config.kv_size]
            q, k, v = (x.view(len(x), -1, config.head_dim) for x in torch.split(qkv, heads, dim=-1))
            self._prefill.attend(index, q, k, v, output.view(len(output), -1, config.head_dim))
        return output

    def silu_mul(self, gate_up: Tensor) -> Tensor:
        rows, size = gate_up.shape[0], gate_up.shape[1] // 2
        output = self._memory.take("activated", (rows, size), gate_up.dtype)
        self._functions.silu_mul(gate_up.data_ptr(), output.data_ptr(), rows, size)
        return output

    def gather_norm(self, residual: Tensor, delta: Tensor, weight: Tensor, indices: Tensor) -> Tensor:
        shape = len(indices), residual.shape[1]
        rows, added = (self._memory.take(name, shape, residual.dtype) for name in ("last", "last_delta"))
        torch.index_select(residual, 0, indices, out=rows)
        torch.index_select(delta, 0, indices, out=added)
        return self.add_norm(rows, added, weight)[1]
