"""What a decoder does between its matrix products, for one step. Three forms: torch, anywhere; native, on
a CPU; triton (triton_backend.py), on CUDA."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import silu

from qwen_batch.model.attention import StepAttention, StepInput
from qwen_batch.model.config import ModelConfig
from qwen_batch.model.kv_cache import KVCache
from qwen_batch.model.layers import LayerWeights
from qwen_batch.model.linear import Linear
from qwen_batch.model.rope import Rope, rotate
from qwen_batch.model.workspace import Memory


class StepBackend(Protocol):
    """One ragged step of num_tokens tokens."""

    def add_norm(self, residual: Tensor, delta: Tensor | None, weight: Tensor) -> tuple[Tensor, Tensor]:
        """[num_tokens, hidden] each -> (residual + delta, that normalised). `residual` may be changed in place."""
        ...

    def attend(self, index: int, layer: LayerWeights, qkv: Tensor) -> Tensor:
        """qkv [num_tokens, q_size + 2 * kv_size] -> [num_tokens, q_size]; stores keys and values. May change qkv."""
        ...

    def silu_mul(self, gate_up: Tensor) -> Tensor:
        """[num_tokens, 2 * intermediate] -> silu(gate) * up [num_tokens, intermediate]."""
        ...

    def gather_norm(self, residual: Tensor, delta: Tensor, weight: Tensor, indices: Tensor) -> Tensor:
        """residual + delta, normalised, of the tokens at `indices` alone [num_rows, hidden]."""
        return self.add_norm(residual.index_select(0, indices), delta.index_select(0, indices), weight)[1]


class ApplyLinear(Protocol):
    """linear(x), in memory of that name."""

    def __call__(self, linear: Linear, x: Tensor, *, name: str) -> Tensor: ...


def run_layer(
    index: int, layer: LayerWeights, backend: StepBackend, residual: Tensor, delta: Tensor | None, apply: ApplyLinear
) -> tuple[Tensor, Tensor]:
    """residual, delta [num_tokens, hidden] -> the same after the layer; the residual stream is their sum."""
    residual, normed = backend.add_norm(residual, delta, layer.input_norm)
    mixed = backend.attend(index, layer, apply(layer.qkv, normed, name="qkv"))
    residual, normed = backend.add_norm(residual, apply(layer.output, mixed, name="delta"), layer.post_norm)
    activated = backend.silu_mul(apply(layer.gate_up, normed, name="gate_up"))
    return residual, apply(layer.down, activated, name="delta")


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """x / rms(x) * weight over the last dimension, the mean in float32 (Zhang and Sennrich 2019)."""
    wide = x.float()
    return weight * (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)).to(x.dtype)


class TorchBackend(StepBackend):
    """Through torch, on any device."""

    def __init__(self, config: ModelConfig, rope: Rope, step: StepInput, cache: KVCache, memory: Memory) -> None:
        self._config = config
        self._attention = StepAttention(step, cache)
        self._cos, self._sin = (x[:, None, :] for x in rope.angles(step.positions, memory))

    def add_norm(self, residual: Tensor, delta: Tensor | None, weight: Tensor) -> tuple[Tensor, Tensor]:
        residual = residual if delta is None else residual + delta
        return residual, rms_norm(residual, weight, self._config.rms_norm_eps)

    def attend(self, index: int, layer: LayerWeights, qkv: Tensor) -> Tensor:
        config = self._config
        sizes = [config.q_size, config.kv_size, config.kv_size]
        queries, keys, values = (x.view(len(x), -1, config.head_dim) for x in torch.split(qkv, sizes, dim=-1))
        if layer.q_norm is not None and layer.k_norm is not None:
            queries = rms_norm(queries, layer.q_norm, config.rms_norm_eps)
            keys = rms_norm(keys, layer.k_norm, config.rms_norm_eps)
        queries, keys = rotate(queries, self._cos, self._sin), rotate(keys, self._cos, self._sin)
        return self._attention.attend(index, queries, keys, values)

    def silu_mul(self, gate_up: Tensor) -> Tensor:
        gate, up = gate_up.chunk(2, dim=-1)
        return silu(gate) * up
