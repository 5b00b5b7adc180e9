"""The larger products of the reading model in eight-bit integers, which takes a line half of its time.

Weights get a scale for each output channel, what they are multiplied with one range for each product, as
onnxruntime.quantization does it (Jacob et al., CVPR 2018); the few numbers beyond it are cut (Banner et al., NeurIPS
2019). The ranges were found on lines of the sample documents, half of them blurred, with noise and JPEG's blocks
(`python -m qwen_batch.bench.ocr_ranges`), and hold for one file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from qwen_batch.read.ocr.onnx_file import Floats, Model, Node, Tensors

FILE, FILE_BYTES = "PP-OCRv6_rec_small.onnx", 21_234_383
CPU_INFO = Path("/proc/cpuinfo")
MIN_CHANNELS = 192  # in and out; smaller products of 96 gain 3 % of the time


class Ranges(NamedTuple):
    """What goes into a product and what comes out of it, its bias included: from, to."""

    x: tuple[float, float]
    y: tuple[float, float]


# By the name of the weights.
RANGES: Mapping[str, Ranges] = {
    "conv2d_87.w_0": Ranges((-0.1615, 3.723), (-1.858, 1.894)),
    "conv2d_90.w_0": Ranges((-0.7626, 0.9846), (-3.032, 2.611)),
    "conv2d_91.w_0": Ranges((-0.17, 3.121), (-3.264, 2.961)),
    "conv2d_94.w_0": Ranges((-1.748, 2.351), (-4.342, 1.623)),
    "conv2d_95.w_0": Ranges((-0.17, 1.806), (-4.537, 4.458)),
    "conv2d_98.w_0": Ranges((-1.273, 0.7773), (-3.483, 2.135)),
    "conv2d_99.w_0": Ranges((-0.17, 2.343), (-2.379, 2.703)),
    "conv2d_102.w_0": Ranges((-1.759, 1.696), (-4.278, 1.401)),
    "conv2d_103.w_0": Ranges((-0.17, 2.094), (-3.025, 4.51)),
    "conv2d_106.w_0": Ranges((-0.6026, 0.6749), (-3.225, 2.193)),
    "conv2d_107.w_0": Ranges((-0.17, 2.012), (-3.375, 2.14)),
    "conv2d_110.w_0": Ranges((-1.291, 1.666), (-2.667, 1.264)),
    "conv2d_111.w_0": Ranges((-0.17, 1.434), (-3.551, 3.704)),
    "conv2d_113.w_0": Ranges((-2.475, 2.873), (-5.032, 3.451)),
    "conv2d_114.w_0": Ranges((-0.17, 3.775), (-1.435, 1.945)),
    "conv2d_117.w_0": Ranges((-0.7056, 0.6511), (-4.041, 2.554)),
    "conv2d_118.w_0": Ranges((-0.17, 2.888), (-3.062, 2.746)),
    "conv2d_121.w_0": Ranges((-5.849, 4.529), (-4.879, 2.141)),
    "conv2d_122.w_0": Ranges((-0.17, 2.701), (-8.657, 8.219)),
}


class Product(NamedTuple):
    """A convolution by one pixel, with the bias that is added to it."""

    convolution: Node
    addition: Node
    weights: Floats  # (out, in, 1, 1)
    bias: Floats  # (out,)

    @property
    def name(self) -> str:
        return self.convolution.inputs[1]


def find_products(model: Model) -> Iterator[Product]:
    """Those that are large enough."""
    makers = {name: node for node in model.nodes for name in node.outputs}
    users: dict[str, list[Node]] = {}
    for node in model.nodes:
        for name in node.inputs:
            users.setdefault(name, []).append(node)
    for node in model.nodes:
        if node.kind != "Conv" or (weights := model.tensor(node.inputs[1])) is None:
            continue
        (addition, *others) = users[node.outputs[0]]
        is_large = weights.shape[2:] == (1, 1) and min(weights.shape[:2]) >= MIN_CHANNELS
        if not is_large or others or addition.kind != "Add" or addition.inputs[0] != node.outputs[0]:
            continue
        bias = addition.inputs[1]
        while (maker := makers.get(bias)) and maker.kind in ("Reshape", "Identity"):
            bias = maker.inputs[0]
        if (values := model.tensor(bias)) is not None and values.size == len(weights):
            yield Product(node, addition, weights, values.reshape(-1))


def is_known(file: Path) -> bool:
    """Whether the ranges are those of this file."""
    return file.name == FILE and file.stat().st_size == FILE_BYTES


def is_fast() -> bool:
    """Whether this processor multiplies eight-bit integers faster than floating-point numbers, and without overflow:
    what x86 calls VNNI."""
    try:
        flags = CPU_INFO.read_text(encoding="utf-8")
    except OSError:
        return False
    return "avx512_vnni" in flags or "avx_vnni" in flags


def quantised(model: Model, nodes: Sequence[Node]) -> tuple[list[Node], Tensors]:
    """The nodes of a file that is known, with integer products, and the constants that these need."""
    products = [product for product in find_products(model) if product.name in RANGES]
    gone = {id(node) for product in products for node in (product.convolution, product.addition)}
    made = [node for node in nodes if id(node) not in gone]
    tensors: Tensors = {}
    for product in products:
        own, constants = _integer_nodes(product, RANGES[product.name])
        made += own
        tensors |= constants
    return made, tensors


def _integer_nodes(product: Product, ranges: Ranges) -> tuple[list[Node], Tensors]:
    name = product.name
    (x_scale, x_zero), (y_scale, y_zero) = map(_scale_and_zero, ranges)
    flat = product.weights.reshape(len(product.weights), -1)
    scales = np.maximum(np.abs(flat).max(axis=1), np.float32(1e-12)) / np.float32(127)
    weights = np.round(product.weights / scales[:, None, None, None]).astype(np.int8)
    bias = np.round(product.bias / (scales * x_scale)).astype(np.int32)
    constants = {"x_scale": x_scale, "x_zero": x_zero, "y_scale": y_scale, "y_zero": y_zero, "w": weights}
    constants |= {"w_scale": scales, "w_zero": np.zeros(len(scales), np.int8), "b": bias}
    at = {key: f"{name}/{key}" for key in constants}
    x, y = f"{name}/x", f"{name}/y"
    factors = (
        x,
        at["x_scale"],
        at["x_zero"],
        at["w"],
        at["w_scale"],
        at["w_zero"],
        at["y_scale"],
        at["y_zero"],
        at["b"],
    )
    nodes = [
        Node("QuantizeLinear", (product.convolution.inputs[0], at["x_scale"], at["x_zero"]), (x,)),
        Node("QLinearConv", factors, (y,), product.convolution.attributes),
        Node("DequantizeLinear", (y, at["y_scale"], at["y_zero"]), product.addition.outputs),
    ]
    return nodes, {at[key]: np.asarray(value) for key, value in constants.items()}


def _scale_and_zero(bounds: tuple[float, float]) -> tuple[np.float32, np.uint8]:
    """What one of the 256 steps of a range is worth, and which of them is zero."""
    low, high = min(0.0, bounds[0]), max(0.0, bounds[1])
    scale = (high - low) / 255
    return np.float32(scale), np.uint8(round(-low / scale))
