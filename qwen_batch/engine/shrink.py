"""What the engine does when a step fails.

When the device has no memory left: the step's sequences give their blocks back and are computed again, with half the
sequences and half the tokens in a step. A sequence that does not fit even alone, in the smallest pieces, fails. After a
while without trouble the limits double again, up to what was configured, and after each new trouble that while is twice
as long, so that a night is neither spent at the smallest size nor in going up and down.

When anything else goes wrong: the same with half the sequences, until a step with one sequence fails. That one is tried
once more, and then fails if the model still answers a prompt of one token; else the engine itself is broken, and the
error ends the run.
"""

from __future__ import annotations

import logging

import torch

from qwen_batch.engine.scheduler import Scheduler

logger = logging.getLogger(__name__)

MIN_BATCHED_TOKENS = 16  # of a step; smaller pieces save nothing beside the weights
FIRST_PATIENCE_STEPS = 64
MAX_FAILURES = 2  # of a sequence in a step of its own
# Of torch on a CPU, of cuBLAS, and of CUDA's own calls as torch and Triton's launcher pass them on.
NO_MEMORY = (
    "can't allocate memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDA error: out of memory",
    "Triton Error [CUDA]: out of memory",
)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the device, or the machine, had no memory left. Only torch's allocator for CUDA has a type for it."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in NO_MEMORY)


class BatchLimits:
    """Sets the scheduler's limits within what was configured."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._full = (scheduler.max_num_seqs, scheduler.max_num_batched_tokens)
        self._patience = self._steps_left = FIRST_PATIENCE_STEPS
        self.num_shrinks = 0

    @property
    def is_smallest(self) -> bool:
        scheduler = self._scheduler
        return scheduler.max_num_seqs == 1 and scheduler.max_num_batched_tokens <= MIN_BATCHED_TOKENS

    def shrink(self) -> None:
        """Half of everything, from the next step on."""
        scheduler = self._scheduler
        self.num_shrinks += 1
        self._patience = self._steps_left = 2 * self._patience
        smallest = min(MIN_BATCHED_TOKENS, self._full[1])
        self._set(max(1, scheduler.max_num_seqs // 2), max(smallest, scheduler.max_num_batched_tokens // 2))
        logger.warning(
            "the device has no memory left: going on with at most %d sequences and %d tokens in a step; "
            "lower engine.max_num_seqs, engine.max_num_batched_tokens or engine.kv_memory",
            scheduler.max_num_seqs,
            scheduler.max_num_batched_tokens,
            extra={"event": "out_of_memory"},
        )

    def search(self, num_running: int, error: Exception) -> None:
        """At most half of so many sequences: one of them makes steps fail, and nobody knows which."""
        scheduler = self._scheduler
        self._set(max(1, num_running // 2), scheduler.max_num_batched_tokens)
        logger.warning(
            "a step failed (%r): going on with at most %d sequences in a step, to find out whose fault it is",
            error,
            scheduler.max_num_seqs,
            extra={"event": "step_failed"},
        )

    def found(self) -> None:
        """Everything as it was configured, after a search."""
        self._set(*self._full)

    def step_went_well(self) -> None:
        """Twice of everything after enough such steps."""
        scheduler = self._scheduler
        if (scheduler.max_num_seqs, scheduler.max_num_batched_tokens) == self._full:
            return
        self._steps_left -= 1
        if self._steps_left <= 0:
            self._steps_left = self._patience
            self._set(
                min(self._full[0], 2 * scheduler.max_num_seqs), min(self._full[1], 2 * scheduler.max_num_batched_tokens)
            )

    def _set(self, max_num_seqs: int, max_num_batched_tokens: int) -> None:
        self._scheduler.max_num_seqs = max_num_seqs
        self._scheduler.max_num_batched_tokens = max_num_batched_tokens
