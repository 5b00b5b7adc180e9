"""transformers, in three ways: one request at a time, padded batches sorted by length, its own continuous batching."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import transformers

BATCH = 16  # requests in a padded batch
PAD = 0  # masked, or never looked at


class HfEngine:
    """`mode` is loop, batch or continuous."""

    def __init__(self, options: dict[str, Any]) -> None:
        transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        torch.set_num_threads(options["threads"])
        dtype = getattr(torch, options["dtype"])
        model: Any = transformers.AutoModelForCausalLM.from_pretrained(options["model"], dtype=dtype)
        self._model = model.to(options["device"]).eval()
        self._model.generation_config = _forced(1)
        self._mode = options["mode"]
        self._dtype = options["dtype"]

    def describe(self) -> str:
        return f"transformers {transformers.__version__}, {self._mode}, {self._dtype}"

    @torch.inference_mode()
    def run(self, prompts: list[list[int]], output_tokens: list[int]) -> list[list[int]]:
        if self._mode == "continuous":
            return self._continuous(prompts, output_tokens)
        answers: list[list[int]] = [[] for _ in prompts]
        for members in self._batches(prompts):
            longest = max(len(prompts[index]) for index in members)
            count = max(output_tokens[index] for index in members)
            rows = [[PAD] * (longest - len(prompts[index])) + prompts[index] for index in members]
            mask = [[0] * (longest - len(prompts[index])) + [1] * len(prompts[index]) for index in members]
            ids, attended = (torch.tensor(part, device=self._model.device) for part in (rows, mask))
            out = self._model.generate(ids, attention_mask=attended, generation_config=_forced(count))
            for row, index in enumerate(members):
                answers[index] = out[row, longest:].tolist()[: output_tokens[index]]
        return answers

    def _batches(self, prompts: list[list[int]]) -> Iterator[list[int]]:
        """Indices of the requests that are computed together."""
        if self._mode == "loop":
            yield from ([index] for index in range(len(prompts)))
            return
        order = sorted(range(len(prompts)), key=lambda index: -len(prompts[index]))
        yield from (order[start : start + BATCH] for start in range(0, len(order), BATCH))

    def _continuous(self, prompts: list[list[int]], output_tokens: list[int]) -> list[list[int]]:
        count = max(output_tokens)
        results = self._model.generate_batch(
            inputs=prompts,
            generation_config=_forced(count),
            continuous_batching_config=_continuous_config(self._model.device, prompts, count),
        )
        # Ids end in the place of the request, but other digits may come before it.
        by_place = sorted(results.values(), key=lambda result: int(result.request_id.rpartition("_")[2]))
        if [list(result.prompt_ids) for result in by_place] != prompts:
            raise RuntimeError("generate_batch answered other requests, or in another order")
        return [list(result.generated_tokens)[:wanted] for result, wanted in zip(by_place, output_tokens, strict=True)]


def _continuous_config(device: torch.device, prompts: list[list[int]], count: int) -> Any:
    """On CUDA its own choice; on a CPU it would size its memory for a card, so it gets what the requests need."""
    config = transformers.generation.ContinuousBatchingConfig  # type: ignore[attr-defined]
    if device.type == "cuda":
        return config()
    blocks = sum(-(-(len(prompt) + count) // 256) for prompt in prompts)
    return config(num_blocks=min(blocks + 8, 512), max_batch_tokens=512, use_cuda_graph=False)


def _forced(count: int) -> transformers.GenerationConfig:
    return transformers.GenerationConfig(  # type: ignore[no-untyped-call]
        max_new_tokens=count, do_sample=False, eos_token_id=None, pad_token_id=PAD, use_cache=True
    )


def load(options: dict[str, Any]) -> HfEngine:
    return HfEngine(options)
