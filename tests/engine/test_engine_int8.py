"""`weights: int8` through the engine: near the model, named in the precision, refused where it is not."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tiny_models import make_tiny_model

from qwen_batch.engine import Engine, EngineConfig
from qwen_batch.errors import ModelError, UsageError
from qwen_batch.model.native_library import load_native
from qwen_batch.records import SamplingParams


def test_demo_answers_in_int8(demo_model: Path) -> None:
    prompt = "The capital of France is Paris. The capital of Italy is Rome. The capital of Spain is"
    params = SamplingParams(max_tokens=1)
    try:
        engine = Engine.load_folder(demo_model, EngineConfig(device="cpu", weights="int8", dtype="bfloat16"))
    except ModelError as error:
        pytest.skip(str(error))
    assert engine.precision == "bfloat16-int8"
    assert "bfloat16-int8" in engine.describe()
    assert engine.generate([prompt], params)[0].text.strip() == "Madrid"


def test_int8_is_refused_where_it_is_not_there(tiny_qwen3: Path) -> None:
    with pytest.raises(ModelError, match=r"engine\.weights int8: .* need dtype .* use weights auto"):
        Engine.load_folder(tiny_qwen3, EngineConfig(device="cpu", backend="torch", weights="int8"))
    with pytest.raises(UsageError, match="weights 'int4' is not one of auto, int8"):
        EngineConfig(weights="int4")  # type: ignore[arg-type]


def test_a_model_of_which_nothing_can_be_rounded_is_refused(tmp_path: Path) -> None:
    folder = make_tiny_model(
        tmp_path / "odd", "llama", hidden_size=96, intermediate_size=96, head_dim=24, tie_word_embeddings=True
    )
    try:
        if not load_native(torch.float32).has_int8:
            pytest.skip("this CPU has no VNNI")
    except ModelError as error:
        pytest.skip(str(error))
    with pytest.raises(ModelError, match="no product of this model has a multiple of 64 inputs"):
        Engine.load_folder(folder, EngineConfig(device="cpu", dtype="float32", weights="int8"))


@pytest.mark.parametrize("name", ["num_blocks", "max_model_len", "kv_memory"])
def test_sizes_that_cannot_be_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"{name} must be at least 1"):
        EngineConfig.from_options({name: 0})
