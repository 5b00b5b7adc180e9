"""Every kernel against its reference, on this device, in the shape of the model that is to run.

Triton compiles for the card at hand, and no card was at hand when the kernels were written: before the first step they
prove themselves on a few rows. The references compute the same inputs in float64.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

from qwen_batch.errors import ModelError
from qwen_batch.kernels.gather_logits import gather_logits, gather_logits_reference
from qwen_batch.kernels.qk_norm_rope_store import qk_norm_rope_store, qk_norm_rope_store_reference
from qwen_batch.kernels.rms_norm import rms_norm, rms_norm_reference
from qwen_batch.kernels.sample import SampleInput, pack, sample
from qwen_batch.kernels.silu_mul import silu_mul, silu_mul_reference
from qwen_batch.kernels.tile import attention_reference
from qwen_batch.kernels.tuning import MIN_BRANCHES, MIN_PREFIX_TOKENS
from qwen_batch.model.attention import StepInput
from qwen_batch.model.config import ModelConfig
from qwen_batch.model.kv_cache import KVCache
from qwen_batch.model.staging import Staging
from qwen_batch.model.triton_backend import TritonAttention
from qwen_batch.model.triton_plan import AttentionShape, plan_attention
from qwen_batch.model.workspace import Memory, NewMemory

EPS = 1e-6
SAMPLE_VOCAB = 2503  # more than one tile of the sampling kernel


@dataclass(frozen=True, slots=True)
class Check:
    """A kernel against its reference; `error` is |out - ref| / |ref|."""

    name: str
    error: float
    limit: float

    @property
    def ok(self) -> bool:
        return self.error <= self.limit  # a NaN is not


@dataclass(frozen=True, slots=True)
class Draw:
    """Normal numbers from a seed, in one dtype, on one device."""

    dtype: torch.dtype
    generator: torch.Generator

    @classmethod
    def on(cls, device: torch.device, dtype: torch.dtype, seed: int = 0) -> Draw:
        return cls(dtype, torch.Generator(device).manual_seed(seed))

    @property
    def device(self) -> torch.device:
        return self.generator.device

    def __call__(self, *shape: int) -> Tensor:
        return torch.randn(shape, generator=self.generator, device=self.device).to(self.dtype)


def first_wrong_kernel(model: ModelConfig, block_size: int, dtype: torch.dtype, device: torch.device) -> str | None:
    """What is wrong with the first kernel that is, in words; None when all are right.

    Raises ModelError where the device cannot be used any more in this process, by torch neither.
    """
    shape = AttentionShape.of(model, block_size, dtype, device)
    try:
        for check in iter_checks(model, shape, Draw.on(device, dtype)):
            if not check.ok:
                return f"{check.name} is off by {check.error:.2g}, where {check.limit:.2g} is rounding"
    except Exception as error:  # a compiler may fail in any way
        reason = f"{type(error).__name__}: {str(error).strip().split(chr(10))[0]}"
        if not _still_works(device):  # after an illegal access CUDA refuses everything
            raise ModelError(
                f"a kernel broke the device for this process ({reason}), please report it; start again with "
                "engine.backend torch"
            ) from None
        return reason
    return None


def _still_works(device: torch.device) -> bool:
    try:
        return bool(torch.ones(1, device=device).add_(1).item() == 2)
    except RuntimeError:
        return False


def iter_checks(model: ModelConfig, shape: AttentionShape, draw: Draw) -> Iterator[Check]:
    """Each kernel once, in the model's widths and heads."""
    width = model.hidden_size
    x, residual, weight = draw(5, width), draw(5, width), draw(width)
    normed, total = rms_norm(x, weight, EPS, residual)
    wanted = rms_norm_reference(x.double(), weight.double(), EPS, residual.double())
    yield _check("rms_norm", draw, (normed, total), wanted)
    rows = torch.tensor([4, 0, 4], device=draw.device)
    got = gather_logits(x, residual, weight, EPS, rows)
    reference = gather_logits_reference(x.double(), residual.double(), weight.double(), EPS, rows)
    yield _check("gather_logits", draw, (got,), (reference,))
    gate_up = draw(3, 2 * model.intermediate_size)
    yield _check("silu_mul", draw, (silu_mul(gate_up),), (silu_mul_reference(gate_up.double()),))
    yield _check_store(model, shape, draw)
    yield _check_attention(shape, draw)
    yield _check_sample(draw)
    yield _check_sample_of_fewer(draw)


def _check(name: str, draw: Draw, got: Sequence[Tensor], want: Sequence[Tensor]) -> Check:
    """A result that is rounded three times is off by about a unit of its dtype (0.8 % in bfloat16, where up to 0.83 %
    was seen in the interpreter), float32 sums by some more of theirs."""
    flat, reference = (torch.cat([x.double().flatten() for x in parts]) for parts in (got, want))
    return Check(
        name, float((flat - reference).norm() / reference.norm()), max(1.5 * torch.finfo(draw.dtype).eps, 1e-5)
    )


def _check_store(model: ModelConfig, shape: AttentionShape, draw: Draw) -> Check:
    kv_heads, dim, device = shape.num_kv_heads, shape.head_dim, draw.device
    num_slots = 3 * shape.block_size
    qkv, turn = draw(9, model.q_size + 2 * model.kv_size), draw(9, dim // 2).repeat(1, 2)
    angles, weights = (turn.cos(), turn.sin()), (draw(dim), draw(dim)) if model.qk_norm else None
    slots = torch.randperm(num_slots, generator=draw.generator, device=device)[:9]
    caches = [
        torch.full((3, shape.block_size, kv_heads, dim), torch.nan, dtype=draw.dtype, device=device) for _ in range(2)
    ]
    wanted = [cache.double() for cache in caches]
    queries = qk_norm_rope_store(qkv, weights, EPS, angles, slots, caches[0], caches[1])
    wide = None if weights is None else (weights[0].double(), weights[1].double())
    reference = qk_norm_rope_store_reference(
        qkv.double(), wide, EPS, (angles[0].double(), angles[1].double()), slots, wanted[0], wanted[1]
    )
    got, want = ([x.view(num_slots, -1)[slots] for x in pair] for pair in (caches, wanted))
    return _check("qk_norm_rope_store", draw, (queries, *got), (reference, *want))


class _Poisoned(NewMemory):
    """What a kernel does not write is NaN."""

    def take(self, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        return super().take(name, shape, dtype).fill_(torch.nan)


class PagedStep:
    """Attention of one step over keys and values that are stored already, in blocks in random order."""

    def __init__(
        self,
        draw: Draw,
        shape: AttentionShape,
        lengths: Sequence[int],
        contexts: Sequence[int],
        sharing: Sequence[int] = (),
        memory: Memory | None = None,
        shared_tokens: int = MIN_PREFIX_TOKENS,
    ) -> None:
        """`lengths` new tokens of sequences that then have `contexts` keys; those in `sharing` begin with the same
        `shared_tokens`."""
        device, counts = draw.device, [-(-context // shape.block_size) for context in contexts]
        order = torch.randperm(sum(counts), generator=draw.generator, device=device).tolist()
        tables = [[order.pop() for _ in range(count)] + [0] * (max(counts) - count) for count in counts]
        for seq in sharing:
            same = shared_tokens // shape.block_size
            tables[seq][:same] = tables[sharing[0]][:same]
        self.offsets, self.contexts, self.tables = [*accumulate(lengths, initial=0)], list(contexts), tables
        self.queries = draw(self.offsets[-1], shape.num_kv_heads * shape.group, shape.head_dim)
        caches = [draw(sum(counts), shape.block_size, shape.num_kv_heads, shape.head_dim) for _ in range(2)]
        self.cache = KVCache((caches[0],), (caches[1],), shape.block_size)
        nothing = torch.empty(0, dtype=torch.int64, device=device)
        self._shape, self._memory = shape, memory or NewMemory(device)
        self._step = StepInput(
            token_ids=nothing,
            positions=nothing,
            slot_mapping=nothing,
            block_tables=torch.tensor(tables, dtype=torch.int32, device=device),
            logit_indices=nothing,
            cu_seqlens_q=self.offsets,
            context_lens=self.contexts,
            block_lists=tables,
        )
        self.plan()

    def plan(self) -> None:
        """Work out what programs take; again after another choice of tiles."""
        plan = plan_attention(self._step, self._shape, Staging(self.queries.device))
        self._attention = TritonAttention(plan, self.cache, self._step.slot_mapping, self._memory)

    def attend(self) -> Tensor:
        """[num_tokens, num_heads * head_dim]."""
        return self._attention.mix(0, self.queries)

    def reference(self) -> Tensor:
        """The same in float64, through torch."""
        tables = torch.tensor(self.tables, device=self.queries.device)
        caches = self.cache.keys[0].double(), self.cache.values[0].double()
        out = attention_reference(self.queries.double(), *caches, tables, self.offsets, self.contexts)
        return out.flatten(1)


def _check_attention(shape: AttentionShape, draw: Draw) -> Check:
    """A prompt's piece, branches of a shared prefix, and a sequence by itself: all four attention kernels."""
    branches = range(1, MIN_BRANCHES + 1)
    contexts = [101, *(MIN_PREFIX_TOKENS + 13 * branch for branch in branches), 211]
    step = PagedStep(draw, shape, [37, *[1] * MIN_BRANCHES, 1], contexts, branches, _Poisoned(draw.device))
    return _check("attention", draw, (step.attend(),), (step.reference(),))


def _check_sample(draw: Draw) -> Check:
    """Tokens of chances 1/2, 1/4, 1/8 ..., drawn at points far from where one ends and the next begins; the number of
    wrong ones."""
    ids = torch.randperm(SAMPLE_VOCAB, generator=draw.generator, device=draw.device)[:12]
    logits = torch.full((5, SAMPLE_VOCAB), -60.0, device=draw.device)
    logits[:, ids] = -torch.log(torch.tensor(2.0)) * torch.arange(12, device=draw.device)
    chosen = [  # (temperature, top_k, top_p, min_p, point, rank of the token that comes)
        (0.0, 0, 1.0, 0.0, 0.9, 0),
        (1.0, 0, 1.0, 0.0, 0.6, 1),
        (1.0, 3, 1.0, 0.0, 0.95, 2),  # the point is in the last of the seven eighths that are kept
        (1.0, 0, 0.7, 0.0, 0.8, 1),
        (0.5, 0, 1.0, 0.2, 0.9, 1),  # chances 4/5 and 1/5 of two
    ]
    temperature, top_k, top_p, min_p, uniform, ranks = (
        torch.tensor(column, device=draw.device) for column in zip(*chosen, strict=True)
    )
    params = SampleInput(temperature, top_k.to(torch.int32), top_p, min_p, uniform)
    wrong = sample(logits.to(draw.dtype), params) != ids[ranks]
    return Check("sample", float(wrong.sum()), 0.0)


def _check_sample_of_fewer(draw: Draw) -> Check:
    """Penalties and a bitmask that take the best token, or the two best, away; the number of wrong tokens and bits."""
    device, places = draw.device, torch.arange(3, device=draw.device)
    ids = torch.randperm(SAMPLE_VOCAB, generator=draw.generator, device=device)[:3]
    logits = torch.full((3, SAMPLE_VOCAB), -60.0, device=device)
    logits[:, ids] = 10.0 - places

    def marked(*pairs: tuple[int, int]) -> Tensor:
        """bool [3, vocab]: (row, rank of a token)."""
        out = torch.zeros((3, SAMPLE_VOCAB), dtype=torch.bool, device=device)
        for row, rank in pairs:
            out[row, ids[rank]] = True
        return out

    def column(*values: float) -> Tensor:
        return torch.tensor(values, device=device)

    seen, said, wanted = pack(marked((0, 0))), pack(marked((1, 0))), ids[torch.tensor([1, 1, 2], device=device)]
    params = SampleInput(
        column(0.0, 0.0, 0.0), torch.zeros(3, dtype=torch.int32, device=device), column(1.0, 1.0, 1.0),
        column(0.0, 0.0, 0.0), column(0.5, 0.5, 0.5), repetition=column(4.0, 1.0, 1.0),
        presence=column(0.0, 1.5, 0.0), seen=seen, said=said, allowed=pack(~marked((2, 0), (2, 1))),
    )  # fmt: skip
    wrong = sample(logits.to(draw.dtype), params) != wanted
    wrong_bits = (seen != pack(marked((0, 0), (0, 1), (1, 1), (2, 2)))).sum() + (
        said != pack(marked((0, 1), (1, 0), (1, 1), (2, 2)))
    ).sum()
    return Check("sample with penalties and a bitmask", float(wrong.sum() + wrong_bits), 0.0)
