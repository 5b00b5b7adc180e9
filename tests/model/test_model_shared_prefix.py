"""Which sequences of a step begin with the same blocks."""

from __future__ import annotations

from functools import partial

from qwen_batch.model.shared_prefix import find_shared_prefixes


def test_shared_prefixes_are_found_in_block_tables() -> None:
    find = partial(find_shared_prefixes, min_branches=4, min_tokens=32)
    four = [[1, 2, 3, row] for row in range(10, 14)]
    assert list(find([*four, [9, 2, 3, 4]], [60] * 5, 16)) == [([0, 1, 2, 3], 48)]
    assert list(find(four, [49, 60, 60, 60], 16)) == [([0, 1, 2, 3], 48)]
    assert list(find(four, [48, 60, 60, 60], 16)) == [([0, 1, 2, 3], 32)], "each keeps a key of its own"
    assert list(find(four[:3], [60] * 3, 16)) == [], "too few"
    assert list(find([[1, row] for row in range(4)], [30] * 4, 16)) == [], "too short"
    assert list(find([], [], 16)) == []
