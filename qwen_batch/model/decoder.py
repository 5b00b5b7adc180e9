"""The decoder: token ids of a ragged step -> logits. One code for Llama, Qwen2 and Qwen3.

h = embed(ids);  for each layer:  h += out(attention(rope(norm(q, k)), v));  h += down(silu(gate) * up)
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import embedding

from qwen_batch.errors import ModelError
from qwen_batch.model.attention import StepInput
from qwen_batch.model.backend import StepBackend, TorchBackend
from qwen_batch.model.config import ModelConfig, read_config
from qwen_batch.model.kv_cache import KVCache
from qwen_batch.model.linear import NativeLinear
from qwen_batch.model.native import NativeBackend
from qwen_batch.model.native_layers import NativeLayers
from qwen_batch.model.native_library import NativeLibrary
from qwen_batch.model.rope import Rope
from qwen_batch.model.weights import Weights, load_weights


class Decoder:
    """A decoder with its weights on one device. `native` is what computes on a CPU. `deterministic`: the logits of a
    sequence are the same to the bit in any batch and any chunking; raises ModelError where that is not there."""

    def __init__(
        self,
        config: ModelConfig,
        weights: Weights,
        native: NativeLibrary | None = None,
        *,
        use_triton: bool = False,
        deterministic: bool = False,
    ) -> None:
        self.config = config
        self.weights = weights
        self.native = native
        self.use_triton = use_triton
        self._rope = Rope(config.rope, weights.device, weights.dtype)
        self._layers: NativeLayers | None = None
        if native is not None and NativeLayers.can_run(native, config, weights):
            self._layers = NativeLayers(native, config, weights, self._rope, exact=deterministic)
        elif deterministic:
            raise ModelError(
                "engine.deterministic: products and attention that do not depend on the batch are there for a CPU with "
                "AVX-512 alone (for bfloat16, AVX-512 BF16); use backend native on such a machine, or leave it out"
            )

    @classmethod
    def load(
        cls,
        folder: Path,
        dtype: torch.dtype,
        device: torch.device,
        native: NativeLibrary | None = None,
        *,
        use_triton: bool = False,
        deterministic: bool = False,
        int8: bool = False,
    ) -> Decoder:
        """From a folder in Hugging Face form. Raises ModelError."""
        config = read_config(folder)
        weights = load_weights(folder, config, dtype, device, native, int8=int8)
        return cls(config, weights, native, use_triton=use_triton, deterministic=deterministic)

    @torch.inference_mode()
    def forward(self, step: StepInput, cache: KVCache) -> Tensor:
        """One step: stores the new keys and values; -> logits [num_rows, vocab] in the model's dtype or float32."""
        if self._layers is not None:
            rows, head = self._layers.run(step, cache), self.weights.head
            return head.wide(rows) if isinstance(head, NativeLinear) else head(rows)
        weights, backend = self.weights, self._backend(step, cache)
        residual, delta = embedding(step.token_ids, weights.embedding), None
        for index, layer in enumerate(weights.layers):
            residual, normed = backend.add_norm(residual, delta, layer.input_norm)
            mixed = layer.output(backend.attend(index, layer, layer.qkv(normed)))
            residual, normed = backend.add_norm(residual, mixed, layer.post_norm)
            delta = layer.down(backend.silu_mul(layer.gate_up(normed)))
        assert delta is not None, "a model has at least one layer"
        return weights.head(backend.gather_norm(residual, delta, weights.norm, step.logit_indices))

    def _backend(self, step: StepInput, cache: KVCache) -> StepBackend:
        if self.native is not None:
            return NativeBackend(self.native, self.config, self._rope, step, cache)
        if self.use_triton:
            from qwen_batch.model.triton_backend import TritonBackend  # triton is not installed everywhere

            return TritonBackend(self.config, self._rope, step, cache)
        return TorchBackend(self.config, self._rope, step, cache)
