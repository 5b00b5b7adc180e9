"""The last layer of a recognition model, cut off its file and run apart."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qwen_batch.read.ocr.head import CLEAR, Head
from qwen_batch.read.ocr.onnx_file import cut_off_last_layer

CHARACTERS = ["", "a", "é", "，", "口", "行", " "]
FLOAT, OPSET = 1, 13


def test_an_ideograph_is_found_where_nothing_else_is_convincing() -> None:
    head = Head(np.eye(7, dtype=np.float32), np.zeros(7, np.float32), CHARACTERS)
    steps = np.zeros((4, 7), np.float32)
    steps[0, 1], steps[0, 4] = CLEAR + 5, CLEAR - 5
    steps[1, 3], steps[1, 5] = CLEAR - 5, CLEAR + 5
    steps[2, 0] = CLEAR + 1
    steps[3, 2], steps[3, 4] = CLEAR - 1, CLEAR - 2
    classes, scores = head.best(steps)
    assert [CHARACTERS[number] for number in classes] == ["a", "行", "", "é"]
    assert scores == pytest.approx([1, 1, 1, 1 / (1 + np.exp(-1))], abs=1e-4)


@given(st.integers(0, 2**32 - 1))
def test_unclear_steps_get_what_the_whole_layer_says(seed: int) -> None:
    random = np.random.default_rng(seed)
    weights, bias = random.uniform(-1, 1, (5, 7)).astype(np.float32), random.normal(size=7).astype(np.float32)
    steps = random.normal(size=(9, 5)).astype(np.float32)
    logits = steps @ weights + bias
    assert logits.max() < CLEAR
    classes, scores = Head(weights, bias, CHARACTERS).best(steps)
    whole = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    assert (classes == whole.argmax(axis=1)).all()
    assert scores == pytest.approx(whole.max(axis=1), rel=1e-5)


def varint(value: int) -> bytes:
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + varint(value >> 7)


def field(number: int, value: bytes | int) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def node(kind: str, *names: str) -> bytes:
    *inputs, output = names
    named = [field(1, name.encode()) for name in inputs] + [field(2, output.encode())]
    return field(1, b"".join([*named, field(4, kind.encode())]))


def tensor(name: str, values: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> bytes:
    dims = b"".join(field(1, size) for size in values.shape)
    return field(5, dims + field(2, FLOAT) + field(8, name.encode()) + field(9, values.tobytes()))


def value(number: int, name: str, *sizes: int) -> bytes:
    shape = b"".join(field(1, field(1, size)) for size in sizes)
    return field(number, field(1, name.encode()) + field(2, field(1, field(1, FLOAT) + field(2, shape))))


WEIGHTS = np.arange(12, dtype=np.float32).reshape(3, 4) / 10
BIAS = np.array([1, -1, 0.5, 300], np.float32) / 100


def model(*last: bytes, bias: bytes | None = None) -> bytes:
    """relu(x), then `last`."""
    parts = [node("Relu", "x", "features"), *last, field(2, b"graph"), tensor("w", WEIGHTS)]
    parts += [tensor("b", BIAS) if bias is None else bias, value(11, "x", 1, 2, 3), value(12, "y", 1, 2, 4)]
    return field(1, 8) + field(7, b"".join(parts)) + field(8, field(1, b"") + field(2, OPSET))


LAYER = [node("MatMul", "features", "w", "p"), node("Identity", "p", "q"), node("Add", "q", "b", "s")]


def test_what_is_cut_off_and_what_is_left_make_the_whole() -> None:
    runtime = pytest.importorskip("onnxruntime")
    whole = model(*LAYER, node("Softmax", "s", "y"))
    cut = cut_off_last_layer(whole)
    assert cut is not None
    assert (cut.weights == WEIGHTS).all()
    assert (cut.bias == BIAS).all()
    x = np.array([[[1, -2, 3], [0.5, 0, -1]]], np.float32)
    wanted, features = (runtime.InferenceSession(file).run(None, {"x": x})[0] for file in (whole, cut.body))
    assert (features == np.maximum(x, 0)).all()
    logits = np.exp(features @ cut.weights + cut.bias)
    assert logits / logits.sum(axis=-1, keepdims=True) == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize(
    "other",
    [
        model(*LAYER, node("Sigmoid", "s", "y")),
        model(*LAYER[:2], node("Mul", "q", "b", "s"), node("Softmax", "s", "y")),
        model(node("Softmax", "features", "y")),
        model(node("Identity", "b", "c"), *LAYER[:2], node("Add", "q", "c", "s"), node("Softmax", "s", "y")),
    ],
    ids=["no softmax", "no sum", "no layer", "bias is made"],
)
def test_a_model_that_ends_otherwise_is_left_whole(other: bytes) -> None:
    assert cut_off_last_layer(other) is None
