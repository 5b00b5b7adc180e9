"""What a Hugging Face config.json says about a decoder, checked and in one shape for all families.

Families differ by data: which projections have a bias, whether heads are normalised. One decoder serves them all.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qwen_batch.errors import ModelError
from qwen_batch.model.rope import RopeConfig, parse_rope


@dataclass(frozen=True, slots=True)
class _Family:
    """What the model type alone decides; `None` means that the config decides."""

    qk_norm: bool
    qkv_bias: bool | None
    output_bias: bool | None


_FAMILIES = {
    "llama": _Family(qk_norm=False, qkv_bias=None, output_bias=None),
    "qwen2": _Family(qk_norm=False, qkv_bias=True, output_bias=False),
    "qwen3": _Family(qk_norm=True, qkv_bias=None, output_bias=None),
}


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Shape of a decoder. Sizes count elements; the query width is num_heads * head_dim, not hidden_size."""

    family: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rms_norm_eps: float
    rope: RopeConfig
    window: int  # longest prompt plus answer in tokens that the positions were made for
    tie_word_embeddings: bool
    qk_norm: bool  # RMSNorm over each query and key head before the rotation
    qkv_bias: bool
    output_bias: bool
    mlp_bias: bool

    @property
    def q_size(self) -> int:
        return self.num_heads * self.head_dim

    @property
    def kv_size(self) -> int:
        return self.num_kv_heads * self.head_dim

    def kv_bytes_per_token(self, dtype_bytes: int) -> int:
        """Bytes of keys and values that one token takes over all layers."""
        return 2 * self.num_layers * self.kv_size * dtype_bytes


def read_config(folder: Path) -> ModelConfig:
    """Read config.json. Raises ModelError for a model that we would compute wrongly."""
    file = folder / "config.json"
    try:
        raw = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelError(f"{folder}: no config.json; name a folder in Hugging Face form") from None
    except (OSError, ValueError) as error:
        raise ModelError(f"{file}: cannot be read: {error}") from None
    return parse_config(raw, str(file))


def parse_config(raw: Mapping[str, Any], where: str) -> ModelConfig:
    family = _FAMILIES.get(raw.get("model_type", ""))
    if family is None:
        raise ModelError(
            f"{where}: model type {raw.get('model_type')!r} is not one that this engine runs; "
            f"it runs {', '.join(sorted(_FAMILIES))}"
        )
    _refuse_what_we_do_not_compute(raw, where)
    try:
        return _build(raw, family)
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(f"{where}: {error!r} while reading the model's shape") from None


def _build(raw: Mapping[str, Any], family: _Family) -> ModelConfig:
    num_heads = int(raw["num_attention_heads"])
    head_dim = int(raw.get("head_dim") or int(raw["hidden_size"]) // num_heads)
    num_kv_heads = int(raw.get("num_key_value_heads") or num_heads)
    if num_heads % num_kv_heads:
        raise ValueError(f"{num_heads} query heads cannot share {num_kv_heads} KV heads evenly")
    attention_bias = bool(raw.get("attention_bias", False))
    rope = parse_rope(raw, head_dim)
    return ModelConfig(
        family=raw["model_type"],
        vocab_size=int(raw["vocab_size"]),
        hidden_size=int(raw["hidden_size"]),
        intermediate_size=int(raw["intermediate_size"]),
        num_layers=int(raw["num_hidden_layers"]),
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        head_dim=head_dim,
        rms_norm_eps=float(raw.get("rms_norm_eps", 1e-6)),
        rope=rope,
        window=rope.window(int(raw["max_position_embeddings"])),
        tie_word_embeddings=bool(raw.get("tie_word_embeddings", False)),
        qk_norm=family.qk_norm,
        qkv_bias=attention_bias if family.qkv_bias is None else family.qkv_bias,
        output_bias=attention_bias if family.output_bias is None else family.output_bias,
        mlp_bias=bool(raw.get("mlp_bias", False)),
    )


def _refuse_what_we_do_not_compute(raw: Mapping[str, Any], where: str) -> None:
    if raw.get("hidden_act", "silu") != "silu":
        raise ModelError(f"{where}: activation {raw['hidden_act']!r} is not supported; only silu is")
    if raw.get("quantization_config"):
        method = raw["quantization_config"].get("quant_method", "unknown")
        raise ModelError(f"{where}: quantised weights ({method}) are not supported; name the model's bf16 form")
    sliding = raw.get("use_sliding_window") or "sliding_attention" in (raw.get("layer_types") or ())
    if sliding:
        raise ModelError(f"{where}: sliding-window attention is not supported; set use_sliding_window to false")
