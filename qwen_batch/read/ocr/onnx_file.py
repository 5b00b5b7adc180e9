"""Cuts the last layer off an ONNX model.

Such a file is a protocol buffer (https://protobuf.dev/programming-guides/encoding), its fields are listed in onnx.proto
(https://github.com/onnx/onnx). The package `onnx` would take longer to load than a page to read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

GRAPH = 7  # of ModelProto
NODE, INITIALIZER, OUTPUT = 1, 5, 12  # of GraphProto
NODE_INPUT, NODE_OUTPUT, NODE_TYPE = 1, 2, 4
TENSOR_DIMS, TENSOR_NAME, TENSOR_DATA = 1, 8, 9
VALUE_NAME = 1
VARINT, EIGHT_BYTES, LENGTH_DELIMITED, FOUR_BYTES = 0, 1, 2, 5  # types on the wire

LAST_LAYER = ("Softmax", "Add", "MatMul")  # from the end


class CutModel(NamedTuple):
    """A model that ends with softmax(features @ weights + bias), cut before that."""

    body: bytes  # an ONNX model; its only output is the features
    weights: Floats  # (features, classes)
    bias: Floats  # (classes,)


class Field(NamedTuple):
    number: int
    value: memoryview
    whole: memoryview  # with number, type and length


class Node(NamedTuple):
    """A step of a graph."""

    field: Field
    kind: str
    inputs: list[str]
    outputs: list[str]


def cut_off_last_layer(model: bytes) -> CutModel | None:
    """None: the model ends with something else."""
    fields = list(_fields(memoryview(model)))
    graph = list(_fields(next(field.value for field in fields if field.number == GRAPH)))
    output = next(field for field in graph if field.number == OUTPUT)
    layer = _last_layer([field for field in graph if field.number == NODE], _texts(output, VALUE_NAME)[0])
    if not layer:
        return None
    features, weights = layer[-1].inputs
    bias = next(node.inputs[1] for node in layer if node.kind == "Add")
    tensors = {name: field for field in graph if field.number == INITIALIZER for name in _texts(field, TENSOR_NAME)}
    if weights not in tensors or bias not in tensors:
        return None
    gone = {id(field) for field in (output, tensors[weights], tensors[bias], *(node.field for node in layer))}
    kept = [field.whole for field in graph if id(field) not in gone]
    named = _packed(OUTPUT, *_packed(VALUE_NAME, features.encode()))
    rest = [field.whole for field in fields if field.number != GRAPH]
    body = b"".join([*rest, *_packed(GRAPH, *kept, *named)])
    return CutModel(body, _tensor(tensors[weights]), _tensor(tensors[bias]))


def _last_layer(nodes: Sequence[Field], output: str) -> list[Node]:
    """What makes an output, from the end to the product of features and weights; empty: it is made otherwise."""
    layer: list[Node] = []
    wanted = list(LAST_LAYER)
    for node in map(_node, reversed(nodes)):  # each comes after what it needs
        if output not in node.outputs:
            continue
        if node.kind not in ("Identity", wanted[0]):
            break
        layer.append(node)
        output = node.inputs[0]
        if node.kind == wanted[0] and len(wanted) == 1:
            return layer
        wanted = wanted[node.kind == wanted[0] :]
    return []


def _node(field: Field) -> Node:
    kind = "".join(_texts(field, NODE_TYPE))
    return Node(field, kind, _texts(field, NODE_INPUT), _texts(field, NODE_OUTPUT))


def _tensor(field: Field) -> Floats:
    inner = list(_fields(field.value))
    dims = [value for part in inner if part.number == TENSOR_DIMS for value in _varints(part.value)]
    values = next(part.value for part in inner if part.number == TENSOR_DATA)
    return np.frombuffer(values, np.float32).reshape(dims).copy()  # lets the file go


def _texts(field: Field, number: int) -> list[str]:
    return [str(part.value, "utf-8") for part in _fields(field.value) if part.number == number]


def _fields(data: memoryview) -> Iterator[Field]:
    """Of a message, in order."""
    place = 0
    while place < len(data):
        key, start = _varint(data, place)
        kind = key & 7
        if kind == VARINT:
            end = _varint(data, start)[1]
        elif kind == LENGTH_DELIMITED:
            length, start = _varint(data, start)
            end = start + length
        else:
            end = start + {EIGHT_BYTES: 8, FOUR_BYTES: 4}[kind]
        yield Field(key >> 3, data[start:end], data[place:end])
        place = end


def _varints(data: memoryview) -> Iterator[int]:
    place = 0
    while place < len(data):
        value, place = _varint(data, place)
        yield value


def _varint(data: memoryview, place: int) -> tuple[int, int]:
    """A number, seven bits in a byte, the lowest first; and the place behind it."""
    value = shift = 0
    while True:
        byte = data[place]
        place += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, place


def _packed(number: int, *values: bytes | memoryview) -> list[bytes | memoryview]:
    """The parts of a field that has a length."""
    return [_as_varint(number << 3 | LENGTH_DELIMITED), _as_varint(sum(map(len, values))), *values]


def _as_varint(value: int) -> bytes:
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    return bytes([*made, value])
