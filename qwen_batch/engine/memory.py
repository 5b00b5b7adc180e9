"""How much of a card keys and values may take: the user's share of it, less what is taken and what a step needs.

What a step needs is measured: the largest prefill and the widest decoding step run once, before there are keys and
values, and the peak is read from the allocator. Unproven on a card.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch

from qwen_batch.engine.config import EngineConfig, resolve_max_model_len
from qwen_batch.engine.shrink import is_out_of_memory
from qwen_batch.errors import ModelError
from qwen_batch.model.attention import StepInput
from qwen_batch.model.decoder import Decoder
from qwen_batch.model.kv_cache import KVCache

# Context of the decoding step that is tried; longer ones need no more memory once there are enough rows to fill a card.
TRIED_CONTEXT_TOKENS = 4096


class Meter(Protocol):
    """Reads the device's memory, in bytes."""

    def total_and_free(self) -> tuple[int, int]: ...

    def start(self) -> None: ...

    def peak(self) -> int:
        """Most that was taken at once since `start`, beyond what was taken then."""
        ...


class CudaMeter:
    """What torch's allocator holds, in use or kept for the next step, and what the driver takes besides it for kernels
    that are loaded and for cuBLAS, where that is more."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._before = self._free = 0

    def total_and_free(self) -> tuple[int, int]:
        torch.cuda.empty_cache()
        free, total = torch.cuda.mem_get_info(self._device)
        return total, free

    def start(self) -> None:
        torch.cuda.reset_peak_memory_stats(self._device)
        self._before = torch.cuda.memory_reserved(self._device)
        self._free = torch.cuda.mem_get_info(self._device)[0]

    def peak(self) -> int:
        torch.cuda.synchronize(self._device)
        taken = self._free - torch.cuda.mem_get_info(self._device)[0]
        return max(taken, torch.cuda.max_memory_reserved(self._device) - self._before)


def kv_pool_bytes(total: int, free: int, share: float, step_bytes: int) -> int:
    """Bytes for keys and values; `free` as it was before a step ran. Not below 0."""
    taken = total - free
    return max(0, int(total * share) - taken - step_bytes)


def measure_kv_pool(decoder: Decoder, config: EngineConfig, meter: Meter, *, has_graphs: bool) -> int:
    """Bytes for keys and values on this device. Raises ModelError when not even a step fits."""
    total, free = meter.total_and_free()
    model, itemsize = decoder.config, decoder.weights.dtype.itemsize
    num_seqs = config.max_num_seqs
    max_model_len = resolve_max_model_len(config.max_model_len, model)
    meter.start()
    try:
        _try_step(decoder, config, _pieces(config.max_num_batched_tokens, num_seqs, max_model_len))
        prefill_bytes = meter.peak()
        decoding = [(1, min(max_model_len, TRIED_CONTEXT_TOKENS))] * num_seqs
        _try_step(decoder, config, decoding)
    except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        raise ModelError(
            f"the weights leave no room for a step of {config.max_num_batched_tokens:,} tokens and {num_seqs} "
            "sequences; lower engine.max_num_batched_tokens and engine.max_num_seqs, or take a smaller model"
        ) from None
    step_bytes = max(prefill_bytes, meter.peak())
    if has_graphs:  # they keep what the widest decoding step computes on the way, and its logits twice
        step_bytes += num_seqs * (2 * model.vocab_size + 16 * (model.hidden_size + model.intermediate_size)) * itemsize
    return kv_pool_bytes(total, free, config.gpu_memory, step_bytes)


def _pieces(num_tokens: int, num_seqs: int, max_model_len: int) -> list[tuple[int, int]]:
    """(new tokens, context) of as many sequences as a step may hold, with all the tokens that it may hold."""
    count = min(num_seqs, num_tokens)
    lengths = [num_tokens // count + (index < num_tokens % count) for index in range(count)]
    return [(min(length, max_model_len),) * 2 for length in lengths]


def _try_step(decoder: Decoder, config: EngineConfig, pieces: Sequence[tuple[int, int]]) -> None:
    """Run a step of (new tokens, context) whose keys and values all go to one block: memory does not depend on it."""
    device, block_size = decoder.weights.device, config.block_size
    cache = KVCache.allocate(decoder.config, 1, block_size, decoder.weights.dtype, device)
    offsets = [0]
    for length, _ in pieces:
        offsets.append(offsets[-1] + length)
    decoder.staging.begin_step()
    put = decoder.staging.put
    tables = [[0] * max(-(-context // block_size) for _, context in pieces)] * len(pieces)
    step = StepInput(
        token_ids=put([0] * offsets[-1]),
        positions=put([at for length, context in pieces for at in range(context - length, context)]),
        slot_mapping=put([at % block_size for at in range(offsets[-1])]),
        block_tables=put(tables),
        logit_indices=put([end - 1 for end in offsets[1:]]),
        cu_seqlens_q=offsets,
        context_lens=[context for _, context in pieces],
        block_lists=tables,
    )
    logits = decoder.forward(step, cache)
    decoder.workspace.take("scores", tuple(logits.shape), torch.float32)  # as sampling will
