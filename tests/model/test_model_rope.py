"""Frequencies equal those of transformers for every kind of rotation."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

from qwen_batch.model.rope import Rope, RopeConfig, inverse_frequencies, parse_rope, rotate
from qwen_batch.model.workspace import NewMemory

KINDS: dict[str, dict[str, Any]] = {
    "linear": {"factor": 4.0},
    "llama3": {
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    },
    "yarn": {"factor": 4.0, "original_max_position_embeddings": 32768},
}


def raw_config(kind: str, form: str) -> dict[str, Any]:
    scaling = {"rope_type": kind, **KINDS[kind]}
    base = {"hidden_size": 512, "num_attention_heads": 4, "max_position_embeddings": 131072}
    if form == "new":
        return {**base, "rope_parameters": {"rope_theta": 1e6, **scaling}}
    return {**base, "rope_theta": 1e6, "rope_scaling": scaling}


@pytest.mark.parametrize("form", ["new", "old"])
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_frequencies_equal_transformers(kind: str, form: str) -> None:
    raw = raw_config(kind, form)
    rope = parse_rope(raw, head_dim=128)
    config = LlamaConfig(**raw_config(kind, "new"))
    expected, factor = ROPE_INIT_FUNCTIONS[rope.kind](config, torch.device("cpu"))
    frequencies, ours = inverse_frequencies(rope)
    torch.testing.assert_close(frequencies, expected, rtol=1e-6, atol=0)
    assert ours == pytest.approx(factor)


def test_rotation_equals_transformers() -> None:
    config = LlamaConfig(
        hidden_size=64, num_attention_heads=4, head_dim=16, rope_parameters={"rope_type": "default", "rope_theta": 1e4}
    )
    queries, keys = torch.randn(2, 1, 4, 9, 16, generator=torch.Generator().manual_seed(0))
    positions = torch.tensor([0, 1, 2, 77, 78, 5, 4000, 8191, 3])
    cos, sin = LlamaRotaryEmbedding(config)(queries, positions[None])
    expected = apply_rotary_pos_emb(queries, keys, cos, sin)[0]
    rope = Rope(RopeConfig("default", 1e4, 16), torch.device("cpu"), torch.float32)
    angles = rope.angles(positions, NewMemory(torch.device("cpu")))
    ours = rotate(queries[0].transpose(0, 1), *(x[:, None, :] for x in angles))
    torch.testing.assert_close(ours.transpose(0, 1)[None], expected, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("scaling", "window"),
    [(None, 40960), ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}, 131072)],
)
def test_window_of_qwen3_is_native_unless_yarn_is_asked_for(scaling: dict[str, Any] | None, window: int) -> None:
    raw = {"max_position_embeddings": 40960, "rope_theta": 1e6, "rope_scaling": scaling}
    assert parse_rope(raw, 128).window(40960) == window


def test_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="rope type 'longrope' is not one of default, linear, llama3, yarn"):
        parse_rope({"rope_scaling": {"type": "longrope"}}, 64)
