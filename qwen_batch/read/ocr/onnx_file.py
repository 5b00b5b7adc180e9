"""Models in ONNX files, taken apart and put together otherwise.

Such a file is a protocol buffer (https://protobuf.dev/programming-guides/encoding), its fields are listed in onnx.proto
(https://github.com/onnx/onnx). The package `onnx` would take longer to load than a page to read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Bytes = bytes | memoryview
Tensors = dict[str, npt.NDArray[Any]]

GRAPH = 7  # of ModelProto
NODE, INITIALIZER, OUTPUT, VALUE_INFO = 1, 5, 12, 13  # of GraphProto
NODE_INPUT, NODE_OUTPUT, NODE_TYPE, NODE_ATTRIBUTE = 1, 2, 4, 5
TENSOR_DIMS, TENSOR_TYPE, TENSOR_NAME, TENSOR_DATA = 1, 2, 8, 9
TENSOR_TYPES = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6}
VALUE_NAME = 1
VARINT, EIGHT_BYTES, LENGTH_DELIMITED, FOUR_BYTES = 0, 1, 2, 5  # types on the wire


class Field(NamedTuple):
    """Of a message."""

    number: int
    value: memoryview
    whole: memoryview  # with number, type and length


class Node(NamedTuple):
    """A step of a graph."""

    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: tuple[Bytes, ...] = ()  # as they stand in the file


class Model:
    """What an ONNX file says."""

    def __init__(self, data: bytes) -> None:
        fields = list(_fields(memoryview(data)))
        graph = list(_fields(next(field.value for field in fields if field.number == GRAPH)))
        self.nodes = [_node(field.value) for field in graph if field.number == NODE]  # each after what it needs
        self.output = next(_texts(field.value, VALUE_NAME)[0] for field in graph if field.number == OUTPUT)
        self._tensors = {_texts(f.value, TENSOR_NAME)[0]: f for f in graph if f.number == INITIALIZER}
        self._others = [f.whole for f in graph if f.number not in (NODE, INITIALIZER, OUTPUT, VALUE_INFO)]
        self._around = [field.whole for field in fields if field.number != GRAPH]

    def tensor(self, name: str) -> Floats | None:
        """A constant of 32-bit floating-point numbers, as it lies in the file; None: there is no such one."""
        if name not in self._tensors:
            return None
        fields = list(_fields(self._tensors[name].value))
        dims = [value for field in fields if field.number == TENSOR_DIMS for value in _varints(field.value)]
        values = next((field.value for field in fields if field.number == TENSOR_DATA), b"")
        return np.frombuffer(values, np.float32).reshape(dims)

    def rebuilt(self, nodes: Sequence[Node], outputs: Sequence[str], tensors: Tensors | None = None) -> bytes:
        """A file with other nodes, in whatever order, other outputs, further constants, and those of the old ones that
        are used."""
        used = {name for node in nodes for name in node.inputs}
        graph: list[Bytes] = [*self._others, *(field.whole for name, field in self._tensors.items() if name in used)]
        for node in nodes:
            graph += _packed(NODE, *_node_fields(node))
        for name, values in (tensors or {}).items():
            graph += _packed(INITIALIZER, *_tensor_fields(name, values))
        for name in outputs:
            graph += _packed(OUTPUT, *_packed(VALUE_NAME, name.encode()))
        return b"".join([*self._around, *_packed(GRAPH, *graph)])


def _node(data: memoryview) -> Node:
    found: dict[int, list[memoryview]] = {NODE_INPUT: [], NODE_OUTPUT: [], NODE_TYPE: [], NODE_ATTRIBUTE: []}
    for field in _fields(data):
        if field.number in found:
            found[field.number].append(field.whole if field.number == NODE_ATTRIBUTE else field.value)
    inputs, outputs = (tuple(str(name, "utf-8") for name in found[number]) for number in (NODE_INPUT, NODE_OUTPUT))
    return Node(str(found[NODE_TYPE][0], "utf-8"), inputs, outputs, tuple(found[NODE_ATTRIBUTE]))


def _node_fields(node: Node) -> Iterator[Bytes]:
    for number, names in ((NODE_INPUT, node.inputs), (NODE_OUTPUT, node.outputs), (NODE_TYPE, (node.kind,))):
        for name in names:
            yield from _packed(number, name.encode())
    yield from node.attributes


def _tensor_fields(name: str, values: npt.NDArray[Any]) -> Iterator[Bytes]:
    for size in values.shape:
        yield _as_varint(TENSOR_DIMS << 3) + _as_varint(size)
    yield _as_varint(TENSOR_TYPE << 3) + _as_varint(TENSOR_TYPES[values.dtype.name])
    yield from _packed(TENSOR_NAME, name.encode())
    yield from _packed(TENSOR_DATA, values.tobytes())


def _texts(data: memoryview, number: int) -> list[str]:
    return [str(field.value, "utf-8") for field in _fields(data) if field.number == number]


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


def _packed(number: int, *values: Bytes) -> list[Bytes]:
    """The parts of a field that has a length."""
    return [_as_varint(number << 3 | LENGTH_DELIMITED), _as_varint(sum(map(len, values))), *values]


def _as_varint(value: int) -> bytes:
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    return bytes([*made, value])
