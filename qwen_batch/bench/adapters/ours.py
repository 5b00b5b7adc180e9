"""This package's engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from qwen_batch.engine import Engine, EngineConfig
from qwen_batch.records import SamplingParams


class OurEngine:
    """All requests at once; the engine's own settings."""

    def __init__(self, options: dict[str, Any]) -> None:
        asked = {"device": options["device"], "dtype": options["dtype"], "threads": options["threads"]}
        self._engine = Engine.load_folder(
            Path(options["model"]), EngineConfig.from_options({**asked, **options["settings"]})
        )
        self._before = self._engine.stats

    def describe(self) -> str:
        return self._engine.describe()

    def prepare(self) -> None:
        self._engine.forget_prefixes()  # a run must not live on the one before
        self._before = self._engine.stats

    def run(self, prompts: list[list[int]], output_tokens: list[int]) -> list[tuple[int, ...]]:
        sampling = [SamplingParams(max_tokens=count, ignore_eos=True) for count in output_tokens]
        completions = self._engine.generate(prompts, sampling)
        for number, completion in enumerate(completions, 1):
            if completion.finish_reason == "error":
                raise RuntimeError(f"request {number} of {len(prompts)}: {completion.error}")
        return [completion.token_ids for completion in completions]

    def counters(self) -> dict[str, float]:
        before, after = self._before, self._engine.stats
        names = ("num_steps", "num_preemptions", "num_computed_tokens", "num_cached_tokens")
        return {name: getattr(after, name) - getattr(before, name) for name in names}


def load(options: dict[str, Any]) -> OurEngine:
    return OurEngine(options)
