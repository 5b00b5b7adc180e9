"""Sequences of a step whose contexts begin with the same blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def find_shared_prefixes(
    tables: Sequence[Sequence[int]],
    context_lens: Sequence[int],
    block_size: int,
    *,
    min_branches: int,
    min_tokens: int,
) -> Iterator[tuple[list[int], int]]:
    """Rows whose block tables begin with the same blocks, and the length of that beginning in tokens.

    Each row is in one group at most and keeps at least one key of its own.
    """
    by_first: dict[int, list[int]] = {}
    for row, table in enumerate(tables):
        by_first.setdefault(table[0], []).append(row)
    for members in by_first.values():
        if len(members) < min_branches:
            continue
        first = tables[members[0]]
        limit = min((context_lens[row] - 1) // block_size for row in members)
        count = 0
        while count < limit and all(tables[row][count] == first[count] for row in members):
            count += 1
        if count * block_size >= min_tokens:
            yield members, count * block_size
