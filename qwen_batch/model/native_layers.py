"""All layers of a step in one call of native_step.c, on a CPU with 512-bit vectors.

The buffers between the layers are kept from step to step and grow with the largest step: in steady state nothing is
allocated but what describes the step.
"""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from qwen_batch.model.attention import StepInput
from qwen_batch.model.config import ModelConfig
from qwen_batch.model.kv_cache import KVCache
from qwen_batch.model.layers import LayerWeights, Weights
from qwen_batch.model.linear import NativeLinear
from qwen_batch.model.native_attention import VectorAttention
from qwen_batch.model.native_library import GROUP, Buffers, Layer, Model, NativeLibrary
from qwen_batch.model.rope import Rope


class NativeLayers:
    """A decoder from token ids to the normalised rows whose logits are wanted."""

    def __init__(
        self, library: NativeLibrary, config: ModelConfig, weights: Weights, rope: Rope, *, exact: bool = False
    ) -> None:
        self._library = library
        self._config = config
        self._weights = weights  # what the structures point into
        self._rope = rope
        self._exact = exact
        self._layers = (Layer * config.num_layers)(*(_layer(layer) for layer in weights.layers))
        self._model = Model(
            config.hidden_size,
            config.intermediate_size,
            config.num_heads,
            config.num_kv_heads,
            config.head_dim,
            config.rms_norm_eps,
            weights.embedding.data_ptr(),
            weights.norm.data_ptr(),
            ctypes.addressof(self._layers),
            config.num_layers,
        )
        self._cache: KVCache | None = None
        self._room = 0  # tokens that the buffers hold
        self.num_grown = 0  # times that they were too small
        self._tensors: tuple[Tensor, ...] = ()
        self._buffers = Buffers()

    @classmethod
    def can_run(cls, library: NativeLibrary, config: ModelConfig, weights: Weights) -> bool:
        """Whether all products, and attention, are the library's own."""
        return library.can_attend(config.head_dim) and all(
            isinstance(linear, NativeLinear)
            for layer in weights.layers
            for linear in (layer.qkv, layer.output, layer.gate_up, layer.down)
        )

    def run(self, step: StepInput, cache: KVCache) -> Tensor:
        """Stores the new keys and values; -> [num_rows, hidden] of the step's logit_indices."""
        self._use(cache)
        num_tokens, num_rows = len(step.token_ids), len(step.logit_indices)
        self._grow(num_tokens)
        attention = VectorAttention(self._library, self._config, step, cache, exact=self._exact)
        cos, sin = self._rope.half_angles(step.positions)
        rows = torch.empty((num_rows, self._config.hidden_size), dtype=self._weights.dtype)
        self._library.functions.run_step(
            ctypes.byref(self._model),
            ctypes.byref(attention.plan),
            ctypes.byref(self._buffers),
            step.token_ids.data_ptr(),
            cos.data_ptr(),
            sin.data_ptr(),
            step.slot_mapping.data_ptr(),
            num_tokens,
            step.logit_indices.data_ptr(),
            num_rows,
            rows.data_ptr(),
        )
        return rows

    def _use(self, cache: KVCache) -> None:
        if cache is not self._cache:
            self._cache = cache
            for layer, keys, values in zip(self._layers, cache.keys, cache.values, strict=True):
                layer.keys, layer.values = keys.data_ptr(), values.data_ptr()

    def _grow(self, num_tokens: int) -> None:
        if num_tokens <= self._room:
            return
        config = self._config
        hidden, inner = config.hidden_size, config.intermediate_size
        qkv = config.q_size + 2 * config.kv_size
        self._room = num_tokens
        self.num_grown += 1
        self._tensors = (
            torch.empty(num_tokens * hidden, dtype=torch.float32),
            *(
                torch.empty(num_tokens * size, dtype=self._weights.dtype)
                for size in (hidden, qkv, config.q_size, 2 * inner, inner)
            ),
            torch.empty(num_tokens * max(hidden, inner, config.q_size), dtype=torch.uint8),
            torch.empty(num_tokens * max(hidden, inner, config.q_size) // GROUP, dtype=torch.float32),
        )
        self._buffers = Buffers(*(tensor.data_ptr() for tensor in self._tensors))


def _layer(weights: LayerWeights) -> Layer:
    products = []
    for linear in (weights.qkv, weights.output, weights.gate_up, weights.down):
        assert isinstance(linear, NativeLinear), "can_run has looked"
        products.append(linear.product)
    norms = (weights.input_norm, weights.q_norm, weights.k_norm, weights.post_norm)
    return Layer(*(None if norm is None else norm.data_ptr() for norm in norms), *products, None, None)
