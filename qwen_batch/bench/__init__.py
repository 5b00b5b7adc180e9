"""Measurements: this engine beside others, on the same requests, in the same run."""

from qwen_batch.bench.compare import Bench, BenchOptions
from qwen_batch.bench.engines import find_engines, find_variants
from qwen_batch.bench.result import Comparison, format_comparison
from qwen_batch.bench.workload import find_workload

__all__ = ["Bench", "BenchOptions", "Comparison", "find_engines", "find_variants", "find_workload", "format_comparison"]
