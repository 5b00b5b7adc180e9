"""The measurement for a card, tried on the CPU: the whole command with a tiny shape, and its arithmetic."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from qwen_batch.bench.device_checks import all_checks
from qwen_batch.bench.shapes import Work, flops_per_request, shape_config

ROOT = Path(__file__).resolve().parents[2]


def test_a_request_takes_what_the_shape_says() -> None:
    config = shape_config("Qwen3-32B")
    seed = flops_per_request(config, Work("seed", 1, 256, 128))
    assert seed == pytest.approx(24.6e12, rel=0.02)  # 2 FLOP for each of 31.2 B weights of layers, and the rest
    shared = flops_per_request(config, Work("tickets", 1, 256, 128, shared_tokens=200))
    assert seed / 3 < shared < seed


def test_prompts_share_what_they_say() -> None:
    prompts = Work("tickets", 3, 20, 1, shared_tokens=16).prompts(500, seed=0)
    assert len({tuple(prompt[:16]) for prompt in prompts}) == 1
    assert len({tuple(prompt) for prompt in prompts}) == 3
    assert {len(prompt) for prompt in prompts} == {20}


@pytest.mark.slow
def test_kernels_pass_the_checks_of_a_card_in_the_interpreter() -> None:
    torch.manual_seed(0)
    checks = list(all_checks(torch.device("cpu"), 0))
    assert len(checks) == 12
    assert all(check.ok for check in checks), checks


def run_device(output: Path, *arguments: str, interpret: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TRITON_INTERPRET": interpret}
    command = [sys.executable, "-W", "ignore", "-m", "qwen_batch.bench.device", "--output", str(output), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=ROOT)


@pytest.mark.slow
def test_the_whole_command_with_a_tiny_shape(tmp_path: Path) -> None:
    done = run_device(tmp_path / "device.json", "--tiny", interpret="1")
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "device.json").read_text())
    assert all(check["ok"] for check in result["checks"])
    assert result["engine_agrees_with_torch"] is True
    assert {run.get("who") for run in result["runs"]} == {
        None,  # the profile
        "qwen-batch",
        "transformers one by one",
        "transformers padded batch",
    }
    assert all("continuous batching: RuntimeError: is made for CUDA" in line for line in result["left_out"])


@pytest.mark.gpu
def test_a_card_computes_what_the_references_do(tmp_path: Path) -> None:
    done = run_device(tmp_path / "device.json", "--shape", "tiny", "--budget-seconds", "1", interpret="0")
    assert done.returncode == 0, done.stdout + done.stderr
