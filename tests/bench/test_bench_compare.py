"""`qwen-batch bench`: the table, and the whole command with a tiny model."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qwen_batch import __version__
from qwen_batch.bench.compare import _spread
from qwen_batch.bench.floor import Work
from qwen_batch.bench.result import Comparison, EngineResult, format_comparison
from qwen_batch.bench.workload import BenchRequest

COUNTERS = {"num_steps": 40, "num_preemptions": 0, "num_computed_tokens": 1210}


def engine(name: str, rates: tuple[float, ...], **fields: object) -> EngineResult:
    values: dict[str, object] = {
        "name": name, "engine": name, "num_requests": 16, "start_seconds": 3.2, "rates": rates,
        "first_tokens_agree": 0.75, "peak_bytes": 700_000_000, "others_share": 0.02, "counters": {}, "error": None,
    }  # fmt: skip
    return EngineResult(**{**values, **fields})  # type: ignore[arg-type]


COMPARISON = Comparison(
    workload="tickets", model="demo", precision="bfloat16", device="cpu", machine="A CPU, 2 cores", threads=2,
    torch_version="2.13.0", version="0.1.0", date="2026-11-29", seed=0, rounds=3, agreement_requests=16,
    work=Work(16, 2000, 1100, 160, 1200, 8e9, 1e9, 1_000_000_000),
    matmul_flops=10e9, copy_bytes=10e9,
    engines=(
        engine("qwen-batch", (7.0, 8.0, 9.0), counters=COUNTERS),
        engine("hf-loop", (2.0, 1.0, 3.0), num_requests=4),
        engine("vllm", (), error="vllm: its process ended: no room"),
        engine("hf-batch", (4.0,), error="hf-batch: out of memory"),
    ),
)  # fmt: skip


def test_the_table_has_medians_ratios_and_shares() -> None:
    lines = format_comparison(COMPARISON).splitlines()
    assert lines[0] == (
        "tickets: 16 requests, 2,000 tokens in (1,100 with shared prefixes once), 160 out; "
        "demo in bfloat16 on cpu, seed 0"
    )
    assert lines[2].startswith("limit: 1.0 s = 16.000 req/s, at 10 GFLOP/s and 10.0 GB/s")  # 0.9 s and 0.1 s
    rows = {line.split()[0]: line.split() for line in lines[5:]}
    assert rows["qwen-batch"][1:6] == ["8.000", "4.00", "50%", "75%", "3.2"]
    assert rows["hf-loop*"][1:4] == ["2.000", "1.00", "12%"]
    assert "* measured on 4 of the requests, evenly spread over their lengths" in lines
    assert "vllm              failed: vllm: its process ended: no room" in lines
    assert "hf-batch: ended after 1 rounds: hf-batch: out of memory" in lines
    assert "qwen-batch: 1,210 tokens computed in 40 steps, 1,200 would be ideal; 0 preemptions" in lines


def test_json_has_what_the_table_has() -> None:
    result = json.loads(json.dumps(COMPARISON.to_json()))
    assert result["floor_seconds"] == 1.0
    assert [entry["rate"] for entry in result["engines"]] == [8.0, 2.0, None, 4.0]
    assert [entry["ratio"] for entry in result["engines"]] == [4.0, 1.0, None, 2.0]
    assert result["engines"][0]["share_of_limit"] == 0.5
    assert result["engines"][0]["rates"] == [7.0, 8.0, 9.0]


def test_the_readme_names_every_field_of_the_json() -> None:
    readme = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")
    table = readme[readme.index("`--json` prints a list") :].partition("A figure that there is none of")[0]
    result: Any = COMPARISON.to_json()
    fields = {*result, *result["work"], *result["engines"][0]}
    assert set(re.findall(r"`(\w+)`", table)) - {"null"} == fields


def test_a_sample_is_spread_over_the_lengths() -> None:
    requests = [BenchRequest(tuple(range(length)), 1) for length in range(16, 0, -1)]
    assert [len(request.prompt_token_ids) for request in _spread(requests, 4)] == [3, 7, 11, 15]
    assert len(_spread(requests, 99)) == 16


def run_bench(run_cli: Callable[..., int], model: Path, *arguments: object) -> int:
    lengths = ("--min-tokens", 8, "--max-tokens", 40, "--output-tokens", 9)
    shape = ("--workload", "uniform", "--requests", 4, *lengths, "--threads", 1, "--dtype", "float32")
    return run_cli("bench", "--model", model, *shape, "--device", "cpu", "--json", *arguments)


def test_the_whole_command(run_cli: Callable[..., int], tiny_llama: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ("--engines", "qwen-batch,hf-loop", "--baseline-requests", 2, "--rounds", 2)
    assert run_bench(run_cli, tiny_llama, *names, "--set", "num_blocks=64") == 0
    out, err = capsys.readouterr()
    (result,) = json.loads(out)
    ours, loop = result["engines"]
    assert (ours["name"], ours["num_requests"], len(ours["rates"])) == ("qwen-batch", 4, 2)
    assert (loop["name"], loop["num_requests"], len(loop["rates"])) == ("hf-loop", 2, 2)
    assert ours["first_tokens_agree"] == loop["first_tokens_agree"] == 1.0  # float32 throughout
    assert "KV memory 64 blocks" in ours["engine"]
    beyond_ideal = ours["counters"]["num_computed_tokens"] - result["work"]["computed_tokens"]
    assert 0 <= beyond_ideal < 4 * 16  # what prompts share by chance is less than a block
    assert ours["counters"]["num_preemptions"] == 0
    assert 0 < ours["share_of_limit"] < 1
    assert min(ours["peak_bytes"], loop["peak_bytes"]) > 50_000_000
    assert min(ours["start_seconds"], loop["start_seconds"]) > 0.1
    assert "round 2: qwen-batch" in err
    assert result["version"] == __version__
    assert all(isinstance(engine["first_tokens_agree"], float) for engine in (ours, loop))


@pytest.mark.slow
def test_every_way_of_transformers(
    run_cli: Callable[..., int], tiny_llama: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_bench(run_cli, tiny_llama, "--engines", "hf-batch", "--engines", "hf-continuous", "--rounds", 1) == 0
    (result,) = json.loads(capsys.readouterr().out)
    assert [entry["name"] for entry in result["engines"]] == ["hf-batch", "hf-continuous"]
    assert [entry["error"] for entry in result["engines"]] == [None, None]
    assert [entry["first_tokens_agree"] for entry in result["engines"]] == [1.0, 1.0]


def test_mistakes_on_the_command_line_are_named(
    run_cli: Callable[..., int], tiny_llama: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_cli("bench", "--workload", "tickts") == 2
    assert "--workload tickts: unknown; known: seed, tickets" in capsys.readouterr().err
    assert run_cli("bench", "--engines", "vlm") == 2
    assert "did you mean vllm?" in capsys.readouterr().err
    assert run_cli("bench", "--path", "vllm") == 2
    assert "--path vllm: write --path KEY=VALUE" in capsys.readouterr().err
    assert run_bench(run_cli, tiny_llama, "--set", "blocks=1") == 2
    assert "--set blocks: unknown; known: device, dtype" in capsys.readouterr().err
    assert run_bench(run_cli, tiny_llama, "--set", "deterministic=maybe") == 2
    assert "--set deterministic=maybe: input should be a valid boolean" in capsys.readouterr().err
    assert run_bench(run_cli, tiny_llama, "--set", "max_num_seqs=0") == 2
    assert "--set max_num_seqs=0: engine: max_num_seqs must be at least 1" in capsys.readouterr().err
    assert run_bench(run_cli, tiny_llama, "--set", "max_num_seqs=[") == 2
    assert "--set max_num_seqs=[: values are YAML, such as true, 64 or float32" in capsys.readouterr().err
    assert run_bench(run_cli, tiny_llama, "--threads", "9999") == 2
    assert "threads must be from 1 to" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("max_num_seqs=abc", "small:max_num_seqs=abc: input should be a valid integer"),
        ("block_size=32,blocks=1", "small:blocks: unknown; known: device, dtype"),
        ("block_size=32,max_num_seqs=0", "small:block_size=32,max_num_seqs=0: engine: max_num_seqs must be at least 1"),
    ],
)
def test_mistakes_in_a_variant_are_told_of_it_before_anything_is_measured(
    run_cli: Callable[..., int],
    tiny_llama: Path,
    capsys: pytest.CaptureFixture[str],
    settings: str,
    message: str,
) -> None:
    assert run_bench(run_cli, tiny_llama, "--variant", f"small:{settings}") == 2
    out, err = capsys.readouterr()
    assert f"--variant {message}" in err
    assert "first token after" not in err
    assert out == ""


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            {"prompt_token_ids": [5, 512]},
            "token id 512 is not in the model's vocabulary, whose last is 511; encode the prompt with this model's "
            "tokenizer, or give its text",
        ),
        ({"prompt_token_ids": [5, -1]}, "token id -1 is not in the model's vocabulary, whose last is 511; "),
        (
            {"prompt_token_ids": [5] * 2000, "max_tokens": 50},
            "2,000 prompt tokens and 50 for the answer are more than the model's window of 2,048; shorten the prompt, "
            "or lower max_tokens",
        ),
    ],
)
def test_a_line_that_this_model_cannot_answer_is_named_before_anything_is_measured(
    run_cli: Callable[..., int],
    tiny_llama: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    line: object,
    message: str,
) -> None:
    file = tmp_path / "own.jsonl"
    file.write_text(json.dumps({"text": "fine"}) + "\n" + json.dumps(line) + "\n")
    arguments = ("--model", tiny_llama, "--device", "cpu", "--engines", "qwen-batch")
    assert run_cli("bench", *arguments, "--workload", "seed", "--workload", file) == 2
    out, err = capsys.readouterr()
    assert f"{file}:2: {message}" in err
    assert "first token after" not in err
    assert out == ""
