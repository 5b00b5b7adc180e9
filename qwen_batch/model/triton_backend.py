"""What a decoder does between its matrix products through our Triton kernels, in few passes over memory.

Nothing here waits for the device. Unproven on a card; in Triton's interpreter its tokens equal those of torch.
"""

from __future__ import annotations

import torch
from torch import Tensor

from qwen_batch.kernels import attention_prefix as prefix
from qwen_batch.kernels.attention_decode import MAX_GROUP, attention_decode
from qwen_batch.kernels.attention_merge import attention_merge
from qwen_batch.kernels.attention_prefill import attention_prefill
from qwen_batch.kernels.gather_logits import gather_logits
from qwen_batch.kernels.launch import DTYPES, INTERPRETED
from qwen_batch.kernels.qk_norm_rope_store import qk_norm_rope_store
from qwen_batch.kernels.rms_norm import MAX_WIDTH, rms_norm
from qwen_batch.kernels.silu_mul import silu_mul
from qwen_batch.kernels.tile import BLOCK_SIZES, HEAD_DIMS
from qwen_batch.model.backend import StepBackend
from qwen_batch.model.config import ModelConfig
from qwen_batch.model.kv_cache import KVCache
from qwen_batch.model.layers import LayerWeights
from qwen_batch.model.rope import Rope
from qwen_batch.model.triton_plan import AttentionPlan, DecodeRows
from qwen_batch.model.workspace import Memory


def unsupported(config: ModelConfig, block_size: int, dtype: torch.dtype, device: torch.device) -> str | None:
    """Why the kernels cannot run this model here; None when they can."""
    group = config.num_heads // config.num_kv_heads
    for bad, reason in (
        (device.type != "cuda" and not INTERPRETED, f"they need a CUDA device, and this is {device.type}"),
        (
            device.type == "cuda" and torch.cuda.is_available() and torch.cuda.get_device_capability(device)[0] < 8,
            "they need compute capability 8.0 or more",
        ),
        (config.head_dim not in HEAD_DIMS, f"head_dim {config.head_dim} is not one of {HEAD_DIMS}"),
        (block_size not in BLOCK_SIZES, f"block_size {block_size} is not one of {BLOCK_SIZES}"),
        (group > MAX_GROUP, f"{group} query heads share a KV head, more than {MAX_GROUP}"),
        (config.hidden_size > MAX_WIDTH, f"hidden size {config.hidden_size} exceeds {MAX_WIDTH}"),
        (dtype not in DTYPES, f"{dtype} is not one of {DTYPES}"),
    ):
        if bad:
            return reason
    return None


class TritonBackend(StepBackend):
    """One step through our kernels. See StepBackend."""

    def __init__(
        self,
        config: ModelConfig,
        rope: Rope,
        positions: Tensor,
        slots: Tensor,
        plan: AttentionPlan,
        cache: KVCache,
        memory: Memory,
    ) -> None:
        """positions and slots int64 [num_tokens]."""
        self._config = config
        self._cache = cache
        self._slots = slots
        self._memory = memory
        self._attention = TritonAttention(plan, cache, slots, memory)
        self._angles = rope.angles(positions, memory)

    def add_norm(self, residual: Tensor, delta: Tensor | None, weight: Tensor) -> tuple[Tensor, Tensor]:
        room = self._memory.take("normed", tuple(residual.shape), residual.dtype)
        normed, total = rms_norm(residual, weight, self._config.rms_norm_eps, delta, normed=room, total=residual)
        return total, normed

    def attend(self, index: int, layer: LayerWeights, qkv: Tensor) -> Tensor:
        norms = None if layer.q_norm is None or layer.k_norm is None else (layer.q_norm, layer.k_norm)
        queries = qk_norm_rope_store(
            qkv,
            norms,
            self._config.rms_norm_eps,
            self._angles,
            self._slots,
            self._cache.keys[index],
            self._cache.values[index],
            self._memory.take("queries", (len(qkv), self._config.num_heads, self._config.head_dim), qkv.dtype),
        )
        return self._attention.mix(index, queries)

    def silu_mul(self, gate_up: Tensor) -> Tensor:
        return silu_mul(gate_up, self._memory.take("activated", (len(gate_up), gate_up.shape[1] // 2), gate_up.dtype))

    def gather_norm(self, residual: Tensor, delta: Tensor, weight: Tensor, indices: Tensor) -> Tensor:
        room = self._memory.take("last", (len(indices), residual.shape[1]), residual.dtype)
        return gather_logits(residual, delta, weight, self._config.rms_norm_eps, indices, room)


class TritonAttention:
    """Attention of one step. `attend` is called once a layer."""

    def __init__(self, plan: AttentionPlan, cache: KVCache, slots: Tensor, memory: Memory) -> None:
        self._plan = plan
        self._cache = cache
        self._slots = slots
        self._memory = memory

    def attend(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """queries [num_tokens, num_heads, head_dim], keys and values [num_tokens, num_kv_heads, head_dim]
        -> [num_tokens, num_heads * head_dim]. Stores the keys and values first."""
        self._cache.store(layer, self._slots, keys, values)
        return self.mix(layer, queries)

    def mix(self, layer: int, queries: Tensor) -> Tensor:
        """The same for keys and values that are stored already."""
        plan, out = self._plan, self._memory.take("attended", tuple(queries.shape), queries.dtype)
        caches = self._cache.keys[layer], self._cache.values[layer]
        attention_prefill(queries, *caches, plan.tables, plan.offsets, plan.context_lens, plan.tiles, out)
        if plan.decodes is not None:
            self._decode(queries, caches, plan.decodes, out)
        return out.flatten(1)

    def _decode(self, queries: Tensor, caches: tuple[Tensor, Tensor], rows: DecodeRows, out: Tensor) -> None:
        _, num_heads, head_dim = queries.shape
        shape = len(rows.seqs), num_heads, rows.num_prefix_splits + rows.num_splits
        parts = self._memory.take("parts", (*shape, head_dim), torch.float32)
        lse = self._memory.take("lse", shape, torch.float32)
        plan = self._plan
        if rows.prefixes is not None:
            lse.fill_(-torch.inf)  # rows without a shared prefix have nothing in its parts
            prefix.attention_prefix(
                queries, *caches, plan.tables, rows.tokens, rows.prefixes, parts, lse,
                num_splits=rows.num_prefix_splits,
            )  # fmt: skip
        attention_decode(
            queries, *caches, plan.tables, plan.context_lens, rows.seqs, rows.tokens, parts, lse,
            num_splits=rows.num_splits, first_part=rows.num_prefix_splits, starts=rows.starts,
        )  # fmt: skip
        attention_merge(parts, lse, rows.tokens, out)
