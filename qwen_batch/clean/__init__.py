"""Cleaning: from pages as they were printed to text that a model can read."""

from __future__ import annotations

from qwen_batch.clean.steps import clean_document

__all__ = ["clean_document"]
