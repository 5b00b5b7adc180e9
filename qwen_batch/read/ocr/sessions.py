"""The PP-OCR models that rapidocr's wheel carries, each as one session of onnxruntime."""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime

Pixels = npt.NDArray[np.uint8]  # (height, width, 3), blue, green, red
Floats = npt.NDArray[np.float32]


@functools.cache
def model(name: str) -> Any:
    """The session for detection (det), reading (rec) or turned lines (cls)."""
    return open_model(str(model_file(name)))


def open_model(source: str | bytes) -> Any:
    """A session for a file or its content."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1  # there is a reading process for each core
    options.enable_cpu_mem_arena = False  # it would keep the memory of the largest picture
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def model_file(name: str) -> Path:
    """rapidocr's own file; the package is not imported for that."""
    spec = importlib.util.find_spec("rapidocr")
    folders = [Path(folder) / "models" for folder in (spec and spec.submodule_search_locations) or ()]
    found = sorted(file for folder in folders for file in folder.glob(f"*_{name}_*.onnx"))
    if not found:
        raise FileNotFoundError(f"rapidocr is here without its model *_{name}_*.onnx: install the extra `ocr` anew")
    return found[-1]


def run(session: Any, picture: Floats) -> Floats:
    """What a model makes of a picture (1, 3, height, width)."""
    result: Floats = session.run(None, {session.get_inputs()[0].name: picture})[0]
    return result


def normalised(picture: Pixels) -> Floats:
    """(1, 3, height, width), from -1 to 1."""
    return np.ascontiguousarray(picture.transpose(2, 0, 1)[None], np.float32) / np.float32(127.5) - np.float32(1)
