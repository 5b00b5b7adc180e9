"""The native sources, compiled once for this machine with its C compiler, and their functions on torch's tensors.

OpenMP's functions come from the runtime that torch has loaded, so that there is one pool of threads.
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
from qwen_batch.model.config import ModelConfig
from qwen_batch.model.home import home

SOURCES = tuple(
    Path(__file__).with_name(f"native{part}.c") for part in ("", "_attention", "_products", "_int8", "_step")
)
HEADERS = tuple(
    Path(__file__).with_name(f"native{part}.h") for part in ("", "_parts", "_tiles", "_prompts", "_singles")
)
# Everything of -ffast-math that keeps infinities and NaN, and nothing that changes the process when it is linked.
FLAGS = (
    *("-O3", "-march=native", "-fopenmp", "-fPIC", "-ffp-contract=fast"),
    *("-fno-math-errno", "-fno-trapping-math", "-fno-signed-zeros", "-fassociative-math", "-freciprocal-math"),
)
COMPILE_SECONDS = 120
MAX_HEAD_DIM, MAX_GROUP = 256, 16  # as in native.c
GROUP = 64  # inputs that share a scale in int8, as in native_parts.h
PANEL = 48  # outputs that stand together in packed weights, as in native_parts.h

_POINTER, _INT, _FLOAT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float
_SIGNATURES = {
    "add_rms_norm": (*[_POINTER] * 4, _INT, _INT, _FLOAT),
    "silu_mul": (_POINTER, _POINTER, _INT, _INT),
    "prepare_qkv": (*[_POINTER] * 8, *[_INT] * 4, _FLOAT),
    "attend_decode": (_POINTER, _INT, *[_POINTER] * 3, _INT, _INT, _POINTER, _POINTER, *[_INT] * 4, _POINTER),
    "argmax_rows": (_POINTER, _POINTER, _INT, _INT),
}
_VECTOR_SIGNATURES = {
    "attend": (_POINTER, _INT, _POINTER, _INT, _POINTER, _POINTER, _INT, _INT, _INT, _POINTER),
    "pack_weights": (_POINTER, _POINTER, _INT, _INT),
    "multiply": (*[_POINTER] * 4, _INT, *[_POINTER] * 3),
    "run_step": (*[_POINTER] * 7, _INT, _POINTER, _INT, _POINTER),
}
_INT8_SIGNATURES = {"pack_int8": (_POINTER, _POINTER, _POINTER, _INT, _INT)}


class Product(ctypes.Structure):
    """As in native_parts.h; so are the fields of the others."""

    _fields_ = (
        *((name, _POINTER) for name in ("packed", "bias")),
        *((name, _INT) for name in ("is_int8", "inputs", "outputs")),
    )


class AttentionPlan(ctypes.Structure):
    _fields_ = (
        *((name, _POINTER) for name in ("shared", "own", "last")),
        *((name, _INT) for name in ("num_shared", "num_own", "num_last")),
        *((name, _POINTER) for name in ("tokens", "visible", "tables")),
        *((name, _INT) for name in ("max_blocks", "block_size", "exact")),
        ("states", _POINTER),
    )


class Layer(ctypes.Structure):
    """As in native_step.c; so are the fields of the next two."""

    _fields_ = (
        *((name, _POINTER) for name in ("input_norm", "q_norm", "k_norm", "post_norm")),
        *((name, Product) for name in ("qkv", "output", "gate_up", "down")),
        *((name, _POINTER) for name in ("keys", "values")),
    )


class Model(ctypes.Structure):
    _fields_ = (
        *((name, _INT) for name in ("hidden", "intermediate", "heads", "kv_heads", "dim")),
        ("norm_eps", _FLOAT),
        *((name, _POINTER) for name in ("embedding", "norm", "layers")),
        ("num_layers", _INT),
    )


class Buffers(ctypes.Structure):
    _fields_ = tuple(
        (name, _POINTER)
        for name in (
            *("residual", "normed", "qkv", "mixed", "gate_up", "activated"),
            *("quantized", "x_scales"),
        )
    )


@dataclass(frozen=True, slots=True)
class NativeLibrary:
    """The compiled functions, for one dtype."""

    functions: Any
    dtype: torch.dtype
    has_vectors: bool  # attention and products of our own: the CPU has 512-bit vectors for this dtype
    has_int8: bool  # products in int8 too

    def argmax(self, logits: Tensor) -> Tensor:
        """logits [rows, vocab] -> int64 [rows], -1 for a row with a NaN."""
        logits, best = logits.float(), torch.empty(len(logits), dtype=torch.int64)
        self.functions.argmax_rows(logits.data_ptr(), best.data_ptr(), *logits.shape)
        return best

    def can_attend(self, head_dim: int) -> bool:
        """Whether `attend` has this shape."""
        return self.has_vectors and head_dim % 16 == 0

    def can_multiply(self, weight: Tensor) -> bool:
        """Whether `pack` and `multiply` take this weight [outputs, inputs]."""
        return self.has_vectors and weight.dtype == self.dtype and weight.shape[1] % 2 == 0

    def can_multiply_int8(self, weight: Tensor) -> bool:
        """Whether `pack_int8` and `multiply` take this weight once it is rounded."""
        return self.has_int8 and weight.dtype == self.dtype and weight.shape[1] % GROUP == 0

    def pack(self, weight: Tensor) -> Tensor:
        """weight [outputs, inputs] -> the layout that `multiply` computes with."""
        outputs, inputs = weight.shape
        packed = torch.empty(-(-outputs // PANEL) * PANEL * inputs, dtype=weight.dtype)
        self.functions.pack_weights(weight.data_ptr(), packed.data_ptr(), outputs, inputs)
        return packed

    def pack_int8(self, weight: Tensor, scales: Tensor) -> Tensor:
        """weight int8 [outputs, inputs / GROUP, GROUP], scales float32 [outputs, inputs / GROUP] -> the layout that
        `multiply` computes with."""
        outputs, inputs = len(weight), scales.shape[1] * GROUP
        words = inputs // GROUP * (GROUP // 4 + 2)
        packed = torch.empty(-(-outputs // PANEL) * PANEL * words, dtype=torch.int32)
        self.functions.pack_int8(weight.data_ptr(), scales.data_ptr(), packed.data_ptr(), outputs, inputs)
        return packed

    def multiply(self, product: Product, x: Tensor, *, wide: bool = False) -> Tensor:
        """x [rows, inputs] -> x W^T + b [rows, outputs], `wide` in float32, else in x's dtype.

        Each row is the same to the bit whatever the others are.
        """
        rows = len(x)
        y = torch.zeros((rows, product.outputs), dtype=torch.float32 if wide else x.dtype)
        room = torch.empty(x.shape, dtype=torch.uint8), torch.empty(x.numel() // GROUP, dtype=torch.float32)
        pointers = [tensor.data_ptr() for tensor in room]
        to = (None, y.data_ptr()) if wide else (y.data_ptr(), None)
        self.functions.multiply(ctypes.byref(product), x.data_ptr(), *to, rows, *pointers, None)
        return y


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
    for name in ("have_vectors", "have_int8"):
        getattr(library, name).restype = _INT
    has_vectors, has_int8 = bool(library.have_vectors()), bool(library.have_int8())
    vectors, int8 = _VECTOR_SIGNATURES if has_vectors else {}, _INT8_SIGNATURES if has_int8 else {}
    for name, arguments in {**_SIGNATURES, **vectors, **int8}.items():
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, None
    return NativeLibrary(library, dtype, has_vectors, has_int8)


def _find_compiler() -> str:
    for name in (os.environ.get("CC"), "cc", "gcc", "clang"):
        if name and (found := shutil.which(name)):
            return found
    raise ModelError("there is no C compiler (cc, gcc or clang) on the PATH")


def _fingerprint(compiler: str, flags: Sequence[str]) -> str:
    version = subprocess.run([compiler, "--version"], capture_output=True, check=False).stdout
    text = "\0".join((*flags, platform.machine(), _cpu_flags())).encode()
    return hashlib.sha256(b"".join(file.read_bytes() for file in (*HEADERS, *SOURCES)) + version + text).hexdigest()[
        :32
    ]


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
            units = [f"{folder}/{source.stem}.o" for source in SOURCES]
            library = f"{folder}/native.so"
            for command in (
                *(
                    [compiler, *flags, "-c", str(source), "-o", unit]
                    for source, unit in zip(SOURCES, units, strict=True)
                ),
                [compiler, "-shared", *units, "-o", library, "-lm"],
            ):
                done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_SECONDS, check=False)
                if done.returncode:
                    raise ModelError(f"{compiler} does not compile it: {done.stderr.strip()[-300:]}")
            os.replace(library, path)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ModelError(f"it cannot be compiled: {error}") from None
