"""Logits -> the next token of each row, without a look from the host.

    x = penalised(logits), masked by the bitmask, / temperature
    keep the largest top_k; of these the fewest that hold top_p of the mass; of these all >= min_p times the best
    token = the first, from the most probable down, at which the running mass exceeds u times the whole

Nothing is sorted: each filter is a threshold, found by bisection over the order-preserving integer form of float32 (at
most 32 passes over a row, which stays in the L2 cache). Values equal to a threshold are all kept, as transformers does
for top-k. `u` in [0, 1) comes from the request's seed and the place in the output, so a row's token depends on nothing
else in the batch. Greedy rows (temperature 0) take one pass; the lowest id wins among equals.

Penalties follow transformers (repetition: seen in prompt or output) and the OpenAI API (presence: said in the output).
Which tokens were seen and said stands in bitmaps on the device (token i: bit i % 32 of word i // 32), which the kernel
itself updates with its token.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import torch
import triton
import triton.language as tl
from torch import Tensor

from qwen_batch.kernels.launch import DTYPES, TYPE_NAMES, Variant, by_alignment, check
from qwen_batch.kernels.tuning import SAMPLE


@dataclass(frozen=True, slots=True)
class SampleInput:
    """How each row is sampled; tensors [num_rows] on the device of the logits. The off values are in brackets."""

    temperature: Tensor  # float32 [0: greedy]
    top_k: Tensor  # int32 [0]
    top_p: Tensor  # float32 [1]
    min_p: Tensor  # float32 [0]
    uniform: Tensor  # float32 in [0, 1)
    repetition: Tensor | None = None  # float32 [1]; needs `seen` and `said`
    presence: Tensor | None = None  # float32 [0]
    seen: Tensor | None = None  # int32 [num_rows, words]: bitmap of the tokens of prompt and output; updated
    said: Tensor | None = None  # int32 [num_rows, words]: bitmap of the tokens of the output; updated
    allowed: Tensor | None = None  # int32 [num_rows, words]: bitmap of the tokens that may come


def num_words(vocab: int) -> int:
    """int32 words of a bitmap over the vocabulary."""
    return -(-vocab // 32)


def sample(logits: Tensor, params: SampleInput, scores: Tensor | None = None) -> Tensor:
    """logits [num_rows, vocab] -> tokens int64 [num_rows]; -1 where a logit is NaN or nothing is allowed.

    scores: room for float32 [num_rows, vocab], else new memory.
    """
    num_rows, vocab = logits.shape
    check(logits, "logits", (num_rows, vocab), *DTYPES)
    for name in ("temperature", "top_p", "min_p", "uniform"):
        check(getattr(params, name), name, (num_rows,), torch.float32)
    check(params.top_k, "top_k", (num_rows,), torch.int32)
    penalties = (params.repetition, params.presence, params.seen, params.said)
    present = [tensor for tensor in penalties if tensor is not None]
    if len(present) not in (0, 4):
        raise ValueError("repetition, presence, seen and said come together or not at all")
    for bitmap in (params.seen, params.said, params.allowed):
        if bitmap is not None:
            check(bitmap, "bitmap", (num_rows, num_words(vocab)), torch.int32)
    if scores is None:
        scores = torch.empty((num_rows, vocab), dtype=torch.float32, device=logits.device)
    check(scores, "scores", (num_rows, vocab), torch.float32)
    tokens = torch.empty(num_rows, dtype=torch.int64, device=logits.device)
    spare = params.top_k  # stands for bitmaps that are not there; not read
    if num_rows:
        _sample_kernel[(num_rows,)](
            logits, scores, tokens, params.temperature, params.top_k, params.top_p, params.min_p, params.uniform,
            *(spare if tensor is None else tensor for tensor in penalties),
            spare if params.allowed is None else params.allowed, vocab, num_words(vocab),
            HAS_PENALTY=bool(present), HAS_ALLOWED=params.allowed is not None, **SAMPLE.launch,
        )  # fmt: skip
    return tokens


def sample_reference(logits: Tensor, params: SampleInput) -> Tensor:
    """The same with sorting, in plain torch on the CPU, in float64 after the filters. Updates the bitmaps too."""
    tokens = [_sample_row(row, logits[row].float(), params) for row in range(len(logits))]
    for row, token in enumerate(tokens):
        for bitmap in (params.seen, params.said):
            if bitmap is not None and token >= 0:
                bitmap[row, token // 32] |= _bit(token % 32)
    return torch.tensor(tokens, dtype=torch.int64)


def _sample_row(row: int, x: Tensor, params: SampleInput) -> int:
    broken = bool(x.isnan().any())
    if params.repetition is not None and params.presence is not None:
        assert params.seen is not None
        assert params.said is not None
        seen, said = (_unpack(bitmap[row], len(x)) for bitmap in (params.seen, params.said))
        x = torch.where(seen, torch.where(x > 0, x / params.repetition[row], x * params.repetition[row]), x)
        x = torch.where(said, x - params.presence[row], x)
    if params.allowed is not None:
        x = x.masked_fill(~_unpack(params.allowed[row], len(x)), -torch.inf)
    if broken or x.max() == -torch.inf:
        return -1
    if params.temperature[row] == 0:
        return int(x.argmax())
    values, ids = (x / params.temperature[row]).double().sort(descending=True, stable=True)
    probs = (values - values[0]).exp()
    top_k = int(params.top_k[row])
    if 0 < top_k < len(x):
        probs = probs.masked_fill(values < values[top_k - 1], 0.0)
    mass, threshold = probs.cumsum(0), params.top_p[row].double() * probs.sum()
    if params.top_p[row] < 1:
        lowest = values[int(torch.searchsorted(mass, threshold))]
        probs = probs.masked_fill(values < lowest, 0.0)
    probs = probs.masked_fill(probs < params.min_p[row].double(), 0.0)
    mass = probs.cumsum(0)
    return int(ids[int(torch.searchsorted(mass, params.uniform[row].double() * mass[-1], right=True))])


def pack(wanted: Tensor) -> Tensor:
    """bool [..., vocab] -> bitmap int32 [..., words]."""
    spare = num_words(wanted.shape[-1]) * 32 - wanted.shape[-1]
    bits = torch.nn.functional.pad(wanted, (0, spare)).unflatten(-1, (-1, 32)).to(torch.int32)
    words: Tensor = (bits << torch.arange(32, dtype=torch.int32, device=wanted.device)).sum(-1, dtype=torch.int32)
    return words


def _unpack(words: Tensor, vocab: int) -> Tensor:
    bits = (words[:, None] >> torch.arange(32, dtype=torch.int32)) & 1
    return bits.flatten()[:vocab].bool()


def _bit(place: int) -> int:
    return (1 << place) - (1 << 32 if place == 31 else 0)


def variants() -> Iterator[Variant]:
    """Every compilation that the launcher may ask for."""
    for dtype in DTYPES:
        choices = product((False, True), (False, True), by_alignment("vocab"))
        for has_penalty, has_allowed, (suffix, divisible) in choices:
            asked = " penalties" * has_penalty + " bitmask" * has_allowed
            yield Variant(
                "sample", TYPE_NAMES[dtype] + asked + suffix, _sample_kernel,
                {
                    "logits": "*" + TYPE_NAMES[dtype], "scores": "*fp32", "tokens": "*i64",
                    "temperature": "*fp32", "top_k": "*i32", "top_p": "*fp32", "min_p": "*fp32",
                    "uniform": "*fp32",
                    **dict.fromkeys(("repetition", "presence"), "*fp32" if has_penalty else "*i32"),
                    **dict.fromkeys(("seen", "said", "allowed"), "*i32"), "vocab": "i32", "words": "i32",
                    **dict.fromkeys(("HAS_PENALTY", "HAS_ALLOWED", "BLOCK"), "constexpr"),
                },
                {"HAS_PENALTY": has_penalty, "HAS_ALLOWED": has_allowed, **SAMPLE.tiles},
                SAMPLE, divisible,
            )  # fmt: skip


@triton.jit(do_not_specialize=["words"])
def _sample_kernel(
    logits, scores, tokens, temperature, top_k, top_p, min_p, uniform, repetition, presence, seen, said, allowed,
    vocab, words, HAS_PENALTY: tl.constexpr, HAS_ALLOWED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    logits += row * vocab
    scores += row * vocab
    heat = tl.load(temperature + row)
    divisor = tl.where(heat > 0.0, heat, 1.0)
    # The highest score of each place of a tile, the first id that has it, and NaNs: put together once, at the end.
    highest = tl.full((BLOCK,), float("-inf"), dtype=tl.float32)
    first = tl.full((BLOCK,), 2147483647, dtype=tl.int32)
    broken = tl.full((BLOCK,), 0, dtype=tl.int32)
    for start in range(0, vocab, BLOCK):
        ids = start + tl.arange(0, BLOCK)
        inside = ids < vocab
        x = tl.load(logits + ids, mask=inside, other=float("-inf")).to(tl.float32)
        broken |= (x != x).to(tl.int32)
        if HAS_PENALTY:
            rate = tl.load(repetition + row)
            x = tl.where(_has(seen + row * words, ids, inside), tl.where(x > 0.0, x / rate, x * rate), x)
            x = tl.where(_has(said + row * words, ids, inside), x - tl.load(presence + row), x)
        if HAS_ALLOWED:
            x = tl.where(_has(allowed + row * words, ids, inside), x, float("-inf"))
        x = x / divisor
        tl.store(scores + ids, x, mask=inside)
        first = tl.where(x > highest, ids, first)
        highest = tl.where(x > highest, x, highest)
    peak = tl.max(highest, axis=0)
    best = tl.min(tl.where(highest == peak, first, 2147483647), axis=0)
    token = best
    if (tl.max(broken, axis=0) > 0) | (peak == float("-inf")):
        token = best * 0 - 1
    elif heat > 0.0:
        tl.debug_barrier()  # the scores were stored by other threads of this program
        token = _draw(
            scores, vocab, peak, tl.load(top_k + row), tl.load(top_p + row), tl.load(min_p + row),
            tl.load(uniform + row), BLOCK,
        )  # fmt: skip
    tl.store(tokens + row, token.to(tl.int64))
    if HAS_PENALTY and token >= 0:
        bit = tl.full((), 1, dtype=tl.int32) << (token % 32)
        word = row * words + token // 32
        tl.store(seen + word, tl.load(seen + word) | bit)
        tl.store(said + word, tl.load(said + word) | bit)


@triton.jit
def _draw(scores, vocab, peak, top_k, top_p, min_p, uniform, BLOCK: tl.constexpr):
    lowest = tl.full((), -3.0e38, dtype=tl.float32)
    if (top_k > 0) & (top_k < vocab):
        lowest = _threshold(scores, vocab, peak, lowest, top_k.to(tl.float32), True, BLOCK)
    if top_p < 1.0:
        wanted = top_p * _mass(scores, vocab, peak, lowest, False, BLOCK)
        lowest = _threshold(scores, vocab, peak, lowest, wanted, False, BLOCK)
    if min_p > 0.0:
        lowest = tl.maximum(lowest, peak + tl.log(min_p))
    whole = _mass(scores, vocab, peak, lowest, False, BLOCK)
    # Below 1 also where a double close to 1 was rounded; above 0 so that an exact 0 finds the first token.
    point = tl.maximum(tl.minimum(uniform, 0.99999994) * whole, 1.0e-37)
    value = _threshold(scores, vocab, peak, lowest, point, False, BLOCK)
    # `value` is the chosen score; among tokens that share it the next in order of id.
    above = _mass(scores, vocab, peak, _next(value), False, BLOCK)
    rank = ((point - above) / tl.exp(value - peak)).to(tl.int32)
    token = tl.full((), 0, dtype=tl.int32)
    count = tl.full((), 0, dtype=tl.int32)
    for start in range(0, vocab, BLOCK):
        ids = start + tl.arange(0, BLOCK)
        x = tl.load(scores + ids, mask=ids < vocab, other=float("-inf"))
        equal = (x == value).to(tl.int32)
        order = count + tl.cumsum(equal, axis=0) - 1
        token = tl.maximum(token, tl.max(tl.where((equal == 1) & (order <= rank), ids, 0), axis=0))
        count += tl.sum(equal, axis=0)
    return token


@triton.jit
def _threshold(scores, vocab, peak, lowest, wanted, COUNT: tl.constexpr, BLOCK: tl.constexpr):
    """The largest t >= lowest for which the scores >= t hold `wanted` of mass (or count); `lowest` if none does."""
    low = _key(lowest)
    high = _key(peak) + 1
    while low + 1 < high:
        middle = (low & high) + ((low ^ high) >> 1)
        enough = _mass(scores, vocab, peak, _float(middle), COUNT, BLOCK) >= wanted
        low = tl.where(enough, middle, low)
        high = tl.where(enough, high, middle)
    return _float(low)


@triton.jit
def _mass(scores, vocab, peak, lowest, COUNT: tl.constexpr, BLOCK: tl.constexpr):
    """Sum of exp(score - peak), or number, of the scores that are not below `lowest`."""
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, vocab, BLOCK):
        ids = start + tl.arange(0, BLOCK)
        x = tl.load(scores + ids, mask=ids < vocab, other=float("-inf"))
        weight = tl.full((BLOCK,), 1.0, dtype=tl.float32)
        if not COUNT:
            weight = tl.exp(x - peak)
        total += tl.where(x >= lowest, weight, 0.0)
    return tl.sum(total, axis=0)


@triton.jit
def _has(bitmap, ids, inside):
    word = tl.load(bitmap + ids // 32, mask=inside, other=0)
    return ((word >> (ids % 32)) & 1) == 1


@triton.jit
def _key(value):
    """float32 -> int32 in the same order."""
    bits = value.to(tl.int32, bitcast=True)
    return tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)


@triton.jit
def _float(key):
    return tl.where(key < 0, key ^ 0x7FFFFFFF, key).to(tl.float32, bitcast=True)


@triton.jit
def _next(value):
    """The next larger float32."""
    return _float(_key(value) + 1)
