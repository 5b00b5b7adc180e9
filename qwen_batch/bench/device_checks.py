"""Kernels on this device: right numbers first, then their share of what the device itself can do."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from qwen_batch.kernels import attention_decode as decode
from qwen_batch.kernels import attention_prefill as prefill
from qwen_batch.kernels.attention_merge import attention_merge
from qwen_batch.kernels.gather_logits import gather_logits, gather_logits_reference
from qwen_batch.kernels.qk_norm_rope_store import qk_norm_rope_store, qk_norm_rope_store_reference
from qwen_batch.kernels.rms_norm import rms_norm, rms_norm_reference
from qwen_batch.kernels.sample import SampleInput, sample, sample_reference
from qwen_batch.kernels.silu_mul import silu_mul, silu_mul_reference
from qwen_batch.kernels.tile import attention_reference


@dataclass(frozen=True, slots=True)
class Check:
    """A kernel against its reference in float64, with fresh inputs; `error` is |out - ref| / |ref|."""

    name: str
    error: float
    limit: float

    @property
    def ok(self) -> bool:
        return self.error <= self.limit  # a NaN is not


def iter_checks(device: torch.device, seed: int) -> Iterator[Check]:
    """Every kernel in bfloat16, over the shapes of Qwen3 and an irregular one."""
    draw = _Draw(device, seed)
    x, residual, weight = draw(7, 5120), draw(7, 5120), draw(5120)
    normed, _ = rms_norm(x, weight, 1e-6, residual)
    yield _check("rms_norm", normed, rms_norm_reference(x.double(), weight.double(), 1e-6, residual.double())[0])
    rows = torch.tensor([6, 0, 6], device=device)
    got = gather_logits(x, residual, weight, 1e-6, rows)
    want = gather_logits_reference(x.double(), residual.double(), weight.double(), 1e-6, rows)
    yield _check("gather_logits", got, want)
    gate_up = draw(5, 2 * 3001)
    yield _check("silu_mul", silu_mul(gate_up), silu_mul_reference(gate_up.double()))
    yield _check_store(draw)
    for heads, kv_heads, head_dim in ((64, 8, 128), (9, 3, 80)):
        yield _check_attention(draw, heads, kv_heads, head_dim)
    logits = draw(5, 151_936).float()
    params = SampleInput(
        temperature=torch.tensor([0.0, 0.6, 0.7, 1.0, 0.6], device=device),
        top_k=torch.tensor([0, 20, 20, 50, 1], dtype=torch.int32, device=device),
        top_p=torch.tensor([1.0, 0.95, 0.8, 1.0, 1.0], device=device),
        min_p=torch.tensor([0.0, 0.0, 0.0, 0.1, 0.0], device=device),
        uniform=torch.tensor([0.5, 0.1, 0.6, 0.3, 0.9], device=device),
    )
    on_host = SampleInput(*(x.cpu() for x in _fields(params)))
    wrong = (sample(logits, params).cpu() != sample_reference(logits.cpu(), on_host)).sum()
    yield Check("sample", float(wrong), 0.0)


def _fields(params: SampleInput) -> Iterator[Tensor]:
    for name in ("temperature", "top_k", "top_p", "min_p", "uniform"):
        yield getattr(params, name)


@dataclass(frozen=True, slots=True)
class _Draw:
    device: torch.device
    seed: int

    def __call__(self, *shape: int) -> Tensor:
        return torch.randn(shape, device=self.device).to(torch.bfloat16)


def _check(name: str, got: Tensor, want: Tensor) -> Check:
    """bfloat16 has 8 bits: a result that is rounded a few times is off by less than a hundredth of its length."""
    return Check(name, float((got.double() - want).norm() / want.norm()), 1e-2)


def _check_store(draw: _Draw) -> Check:
    heads, kv_heads, dim = 64, 8, 128
    qkv, turn = draw(9, (heads + 2 * kv_heads) * dim), draw(9, dim // 2).repeat(1, 2)
    angles, weights = (turn.cos(), turn.sin()), (draw(dim), draw(dim))
    slots = torch.randperm(48, device=draw.device)[:9]
    caches = [torch.full((3, 16, kv_heads, dim), torch.nan, dtype=qkv.dtype, device=draw.device) for _ in range(2)]
    wanted = [cache.double() for cache in caches]
    queries = qk_norm_rope_store(qkv, weights, 1e-6, angles, slots, caches[0], caches[1])
    wide = [(a.double(), b.double()) for a, b in (weights, angles)]
    want = qk_norm_rope_store_reference(qkv.double(), wide[0], 1e-6, wide[1], slots, wanted[0], wanted[1])
    rows = [x.view(48, -1)[slots].double().flatten() for x in (*caches, *wanted)]
    return _check("qk_norm_rope_store", torch.cat((queries.double().flatten(), *rows[:2])),
                  torch.cat((want.flatten(), *rows[2:])))  # fmt: skip


def _check_attention(draw: _Draw, heads: int, kv_heads: int, dim: int) -> Check:
    """A prompt's piece and a sequence that decodes, over blocks in random order."""
    step = _Paged(draw, [37, 1], [101, 211], heads, kv_heads, dim)
    out = step.attend()
    caches = [cache.double() for cache in step.caches]
    want = attention_reference(
        step.queries.double(), caches[0], caches[1], step.tables, step.offsets, step.contexts
    )  # fmt: skip
    return _check(f"attention {heads}/{kv_heads} heads of {dim}", out, want)


class _Paged:
    """Queries, keys and values of one step."""

    def __init__(
        self, draw: _Draw, lengths: list[int], contexts: list[int], heads: int, kv_heads: int, dim: int
    ) -> None:
        device, block_size = draw.device, 16
        counts = [-(-context // block_size) for context in contexts]
        order = torch.randperm(sum(counts), device=device).to(torch.int32)
        self.tables = torch.zeros((len(contexts), max(counts)), dtype=torch.int32, device=device)
        for seq, part in enumerate(torch.split(order, counts)):
            self.tables[seq, : len(part)] = part
        self.caches = [draw(sum(counts), block_size, kv_heads, dim) for _ in range(2)]
        self.offsets = [0]
        for length in lengths:
            self.offsets.append(self.offsets[-1] + length)
        self.contexts, self.group = contexts, heads // kv_heads
        self.queries = draw(self.offsets[-1], heads, dim)
        self._offsets = torch.tensor(self.offsets, dtype=torch.int32, device=device)
        self._contexts = torch.tensor(contexts, dtype=torch.int32, device=device)
        decodes = [seq for seq, length in enumerate(lengths) if length == 1]
        self._seqs = torch.tensor(decodes, dtype=torch.int32, device=device)
        self._tokens = torch.tensor([self.offsets[seq] for seq in decodes], dtype=torch.int32, device=device)
        config, place = prefill.config(dim, self.queries.dtype), partial(torch.tensor, dtype=torch.int32, device=device)
        self._tiles = prefill.PrefillTiles.plan(self.offsets, contexts, self.group, config, place, frozenset(decodes))
        processors = torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1
        self._splits = decode.choose_splits(len(decodes), kv_heads, max(contexts), processors)
        shape = len(decodes), heads, self._splits
        self._parts = torch.full((*shape, dim), torch.nan, device=device)
        self._lse = torch.full(shape, torch.nan, device=device)
        self._out = torch.full_like(self.queries, torch.nan)

    def attend(self) -> Tensor:
        prefill.attention_prefill(
            self.queries,
            self.caches[0],
            self.caches[1],
            self.tables,
            self._offsets,
            self._contexts,
            self._tiles,
            self._out,
        )
        if len(self._seqs):
            decode.attention_decode(
                self.queries, self.caches[0], self.caches[1], self.tables, self._contexts, self._seqs, self._tokens,
                self._parts, self._lse, num_splits=self._splits,
            )  # fmt: skip
            attention_merge(self._parts, self._lse, self._tokens, self._out)
        return self._out


def seconds(run: Callable[[], object], device: torch.device, repeat: int = 20) -> float:
    """Median time of a call, by device events on CUDA; the first calls are not counted."""
    run()
    times: list[float] = []
    for _ in range(repeat):
        if device.type == "cuda":
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
            start.record()
            run()
            end.record()
            end.synchronize()
            times.append(start.elapsed_time(end) / 1e3)
        else:
            began = time.perf_counter()
            run()
            times.append(time.perf_counter() - began)
    return statistics.median(times)


@dataclass(frozen=True, slots=True)
class Ceilings:
    """What the device itself does, measured here and now on random data."""

    matmul_flops: float  # a second, bfloat16
    copy_bytes: float  # a second, read plus written


def measure_ceilings(device: torch.device, size: int, copy_elements: int) -> Ceilings:
    """A square product of `size`, and a copy of so many float32."""
    a, b = (torch.randn((size, size), device=device).to(torch.bfloat16) for _ in range(2))
    source = torch.randn(copy_elements, device=device)
    target = torch.empty_like(source)
    return Ceilings(
        matmul_flops=2 * size**3 / seconds(lambda: a @ b, device),
        copy_bytes=2 * source.nbytes / seconds(lambda: target.copy_(source), device),
    )


def attention_shares(device: torch.device, ceilings: Ceilings, num_seqs: int, context: int) -> dict[str, float]:
    """Decode attention as a share of the copy rate, prefill attention of the matmul rate, at the heads of Qwen3-32B."""
    heads, kv_heads, dim = 64, 8, 128
    draw = _Draw(device, 0)
    step = _Paged(draw, [1] * num_seqs, [context] * num_seqs, heads, kv_heads, dim)
    read = num_seqs * context * kv_heads * dim * 2 * step.queries.element_size()
    decode_share = read / seconds(step.attend, device, 10) / ceilings.copy_bytes
    step = _Paged(draw, [context], [context], heads, kv_heads, dim)
    flops = 4 * heads * dim * context * (context + 1) / 2
    prefill_share = flops / seconds(step.attend, device, 10) / ceilings.matmul_flops
    assert not math.isnan(decode_share + prefill_share)
    return {"decode_of_copy": decode_share, "prefill_of_matmul": prefill_share}
