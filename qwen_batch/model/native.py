"""The native backend: what is between the matrix products of one step, through the native sources.

What it saves over torch, operation by operation, is passes over memory: keys and values are read where they stand in
their blocks, and normalising, rotating and storing are one pass. Without a compiler the engine says so and uses torch.
"""

from __future__ import annotations

import torch
from torch import Tensor

from qwen_batch.model.attention import StepInput
from qwen_batch.model.backend import StepBackend
from qwen_batch.model.config import ModelConfig
from qwen_batch.model.kv_cache import KVCache
from qwen_batch.model.layers import LayerWeights
from qwen_batch.model.native_attention import plan_attention
from qwen_batch.model.native_library import NativeLibrary
from qwen_batch.model.rope import Rope
from qwen_batch.model.workspace import Memory


class NativeBackend(StepBackend):
    """One step through the native sources. See StepBackend."""

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
        self._memory = memory
        self._attention = plan_attention(library, config, step, cache)
        self._cos, self._sin = rope.half_angles(step.positions, memory)

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
        self._attention.attend(index, qkv, output)
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
