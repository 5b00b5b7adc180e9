"""Memory for what a step computes on the way: taken by name, and the same from layer to layer and from step to step."""

from __future__ import annotations

import math
from typing import Protocol

import torch
from torch import Tensor


class Memory(Protocol):
    """Gives a tensor of any content, until the same name is asked for again."""

    def take(self, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor: ...


class Workspace(Memory):
    """One buffer for each name, as large as the largest that was asked for: flat once the largest step was seen."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._buffers: dict[str, Tensor] = {}
        self.num_allocations = 0

    @property
    def num_bytes(self) -> int:
        return sum(buffer.nbytes for buffer in self._buffers.values())

    def take(self, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        num_bytes = math.prod(shape) * dtype.itemsize
        buffer = self._buffers.get(name)
        if buffer is None or buffer.nbytes < num_bytes:
            self._buffers.pop(name, None)  # before the larger one is asked for, where memory is short
            buffer = self._buffers[name] = torch.empty(num_bytes, dtype=torch.uint8, device=self._device)
            self.num_allocations += 1
        return buffer[:num_bytes].view(dtype).view(shape)

    def clear(self) -> None:
        """Give all of it back."""
        self._buffers.clear()


class NewMemory(Memory):
    """New memory each time, for what is captured in a graph: it must keep its place, and has a pool of its own."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def take(self, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        return torch.empty(shape, dtype=dtype, device=self._device)
