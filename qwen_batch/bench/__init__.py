"""Measurements: this engine beside transformers, on the same requests, in the same run."""

from qwen_batch.bench.compare import Comparison, compare, format_comparison

__all__ = ["Comparison", "compare", "format_comparison"]
