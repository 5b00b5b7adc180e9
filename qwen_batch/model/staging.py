"""From lists on the host to tensors on the device, without waiting and without new memory from step to step.

A step's values are written one after another into one pinned buffer; each is copied from there to the same place of a
buffer on the device. Two pairs of buffers take turns: while the host writes the values of a step, the copies of the
step before may still be under way. Those of two steps ago are waited for: they are done where tokens are read one step
late, and may not be after a step that failed half-way, whose values must not change under kernels that still run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

ALIGNMENT_BYTES = 64  # kernels are compiled for pointers that 16 divides; a cache line is 64
FIRST_BYTES = 1 << 16
_NUMPY = {torch.int64: np.int64, torch.int32: np.int32, torch.float32: np.float32}


class Mark(Protocol):
    """A place in the work that was handed to the device."""

    def synchronize(self) -> None:
        """Wait until the device has come to it."""
        ...


def _mark() -> Mark:
    event = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record()
    return event


@dataclass(slots=True)
class _Buffer:
    host: Tensor  # uint8, pinned where there is a CUDA device
    bytes: np.ndarray[Any, np.dtype[np.uint8]]  # the same memory
    device: Tensor  # uint8; on a CPU the same tensor

    @classmethod
    def allocate(cls, num_bytes: int, device: torch.device) -> _Buffer:
        is_cuda = device.type == "cuda"
        host = torch.empty(num_bytes, dtype=torch.uint8, pin_memory=is_cuda)
        placed = torch.empty(num_bytes, dtype=torch.uint8, device=device) if is_cuda else host
        return cls(host, host.numpy(), placed)


class Staging:
    """Takes the values of one step at a time. Not thread-safe."""

    def __init__(
        self, device: torch.device, num_bytes: int = FIRST_BYTES, mark: Callable[[], Mark] | None = None
    ) -> None:
        """mark: says where the device's work has come to; needed where copies do not end at once."""
        self._device = device
        self._mark = mark or (_mark if device.type == "cuda" else None)
        self._marks: list[Mark | None] = [None, None]  # after the last copy from each buffer
        self._buffers = [_Buffer.allocate(num_bytes, device) for _ in range(2)]
        self._turn = 0
        self._used_bytes = 0
        self.num_allocations = 2  # of buffers; stands still once the largest step was seen

    def begin_step(self) -> None:
        """What `put` gave two steps ago may be overwritten from now on. Waits where that is still being copied."""
        self._marks[self._turn] = self._mark() if self._mark is not None else None
        self._turn = 1 - self._turn
        self._used_bytes = 0
        last = self._marks[self._turn]
        if last is not None:
            last.synchronize()

    def put(self, values: Sequence[Any] | np.ndarray[Any, Any], dtype: torch.dtype = torch.int64) -> Tensor:
        """The values (a list, or a list of equally long lists) on the device, until the step after the next begins."""
        array = np.asarray(values, dtype=_NUMPY[dtype])
        buffer, start = self._reserve(array.nbytes)
        end = start + array.nbytes
        buffer.bytes[start:end] = array.reshape(-1).view(np.uint8)
        placed = buffer.device[start:end]
        if buffer.device is not buffer.host:
            placed.copy_(buffer.host[start:end], non_blocking=True)
        return placed.view(dtype).view(array.shape)

    def _reserve(self, num_bytes: int) -> tuple[_Buffer, int]:
        start = math.ceil(self._used_bytes / ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        if start + num_bytes > len(self._buffers[self._turn].host):
            # The old buffer lives on in the tensors that were given out; torch keeps pinned memory until its copies
            # are done.
            size = 2 * max(num_bytes, len(self._buffers[self._turn].host))
            self._buffers[self._turn] = _Buffer.allocate(size, self._device)
            self.num_allocations += 1
            start = 0
        self._used_bytes = start + num_bytes
        return self._buffers[self._turn], start
