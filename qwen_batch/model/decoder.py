"""The decoder: token ids of a ragged step -> logits. One code for Llama, Qwen2 and Qwen3.

h = embed(ids);  for each layer:  h += out(attention(rope(norm(q, k)), v));  h += down(silu(gate) * up)
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import embedding

from qwen_batch.model.attention import StepInput
from qwen_batch.model.backend import StepBackend, TorchBackend
from qwen_batch.model.config import ModelConfig, read_config
from qwen_batch.model.kv_cache import KVCache
from qwen_batch.model.native import NativeBackend, NativeLibrary
from qwen_batch.model.rope import Rope
from qwen_batch.model.staging import Staging
from qwen_batch.model.weights import Weights, load_weights

if TYPE_CHECKING:
    from qwen_batch.model.triton_plan import AttentionPlan


class Decoder:
    """A decoder with its weights on one device. `native` is what computes between the matrix products on a CPU."""

    def __init__(
        self, config: ModelConfig, weights: Weights, native: NativeLibrary | None = None, *, use_triton: bool = False
    ) -> None:
        self.config = config
        self.weights = weights
        self.native = native
        self.use_triton = use_triton
        self.staging = Staging(weights.device)  # how a step's numbers come to the device
        self._rope = Rope(config.rope, weights.device, weights.dtype)

    @classmethod
    def load(
        cls,
        folder: Path,
        dtype: torch.dtype,
        device: torch.device,
        native: NativeLibrary | None = None,
        *,
        use_triton: bool = False,
    ) -> Decoder:
        """From a folder in Hugging Face form. Raises ModelError."""
        config = read_config(folder)
        return cls(config, load_weights(folder, config, dtype, device), native, use_triton=use_triton)

    @torch.inference_mode()
    def forward(self, step: StepInput, cache: KVCache) -> Tensor:
        """One step: stores the new keys and values and returns logits [num_rows, vocab] in the model's dtype."""
        return self.compute(step.token_ids, step.logit_indices, self._backend(step, cache))

    @torch.inference_mode()
    def compute(self, token_ids: Tensor, logit_indices: Tensor, backend: StepBackend) -> Tensor:
        """The same with a backend that knows the step; a captured graph replays this."""
        weights = self.weights
        residual, delta = embedding(token_ids, weights.embedding), None
        for index, layer in enumerate(weights.layers):
            residual, normed = backend.add_norm(residual, delta, layer.input_norm)
            mixed = layer.output(backend.attend(index, layer, layer.qkv(normed)))
            residual, normed = backend.add_norm(residual, mixed, layer.post_norm)
            delta = layer.down(backend.silu_mul(layer.gate_up(normed)))
        assert delta is not None, "a model has at least one layer"
        return weights.head(backend.gather_norm(residual, delta, weights.norm, logit_indices))

    def _backend(self, step: StepInput, cache: KVCache) -> StepBackend:
        if self.native is not None:
            return NativeBackend(self.native, self.config, self._rope, step, cache)
        if self.use_triton:
            from qwen_batch.model.triton_plan import AttentionShape, plan_attention  # triton is not everywhere

            shape = AttentionShape.of(self.config, cache.block_size, self.weights.dtype, self.weights.device)
            plan = plan_attention(step, shape, self.staging)
            return self.triton_backend(step.positions, step.slot_mapping, plan, cache)
        return TorchBackend(self.config, self._rope, step, cache)

    def triton_backend(self, positions: Tensor, slots: Tensor, plan: AttentionPlan, cache: KVCache) -> StepBackend:
        """positions and slots int64 [num_tokens]."""
        from qwen_batch.model.triton_backend import TritonBackend

        return TritonBackend(self.config, self._rope, positions, slots, plan, cache)
