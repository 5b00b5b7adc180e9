"""Who has which block of KV memory: the free list, the prefix tree, and the sequences' own blocks.

A block is in exactly one of three places: free; a node of the prefix tree; or owned by one sequence. `check` proves it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from qwen_batch.engine.prefix_tree import PrefixTree
from qwen_batch.engine.sequence import Sequence


class BlockManager:
    """Allocates blocks to sequences. All counts are in blocks."""

    def __init__(self, num_blocks: int, block_size: int, *, share_prefixes: bool = True) -> None:
        self.num_blocks = num_blocks
        self.block_size = block_size
        self.shares_prefixes = share_prefixes
        self._free = list(range(num_blocks - 1, -1, -1))  # taken from the end: low numbers first, used again soon
        self._tree = PrefixTree(block_size)

    @property
    def num_available(self) -> int:
        """Blocks that can be had now: free, or in an unused branch of the tree."""
        return len(self._free) + self._tree.num_unused

    @property
    def num_used(self) -> int:
        return self.num_blocks - self.num_available

    def blocks_for(self, num_tokens: int) -> int:
        return -(-num_tokens // self.block_size)

    def start(self, sequence: Sequence) -> None:
        """Give a sequence the blocks of its prefix that are in the tree. At least its last token stays uncomputed."""
        assert not sequence.block_table
        if not self.shares_prefixes:
            return
        sequence.nodes = self._tree.match(sequence.token_ids[:-1])
        self._tree.acquire(sequence.nodes)
        sequence.block_table = [node.block_id for node in sequence.nodes]
        sequence.num_computed_tokens = len(sequence.nodes) * self.block_size

    def can_grow(self, sequence: Sequence, num_tokens: int) -> bool:
        """Whether the next `num_tokens` tokens of the sequence find room."""
        return self.missing(sequence, num_tokens) <= self.num_available

    def missing(self, sequence: Sequence, num_tokens: int) -> int:
        """Blocks that the next `num_tokens` tokens of the sequence need beyond those that it has."""
        wanted = self.blocks_for(sequence.num_computed_tokens + num_tokens)
        return max(0, wanted - len(sequence.block_table))

    def grow(self, sequence: Sequence, num_tokens: int) -> None:
        """Give the sequence room for its next `num_tokens` tokens; needs can_grow."""
        for _ in range(self.missing(sequence, num_tokens)):
            sequence.block_table.append(self._free.pop() if self._free else self._tree.evict())

    def share(self, sequence: Sequence, num_tokens: int | None = None) -> None:
        """Put the sequence's full computed blocks into the tree, so that others find them.

        num_tokens: only blocks of the first so many tokens; a step that is still under way may have computed more.
        Where another sequence has computed the same block meanwhile, this one goes over to that block.
        """
        if not self.shares_prefixes:
            return
        size, table = self.block_size, sequence.block_table
        num_tokens = sequence.num_computed_tokens if num_tokens is None else num_tokens
        for index in range(len(sequence.nodes), num_tokens // size):
            parent = sequence.nodes[-1] if sequence.nodes else None
            node = self._tree.insert(parent, sequence.token_ids[index * size : (index + 1) * size], table[index])
            if node.block_id != table[index]:
                self._free.append(table[index])
                table[index] = node.block_id
            sequence.nodes.append(node)

    def release(self, sequence: Sequence) -> None:
        """Take back all blocks of a sequence; shared ones stay in the tree until their room is needed."""
        self._free.extend(reversed(sequence.block_table[len(sequence.nodes) :]))
        self._tree.release(sequence.nodes)
        sequence.nodes = []
        sequence.block_table = []
        sequence.num_computed_tokens = 0

    def evict_unused(self) -> None:
        """Free every block that only the prefix tree holds."""
        while self._tree.num_unused:
            self._free.append(self._tree.evict())

    def check(self, sequences: Iterable[Sequence]) -> None:
        """Raise AssertionError unless every block is in exactly one place and the users are counted right."""
        sequences = list(sequences)
        nodes = list(self._tree)
        owned = [block for s in sequences for block in s.block_table[len(s.nodes) :]]
        places = Counter([*self._free, *owned, *(node.block_id for node in nodes)])
        assert places == Counter(range(self.num_blocks)), f"blocks lost or held twice: {places}"
        users = Counter(id(node) for s in sequences for node in s.nodes)
        assert all(node.num_users == users[id(node)] for node in nodes), "users of shared blocks are miscounted"
        assert sum(users.values()) == sum(node.num_users for node in nodes), "a sequence uses a block that was evicted"
        assert self._tree.num_unused == sum(not node.num_users for node in nodes), "unused blocks are miscounted"
        for s in sequences:
            assert [node.block_id for node in s.nodes] == s.block_table[: len(s.nodes)], f"{s} lost its shared blocks"
