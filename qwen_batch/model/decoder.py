"""The decoder: token ids of a ragged step -> logits. One code for Llama, Qwen2 and Qwen3.

h = embed(ids);  for each layer:  h += out(attention(rope(norm(q, k)), v));  h += down(silu(gate) * up)
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from qwen_batch.errors import ModelError
from qwen_batch.model.attention import StepInput
from qwen_batch.model.backend import StepBackend, TorchBackend, run_layer
from qwen_batch.model.config import ModelConfig, read_config
from qwen_batch.model.kv_cache import KVCache
from qwen_batch.model.layers import Weights
from qwen_batch.model.linear import NativeLinear, apply_linear
from qwen_batch.model.native import NativeBackend
from qwen_batch.model.native_layers import NativeLayers
from qwen_batch.model.native_library import NativeLibrary
from qwen_batch.model.rope import Rope
from qwen_batch.model.staging import Staging
from qwen_batch.model.weights import load_weights
from qwen_batch.model.workspace import Memory, Workspace

if TYPE_CHECKING:
    from qwen_batch.model.triton_plan import AttentionPlan


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
        self.staging = Staging(weights.device)  # how a step's numbers come to the device
        self.workspace = Workspace(weights.device)  # what a step computes on the way
        self._rope = Rope(config.rope, weights.device, weights.dtype)
        self._layers: NativeLayers | None = None
        if native is not None and NativeLayers.can_run(native, config, weights):
            self._layers = NativeLayers(native, config, weights, self._rope, exact=deterministic)
        elif deterministic:
            raise ModelError(
                "engine.deterministic: products and attention that do not depend on the batch are there for a CPU with "
                "AVX-512 alone (for bfloat16, AVX-512 BF16), and for heads of a multiple of 16; use backend native on "
                "such a machine, or leave it out"
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
        return self.compute(step.token_ids, step.logit_indices, self._backend(step, cache), self.workspace)

    @torch.inference_mode()
    def compute(self, token_ids: Tensor, logit_indices: Tensor, backend: StepBackend, memory: Memory) -> Tensor:
        """The same with a backend that knows the step, in `memory`; a captured graph replays this.

        The logits, too, are in that memory: the next step overwrites them.
        """
        weights, linear = self.weights, partial(apply_linear, memory=memory)
        residual = memory.take("residual", (len(token_ids), self.config.hidden_size), weights.dtype)
        torch.index_select(weights.embedding, 0, token_ids, out=residual)
        delta = None
        for index, layer in enumerate(weights.layers):
            residual, delta = run_layer(index, layer, backend, residual, delta, linear)
        assert delta is not None, "a model has at least one layer"
        rows = backend.gather_norm(residual, delta, weights.norm, logit_indices)
        return linear(weights.head, rows, name="logits")

    def _backend(self, step: StepInput, cache: KVCache) -> StepBackend:
        if self.native is not None:
            return NativeBackend(self.native, self.config, self._rope, step, cache, self.workspace)
        if self.use_triton:
            from qwen_batch.model.triton_plan import AttentionShape, plan_attention  # triton is not everywhere

            shape = AttentionShape.of(self.config, cache.block_size, self.weights.dtype, self.weights.device)
            plan = plan_attention(step, shape, self.staging)
            return self.triton_backend(step.positions, step.slot_mapping, plan, cache, self.workspace)
        return TorchBackend(self.config, self._rope, step, cache, self.workspace)

    def triton_backend(
        self, positions: Tensor, slots: Tensor, plan: AttentionPlan, cache: KVCache, memory: Memory
    ) -> StepBackend:
        """positions and slots int64 [num_tokens]."""
        from qwen_batch.model.triton_backend import TritonBackend

        return TritonBackend(self.config, self._rope, positions, slots, plan, cache, memory)
