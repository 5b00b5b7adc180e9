"""Lines that were cut out of a picture: which way up they stand, and what they say.

They are read one by one, at their own width, without padding. Reading is CTC (Graves et al., ICML 2006).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

from qwen_batch.read.ocr import int8
from qwen_batch.read.ocr.head import Head, cut_off_last_layer
from qwen_batch.read.ocr.onnx_file import Model, Tensors
from qwen_batch.read.ocr.sessions import Floats, Pixels, model, model_file, normalised, open_model, run

HEIGHT = 48
MIN_WIDTH = 160
MAX_WIDTH = 1920
WIDTH_STEP = 32  # lines of like widths have memory of one size
# Lines are squeezed by so much first, with cubic interpolation, and read again where they are not sure, as handwriting
# is. Of the words of 26 pages (Latin and Chinese, 11 of them blurred, with noise and JPEG's blocks) 94.87 % are
# found so, 94.85 % with 0.75, 94.79 % with 0.85, 94.55 % at full width, which blurred pages do not bear.
SQUEEZE = 0.8
SURE = 0.95  # mean probability; a line that is read with less is read again, not squeezed
TURN_WIDTH = 192  # pixels of a line's beginning that tell whether it is upside down
TURN_SAMPLES = 8  # lines, the longest, that decide for all of a page that run the same way
TURN_SURE = 0.9


def line_width(crop: Pixels) -> float:
    """Of a line, in pixels, when it is as high as the models take it."""
    high, wide = crop.shape[:2]
    return float(HEIGHT * wide / high)


def are_upside_down(crops: Sequence[Pixels]) -> bool:
    """Whether most of the longest lines say so, and are sure. One line alone may be anything."""
    longest = sorted(crops, key=line_width, reverse=True)[:TURN_SAMPLES]
    turned = (run(model("cls"), _fitted(crop, line_width(crop), TURN_WIDTH))[0, 1] for crop in longest)
    return 2 * sum(float(probability) > TURN_SURE for probability in turned) > len(longest)


def read_line(crop: Pixels) -> tuple[str, float]:
    """Text of one line, and the mean probability of its characters: squeezed, and as it is where that is not sure."""
    first = _read_at(crop, SQUEEZE)
    return first if first[1] >= SURE else max(first, _read_at(crop, 1.0), key=lambda found: found[1])


def _read_at(crop: Pixels, squeeze: float) -> tuple[str, float]:
    session, head, characters = _reader()
    seen = run(session, squeezed(crop, squeeze))[0]
    classes, scores = head.best(seen) if head else (seen.argmax(axis=1), seen.max(axis=1))
    is_new = np.concatenate(([True], classes[1:] != classes[:-1])) & (classes > 0)  # class 0 parts equal characters
    if not is_new.any():
        return "", 0.0
    return "".join(characters[classes[is_new]]), float(scores[is_new].mean())


def squeezed(crop: Pixels, squeeze: float) -> Floats:
    """A line as the model for reading takes it, at so much of its width: (1, 3, HEIGHT, width)."""
    wanted = squeeze * line_width(crop)
    return _fitted(crop, wanted, min(MAX_WIDTH, max(MIN_WIDTH, math.ceil(wanted / WIDTH_STEP) * WIDTH_STEP)))


def _fitted(crop: Pixels, wanted: float, width: int) -> Floats:
    """A line as high as the models take it and as wide as wanted, filled up with grey to the width, or squeezed
    into it."""
    fitting = min(width, math.ceil(wanted))
    made = np.zeros((1, 3, HEIGHT, width), np.float32)
    made[..., :fitting] = normalised(cv2.resize(crop, (fitting, HEIGHT), interpolation=cv2.INTER_CUBIC))
    return made


class _Reader(NamedTuple):
    """The model for reading, without its last layer where that is known, in integers where that is fast."""

    session: Any
    head: Head | None  # its last layer; None: the session gives probabilities, (steps, classes)
    characters: npt.NDArray[np.str_]  # what the classes stand for; the last is the space


@functools.cache
def _reader() -> _Reader:
    file = model_file("rec")
    content = Model(file.read_bytes())
    cut = cut_off_last_layer(content)
    nodes, output = (cut.nodes, cut.features) if cut else (content.nodes, content.output)
    tensors: Tensors = {}
    if int8.is_known(file) and int8.is_fast():
        nodes, tensors = int8.quantised(content, nodes)
    session = open_model(content.rebuilt(nodes, [output], tensors))
    listed = session.get_modelmeta().custom_metadata_map["character"].split("\n")
    while listed and not listed[-1]:
        listed.pop()
    characters = ["", *(line.rstrip("\r") for line in listed), " "]
    return _Reader(session, Head(cut.weights, cut.bias, characters) if cut else None, np.array(characters))
