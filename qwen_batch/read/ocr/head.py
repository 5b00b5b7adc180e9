"""The last layer of the model that reads lines, apart from the rest of it.

It tells 18,710 characters from each other at each step along a line, which took a seventh of the time. Here it looks at
those that are no ideographs, and at all of them only at steps where none of these is convincing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from qwen_batch.read.ocr.onnx_file import Floats, Model, Node

Integers = npt.NDArray[np.int64]

# A logit from which on a character is taken without a look at the ideographs. Of 136,000 steps of Latin and Chinese
# pages 12 % have less; beside an ideograph that was right none of the others had more than 17.8.
CLEAR = 20.0
IDEOGRAPHS = ((0x3400, 0x9FFF), (0xAC00, 0xD7A3), (0xF900, 0xFAFF), (0x20000, 0x3FFFF))  # Hangul syllables are some
LAST_LAYER = ("Softmax", "Add", "MatMul")  # from the end


class CutModel(NamedTuple):
    """A model that ends with softmax(features @ weights + bias), cut before that."""

    nodes: list[Node]
    features: str  # the output of the last node, (1, steps, features)
    weights: Floats  # (features, classes)
    bias: Floats  # (classes,)


def cut_off_last_layer(model: Model) -> CutModel | None:
    """None: the model ends with something else."""
    makers = {name: node for node in model.nodes for name in node.outputs}
    layer: list[Node] = []
    output = model.output
    for kind in LAST_LAYER:
        while (node := makers.get(output)) and node.kind in ("Identity", kind):
            layer.append(node)
            output = node.inputs[0]
            if node.kind == kind:
                break
        else:
            return None
    bias, weights = (model.tensor(node.inputs[1]) for node in layer if node.kind in ("Add", "MatMul"))
    if weights is None or bias is None:
        return None
    return CutModel([node for node in model.nodes if node not in layer], output, weights.copy(), bias.copy())


class Head:
    """softmax(features @ weights + bias), as far as it is needed."""

    def __init__(self, weights: Floats, bias: Floats, characters: Sequence[str]) -> None:
        """`weights`: (features, classes); `bias`: (classes,); `characters`: what the classes stand for."""
        self._weights, self._bias = weights, bias
        self._common = np.flatnonzero(~_are_ideographs(characters))
        self._common_weights = np.ascontiguousarray(weights[:, self._common])
        self._common_bias = bias[self._common]

    def best(self, features: Floats) -> tuple[Integers, Floats]:
        """The likeliest class at each step of a line, and its probability; `features`: (steps, features)."""
        found, logits, scores = _best(features @ self._common_weights + self._common_bias)
        classes = self._common[found]
        unclear = np.flatnonzero(logits < CLEAR)
        if len(unclear):
            classes[unclear], _, scores[unclear] = _best(features[unclear] @ self._weights + self._bias)
        return classes, scores


def _best(logits: Floats) -> tuple[Integers, Floats, Floats]:
    """Of each row: the column of the highest logit, that logit, and its probability."""
    found: Integers = logits.argmax(axis=1)
    highest: Floats = logits[np.arange(len(logits)), found]
    scores: Floats = 1 / np.exp(logits - highest[:, None]).sum(axis=1)
    return found, highest, scores


def _are_ideographs(characters: Sequence[str]) -> npt.NDArray[np.bool_]:
    points = np.array([ord(character[:1] or " ") for character in characters])
    flags = np.zeros(len(points), np.bool_)
    for first, last in IDEOGRAPHS:
        flags |= (first <= points) & (points <= last)
    return flags
