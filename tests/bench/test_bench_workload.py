"""The requests that are measured, and the least time that they can take."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from qwen_batch.bench.floor import count_work, shared_lengths
from qwen_batch.bench.shapes import Work, flops_per_request, shape_config
from qwen_batch.bench.workload import WORKLOADS, BenchRequest, Workload, find_workload
from qwen_batch.errors import UsageError
from qwen_batch.model.tokenizer import ChatTokenizer


@pytest.fixture(scope="module")
def tokenizer(tiny_llama: Path) -> ChatTokenizer:
    return ChatTokenizer.load(tiny_llama)


@pytest.mark.parametrize(
    ("name", "count", "shared", "bodies", "output"),
    [("seed", 64, 0, (256, 256), 128), ("tickets", 256, 180, (30, 250), 48), ("contracts", 64, 200, (100, 3000), 96)],
)
def test_workloads_have_the_lengths_that_they_say(
    name: str, count: int, shared: int, bodies: tuple[int, int], output: int
) -> None:
    workload = find_workload(name, None, {})
    assert isinstance(workload, Workload)
    lengths = workload.body_lengths(seed=1)
    assert len(lengths) == count
    assert (workload.shared_tokens, workload.output_tokens) == (shared, output)
    assert bodies[0] <= min(lengths) <= bodies[0] * 1.1
    assert bodies[1] * 0.9 <= max(lengths) <= bodies[1]


def test_contracts_have_a_long_tail() -> None:
    lengths = sorted(WORKLOADS["contracts"].body_lengths(seed=0))
    median, mean = lengths[len(lengths) // 2], sum(lengths) / len(lengths)
    assert mean > 1.3 * median
    assert max(lengths) > 4 * median


def test_few_requests_are_like_many() -> None:
    few = dataclasses.replace(WORKLOADS["contracts"], num_requests=8).body_lengths(seed=3)
    many = dataclasses.replace(WORKLOADS["contracts"], num_requests=800).body_lengths(seed=3)
    assert sum(few) / 8 == pytest.approx(sum(many) / 800, rel=0.25)


def test_the_same_seed_gives_the_same_requests_and_a_round_gives_other_texts(tokenizer: ChatTokenizer) -> None:
    workload = dataclasses.replace(WORKLOADS["tickets"], num_requests=5)
    first, again = workload.requests(tokenizer, 0, 0), workload.requests(tokenizer, 0, 0)
    other_round, other_seed = workload.requests(tokenizer, 0, 1), workload.requests(tokenizer, 7, 0)
    assert first == again
    lengths = [len(request.prompt_token_ids) for request in first]
    assert [len(request.prompt_token_ids) for request in other_round] == lengths
    assert [len(request.prompt_token_ids) for request in other_seed] != lengths
    assert first[0].prompt_token_ids[:180] != other_round[0].prompt_token_ids[:180]


def test_the_shared_prompt_is_shared_and_bodies_are_not(tokenizer: ChatTokenizer) -> None:
    requests = dataclasses.replace(WORKLOADS["tickets"], num_requests=6).requests(tokenizer, 0, 0)
    assert len({request.prompt_token_ids[:180] for request in requests}) == 1
    assert len({request.prompt_token_ids[180:210] for request in requests}) == 6


def test_a_file_of_ones_own(tmp_path: Path, tokenizer: ChatTokenizer) -> None:
    lines = [
        {"prompt_token_ids": [5, 6, 7], "max_tokens": 2},
        {"text": "The customer pays."},
        {"messages": [{"role": "user", "content": "Who pays?"}], "max_tokens": 4},
    ]
    file = tmp_path / "own.jsonl"
    file.write_text("\ufeff" + "\n\n".join(map(json.dumps, lines)), encoding="utf-8")
    requests = find_workload(str(file), None, {}).requests(tokenizer, 0, 0)
    assert requests[0] == BenchRequest((5, 6, 7), 2)
    assert requests[1].prompt_token_ids == tuple(tokenizer.encode("The customer pays."))
    assert requests[1].output_tokens == 96
    assert requests[2].output_tokens == 4
    assert len(find_workload(str(file), 2, {}).requests(tokenizer, 0, 0)) == 2


@pytest.mark.parametrize("line", ["{", "[]", '{"prompt": "x"}', '{"text": ""}', '{"text": "x", "max_tokens": 0}'])
def test_a_line_that_is_no_request_is_named(tmp_path: Path, tokenizer: ChatTokenizer, line: str) -> None:
    file = tmp_path / "own.jsonl"
    file.write_text('{"text": "fine"}\n' + line + "\n")
    with pytest.raises(UsageError, match=r"own\.jsonl:2: "):
        find_workload(str(file), None, {}).requests(tokenizer, 0, 0)


def test_unknown_workloads_and_lengths_are_refused() -> None:
    with pytest.raises(UsageError, match="--workload tikets: unknown; known: seed, tickets, contracts, uniform, or a"):
        find_workload("tikets", None, {})
    with pytest.raises(UsageError, match="its lengths are fixed; give lengths with --workload uniform"):
        find_workload("seed", None, {"output_tokens": 3})
    with pytest.raises(UsageError, match="--max-tokens 5 is below --min-tokens 100"):
        find_workload("uniform", None, {"max_body_tokens": 5})


def test_shared_prefixes_are_counted_once_wherever_they_end() -> None:
    prompts = [[1, 2, 3, 4], [1, 2, 9], [1, 2, 3, 5, 6], [7]]
    assert sum(map(len, prompts)) - sum(shared_lengths(prompts)) == 8  # nodes of the tree: 1 2 3 4, 5 6, 9, 7
    assert shared_lengths([[1, 2], [1, 2]]) == [0, 2]


def test_work_is_that_of_the_formula_for_equal_lengths() -> None:
    config = shape_config("Qwen3-0.6B")
    requests = [BenchRequest(tuple(range(start, start + 256)), 128) for start in (0, 1000)]
    work = count_work(config, requests, 2)
    assert work.computed_tokens == 2 * (256 + 127)  # the last token is not fed back
    expected = 2 * flops_per_request(config, Work("seed", 2, 256, 128))
    assert work.matmul_flops + work.attention_flops == pytest.approx(expected, rel=0.01)


def test_a_shared_prefix_saves_its_products_and_its_attention() -> None:
    config = shape_config("tiny")
    apart = count_work(config, [BenchRequest((1, *range(10, 30)), 1), BenchRequest((2, *range(10, 30)), 1)], 4)
    together = count_work(config, [BenchRequest((*range(10, 30), 1), 1), BenchRequest((*range(10, 30), 2), 1)], 4)
    assert apart.distinct_prompt_tokens - together.distinct_prompt_tokens == 20
    pairs = 20 * 21 // 2
    assert apart.attention_flops - together.attention_flops == 4 * pairs * config.num_layers * config.q_size
    assert together.seconds(1e9, 1e9) < apart.seconds(1e9, 1e9)
