"""vLLM, offline, with token ids in and out. Written for its CPU build; a CUDA build takes the same calls."""

from __future__ import annotations

import os
from typing import Any


class VllmEngine:
    """All requests at once; vLLM's own settings but for the length and, on a CPU, the memory for keys and values."""

    def __init__(self, options: dict[str, Any]) -> None:
        # Read when vllm is imported. In one process there is no second one whose memory and time would be missed.
        os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
        os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "4")  # GiB
        os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
        import vllm

        self._vllm = vllm
        self._dtype = options["dtype"]
        self._llm = vllm.LLM(
            model=options["model"], dtype=options["dtype"], max_model_len=options["max_model_len"], seed=0
        )

    def describe(self) -> str:
        return f"vllm {self._vllm.__version__}, {self._dtype}"

    def prepare(self) -> None:
        self._llm.reset_prefix_cache()

    def run(self, prompts: list[list[int]], output_tokens: list[int]) -> list[list[int]]:
        sampling = [
            self._vllm.SamplingParams(temperature=0.0, max_tokens=count, ignore_eos=True, detokenize=False)
            for count in output_tokens
        ]
        done = self._llm.generate([{"prompt_token_ids": prompt} for prompt in prompts], sampling, use_tqdm=False)
        return [list(result.outputs[0].token_ids) for result in done]


def load(options: dict[str, Any]) -> VllmEngine:
    return VllmEngine(options)
