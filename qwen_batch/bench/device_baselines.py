"""transformers on a published shape with random weights: one request at a time, padded, its continuous batching."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import transformers

from qwen_batch.bench.roofline import Rates
from qwen_batch.bench.shapes import SHAPES, Work, flops_per_request
from qwen_batch.model.config import ModelConfig

Prompts = Sequence[Sequence[int]]
# Shares of the card's rates that transformers is expected to reach, and what the host needs for a layer: for what still
# fits the time, and for nothing else.
EXPECTED_SHARE = 0.3
HOST_SECONDS_PER_LAYER = 0.5e-3


def baselines(work: Work, *, tiny: bool) -> tuple[tuple[str, int, Callable[[Any, Prompts, int], None]], ...]:
    """(who, number of requests, how): rates from few requests, for whole workloads would take hours."""
    if work.prompt_tokens > 8000:  # a padded batch of one is one by one
        return (("transformers one by one", 1, one_by_one), ("transformers continuous batching", 2, continuous))
    batch = 2 if tiny else 16
    return (
        ("transformers one by one", 2, one_by_one),
        ("transformers padded batch", batch, padded),
        ("transformers continuous batching", 2 * batch, continuous),
    )


def expected_seconds(config: ModelConfig, work: Work, num_requests: int, rates: Rates, *, one_by_one: bool) -> float:
    """What a baseline takes, to within a factor of two or so."""
    weight_bytes = 2.0 * config.num_layers * config.hidden_size * (2 * config.q_size + 3 * config.intermediate_size)
    step = weight_bytes / (EXPECTED_SHARE * rates.copy_bytes) + config.num_layers * HOST_SECONDS_PER_LAYER
    steps = work.output_tokens * (num_requests if one_by_one else 1)
    flops = num_requests * flops_per_request(config, work)
    return flops / (EXPECTED_SHARE * rates.matmul_flops) + steps * step


def transformers_model(name: str, dtype: torch.dtype, device: torch.device) -> Any:
    """The shape in transformers, its weights drawn on the device and never on the host."""
    config = transformers.Qwen3Config(**{key: value for key, value in SHAPES[name].items() if key != "model_type"})
    with torch.device("meta"):
        model: Any = transformers.AutoModelForCausalLM.from_config(config, dtype=dtype)  # type: ignore[no-untyped-call]
    model = model.to_empty(device=device).eval()
    if config.tie_word_embeddings:
        model.tie_weights()
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(0.0, 0.02) if weight.dim() > 1 else weight.fill_(1.0)
        rotary = model.model.rotary_emb
        exponents = torch.arange(0, config.head_dim, 2, device=device).float() / config.head_dim
        rotary.inv_freq = 1.0 / SHAPES[name]["rope_theta"] ** exponents
        rotary.original_inv_freq = rotary.inv_freq
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = 0
    return model


def one_by_one(model: Any, prompts: Prompts, output_tokens: int) -> None:
    for prompt in prompts:
        padded(model, [prompt], output_tokens)


def padded(model: Any, prompts: Prompts, output_tokens: int) -> None:
    ids = torch.tensor([list(prompt) for prompt in prompts], device=model.device)
    with torch.inference_mode():
        model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=output_tokens, do_sample=False)


def continuous(model: Any, prompts: Prompts, output_tokens: int) -> None:
    """Raises RuntimeError where it does not answer all."""
    config = partial(transformers.generation.ContinuousBatchingConfig)  # type: ignore[attr-defined]
    if model.device.type != "cuda":  # it would size its memory for a card
        config = partial(config, num_blocks=16, max_batch_tokens=512, use_cuda_graph=False)
    done = model.generate_batch(
        inputs=[list(prompt) for prompt in prompts],
        generation_config=transformers.GenerationConfig(  # type: ignore[no-untyped-call]
            max_new_tokens=output_tokens, do_sample=False, eos_token_id=-1, pad_token_id=0, use_cache=True
        ),
        continuous_batching_config=config(),
    )
    counts = [len(answer.generated_tokens) for answer in done.values()]
    if counts != [output_tokens] * len(prompts):
        raise RuntimeError(f"answered {len(counts)} of {len(prompts)} requests with {sum(counts)} tokens")
