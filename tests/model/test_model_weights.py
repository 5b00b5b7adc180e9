"""Checkpoints are read whole, in place, or refused with what is wrong."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_models import make_tiny_model

from qwen_batch.errors import ModelError
from qwen_batch.model.config import parse_config, read_config
from qwen_batch.model.weights import load_weights

CPU = torch.device("cpu")


@pytest.fixture
def folder(tiny_llama: Path, tmp_path: Path) -> Path:
    return shutil.copytree(tiny_llama, tmp_path / "model")


def change_config(folder: Path, **changes: Any) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


def change_tensors(folder: Path, change: Any) -> None:
    file = folder / "model.safetensors"
    tensors = load_file(file)
    change(tensors)
    save_file(tensors, file)


def load(folder: Path) -> Any:
    return load_weights(folder, read_config(folder), torch.float32, CPU)


def test_projections_are_fused_in_order(tiny_qwen2: Path) -> None:
    weights = load(tiny_qwen2)
    tensors = load_file(tiny_qwen2 / "model.safetensors")
    for index, layer in enumerate(weights.layers):
        at = f"model.layers.{index}."
        for suffix, fused in (("weight", layer.qkv.weight), ("bias", layer.qkv.bias)):
            parts = [tensors[f"{at}self_attn.{name}_proj.{suffix}"] for name in "qkv"]
            assert torch.equal(fused, torch.cat(parts))
        assert torch.equal(
            layer.gate_up.weight, torch.cat([tensors[f"{at}mlp.{n}_proj.weight"] for n in ("gate", "up")])
        )
    assert not torch.equal(weights.head.weight, weights.embedding)


def test_shards_hold_the_same_as_one_file(tmp_path: Path) -> None:
    one = make_tiny_model(tmp_path / "one", "qwen3", tie_word_embeddings=False)
    many = make_tiny_model(tmp_path / "many", "qwen3", tie_word_embeddings=False, sharded=True)
    assert len(list(many.glob("*.safetensors"))) > 1
    first, second = load(one), load(many)
    assert torch.equal(first.head.weight, second.head.weight)
    assert all(torch.equal(a.qkv.weight, b.qkv.weight) for a, b in zip(first.layers, second.layers, strict=True))


def test_tied_head_is_the_same_tensor(folder: Path) -> None:
    weights = load(folder)
    assert weights.head.weight is weights.embedding


def test_missing_tensor(folder: Path) -> None:
    change_tensors(folder, lambda tensors: tensors.pop("model.norm.weight"))
    with pytest.raises(ModelError, match=r"tensor model\.norm\.weight is missing; the checkpoint is not complete"):
        load(folder)


def test_wrong_shape(folder: Path) -> None:
    change_config(folder, intermediate_size=100)
    with pytest.raises(ModelError, match=r"has shape \[96, 64\], config\.json asks for \[100, 64\]"):
        load(folder)


def test_tensor_that_is_not_ours(folder: Path) -> None:
    change_tensors(folder, lambda tensors: tensors.update({"model.layers.0.mlp.experts.0": torch.zeros(3)}))
    with pytest.raises(ModelError, match=r"1 tensors are not part of this architecture, such as model\.layers\.0\.mlp"):
        load(folder)


def test_truncated_file(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1000])
    with pytest.raises(ModelError, match="damaged"):
        load(folder)


def test_missing_shard(tiny_qwen3: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(tiny_qwen3, tmp_path / "model")
    gone = sorted(folder.glob("*.safetensors"))[0]
    gone.unlink()
    with pytest.raises(ModelError, match=f"{gone.name} is named in the index but is not there"):
        load(folder)


def test_no_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelError, match=r"no \*\.safetensors file"):
        load(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"model_type": "mixtral"},
            "model type 'mixtral' is not one that this engine runs; it runs llama, qwen2, qwen3",
        ),
        ({"hidden_act": "gelu"}, "activation 'gelu' is not supported"),
        ({"quantization_config": {"quant_method": "awq"}}, r"quantised weights \(awq\) are not supported"),
        ({"use_sliding_window": True}, "sliding-window attention is not supported"),
        ({"num_key_value_heads": 3}, "4 query heads cannot share 3 KV heads evenly"),
        ({"rope_parameters": {"rope_type": "dynamic"}}, "rope type 'dynamic'"),
    ],
)
def test_models_that_we_would_compute_wrongly_are_refused(folder: Path, changes: dict[str, Any], message: str) -> None:
    change_config(folder, **changes)
    with pytest.raises(ModelError, match=message):
        read_config(folder)


def test_shape_of_qwen3_32b() -> None:
    raw = {
        "model_type": "qwen3",
        "vocab_size": 151936,
        "hidden_size": 5120,
        "intermediate_size": 25600,
        "num_hidden_layers": 64,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "max_position_embeddings": 40960,
        "rope_theta": 1e6,
        "attention_bias": False,
        "use_sliding_window": False,
    }
    config = parse_config(raw, "config.json")
    assert config.q_size == 8192
    assert config.kv_bytes_per_token(2) == 256 * 1024
    assert (config.qk_norm, config.qkv_bias, config.tie_word_embeddings) == (True, False, False)


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read as Linux counts it")
def test_loading_takes_no_second_copy(tmp_path: Path) -> None:
    """Peak memory grows by the model and its largest tensor, file pages included, not by two models."""
    folder = make_tiny_model(
        tmp_path / "big",
        "llama",
        tie_word_embeddings=True,
        hidden_size=512,
        intermediate_size=2048,
        num_hidden_layers=24,
        head_dim=64,
    )
    script = (
        "import resource, torch, pathlib, sys\n"
        "from qwen_batch.model.config import read_config\n"
        "from qwen_batch.model.weights import load_weights\n"
        "folder = pathlib.Path(sys.argv[1])\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "weights = load_weights(folder, read_config(folder), torch.float32, torch.device('cpu'))\n"
        "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)\n"
    )
    grown = int(subprocess.check_output([sys.executable, "-c", script, str(folder)]))
    size = (folder / "model.safetensors").stat().st_size
    assert size > 200e6
    assert grown < 1.25 * size
