"""What a decoder does between its matrix products through our Triton kernels, in few passes over memory.

Nothing here waits for the device. Unproven on a card; in Triton's interpreter its tokens equal those of torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from qwen_batch.kernels import attention_decode as decode
from qwen_batch.kernels import attention_prefill as prefill
from qwen_batch.kernels import attention_prefix as prefix
from qwen_batch.kernels.attention_merge import attention_merge
from qwen_batch.kernels.gather_logits import gather_logits
from qwen_batch.kernels.launch import DTYPES, INTERPRETED
from qwen_batch.kernels.qk_norm_rope_store import qk_norm_rope_store
from qwen_batch.kernels.rms_norm import MAX_WIDTH, rms_norm
from qwen_batch.kernels.silu_mul import silu_mul
from qwen_batch.kernels.tile import BLOCK_SIZES, HEAD_DIMS
from qwen_batch.model.attention import StepInput
from qwen_batch.model.config import ModelConfig
from qwen_batch.model.kv_cache import KVCache
from qwen_batch.model.rope import Rope
from qwen_batch.model.shared_prefix import find_shared_prefixes
from qwen_batch.model.weights import LayerWeights

# A prefix is read once for all when so many sequences share it and it has so many tokens: below that, the second pass
# and its merge cost more than they save. Not tuned on a card.
MIN_BRANCHES = 4
MIN_PREFIX_TOKENS = 256


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
        (group > decode.MAX_GROUP, f"{group} query heads share a KV head, more than {decode.MAX_GROUP}"),
        (config.hidden_size > MAX_WIDTH, f"hidden size {config.hidden_size} exceeds {MAX_WIDTH}"),
        (dtype not in DTYPES, f"{dtype} is not one of {DTYPES}"),
    ):
        if bad:
            return reason
    return None


class TritonBackend:
    """One step through our kernels. See StepBackend."""

    def __init__(self, config: ModelConfig, rope: Rope, step: StepInput, cache: KVCache) -> None:
        self._config = config
        self._cache = cache
        self._slots = step.slot_mapping
        self._attention = TritonAttention(step, cache, config.num_heads)
        cos, sin = rope.angles(step.positions)
        self._angles = cos.flatten(1), sin.flatten(1)

    def add_norm(self, residual: Tensor, delta: Tensor | None, weight: Tensor) -> tuple[Tensor, Tensor]:
        normed, total = rms_norm(residual, weight, self._config.rms_norm_eps, delta)
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
        )
        return self._attention.mix(index, queries)

    def silu_mul(self, gate_up: Tensor) -> Tensor:
        return silu_mul(gate_up)

    def gather_norm(self, residual: Tensor, delta: Tensor, weight: Tensor, indices: Tensor) -> Tensor:
        return gather_logits(residual, delta, weight, self._config.rms_norm_eps, indices)


@dataclass(frozen=True, slots=True)
class _Decodes:
    """The sequences of a step that have one query each."""

    seqs: Tensor  # int32 [num_rows]
    tokens: Tensor  # int32 [num_rows]
    num_splits: int
    starts: Tensor | None  # int32 [num_rows]: keys before these are the shared prefix's
    prefixes: prefix.PrefixTiles | None
    num_prefix_splits: int  # 0 without shared prefixes


class TritonAttention:
    """Attention of one step. `attend` is called once a layer."""

    def __init__(self, step: StepInput, cache: KVCache, num_heads: int) -> None:
        self._cache = cache
        self._slots = step.slot_mapping
        kv_heads, head_dim = cache.keys[0].shape[2:]
        device, dtype = cache.keys[0].device, cache.keys[0].dtype
        group = num_heads // kv_heads
        self._tables = step.block_tables.to(torch.int32)
        self._offsets = _ints(step.cu_seqlens_q, device)
        self._context_lens = _ints(step.context_lens, device)
        lengths = [end - start for start, end in zip(step.cu_seqlens_q, step.cu_seqlens_q[1:], strict=False)]
        rows = [seq for seq, length in enumerate(lengths) if length == 1]
        self._decodes = _plan_decodes(step, rows, cache.block_size, (kv_heads, group, head_dim), device, dtype)
        self._tiles = prefill.PrefillTiles.plan(
            step.cu_seqlens_q, step.context_lens, group, prefill.config(head_dim, dtype), device, frozenset(rows)
        )

    def attend(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """queries [num_tokens, num_heads, head_dim], keys and values [num_tokens, num_kv_heads, head_dim]
        -> [num_tokens, num_heads * head_dim]. Stores the keys and values first."""
        self._cache.store(layer, self._slots, keys, values)
        return self.mix(layer, queries)

    def mix(self, layer: int, queries: Tensor) -> Tensor:
        """The same for keys and values that are stored already."""
        out = torch.empty_like(queries)
        caches = self._cache.keys[layer], self._cache.values[layer]
        prefill.attention_prefill(queries, *caches, self._tables, self._offsets, self._context_lens, self._tiles, out)
        if self._decodes is not None:
            self._decode(queries, caches, self._decodes, out)
        return out.flatten(1)

    def _decode(self, queries: Tensor, caches: tuple[Tensor, Tensor], rows: _Decodes, out: Tensor) -> None:
        _, num_heads, head_dim = queries.shape
        shape = len(rows.seqs), num_heads, rows.num_prefix_splits + rows.num_splits
        parts = torch.empty((*shape, head_dim), dtype=torch.float32, device=queries.device)
        lse = torch.empty(shape, dtype=torch.float32, device=queries.device)
        if rows.prefixes is not None:
            lse.fill_(-torch.inf)  # rows without a shared prefix have nothing in its parts
            prefix.attention_prefix(
                queries, *caches, self._tables, rows.tokens, rows.prefixes, parts, lse,
                num_splits=rows.num_prefix_splits,
            )  # fmt: skip
        decode.attention_decode(
            queries, *caches, self._tables, self._context_lens, rows.seqs, rows.tokens, parts, lse,
            num_splits=rows.num_splits, first_part=rows.num_prefix_splits, starts=rows.starts,
        )  # fmt: skip
        attention_merge(parts, lse, rows.tokens, out)


def _plan_decodes(
    step: StepInput,
    rows: Sequence[int],
    block_size: int,
    shape: tuple[int, int, int],
    device: torch.device,
    dtype: torch.dtype,
) -> _Decodes | None:
    """`shape` is (num_kv_heads, query heads of each, head_dim)."""
    if not rows:
        return None
    kv_heads, group, head_dim = shape
    processors = torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1
    tables = [step.block_lists[seq] for seq in rows] if step.block_lists else []
    shared = list(
        find_shared_prefixes(
            tables,
            [step.context_lens[seq] for seq in rows],
            block_size,
            min_branches=MIN_BRANCHES,
            min_tokens=MIN_PREFIX_TOKENS,
        )
    )
    starts = [0] * len(rows)
    for members, length in shared:
        for row in members:
            starts[row] = length
    rest = max(step.context_lens[seq] - start for seq, start in zip(rows, starts, strict=True))
    longest = max((length for _, length in shared), default=0)
    return _Decodes(
        seqs=_ints(rows, device),
        tokens=_ints([step.cu_seqlens_q[seq] for seq in rows], device),
        num_splits=decode.choose_splits(len(rows), kv_heads, rest, processors),
        starts=_ints(starts, device) if shared else None,
        prefixes=prefix.PrefixTiles.plan(
            [(members, rows[members[0]], length) for members, length in shared],
            group,
            prefix.config(head_dim, dtype),
            device,
        )
        if shared
        else None,
        num_prefix_splits=decode.choose_splits(len(shared), kv_heads, longest, processors) if shared else 0,
    )


def _ints(values: Sequence[int], device: torch.device) -> Tensor:
    host = torch.tensor(values, dtype=torch.int32)
    return host.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else host
