"""The decoder: token ids of a ragged step -> logits. One code for Llama, Qwen2 and Qwen3.

h = embed(ids);  for each layer:  h += out(attention(rope(norm(q, k)), v));  h += down(silu(gate) * up)
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import embedding, linear, silu

from qwen_batch.model.attention import StepAttention, StepInput
from qwen_batch.model.config import ModelConfig, read_config
from qwen_batch.model.kv_cache import KVCache
from qwen_batch.model.rope import Rope, rotate
from qwen_batch.model.weights import LayerWeights, Weights, load_weights


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """x / rms(x) * weight over the last dimension, the mean in float32 (Zhang and Sennrich 2019)."""
    wide = x.float()
    return weight * (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)).to(x.dtype)


class Decoder:
    """A decoder with its weights on one device."""

    def __init__(self, config: ModelConfig, weights: Weights) -> None:
        self.config = config
        self.weights = weights
        self._rope = Rope(config.rope, weights.device, weights.dtype)

    @classmethod
    def load(cls, folder: Path, dtype: torch.dtype, device: torch.device) -> Decoder:
        """From a folder in Hugging Face form. Raises ModelError."""
        config = read_config(folder)
        return cls(config, load_weights(folder, config, dtype, device))

    @torch.inference_mode()
    def forward(self, step: StepInput, cache: KVCache) -> Tensor:
        """One step: stores the new keys and values and returns logits [num_rows, vocab] in the model's dtype."""
        config, weights = self.config, self.weights
        attention = StepAttention(step, cache)
        cos, sin = self._rope.angles(step.positions)
        hidden = embedding(step.token_ids, weights.embedding)
        for index, layer in enumerate(weights.layers):
            queries, keys, values = self._project(hidden, layer, cos, sin)
            mixed = attention.attend(index, queries, keys, values)
            hidden = hidden + linear(mixed, layer.output, layer.output_bias)
            gate, up = linear(
                rms_norm(hidden, layer.post_norm, config.rms_norm_eps), layer.gate_up, layer.gate_up_bias
            ).chunk(2, dim=-1)
            hidden = hidden + linear(silu(gate) * up, layer.down, layer.down_bias)
        wanted = hidden.index_select(0, step.logit_indices)
        return linear(rms_norm(wanted, weights.norm, config.rms_norm_eps), weights.head)

    def _project(self, hidden: Tensor, layer: LayerWeights, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """hidden [num_tokens, hidden] -> queries, keys (rotated) and values [num_tokens, heads, head_dim]."""
        config = self.config
        normed = rms_norm(hidden, layer.input_norm, config.rms_norm_eps)
        sizes = [config.q_size, config.kv_size, config.kv_size]
        queries, keys, values = (
            x.view(len(x), -1, config.head_dim)
            for x in torch.split(linear(normed, layer.qkv, layer.qkv_bias), sizes, dim=-1)
        )
        if layer.q_norm is not None and layer.k_norm is not None:
            queries = rms_norm(queries, layer.q_norm, config.rms_norm_eps)
            keys = rms_norm(keys, layer.k_norm, config.rms_norm_eps)
        return rotate(queries, cos, sin), rotate(keys, cos, sin), values
