"""The ranges of numbers inside the model that reads lines, which its integer products need (read/ocr/int8.py).

    python -m qwen_batch.bench.ocr_ranges FILE.pdf...

Lines of the first page of each file are read, and those of the same page blurred, with noise, and compressed; what is
printed is the table RANGES.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import cv2
import numpy as np

from qwen_batch.read.ocr.int8 import Product, find_products
from qwen_batch.read.ocr.onnx_file import Model
from qwen_batch.read.ocr.picture import as_pixels, cut_out, find_boxes
from qwen_batch.read.ocr.reading import SQUEEZE, squeezed
from qwen_batch.read.ocr.sessions import Floats, Pixels, model_file, open_model
from qwen_batch.read.page.file import PdfFile

SCALE = 200 / 72  # pixels a point
LINES = 6  # of each picture, by lot
BLUR = 1.0  # pixels
NOISE = 12  # levels of grey, standard deviation
JPEG_QUALITY = 35
SAMPLES = 3000  # numbers of each line and end of a product
PARTS = np.linspace(0.3, 1, 15)  # of the lowest and the highest number
DIGITS = 4


def main(arguments: Sequence[str]) -> None:
    model = Model(model_file("rec").read_bytes())
    products = list(find_products(model))
    wanted = sorted({name for product in products for name in _ends(product)})
    session = open_model(model.rebuilt(model.nodes, wanted))
    random = np.random.default_rng(0)
    seen: dict[str, list[Floats]] = {name: [] for name in wanted}
    for line in _lines(map(Path, arguments), random):
        for name, values in zip(wanted, session.run(wanted, {"x": line}), strict=True):
            seen[name].append(random.choice(values.reshape(-1), SAMPLES))
    for product in products:
        ends = (_range(np.concatenate(seen[name])) for name in _ends(product))
        print(f'    "{product.name}": Ranges({", ".join(ends)}),')


def _range(values: Floats) -> str:
    """The bounds whose 256 steps stand for the values with the least squared error; few lie beyond."""
    bounds = itertools.product(values.min() * PARTS, values.max() * PARTS)
    low, high = min(bounds, key=lambda ends: _error(values, *ends))
    return f"({low:.{DIGITS}g}, {high:.{DIGITS}g})"


def _error(values: Floats, low: float, high: float) -> float:
    scale = (high - low) / 255
    zero = round(-low / scale)
    steps = np.clip(np.round(values / scale) + zero, 0, 255) - zero
    return float(np.square(steps * scale - values).sum())


def _ends(product: Product) -> tuple[str, str]:
    return product.convolution.inputs[0], product.addition.outputs[0]


def _lines(files: Iterator[Path], random: np.random.Generator) -> Iterator[Floats]:
    for file in files:
        with PdfFile(file) as document, document.page(0) as page:
            picture = page.render(SCALE)
        pixels = as_pixels(picture.data, picture.width, picture.height)
        for version in (pixels, _worn(pixels, random)):
            boxes = find_boxes(version)
            for number in random.choice(len(boxes), min(LINES, len(boxes)), replace=False):
                yield squeezed(cut_out(version, boxes[number]), SQUEEZE)


def _worn(picture: Pixels, random: np.random.Generator) -> Pixels:
    """Blurred, with noise, and compressed."""
    noisy = cv2.GaussianBlur(picture, (0, 0), BLUR) + random.normal(0, NOISE, picture.shape)
    compressed = cv2.imencode(".jpg", np.clip(noisy, 0, 255).astype(np.uint8), [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY])
    return np.asarray(cv2.imdecode(compressed[1], cv2.IMREAD_COLOR), np.uint8)


if __name__ == "__main__":
    main(sys.argv[1:])
