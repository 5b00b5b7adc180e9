"""Moving outliers into the weights changes no function, and makes what is rounded to int8 nearer."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from qwen_batch.errors import ModelError
from qwen_batch.model.config import ModelConfig, read_config
from qwen_batch.model.layers import LayerWeights
from qwen_batch.model.linear import PlainLinear, make_linear
from qwen_batch.model.native_library import load_native
from qwen_batch.model.smoothing import Smoother
from qwen_batch.model.weights import load_weights

CPU = torch.device("cpu")
LINEARS = ("qkv", "output", "gate_up", "down")


def load(folder: Path) -> tuple[ModelConfig, Tensor, tuple[LayerWeights, ...]]:
    config = read_config(folder)
    weights = load_weights(folder, config, torch.float32, CPU)
    return config, weights.embedding, weights.layers


def hidden_states(smoother: Smoother, layers: tuple[LayerWeights, ...]) -> Tensor:
    for layer in layers:
        smoother.smooth(layer)
    assert smoother._delta is not None
    return smoother._residual + smoother._delta


@pytest.mark.parametrize("family", ["tiny_qwen3", "tiny_qwen2", "tiny_llama"])
def test_the_function_stays_the_same(family: str, request: pytest.FixtureRequest) -> None:
    config, embedding, layers = load(request.getfixturevalue(family))
    layers[0].input_norm[1] *= 20
    layers[0].post_norm[2] *= 20
    layers[0].qkv.weight[-1] *= 20  # type: ignore[attr-defined]
    layers[0].gate_up.weight[-1] *= 20  # type: ignore[attr-defined]
    before = [getattr(layers[0], name).weight.clone() for name in LINEARS]
    as_read = hidden_states(Smoother(config, embedding), layers)
    smoothed = hidden_states(Smoother(config, embedding), layers)  # runs the layers that the first has changed
    torch.testing.assert_close(smoothed, as_read, rtol=1e-5, atol=1e-5)
    for name, weight in zip(LINEARS, before, strict=True):
        ratio = getattr(layers[0], name).weight / weight
        logs = ratio[weight != 0].log2()
        assert torch.equal(logs, logs.round()), "factors are powers of two, so that nothing is rounded"
        assert logs.unique().numel() > 1, f"{name} was left as it was"


def test_an_outlier_costs_less(tiny_qwen3: Path) -> None:
    """One input that is 100 times as large as its neighbours."""
    try:
        native = load_native(torch.float32)
    except ModelError as error:
        pytest.skip(str(error))
    if not native.has_int8:
        pytest.skip("this CPU has no VNNI")
    config, embedding, layers = load(tiny_qwen3)
    x = torch.randn(200, config.hidden_size, generator=torch.Generator().manual_seed(1))

    def error(layer: LayerWeights) -> float:
        assert isinstance(layer.gate_up, PlainLinear)
        normed = x * layer.post_norm
        exact = normed @ layer.gate_up.weight.T
        rounded = make_linear(layer.gate_up.weight, None, native, int8=True)(normed)
        return float((rounded - exact).square().mean() / exact.square().mean())

    layers[0].post_norm[3] *= 100
    layers[0].gate_up.weight[:, 3] /= 100  # type: ignore[attr-defined]
    before = error(layers[0])
    Smoother(config, embedding).smooth(layers[0])
    assert error(layers[0]) < before / 4
