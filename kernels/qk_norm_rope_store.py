"""From the fused projection to attention in one pass: norm of each head, rotation, keys and values into their slots.

    q, k = rope(rms_norm(q) * q_weight), rope(rms_norm(k) * k_weight);  cache[slot] = k, v

Rotation pairs dimension i with i + head_dim / 2 (Su et al. 2021, in the order of the Hugging Face checkpoints). A
program takes a few heads of one token; queries, keys and values are told apart by the number of the head.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
import triton
import triton.language as tl
from torch import Tensor

from qwen_batch.kernels.launch import DTYPES, TYPE_NAMES, Variant, check, next_power_of_2
from qwen_batch.kernels.tile import HEAD_DIMS
from qwen_batch.kernels.tuning import QK_NORM_ROPE_STORE as CONFIG


def qk_norm_rope_store(
    qkv: Tensor,
    weights: tuple[Tensor, Tensor] | None,
    eps: float,
    angles: tuple[Tensor, Tensor],
    slots: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    queries: Tensor | None = None,
) -> Tensor:
    """qkv [num_tokens, (num_heads + 2 * num_kv_heads) * head_dim] -> queries [num_tokens, num_heads, head_dim], in
    `queries` or in new memory.

    `weights` are those of the query and key norms [head_dim]; None: the model has no such norm. `angles` are cos and
    sin [num_tokens, head_dim]. Keys and values go to `slots` int64 [num_tokens] of the caches
    [num_blocks, block_size, num_kv_heads, head_dim].
    """
    num_tokens, kv_heads, head_dim = len(qkv), *key_cache.shape[2:]
    num_heads = qkv.shape[1] // head_dim - 2 * kv_heads
    check(qkv, "qkv", (num_tokens, (num_heads + 2 * kv_heads) * head_dim), *DTYPES)
    check(slots, "slots", (num_tokens,), torch.int64)
    for tensor, name in zip((key_cache, value_cache), ("key_cache", "value_cache"), strict=True):
        check(tensor, name, (None, None, kv_heads, head_dim), qkv.dtype)
    for tensor in angles:
        check(tensor, "angles", (num_tokens, head_dim), qkv.dtype)
    for tensor in weights or ():
        check(tensor, "weights", (head_dim,), qkv.dtype)
    if head_dim not in HEAD_DIMS:
        raise ValueError(f"head_dim {head_dim} is not one of {HEAD_DIMS}")
    if queries is None:
        queries = torch.empty((num_tokens, num_heads, head_dim), dtype=qkv.dtype, device=qkv.device)
    check(queries, "queries", (num_tokens, num_heads, head_dim), qkv.dtype)
    q_weight, k_weight = weights or angles  # not read without norms
    grid = (num_tokens, triton.cdiv(num_heads + 2 * kv_heads, CONFIG.tiles["BLOCK_HEADS"]))
    if num_tokens:
        _qk_norm_rope_store_kernel[grid](
            qkv, q_weight, k_weight, *angles, slots, queries, key_cache, value_cache, num_heads, kv_heads, eps,
            HAS_NORM=weights is not None, HEAD_DIM=head_dim, BLOCK_HALF=next_power_of_2(head_dim // 2),
            **CONFIG.launch,
        )  # fmt: skip
    return queries


def qk_norm_rope_store_reference(
    qkv: Tensor,
    weights: tuple[Tensor, Tensor] | None,
    eps: float,
    angles: tuple[Tensor, Tensor],
    slots: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
) -> Tensor:
    """The same in plain torch, in the dtype given."""
    kv_heads, head_dim = key_cache.shape[2:]
    heads = qkv.view(len(qkv), qkv.shape[1] // head_dim, head_dim)
    parts = list(torch.split(heads, [heads.shape[1] - 2 * kv_heads, kv_heads, kv_heads], dim=1))
    cos, sin = (angle[:, None, :] for angle in angles)
    for index in range(2):
        part = parts[index]
        if weights is not None:
            part = part * torch.rsqrt(part.square().mean(-1, keepdim=True) + eps) * weights[index]
        turned = torch.cat((-part[..., head_dim // 2 :], part[..., : head_dim // 2]), dim=-1)
        parts[index] = part * cos + turned * sin
    for cache, new in ((key_cache, parts[1]), (value_cache, parts[2])):
        cache.view(-1, kv_heads, head_dim)[slots] = new
    return parts[0]


def variants() -> Iterator[Variant]:
    """Every compilation that the launcher may ask for."""
    for dtype in DTYPES:
        for head_dim in HEAD_DIMS:
            for has_norm in (False, True):
                pointer = "*" + TYPE_NAMES[dtype]
                names = ("qkv", "q_weight", "k_weight", "cos", "sin")
                yield Variant(
                    "qk_norm_rope_store",
                    f"{TYPE_NAMES[dtype]} head_dim={head_dim}{' norm' if has_norm else ''}",
                    _qk_norm_rope_store_kernel,
                    {
                        **dict.fromkeys(names, pointer), "slots": "*i64",
                        **dict.fromkeys(("queries", "key_cache", "value_cache"), pointer),
                        "num_heads": "i32", "num_kv_heads": "i32", "eps": "fp32",
                        **dict.fromkeys(("HAS_NORM", "HEAD_DIM", "BLOCK_HALF", "BLOCK_HEADS"), "constexpr"),
                    },
                    {
                        "HAS_NORM": has_norm, "HEAD_DIM": head_dim, "BLOCK_HALF": next_power_of_2(head_dim // 2),
                        **CONFIG.tiles,
                    },
                    CONFIG,
                )  # fmt: skip


# No number is a reason to compile anew: what variants() names is all that there is.
@triton.jit(do_not_specialize=["num_heads", "num_kv_heads"])
def _qk_norm_rope_store_kernel(
    qkv, q_weight, k_weight, cos, sin, slots, queries, key_cache, value_cache, num_heads, num_kv_heads, eps,
    HAS_NORM: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_HALF: tl.constexpr, BLOCK_HEADS: tl.constexpr,
):  # fmt: skip
    token = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1) * BLOCK_HEADS + tl.arange(0, BLOCK_HEADS)[:, None]
    column = tl.arange(0, BLOCK_HALF)[None, :]
    half: tl.constexpr = HEAD_DIM // 2
    real = column < half
    is_query = head < num_heads
    is_key = (head >= num_heads) & (head < num_heads + num_kv_heads)
    is_value = (head >= num_heads + num_kv_heads) & (head < num_heads + 2 * num_kv_heads)
    source = (token * (num_heads + 2 * num_kv_heads) + head) * HEAD_DIM + column
    inside = (head < num_heads + 2 * num_kv_heads) & real
    low = tl.load(qkv + source, mask=inside, other=0.0)
    high = tl.load(qkv + source + half, mask=inside, other=0.0)
    left = low.to(tl.float32)
    right = high.to(tl.float32)
    if HAS_NORM:
        square = tl.sum(left * left + right * right, axis=1)[:, None]
        scale = tl.rsqrt(square / HEAD_DIM + eps)
        left = (left * scale).to(low.dtype).to(tl.float32)
        right = (right * scale).to(low.dtype).to(tl.float32)
        left *= tl.where(is_query, _row(q_weight, column, real), _row(k_weight, column, real))
        right *= tl.where(is_query, _row(q_weight + half, column, real), _row(k_weight + half, column, real))
        left = left.to(low.dtype).to(tl.float32)
        right = right.to(low.dtype).to(tl.float32)
    cos += token * HEAD_DIM
    sin += token * HEAD_DIM
    turned_left = left * _row(cos, column, real) - right * _row(sin, column, real)
    turned_right = right * _row(cos + half, column, real) + left * _row(sin + half, column, real)

    target = (token * num_heads + head) * HEAD_DIM + column
    tl.store(queries + target, turned_left.to(low.dtype), mask=is_query & real)
    tl.store(queries + target + half, turned_right.to(low.dtype), mask=is_query & real)
    place = tl.load(slots + token) * num_kv_heads * HEAD_DIM + column
    key = key_cache + place + (head - num_heads) * HEAD_DIM
    tl.store(key, turned_left.to(low.dtype), mask=is_key & real)
    tl.store(key + half, turned_right.to(low.dtype), mask=is_key & real)
    value = value_cache + place + (head - num_heads - num_kv_heads) * HEAD_DIM
    tl.store(value, low, mask=is_value & real)
    tl.store(value + half, high, mask=is_value & real)


@triton.jit
def _row(pointer, column, real):
    return tl.load(pointer + column, mask=real, other=0.0).to(tl.float32)
