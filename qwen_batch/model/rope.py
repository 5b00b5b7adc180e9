"""Rotary position embedding: which frequencies a config asks for, and the rotation itself.

Su et al. 2021 (RoPE); Peng et al. 2023 (YaRN); Meta's Llama 3 rule. The pairs are (i, i + head_dim / 2), as in the
Hugging Face checkpoints.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from qwen_batch.model.workspace import Memory, NewMemory

_KINDS = ("default", "linear", "llama3", "yarn")


@dataclass(frozen=True, slots=True)
class RopeConfig:
    """Kind and numbers of the rotation."""

    kind: str
    theta: float
    head_dim: int
    scaling: Mapping[str, Any] = field(default_factory=dict)

    def window(self, max_position_embeddings: int) -> int:
        """Longest sequence in tokens: what the config says, or what YaRN stretches it to."""
        original = self.scaling.get("original_max_position_embeddings")
        if self.kind == "yarn" and original:
            return max(max_position_embeddings, int(original * self.scaling["factor"]))
        return max_position_embeddings


def parse_rope(raw: Mapping[str, Any], head_dim: int) -> RopeConfig:
    """From a config.json in the form of transformers 5 (`rope_parameters`) or before (`rope_theta`, `rope_scaling`)."""
    scaling = dict(raw.get("rope_parameters") or raw.get("rope_scaling") or {})
    kind = scaling.get("rope_type") or scaling.get("type") or "default"
    if kind not in _KINDS:
        raise ValueError(f"rope type {kind!r} is not one of {', '.join(_KINDS)}")
    if float(scaling.get("partial_rotary_factor", raw.get("partial_rotary_factor", 1.0))) != 1.0:
        raise ValueError("partial rotary embedding is not supported")
    theta = float(scaling.get("rope_theta") or raw.get("rope_theta") or 10_000.0)
    if kind == "yarn":
        scaling.setdefault("original_max_position_embeddings", int(raw["max_position_embeddings"]))
    return RopeConfig(kind, theta, head_dim, scaling)


def inverse_frequencies(rope: RopeConfig) -> tuple[Tensor, float]:
    """(float32 [head_dim / 2], factor on cos and sin)."""
    exponents = torch.arange(0, rope.head_dim, 2, dtype=torch.int64).float() / rope.head_dim
    plain: Tensor = 1.0 / rope.theta**exponents
    if rope.kind == "linear":
        return plain / rope.scaling["factor"], 1.0
    if rope.kind == "llama3":
        return _llama3(plain, rope.scaling), 1.0
    if rope.kind == "yarn":
        return _yarn(plain, rope)
    return plain, 1.0


def _llama3(plain: Tensor, scaling: Mapping[str, Any]) -> Tensor:
    """Slow frequencies are divided by the factor, fast ones kept, those between blended by wavelength."""
    low, high, factor = (float(scaling[key]) for key in ("low_freq_factor", "high_freq_factor", "factor"))
    turns = float(scaling["original_max_position_embeddings"]) * plain / (2 * math.pi)
    keep = ((turns - low) / (high - low)).clamp(0.0, 1.0)
    return keep * plain + (1.0 - keep) * plain / factor


def _yarn(plain: Tensor, rope: RopeConfig) -> tuple[Tensor, float]:
    """Frequencies that turn less than beta_slow times over the original window are interpolated, those that turn more
    than beta_fast times kept, with a linear ramp over the dimensions between."""
    scaling = rope.scaling
    factor, original = float(scaling["factor"]), scaling["original_max_position_embeddings"]

    def dimension(turns: float) -> float:
        return rope.head_dim * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(rope.theta))

    low, high = dimension(scaling.get("beta_fast") or 32.0), dimension(scaling.get("beta_slow") or 1.0)
    if scaling.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, rope.head_dim - 1)
    ramp = ((torch.arange(len(plain), dtype=torch.float32) - low) / max(high - low, 0.001)).clamp(0.0, 1.0)
    frequencies = plain / factor * ramp + plain * (1.0 - ramp)
    attention = scaling.get("attention_factor")
    if attention is None:
        attention = _yarn_attention(factor, scaling.get("mscale"), scaling.get("mscale_all_dim"))
    return frequencies, float(attention)


def _yarn_attention(factor: float, mscale: float | None, mscale_all_dim: float | None) -> float:
    def scale(weight: float) -> float:
        return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0

    return scale(mscale) / scale(mscale_all_dim) if mscale and mscale_all_dim else scale(1.0)


class Rope:
    """cos and sin of the positions of one step, computed once for all layers."""

    def __init__(self, rope: RopeConfig, device: torch.device, dtype: torch.dtype) -> None:
        frequencies, self._factor = inverse_frequencies(rope)
        self._frequencies = frequencies.to(device)
        self._dtype = dtype

    def angles(self, positions: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        """positions int64 [num_tokens] -> cos, sin [num_tokens, head_dim] in the model's dtype."""
        halves = zip(("cos", "sin"), self.half_angles(positions, memory), strict=True)
        cos, sin = (self._both_halves(half, memory, name) for name, half in halves)
        return cos, sin

    def half_angles(self, positions: Tensor, memory: Memory | None = None) -> tuple[Tensor, Tensor]:
        """positions int64 [num_tokens] -> cos, sin float32 [num_tokens, head_dim / 2], in `memory` or in new memory."""
        memory = memory or NewMemory(positions.device)
        shape = len(positions), len(self._frequencies)
        sin, cos = (memory.take(name, shape, torch.float32) for name in ("half_sin", "half_cos"))
        torch.mul(positions[:, None], self._frequencies, out=sin)
        torch.cos(sin, out=cos).mul_(self._factor)
        return cos, sin.sin_().mul_(self._factor)

    def _both_halves(self, half: Tensor, memory: Memory, name: str) -> Tensor:
        both = memory.take(name, (len(half), 2, half.shape[1]), self._dtype)
        return both.copy_(half[:, None, :]).flatten(1)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """x [num_tokens, heads, head_dim], cos and sin [num_tokens, 1, head_dim] -> x rotated."""
    half = x.shape[-1] // 2
    turned = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
    return x * cos + turned * sin
