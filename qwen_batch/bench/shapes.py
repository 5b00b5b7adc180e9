"""Published shapes with weights drawn on the device, and the work that they are measured on."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from qwen_batch.model.config import ModelConfig, parse_config
from qwen_batch.model.layers import LayerWeights, Weights
from qwen_batch.model.linear import make_linear

_QWEN3 = {"model_type": "qwen3", "head_dim": 128, "num_key_value_heads": 8, "vocab_size": 151_936,
          "rope_theta": 1e6, "rms_norm_eps": 1e-6, "max_position_embeddings": 40_960}  # fmt: skip
# config.json of the published checkpoints, what sets a shape alone.
SHAPES: dict[str, dict[str, Any]] = {
    "tiny": {**_QWEN3, "vocab_size": 512, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
             "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "tie_word_embeddings": True},
    "Qwen3-0.6B": {**_QWEN3, "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28,
                   "num_attention_heads": 16, "tie_word_embeddings": True},
    "Qwen3-8B": {**_QWEN3, "hidden_size": 4096, "intermediate_size": 12_288, "num_hidden_layers": 36,
                 "num_attention_heads": 32, "tie_word_embeddings": False},
    "Qwen3-32B": {**_QWEN3, "hidden_size": 5120, "intermediate_size": 25_600, "num_hidden_layers": 64,
                  "num_attention_heads": 64, "tie_word_embeddings": False},
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Work:
    """Requests of one length; `shared_tokens` of each prompt are the same in all."""

    name: str
    num_requests: int
    prompt_tokens: int
    output_tokens: int
    shared_tokens: int = 0

    def prompts(self, vocab_size: int, seed: int) -> list[list[int]]:
        draw = random.Random(seed)
        shared = [draw.randrange(vocab_size) for _ in range(self.shared_tokens)]
        rest = self.prompt_tokens - self.shared_tokens
        return [shared + [draw.randrange(vocab_size) for _ in range(rest)] for _ in range(self.num_requests)]


# Sized for seconds each at the rates that are aimed for; smaller models take more of them.
WORK = (
    Work("seed", 384, 256, 128),
    Work("doc", 64, 2048, 100),
    Work("long", 4, 32_000, 100),
    Work("tickets", 384, 1152, 48, shared_tokens=1024),
)
TINY_WORK = (Work("seed", 3, 12, 3), Work("tickets", 4, 40, 2, shared_tokens=32))


def shape_config(name: str) -> ModelConfig:
    """As read from a checkpoint's config.json."""
    return parse_config(SHAPES[name], name)


def flops_per_request(config: ModelConfig, work: Work) -> float:
    """Multiplications and additions that a request cannot do without: weights and attention; logits for answers."""
    per_layer = config.hidden_size * (2 * config.q_size + 2 * config.kv_size + 3 * config.intermediate_size)
    own = work.prompt_tokens - work.shared_tokens + work.output_tokens
    length = work.prompt_tokens + work.output_tokens
    pairs = (length * length - work.shared_tokens * work.shared_tokens) / 2
    return (
        2.0 * own * config.num_layers * per_layer
        + 2.0 * work.output_tokens * config.hidden_size * config.vocab_size
        + 4.0 * pairs * config.num_layers * config.q_size
    )


def random_weights(config: ModelConfig, dtype: torch.dtype, device: torch.device) -> Weights:
    """Drawn on the device with a spread of 0.02, as training starts; norms are 1. No second copy is made."""

    def draw(*shape: int) -> Tensor:
        return torch.empty(shape, dtype=dtype, device=device).normal_(0.0, 0.02)

    def ones(size: int) -> Tensor:
        return torch.ones(size, dtype=dtype, device=device)

    def layer() -> LayerWeights:
        return LayerWeights(
            input_norm=ones(config.hidden_size),
            qkv=make_linear(draw(config.q_size + 2 * config.kv_size, config.hidden_size)),
            q_norm=ones(config.head_dim),
            k_norm=ones(config.head_dim),
            output=make_linear(draw(config.hidden_size, config.q_size)),
            post_norm=ones(config.hidden_size),
            gate_up=make_linear(draw(2 * config.intermediate_size, config.hidden_size)),
            down=make_linear(draw(config.hidden_size, config.intermediate_size)),
        )

    embedding = draw(config.vocab_size, config.hidden_size)
    head = embedding if config.tie_word_embeddings else draw(config.vocab_size, config.hidden_size)
    layers = tuple(layer() for _ in range(config.num_layers))
    return Weights(embedding, layers, ones(config.hidden_size), make_linear(head))
