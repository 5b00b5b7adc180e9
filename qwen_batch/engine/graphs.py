"""Decoding steps as captured CUDA graphs: one launch from the host instead of some hundreds.

There is a graph for each size of a ladder; a step takes the next larger one and pads. Graphs are captured when they are
first wanted, the largest before all others: they share one memory pool, and the smaller ones find their room in it.
A step with a piece of a prompt runs without a graph. Unproven on a card.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor

from qwen_batch.model.attention import StepInput
from qwen_batch.model.decoder import Decoder
from qwen_batch.model.kv_cache import KVCache
from qwen_batch.model.static_decode import SharedPrefixes, StaticDecode
from qwen_batch.model.triton_plan import AttentionShape, shared_prefixes
from qwen_batch.model.workspace import NewMemory

logger = logging.getLogger(__name__)


class Capture(Protocol):
    """Turns work on tensors that stay where they are into something that repeats it."""

    def __call__(self, compute: Callable[[], None]) -> Callable[[], None]: ...


class CudaCapture:
    """Real graphs, all in one memory pool."""

    def __init__(self) -> None:
        self._pool: Any = None  # torch names the type in private only

    def __call__(self, compute: Callable[[], None]) -> Callable[[], None]:
        compute()  # compiles and loads kernels, which a capture forbids
        graph = torch.cuda.CUDAGraph()
        # What other threads do on the device meanwhile, such as freeing memory, must not spoil the capture.
        with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
            compute()
        self._pool = graph.pool()
        return graph.replay


class DecodeGraphs:
    """The graphs of one engine. `cache` has one block more than the engine hands out: the last one."""

    def __init__(
        self, decoder: Decoder, cache: KVCache, *, max_num_seqs: int, max_model_len: int, capture: Capture | None = None
    ) -> None:
        weights = decoder.weights
        shape = AttentionShape.of(decoder.config, cache.block_size, weights.dtype, weights.device)
        reserved_block = len(cache.keys[0]) - 1
        self._decoder = decoder
        self._cache = cache
        self._capture = capture or CudaCapture()
        self._sizes = ladder(max_num_seqs)
        self._inputs = StaticDecode(shape, self._sizes[-1], max_model_len, reserved_block, weights.device)
        self._logits = torch.empty(
            (self._sizes[-1], decoder.config.vocab_size), dtype=weights.dtype, device=weights.device
        )
        self._graphs: dict[tuple[int, bool], Callable[[], None]] = {}
        self._is_off = False

    @property
    def sizes(self) -> list[tuple[int, bool]]:
        """(rows, whether prefixes are shared) of what was captured, in that order."""
        return list(self._graphs)

    def run(self, step: StepInput) -> Tensor | None:
        """Logits [num_seqs, vocab] of a step that decodes alone, until the next call; None for any other step."""
        count = len(step.context_lens)
        decodes_alone = len(step.token_ids) == len(step.logit_indices) == count <= self._sizes[-1]
        if self._is_off or not decodes_alone:
            return None
        size = next(size for size in self._sizes if size >= count)
        shared = shared_prefixes(step.block_lists, step.context_lens, self._cache.block_size)
        has_prefixes = bool(shared)
        for wanted in {(self._sizes[-1], has_prefixes): None, (size, has_prefixes): None}:
            if wanted not in self._graphs and not self._add(wanted, step, shared):
                return None
        self._inputs.fill(step, shared, size, self._decoder.staging)
        self._graphs[size, has_prefixes]()
        return self._logits[:count]

    def _add(self, wanted: tuple[int, bool], step: StepInput, shared: SharedPrefixes) -> bool:
        """Capture one; False, and no more tries, when that fails."""
        size, has_prefixes = wanted
        decoder, inputs, plan = self._decoder, self._inputs, self._inputs.plan(size, has_prefixes)
        memory = NewMemory(self._logits.device)

        def compute() -> None:
            backend = decoder.triton_backend(inputs.positions[:size], inputs.slots[:size], plan, self._cache, memory)
            self._logits[:size].copy_(decoder.compute(inputs.token_ids[:size], inputs.rows[:size], backend, memory))

        inputs.fill(step, shared, size, decoder.staging)
        try:
            self._graphs[wanted] = self._capture(compute)
        except RuntimeError as error:  # torch's own for a failed capture, and for memory that is not there
            self._is_off = True
            self._graphs.clear()
            logger.warning(
                "CUDA graphs are off, steps are launched kernel by kernel: a graph of %d sequences cannot be "
                "captured: %s",
                size,
                str(error).split("\n")[0],
                extra={"event": "no_cuda_graphs"},
            )
        return not self._is_off


def ladder(max_num_seqs: int) -> list[int]:
    """Sizes of graphs, up to the first that holds max_num_seqs. Above 16 rows at most a third of them is padding."""
    sizes = [1, 2, 4, 8]
    while sizes[-1] < max_num_seqs:
        sizes.append(sizes[-1] + (8 if sizes[-1] < 64 else 16 if sizes[-1] < 128 else 32))
    return sizes[: 1 + next(at for at, size in enumerate(sizes) if size >= max_num_seqs)]
