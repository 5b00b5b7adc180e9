"""The kernels that work row by row, against plain torch in float64, over irregular shapes."""

from __future__ import annotations

import pytest
import torch
from kernel_helpers import DTYPES, assert_close, draw, poison

from qwen_batch.kernels import gather_logits as gather
from qwen_batch.kernels import qk_norm_rope_store as fused
from qwen_batch.kernels import rms_norm as norm
from qwen_batch.kernels import silu_mul as gated


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("num_rows", "width"), [(1, 1), (0, 64), (7, 64), (3, 577), (2, 5120)])
@pytest.mark.parametrize("has_residual", [False, True])
def test_rms_norm(dtype: torch.dtype, num_rows: int, width: int, has_residual: bool) -> None:
    x, residual = draw(num_rows, width, seed=1, dtype=dtype), draw(num_rows, width, seed=2, dtype=dtype)
    weight = draw(width, seed=3, dtype=dtype)
    added = residual if has_residual else None
    normed, total = norm.rms_norm(x, weight, 1e-6, added)
    want, sums = norm.rms_norm_reference(x.double(), weight.double(), 1e-6, None if added is None else added.double())
    assert_close(total, sums, roundings=2)  # one; the interpreter cuts bfloat16 off where a card rounds to nearest
    assert_close(normed, want, roundings=6)  # the sum, the normed row, the product


def test_rms_norm_of_large_and_of_tiny_values() -> None:
    x = torch.cat((draw(1, 96, seed=1) * 1e15, draw(1, 96, seed=2) * 1e-15, torch.zeros(1, 96)))
    normed, _ = norm.rms_norm(x, torch.ones(96), 1e-6)
    assert_close(normed, norm.rms_norm_reference(x.double(), torch.ones(96).double(), 1e-6)[0], roundings=6)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("num_rows", "width"), [(1, 1), (0, 64), (5, 1031), (2, 2048)])
def test_silu_mul(dtype: torch.dtype, num_rows: int, width: int) -> None:
    x = draw(num_rows, 2 * width, seed=4, dtype=dtype) * 4
    assert_close(gated.silu_mul(x), gated.silu_mul_reference(x.double()), roundings=4)


@pytest.mark.filterwarnings("ignore:overflow encountered in exp")  # to inf, and 1 / inf is the 0 that is wanted
def test_silu_mul_far_from_zero() -> None:
    x = torch.tensor([[-200.0, 200.0, -0.0, 3.0, 3.0, 3.0]])
    assert gated.silu_mul(x).tolist() == [[0.0, 600.0, 0.0]]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("indices", [[], [4], [0, 6, 6, 3]], ids=len)
def test_gather_logits(dtype: torch.dtype, indices: list[int]) -> None:
    x, residual = draw(7, 211, seed=1, dtype=dtype), draw(7, 211, seed=2, dtype=dtype)
    weight, rows = draw(211, seed=3, dtype=dtype), torch.tensor(indices, dtype=torch.int64)
    got = gather.gather_logits(x, residual, weight, 1e-5, rows)
    want = gather.gather_logits_reference(x.double(), residual.double(), weight.double(), 1e-5, rows)
    assert_close(got, want, roundings=6)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    ("head_dim", "heads", "kv_heads", "block_size"),
    [(64, 1, 1, 16), (80, 9, 3, 32), (96, 16, 2, 64), (128, 40, 8, 16)],
    ids=str,
)
@pytest.mark.parametrize("has_norm", [False, True])
@pytest.mark.parametrize("num_tokens", [0, 1, 7])
def test_qk_norm_rope_store(
    dtype: torch.dtype,
    head_dim: int,
    heads: int,
    kv_heads: int,
    block_size: int,
    has_norm: bool,
    num_tokens: int,
) -> None:
    qkv = draw(num_tokens, (heads + 2 * kv_heads) * head_dim, seed=5, dtype=dtype)
    turn = draw(num_tokens, head_dim // 2, seed=6).repeat(1, 2)
    angles = (turn.cos().to(dtype), turn.sin().to(dtype))
    weights = (draw(head_dim, seed=7, dtype=dtype), draw(head_dim, seed=8, dtype=dtype)) if has_norm else None
    slots = torch.randperm(3 * block_size, generator=torch.Generator().manual_seed(9))[:num_tokens]
    caches = [poison(3, block_size, kv_heads, head_dim, dtype=dtype) for _ in range(2)]
    wanted = [cache.double() for cache in caches]

    queries = fused.qk_norm_rope_store(qkv, weights, 1e-6, angles, slots, *caches)

    wide = None if weights is None else (weights[0].double(), weights[1].double())
    want = fused.qk_norm_rope_store_reference(
        qkv.double(), wide, 1e-6, (angles[0].double(), angles[1].double()), slots, *wanted
    )
    assert_close(queries, want, roundings=8)
    others = torch.ones(3 * block_size, dtype=torch.bool)
    others[slots] = False
    for cache, expected in zip(caches, wanted, strict=True):
        rows, expected_rows = (x.view(3 * block_size, kv_heads, head_dim) for x in (cache, expected))
        assert_close(rows[slots], expected_rows[slots], roundings=8)
        assert rows[others].isnan().all(), "a slot of another token was written"


def test_layouts_that_kernels_do_not_take_are_refused() -> None:
    with pytest.raises(ValueError, match="x is not contiguous"):
        norm.rms_norm(torch.zeros(4, 6).t(), torch.ones(4), 1e-6)
    with pytest.raises(ValueError, match=r"weight has shape \[3\], expected \[4\]"):
        norm.rms_norm(torch.zeros(6, 4), torch.ones(3), 1e-6)
    with pytest.raises(ValueError, match=r"x is torch.float64"):
        norm.rms_norm(torch.zeros(6, 4).double(), torch.ones(4).double(), 1e-6)
    with pytest.raises(ValueError, match="exceed 16384"):
        norm.rms_norm(torch.zeros(1, 16385), torch.ones(16385), 1e-6)
