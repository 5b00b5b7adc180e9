"""A decoding step in tensors that stay where they are, so that a captured graph may read them again and again.

One set serves every batch size: a graph of `size` rows reads the first `size` of each. Rows that a step does not fill
stand for a sequence of one token in a reserved block, which nothing else reads.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from qwen_batch.kernels import attention_prefill as prefill
from qwen_batch.kernels import attention_prefix as prefix
from qwen_batch.kernels.tuning import GRAPH_PREFIX_SPLITS, MIN_BRANCHES
from qwen_batch.model.attention import StepInput
from qwen_batch.model.staging import Staging
from qwen_batch.model.triton_plan import AttentionPlan, AttentionShape, DecodeRows, prefix_starts

SharedPrefixes = Sequence[tuple[Sequence[int], int]]  # (rows, length in tokens), as shared_prefixes gives them


class StaticDecode:
    """Inputs of steps of at most `max_rows` sequences with one new token each."""

    def __init__(
        self, shape: AttentionShape, max_rows: int, max_model_len: int, reserved_block: int, device: torch.device
    ) -> None:
        def zeros(*size: int, dtype: torch.dtype = torch.int32) -> Tensor:
            return torch.zeros(size, dtype=dtype, device=device)

        self._shape = shape
        self._max_model_len = max_model_len
        self._reserved_block = reserved_block
        self._config = prefix.config(shape.head_dim, shape.dtype)
        self.token_ids = zeros(max_rows, dtype=torch.int64)
        self.positions = zeros(max_rows, dtype=torch.int64)
        self.slots = zeros(max_rows, dtype=torch.int64)
        self.rows = torch.arange(max_rows, dtype=torch.int64, device=device)
        self._order = torch.arange(max_rows + 1, dtype=torch.int32, device=device)
        self._tables = zeros(max_rows, -(-max_model_len // shape.block_size))
        self._context_lens = zeros(max_rows)
        self._starts = zeros(max_rows)
        self._tiles = zeros(self._num_tiles(max_rows), 4)
        self._members = zeros(max_rows)
        self._no_tiles = zeros(0)

    def _num_tiles(self, num_rows: int) -> int:
        """Most tiles that shared prefixes of so many rows may take: the full ones, and one more for each group."""
        return num_rows // (self._config.tiles["BLOCK_M"] // self._shape.group) + num_rows // MIN_BRANCHES

    def plan(self, size: int, has_prefixes: bool) -> AttentionPlan:
        """How attention reads the first `size` rows; the number of splits serves the longest context."""
        rows = DecodeRows(
            seqs=self._order[:size],
            tokens=self._order[:size],
            num_splits=self._shape.splits(size, self._max_model_len),
            starts=self._starts[:size] if has_prefixes else None,
            prefixes=prefix.PrefixTiles(self._tiles[: self._num_tiles(size)], self._members) if has_prefixes else None,
            num_prefix_splits=GRAPH_PREFIX_SPLITS if has_prefixes else 0,
        )
        no_tiles = prefill.PrefillTiles(self._no_tiles, self._no_tiles, 1)
        return AttentionPlan(self._tables[:size], self._order[: size + 1], self._context_lens[:size], no_tiles, rows)

    def fill(self, step: StepInput, shared: SharedPrefixes, size: int, staging: Staging) -> None:
        """Take over a step of one token a sequence, and pad it to `size` rows. Waits for nothing."""
        count, int32 = len(step.context_lens), torch.int32
        reserved_slot = self._reserved_block * self._shape.block_size
        for target, source, padding in (
            (self.token_ids, step.token_ids, 0),
            (self.positions, step.positions, 0),
            (self.slots, step.slot_mapping, reserved_slot),
            (self._context_lens, staging.put(step.context_lens, int32), 1),
        ):
            target[:count].copy_(source)
            target[count:size].fill_(padding)
        self._tables[:count, : step.block_tables.shape[1]].copy_(step.block_tables)
        self._tables[count:size, 0].fill_(self._reserved_block)
        if shared:
            self._fill_prefixes(shared, count, size, staging)

    def _fill_prefixes(self, shared: SharedPrefixes, count: int, size: int, staging: Staging) -> None:
        def place(values: Sequence[int]) -> Tensor:
            return staging.put(values, torch.int32)

        groups = [(rows, rows[0], length) for rows, length in shared]
        planned = prefix.PrefixTiles.plan(groups, self._shape.group, self._config, place)
        self._starts[:count].copy_(place(prefix_starts(shared, count)))
        self._starts[count:size].zero_()
        self._tiles[: len(planned.tiles)].copy_(planned.tiles)
        self._tiles[len(planned.tiles) :].zero_()  # no member, no key
        self._members[: len(planned.members)].copy_(planned.members)
