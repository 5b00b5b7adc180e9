"""Names of models -> folders that hold them.

A name is a folder with config.json and safetensors, the word `demo`, or a Hugging Face id such as Qwen/Qwen3-0.6B.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from qwen_batch.errors import ModelError
from qwen_batch.model import hub
from qwen_batch.model.checksums import model_sha256, weight_files
from qwen_batch.model.demo import NAME, UNREACHABLE, demo_folder, has_demo, pull_demo
from qwen_batch.model.home import home

__all__ = ["UNREACHABLE", "ModelFiles", "ModelInfo", "home", "list_models", "model_sha256", "pull", "resolve_model"]


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """A model that is on this machine."""

    name: str  # as it was asked for
    folder: Path  # absolute; holds config.json, the tokenizer and safetensors


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A model in one of the caches."""

    name: str
    folder: Path
    num_bytes: int
    source: Literal["demo", "huggingface"]


def resolve_model(name: str, revision: str | None = None, *, report: Callable[[str], None]) -> ModelFiles:
    """Find the model, fetching it only when it is not on this machine; `report` gets a line for each slow step.

    Raises ModelError that says what to do.
    """
    if name == NAME:
        return ModelFiles(name, pull_demo(report))
    if _is_path(name):
        return ModelFiles(name, _check(Path(name).expanduser(), name))
    folder = hub.find_cached(name, revision) or hub.fetch(name, revision, report)
    return ModelFiles(name, _check(folder, name))


def pull(name: str, revision: str | None, report: Callable[[str], None]) -> Path:
    """Fetch the model, or what changed of it, and return its folder. A folder is only checked."""
    if name == NAME or _is_path(name):
        return resolve_model(name, revision, report=report).folder
    return _check(hub.fetch(name, revision, report), name)


def list_models() -> tuple[ModelInfo, ...]:
    """The models in the caches, `demo` first. Folders elsewhere are not known."""
    cached = tuple(ModelInfo(*entry, source="huggingface") for entry in hub.list_cached())
    if not has_demo():
        return cached
    num_bytes = sum(file.stat().st_size for file in demo_folder().iterdir())
    return (ModelInfo(NAME, demo_folder(), num_bytes, source="demo"), *cached)


def _is_path(name: str) -> bool:
    """Whether the name means a place on this machine, there or not; what is there goes before a Hugging Face id."""
    looks = name.startswith((".", "/", "~")) or name.count("/") > 1 or name.endswith((".gguf", ".safetensors"))
    return looks or (name != "" and Path(name).exists())


def _check(folder: Path, name: str) -> Path:
    """The folder, absolute, when it holds what we load."""
    if not folder.exists():
        raise ModelError(f"{name}: no such folder; name a folder with config.json, a Hugging Face id, or `demo`")
    if folder.suffix == ".gguf" or (folder.is_dir() and not _has_weights(folder) and any(folder.glob("*.gguf"))):
        raise ModelError(f"{name}: GGUF files are not loaded; name the model's original form, with safetensors")
    if not folder.is_dir():
        raise ModelError(f"{name}: this is a file; name the folder that holds config.json and the safetensors")
    if not (folder / "config.json").is_file():
        raise ModelError(f"{name}: there is no config.json in {folder}; name the folder that holds it")
    if not _has_weights(folder):
        raise ModelError(
            f"{name}: there are no safetensors in {folder}; pickled weights (.bin, .pt) are not loaded because they "
            "can run code, so convert them once with save_pretrained of transformers"
        )
    return folder.absolute()


def _has_weights(folder: Path) -> bool:
    return bool(weight_files(folder))
