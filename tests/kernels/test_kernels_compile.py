"""Every kernel compiles for every card without one, spills no register, and is in the built wheel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch

from qwen_batch.bench.kernels import is_for_qwen3, iter_variants
from qwen_batch.kernels import tuning
from qwen_batch.kernels.tuning import row

ROOT = Path(__file__).resolve().parents[2]
KERNELS = {path.stem for path in (ROOT / "kernels").glob("*.py")} - {"launch", "tile", "tuning"}


def compile_table(*arguments: str) -> list[dict[str, object]]:
    """In a process of its own: this one imported the kernels for the interpreter."""
    environment = {**os.environ, "TRITON_INTERPRET": "0"}
    command = [sys.executable, "-W", "ignore", "-m", "qwen_batch.bench.kernels", "--json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_what_qwen3_needs_compiles_for_every_card_without_spills() -> None:
    rows = compile_table("--qwen3")
    assert {row["kernel"] for row in rows} == KERNELS
    assert {row["arch"] for row in rows} == {80, 89, 90, 100}
    assert all(row["spill_bytes"] == 0 and row["registers"] for row in rows)
    attention = ("attention_prefill", "attention_decode", "attention_prefix")
    ahead = {(row["kernel"], row["arch"]): row["copies_ahead"] for row in rows if row["kernel"] in attention}
    large = [(kernel, arch) for kernel in attention for arch in (80, 90, 100)]
    large.remove(("attention_prefill", 80))  # has no registers for it
    assert all(int(str(ahead[one])) > 0 for one in large), ahead  # the next keys come while these are computed


def test_rows_of_every_published_qwen3_are_among_those_compiled() -> None:
    """Hidden sizes of Qwen3-0.6B, 1.7B, 4B, 8B, 14B and 32B."""
    widths = {f"width<={row(width).tiles['BLOCK']}" for width in (1024, 2048, 2560, 4096, 5120)}
    labels = [variant.label for variant in iter_variants(["rms_norm"]) if is_for_qwen3(variant)]
    assert all(any(width in label for label in labels) for width in widths), labels


def test_pipelines_are_deep_where_shared_memory_is_large() -> None:
    config = tuning.attention("attention_prefill", 128, torch.bfloat16)
    stages = {arch: config.on(arch).num_stages for arch in (0, 80, 86, 89, 90, 100, 120)}
    assert stages == {0: 2, 80: 2, 86: 2, 89: 2, 90: 5, 100: 5, 120: 2}
    assert tuning.attention("attention_decode", 128, torch.bfloat16).on(80).num_stages == 5
    assert config.on(90).on(89).num_stages == 5, "chosen once"
    assert tuning.MERGE.on(90) == tuning.MERGE


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["80", "89", "90", "100"])
def test_everything_that_can_be_chosen_compiles_without_spills(arch: str) -> None:
    rows = compile_table("--arch", arch)
    assert {row["kernel"] for row in rows} == KERNELS
    assert all(row["spill_bytes"] == 0 for row in rows)


def test_the_wheel_holds_every_kernel(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", "kernels", "qwen_batch"):  # not build/ of earlier times
        (source / name).symlink_to(ROOT / name) if name != "qwen_batch" else _copy(ROOT / name, source / name)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-build-isolation"]
    command += ["--no-deps", "--no-index", "--wheel-dir", str(tmp_path), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    kernels = {f"qwen_batch/kernels/{path.name}" for path in (ROOT / "kernels").glob("*.py")}
    assert kernels
    assert kernels <= names
    assert not [name for name in names if name.startswith("kernels/")]


def _copy(source: Path, target: Path) -> None:
    """With symbolic links as links, without caches."""
    import shutil

    shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
