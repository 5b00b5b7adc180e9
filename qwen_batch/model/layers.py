"""The weights that a decoder computes with."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from qwen_batch.model.linear import Linear


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """One decoder layer."""

    input_norm: Tensor  # [hidden]
    qkv: Linear  # hidden -> q_size + 2 * kv_size
    q_norm: Tensor | None  # [head_dim]
    k_norm: Tensor | None  # [head_dim]
    output: Linear  # q_size -> hidden
    post_norm: Tensor  # [hidden]
    gate_up: Linear  # hidden -> 2 * intermediate
    down: Linear  # intermediate -> hidden


@dataclass(frozen=True, slots=True)
class Weights:
    """All weights of a decoder."""

    embedding: Tensor  # [vocab, hidden]
    layers: tuple[LayerWeights, ...]
    norm: Tensor  # [hidden]
    head: Linear  # hidden -> vocab; the embedding's weights when they are tied

    @property
    def dtype(self) -> torch.dtype:
        return self.embedding.dtype

    @property
    def device(self) -> torch.device:
        return self.embedding.device
