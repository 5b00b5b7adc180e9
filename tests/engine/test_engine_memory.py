"""What a step needs on the way is taken from memory that is there already, once the largest step was seen."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch
from tiny_models import make_tiny_model
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from qwen_batch.engine import Engine, EngineConfig
from qwen_batch.model.staging import FIRST_BYTES, Staging
from qwen_batch.model.workspace import Workspace
from qwen_batch.records import Request, SamplingParams

CPU = torch.device("cpu")


class Allocations(TorchDispatchMode):
    """Collects (operation, bytes) of every tensor that stands in memory which none of its inputs has."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, int]] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        given = {x.untyped_storage().data_ptr() for x in tree_leaves((args, kwargs)) if has_storage(x)}
        for x in filter(has_storage, tree_leaves(out)):
            if x.numel() and x.untyped_storage().data_ptr() not in given and not in_interpreter():
                self.found.append((str(func), x.untyped_storage().nbytes()))
        return out


def has_storage(x: object) -> bool:
    return isinstance(x, torch.Tensor) and x.layout == torch.strided


def in_interpreter() -> bool:
    """Whether this is the doing of Triton's interpreter, which copies what kernels on a card leave where it is."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and "interpreter" not in frame.f_globals.get("__name__", ""):
        frame = frame.f_back
    return frame is not None


def steady_steps(folder: Path, backend: str, dtype: str, num_seqs: int, num_steps: int) -> tuple[Engine, Allocations]:
    """The engine after a few decoding steps, and what the next ones allocate."""
    config = EngineConfig(device="cpu", dtype=dtype, backend=backend, max_model_len=256)  # type: ignore[arg-type]
    engine = Engine.load_folder(folder, config)
    params = SamplingParams(max_tokens=100, ignore_eos=True)
    for n in range(num_seqs):
        engine.add(Request(str(n), list(range(5, 20 + 3 * n)), params))
    for _ in range(3):
        engine.step()
    with Allocations() as allocations:
        for _ in range(num_steps):
            engine.step()
    return engine, allocations


def test_a_steady_step_with_our_kernels_allocates_only_its_tokens(tiny_qwen3: Path) -> None:
    engine, allocations = steady_steps(tiny_qwen3, "triton", "float32", 2, 2)
    decoder = engine._runner._decoder
    before = decoder.workspace.num_allocations, decoder.staging.num_allocations
    engine.step()
    assert (decoder.workspace.num_allocations, decoder.staging.num_allocations) == before
    assert allocations.found == [("aten.empty.memory_format", 8 * 2)] * 2


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_layers_in_native_code_allocate_nothing(tmp_path: Path, dtype: str) -> None:
    """What a steady step still makes anew (its plan, its angles, its logits) does not grow with the layers."""
    counts = []
    for layers in (2, 5):
        folder = make_tiny_model(tmp_path / str(layers), "qwen3", tie_word_embeddings=True, num_hidden_layers=layers)
        engine, allocations = steady_steps(folder, "native", dtype, 5, 4)
        if engine._runner._decoder._layers is None:
            pytest.skip("this machine has no AVX-512 for the native layers")
        counts.append([name for name, _ in allocations.found])
    assert counts[0] == counts[1]
    assert len(counts[0]) % 4 == 0


def test_memory_is_flat_over_a_run(tiny_qwen3: Path) -> None:
    """Steps of all sizes, again and again: the first round sets the size, later ones add nothing."""
    engine = Engine.load_folder(tiny_qwen3, EngineConfig(device="cpu", dtype="float32", max_num_batched_tokens=64))
    prompts = [list(range(3, 9 + 13 * n)) for n in range(9)]
    sizes = []
    for _ in range(3):
        engine.generate(prompts, SamplingParams(max_tokens=9, ignore_eos=True))
        engine.forget_prefixes()
        decoder = engine._runner._decoder
        sizes.append((decoder.workspace.num_bytes, decoder.workspace.num_allocations, decoder.staging.num_allocations))
    assert sizes[0] == sizes[1] == sizes[2]


def test_a_workspace_gives_the_same_memory_for_a_name() -> None:
    workspace = Workspace(CPU)
    large = workspace.take("a", (4, 8), torch.float32)
    small = workspace.take("a", (3, 2), torch.bfloat16)
    assert (small.shape, small.dtype, small.data_ptr()) == ((3, 2), torch.bfloat16, large.data_ptr())
    assert workspace.take("b", (1,), torch.float32).data_ptr() != large.data_ptr()
    assert (workspace.num_allocations, workspace.num_bytes) == (2, 4 * 8 * 4 + 4)
    workspace.clear()
    assert workspace.num_bytes == 0


def test_staged_values_stay_for_two_steps() -> None:
    staging, earlier = Staging(CPU), list[torch.Tensor]()
    for step in range(4):
        staging.begin_step()
        now = [staging.put([step] * 3), staging.put([[step, 0.5]] * 2, torch.float32), staging.put([], torch.int32)]
        if step:
            assert earlier[0].tolist() == [step - 1] * 3
            assert earlier[1].tolist() == [[step - 1, 0.5]] * 2
        earlier = now
    assert all(x.data_ptr() % 16 == 0 for x in earlier)
    assert earlier[2].shape == (0,)


def test_a_staging_buffer_is_written_again_after_its_copies_are_done() -> None:
    """A step that failed half-way is not read, so nothing else says that its copies are done."""
    events: list[str] = []

    class Noted:
        def __init__(self) -> None:
            self.name = f"after step {len(events) // 2}"
            events.append(f"mark {self.name}")

        def synchronize(self) -> None:
            events.append(f"wait {self.name}")

    staging = Staging(CPU, mark=Noted)
    for step in range(4):
        staging.begin_step()
        events.append(f"write {step}")
    assert events == [
        "mark after step 0", "write 0",
        "mark after step 1", "wait after step 0", "write 1",
        "mark after step 2", "wait after step 1", "write 2",
        "mark after step 4", "wait after step 2", "write 3",
    ]  # fmt: skip


def test_on_a_card_buffers_are_pinned_and_marks_stand_in_its_work(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []

    class Event:
        def record(self) -> None:
            events.append("record")

        def synchronize(self) -> None:
            events.append("wait")

    made: list[tuple[bool, str]] = []
    empty = torch.empty

    def noted(size: int, *, dtype: torch.dtype, pin_memory: bool = False, device: Any = "cpu") -> torch.Tensor:
        made.append((pin_memory, str(device)))
        return empty(size, dtype=dtype)

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch, "empty", noted)
    staging = Staging(torch.device("cuda", 0))
    assert made == [(True, "cpu"), (False, "cuda:0")] * 2
    for step in range(3):
        staging.begin_step()
        assert staging.put([step, 8]).tolist() == [step, 8], "copied from the host's buffer to the other one"
    assert events == ["record", "record", "wait", "record", "wait"]


def test_staging_grows_to_the_largest_step_and_stays() -> None:
    staging = Staging(CPU)
    rows = list(range(FIRST_BYTES // 8 + 1))
    for _ in range(5):
        staging.begin_step()
        few, many = staging.put([7, 8]), staging.put(rows)
        assert few.tolist() == [7, 8]
        assert many.tolist() == rows
    assert staging.num_allocations == 4


@pytest.mark.gpu
def test_memory_of_a_card_is_flat_over_a_run(tiny_qwen3: Path) -> None:
    """In a process of its own, because this one runs kernels in the interpreter."""
    import os
    import subprocess

    script = (
        "import sys, torch\n"
        "from qwen_batch.engine import Engine\n"
        "from qwen_batch.records import SamplingParams\n"
        "engine = Engine.load(sys.argv[1], device='cuda', dtype='bfloat16', backend='triton', max_model_len=256)\n"
        "used = []\n"
        "for _ in range(4):\n"
        "    prompts = [list(range(3, 9 + 13 * n)) for n in range(9)]\n"
        "    engine.generate(prompts, SamplingParams(max_tokens=9, ignore_eos=True))\n"
        "    engine.forget_prefixes()\n"
        "    used.append(torch.cuda.memory_allocated())\n"
        "assert len(set(used[1:])) == 1, used\n"
    )
    environment = {**os.environ, "TRITON_INTERPRET": "0"}
    command = [sys.executable, "-W", "ignore", "-c", script, str(tiny_qwen3)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
