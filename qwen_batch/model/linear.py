"""Matrix products with weights: y = x W^T + b."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from qwen_batch.model.native_library import GROUP, NativeLibrary, Product
from qwen_batch.model.workspace import Memory

# The number of rows for which oneDNN lays packed weights out. Packed for 64, two Zen 4 cores were within 10 % of the
# layout for the actual number at 1, 16, 64, 300 and 1,024 rows (2026-11-29).
PACKED_ROWS = 64


class Linear(Protocol):
    """[rows, in] -> [rows, out]."""

    def __call__(self, x: Tensor) -> Tensor: ...


@dataclass(frozen=True, slots=True)
class PlainLinear:
    """Weights as they are stored."""

    weight: Tensor  # [out, in]
    bias: Tensor | None = None  # [out]

    def __call__(self, x: Tensor) -> Tensor:
        return functional.linear(x, self.weight, self.bias)

    def write(self, x: Tensor, out: Tensor) -> Tensor:
        """The same into `out` [rows, out]."""
        if self.bias is None:
            return torch.mm(x, self.weight.t(), out=out)
        return torch.addmm(self.bias, x, self.weight.t(), out=out)


@dataclass(frozen=True, slots=True)
class PackedLinear:
    """Weights in the layout that oneDNN computes with, so that no call rearranges them.

    Measured on one Zen 4 core, bfloat16, weights out of cache, [3072, 576]: 151 GFLOP/s against 83 at 16 rows, 193
    against 158 at 64, the same from 512 on (2026-11-29).
    """

    packed: Tensor
    bias: Tensor | None

    def __call__(self, x: Tensor) -> Tensor:
        result: Tensor = torch.ops.mkldnn._linear_pointwise(x, self.packed, self.bias, "none", [], "")
        return result


@dataclass(frozen=True, slots=True)
class NativeLinear:
    """Weights in the layout of native_products.c or native_int8.c.

    Measured against oneDNN on two Zen 4 cores, bfloat16, all products of a layer of `demo`, weights out of cache
    (2026-11-29), GFLOP/s: 209 against 136 at 8 rows, 322 against 232 at 16, 388 against 298 at 32, 420 against 354 at
    64, 437 against 404 at 1,024; in float32, 172 against 65 at 16 and 219 against 184 at 1,024.
    """

    library: NativeLibrary
    tensors: tuple[Tensor, ...]  # what `product` points into
    product: Product

    @classmethod
    def pack(cls, library: NativeLibrary, weight: Tensor, bias: Tensor | None) -> NativeLinear:
        """weight [outputs, inputs] of the library's dtype."""
        outputs, inputs = weight.shape
        packed = library.pack(weight)
        product = Product(packed.data_ptr(), None if bias is None else bias.data_ptr(), 0, inputs, outputs)
        return cls(library, (packed,) if bias is None else (packed, bias), product)

    @classmethod
    def pack_int8(cls, library: NativeLibrary, weight: Tensor, bias: Tensor | None) -> NativeLinear:
        """The weight rounded to int8, with a scale for each GROUP inputs of an output: their largest becomes 127."""
        outputs, inputs = weight.shape
        wide = weight.float().view(outputs, -1, GROUP)
        scales = wide.abs().amax(dim=2).clamp_min_(1e-30) / 127
        packed = library.pack_int8((wide / scales[:, :, None]).round_().to(torch.int8), scales)
        product = Product(packed.data_ptr(), None if bias is None else bias.data_ptr(), 1, inputs, outputs)
        return cls(library, (packed,) if bias is None else (packed, bias), product)

    def __call__(self, x: Tensor) -> Tensor:
        return self.library.multiply(self.product, x)

    def wide(self, x: Tensor) -> Tensor:
        """The same in float32: logits that are rounded to bfloat16 tie, and the first of equals is another token."""
        return self.library.multiply(self.product, x, wide=True)


def make_linear(
    weight: Tensor, bias: Tensor | None = None, native: NativeLibrary | None = None, *, int8: bool = False
) -> Linear:
    """In the form that is known to be fastest on this machine; with `int8`, rounded where the library takes it."""
    if int8 and native is not None and native.can_multiply_int8(weight):
        return NativeLinear.pack_int8(native, weight, bias)
    if native is not None and native.can_multiply(weight) and not _has_matrix_unit():
        return NativeLinear.pack(native, weight, bias)
    if not can_pack(weight):
        return PlainLinear(weight, bias)
    return PackedLinear(torch.ops.mkldnn._reorder_linear_weight(weight, PACKED_ROWS), bias)


def apply_linear(linear: Linear, x: Tensor, memory: Memory, name: str) -> Tensor:
    """linear(x) in memory of that name. oneDNN's products of packed weights can only be had in memory of their own."""
    if not isinstance(linear, PlainLinear):
        return linear(x)
    return linear.write(x, memory.take(name, (len(x), len(linear.weight)), x.dtype))


def can_pack(weight: Tensor) -> bool:
    return (
        weight.device.type == "cpu"
        and weight.dtype == torch.bfloat16
        and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
        and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")
        and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    )


def _has_matrix_unit() -> bool:
    """Intel's AMX: oneDNN uses it, native_products.c does not."""
    return torch.cpu._is_amx_tile_supported()
