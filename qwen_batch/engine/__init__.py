"""Requests -> Completions: scheduler, block manager, prefix tree, runner, sampler."""

import os

# Read by OpenMP when torch is loaded. Threads that wait for each other stop spinning early: readers work on the same
# cores, and a thread that spins while its partner is not scheduled makes a step take 20 times as long (measured on two
# Zen 4 cores beside one busy process, 2026-11-29: 4 requests of 100 tokens, 8 out, took 12.9 to 18.8 s without this and
# 0.7 s with it; on the idle machine 0.62 s without and 0.56 s with it).
os.environ.setdefault("GOMP_SPINCOUNT", "10000")

from qwen_batch.engine.config import EngineConfig
from qwen_batch.engine.engine import Engine, EngineStats

__all__ = ["Engine", "EngineConfig", "EngineStats"]
