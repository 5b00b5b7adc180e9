"""A recognition model, taken apart: its last layer runs by itself, its large products in integers."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qwen_batch.read.ocr import int8
from qwen_batch.read.ocr.head import CLEAR, Head, cut_off_last_layer
from qwen_batch.read.ocr.onnx_file import Floats, Model

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


def tensor(name: str, values: Floats) -> bytes:
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
    content = Model(whole)
    cut = cut_off_last_layer(content)
    assert cut is not None
    body = content.rebuilt(cut.nodes, [cut.features])
    assert WEIGHTS.tobytes() not in body
    assert (cut.weights == WEIGHTS).all()
    assert (cut.bias == BIAS).all()
    x = np.array([[[1, -2, 3], [0.5, 0, -1]]], np.float32)
    wanted, features = (runtime.InferenceSession(file).run(None, {"x": x})[0] for file in (whole, body))
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
    assert cut_off_last_layer(Model(other)) is None


def run(file: bytes, x: Floats) -> Floats:
    session = pytest.importorskip("onnxruntime").InferenceSession(file)
    found: Floats = session.run(None, {"x": x})[0]
    return found


def products(random: np.random.Generator, size: int) -> bytes:
    """x (1, size, 1, 5) by two matrices, each with a bias, and the sum of what both make."""
    tensors = [tensor(f"w{n}", random.normal(0, 0.1, (size, size, 1, 1)).astype(np.float32)) for n in (1, 2)]
    tensors += [tensor(f"b{n}", random.normal(size=(1, size, 1, 1)).astype(np.float32)) for n in (1, 2)]
    nodes = [
        node("Identity", "b1", "b"),
        node("Conv", "x", "w1", "p"),
        node("Add", "p", "b", "q"),
        node("Relu", "q", "r"),
    ]
    nodes += [node("Conv", "r", "w2", "s"), node("Add", "s", "b2", "t"), node("Add", "t", "r", "y")]
    parts = [*nodes, field(2, b"graph"), *tensors, value(11, "x", 1, size, 1, 5), value(12, "y", 1, size, 1, 5)]
    return field(1, 8) + field(7, b"".join(parts)) + field(8, field(1, b"") + field(2, OPSET))


def test_large_products_run_in_integers(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    file = products(random, int8.MIN_CHANNELS)
    x = random.normal(size=(1, int8.MIN_CHANNELS, 1, 5)).astype(np.float32)
    model = Model(file)
    assert [(product.name, product.bias.shape) for product in int8.find_products(model)] == [
        ("w1", (int8.MIN_CHANNELS,)),
        ("w2", (int8.MIN_CHANNELS,)),
    ]
    monkeypatch.setattr(
        int8, "RANGES", {"w1": int8.Ranges((-4, 4), (-7, 7)), "w2": int8.Ranges((0, 7), (-11, 11)), "other": None}
    )
    nodes, tensors = int8.quantised(model, model.nodes)
    assert sorted(node.kind for node in nodes if "Linear" in node.kind) == sorted(
        ["QuantizeLinear", "QLinearConv", "DequantizeLinear"] * 2
    )
    wanted, found = run(file, x), run(model.rebuilt(nodes, [model.output], tensors), x)
    assert np.abs(found - wanted).max() < 0.03 * np.abs(wanted).max()
    assert (found != wanted).any()


def test_small_products_and_those_without_a_bias_stay() -> None:
    assert not list(int8.find_products(Model(products(np.random.default_rng(0), 96))))
    file = products(np.random.default_rng(0), int8.MIN_CHANNELS)
    assert not list(int8.find_products(Model(file.replace(b"Add", b"Sub"))))


def test_ranges_are_for_one_file_and_one_kind_of_processor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size, known in (
        (int8.FILE, int8.FILE_BYTES, True),
        (int8.FILE, int8.FILE_BYTES + 1, False),
        ("PP-OCRv7_rec_small.onnx", int8.FILE_BYTES, False),
    ):
        with (tmp_path / name).open("wb") as file:
            file.truncate(size)
        assert int8.is_known(tmp_path / name) is known
    for flags, fast in (("fma avx2 avx512_vnni", True), ("avx_vnni", True), ("fma avx2 avx512f", False)):
        monkeypatch.setattr(Path, "read_text", lambda self, encoding, flags=flags: f"flags : {flags}\n")
        assert int8.is_fast() is fast
    monkeypatch.undo()
    monkeypatch.setattr(int8, "CPU_INFO", tmp_path / "none")
    assert not int8.is_fast()


@pytest.mark.skipif(find_spec("rapidocr") is None, reason="the extra `ocr` is not installed")
def test_the_ranges_belong_to_the_model_that_is_installed() -> None:
    sessions = pytest.importorskip("qwen_batch.read.ocr.sessions")
    file = sessions.model_file("rec")
    if not int8.is_known(file):
        pytest.skip("another release of rapidocr")
    names = {product.name for product in int8.find_products(Model(file.read_bytes()))}
    assert names == int8.RANGES.keys()
