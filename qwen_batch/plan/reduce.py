"""Merging notes: which go into one call, and how they are made to fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from qwen_batch.errors import DocumentError
from qwen_batch.plan.prompts import Note
from qwen_batch.plan.tokens import Tokenizer, shorten


def group_sizes(sizes: Sequence[int], budget: int) -> list[tuple[int, int]]:
    """Divide three or more neighbours into groups [start, end) of sizes that fit `budget` together.

    A group has two members or more, even where those do not fit (they are shortened then); only the last may be a
    single one, which goes on to the next level as it is. There are at least two groups and fewer groups than sizes,
    so that levels shrink, and groups are about equally many members long, so that they are read equally well.
    """
    if len(sizes) < 3:
        raise ValueError("two notes or fewer are one group")
    most = len(sizes) - 1
    groups = _pack(sizes, budget, most)
    return _pack(sizes, budget, min(most, max(2, -(-len(sizes) // len(groups)))))


def _pack(sizes: Sequence[int], budget: int, most: int) -> list[tuple[int, int]]:
    groups: list[tuple[int, int]] = []
    start, total = 0, 0
    for index, size in enumerate(sizes):
        members = index - start
        if members >= most or (members >= 2 and total + size > budget):
            groups.append((start, index))
            start, total = index, 0
        total += size
    return [*groups, (start, len(sizes))]


def fit_notes(
    notes: Sequence[Note], build: Callable[[Sequence[Note]], list[int]], tokenizer: Tokenizer, limit: int
) -> tuple[list[int], bool]:
    """Token ids of the prompt that `build` makes of the notes, at most `limit`, and whether notes had to be cut.

    Where the notes are too long together, the longest are cut to one common length that fits. Raises DocumentError
    when the prompt does not fit even with nothing left of them.
    """
    counts = [len(tokenizer.encode(note.text)) for note in notes]
    budget = sum(counts)
    ids = build(notes)
    was_cut = False
    while len(ids) > limit:
        if budget <= 0:
            raise DocumentError("too_long", f"the merging prompt alone needs {len(ids)} tokens; {limit} are free")
        budget = max(0, budget - (len(ids) - limit))
        cap = water_level(counts, budget)
        ids = build([replace(note, text=shorten(note.text, tokenizer, cap)) for note in notes])
        was_cut = True
    return ids, was_cut


def water_level(sizes: Sequence[int], budget: int) -> int:
    """The largest cap with sum(min(size, cap)) <= budget; 0 where there is none."""
    left = max(0, budget)
    for taken, size in enumerate(sorted(sizes)):
        share = left // (len(sizes) - taken)
        if size > share:
            return share
        left -= size
    return max(sizes, default=0)
