"""Kernels prove themselves before the first step on a card; a wrong one is found, said, and done without."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from qwen_batch.engine import config as engine_config
from qwen_batch.engine.config import resolve_backend
from qwen_batch.errors import ModelError
from qwen_batch.kernels.sample import SampleInput, sample
from qwen_batch.model import kernel_checks, triton_backend
from qwen_batch.model.config import read_config
from qwen_batch.model.kernel_checks import first_wrong_kernel

CPU = torch.device("cpu")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_the_kernels_are_right(tiny_qwen3: Path, dtype: torch.dtype) -> None:
    assert first_wrong_kernel(read_config(tiny_qwen3), 16, dtype, CPU) is None


def test_models_without_norms_of_heads_are_checked_too(tiny_llama: Path) -> None:
    assert first_wrong_kernel(read_config(tiny_llama), 32, torch.float32, CPU) is None


def slightly_off(kernel: Callable[..., Any]) -> Callable[..., Any]:
    def wrong(*arguments: Any, **options: Any) -> Any:
        out = kernel(*arguments, **options)
        first = out[0] if isinstance(out, tuple) else out
        first.view(-1)[:: max(1, first.numel() // 3)] += 1
        return out

    return wrong


@pytest.mark.parametrize("name", ["rms_norm", "gather_logits", "silu_mul", "qk_norm_rope_store", "sample"])
def test_a_wrong_kernel_is_named(tiny_qwen3: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(kernel_checks, name, slightly_off(getattr(kernel_checks, name)))
    wrong = first_wrong_kernel(read_config(tiny_qwen3), 16, torch.float32, CPU)
    assert wrong is not None
    assert wrong.startswith(f"{name} is off by ")


def test_bits_that_sampling_leaves_alone_are_found(tiny_qwen3: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(logits: torch.Tensor, params: SampleInput, scores: torch.Tensor | None = None) -> torch.Tensor:
        copies = {name: getattr(params, name).clone() for name in ("seen", "said") if params.seen is not None}
        return sample(logits, dataclasses.replace(params, **copies), scores)

    monkeypatch.setattr(kernel_checks, "sample", forgetful)
    wrong = first_wrong_kernel(read_config(tiny_qwen3), 16, torch.float32, CPU)
    assert wrong is not None
    assert wrong.startswith("sample with penalties and a bitmask is off by 6")


@pytest.mark.parametrize("name", ["attention_prefill", "attention_decode", "attention_merge", "attention_prefix"])
def test_a_wrong_attention_kernel_is_found(tiny_qwen3: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A kernel that leaves its output as it is."""
    owner = triton_backend.prefix if name == "attention_prefix" else triton_backend
    monkeypatch.setattr(owner, name, lambda *arguments, **options: None)
    wrong = first_wrong_kernel(read_config(tiny_qwen3), 16, torch.float32, CPU)
    assert wrong is not None
    assert wrong.startswith("attention is off by ")


def test_a_wrong_kernel_is_said_and_done_without(tiny_qwen3: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_config, "_is_card_here", lambda device: True)
    monkeypatch.setattr(kernel_checks, "silu_mul", slightly_off(kernel_checks.silu_mul))
    model = read_config(tiny_qwen3)
    monkeypatch.setattr(engine_config, "can_run", lambda *given: False)
    with pytest.raises(ModelError, match=r"a kernel is wrong on this device, please report it: silu_mul is off by"):
        resolve_backend("triton", model, torch.float32, CPU, 16)
    reason = engine_config._no_triton(model, 16, torch.float32, CPU)
    assert reason is not None
    assert reason.startswith("a kernel is wrong on this device, please report it: silu_mul is off by")


def test_a_kernel_that_does_not_compile_is_no_kernel(tiny_qwen3: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: Any) -> Any:
        raise RuntimeError("no PTX for you\nand more")

    monkeypatch.setattr(kernel_checks, "rms_norm", broken)
    assert first_wrong_kernel(read_config(tiny_qwen3), 16, torch.float32, CPU) == "RuntimeError: no PTX for you"


def test_a_kernel_that_breaks_the_device_ends_the_run(tiny_qwen3: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: Any, **options: Any) -> Any:
        raise RuntimeError("CUDA error: an illegal memory access was encountered\nand more")

    monkeypatch.setattr(kernel_checks, "rms_norm", broken)
    monkeypatch.setattr(torch, "ones", broken)  # CUDA refuses everything from then on
    with pytest.raises(ModelError, match=r"broke the device .*illegal memory.*; start again with engine\.back"):
        first_wrong_kernel(read_config(tiny_qwen3), 16, torch.float32, CPU)
