"""`deterministic`: the same tokens, to the byte, for any size and order of the batch, any chunking, any preemption."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from qwen_batch.engine import Engine, EngineConfig
from qwen_batch.errors import ModelError
from qwen_batch.records import SamplingParams

PROMPTS = [[random.Random(seed).randrange(5, 250) for _ in range(3 + seed * 7 % 90)] for seed in range(12)]
SHARED = [[9, 8, 7] * 40 + prompt for prompt in PROMPTS[:4]]


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_no_batch_changes_a_token(tiny_qwen3: Path, dtype: str) -> None:
    params = [SamplingParams(max_tokens=6 + i % 5, temperature=i % 2 * 0.9, seed=i, ignore_eos=True) for i in range(16)]
    asked = list(zip(PROMPTS + SHARED, params, strict=True))

    def answers(order: list[int], **options: object) -> dict[int, tuple[int, ...]]:
        config = EngineConfig(device="cpu", dtype=dtype, deterministic=True, max_model_len=512, **options)  # type: ignore[arg-type]
        try:
            engine = Engine.load_folder(tiny_qwen3, config)
        except ModelError as error:
            pytest.skip(str(error))
        assert engine.precision == f"{dtype}-deterministic"
        found = engine.generate([asked[i][0] for i in order], [asked[i][1] for i in order])
        return {i: tuple(completion.token_ids) for i, completion in zip(order, found, strict=True)}

    given = list(range(16))
    expected = answers(given)
    shuffled = random.Random(5).sample(given, 16)
    assert answers(shuffled, max_num_seqs=1) == expected
    assert answers(shuffled, max_num_batched_tokens=7) == expected
    assert answers(given, share_prefixes=False, max_num_batched_tokens=33) == expected
    assert answers(given, num_blocks=33, output_reserve=0.0, max_num_seqs=5) == expected


def test_it_is_refused_where_it_cannot_be_kept(tiny_qwen3: Path) -> None:
    with pytest.raises(ModelError, match=r"engine\.deterministic: .* leave it out"):
        Engine.load_folder(tiny_qwen3, EngineConfig(device="cpu", backend="torch", deterministic=True))
