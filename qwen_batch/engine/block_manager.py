"""Who has which block of KV memory: the free list, the prefix tree, and the sequences' own blocks.

A block is in exactly one of three places: free; a node of the prefix tree; or owned by one sequence. `check` proves it.
Nodes that nobody uses give way when room is needed, except those that are held: sequences that wait begin with them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import islice

from qwen_batch.engine.prefix_tree import Node, PrefixTree
from qwen_batch.engine.sequence import Sequence


class BlockManager:
    """Allocates blocks to sequences. All counts are in blocks."""

    def __init__(
        self, num_blocks: int, block_size: int, *, share_prefixes: bool = True, max_idle_blocks: int | None = None
    ) -> None:
        """`max_idle_blocks`: of unused branches, beyond which their blocks are used again before fresh ones: memory
        that was never written is not there yet, and writing it first takes time. None: as many as there are."""
        self.num_blocks = num_blocks
        self.block_size = block_size
        self.shares_prefixes = share_prefixes
        self._free = list(range(num_blocks - 1, -1, -1))  # taken from the end: low numbers first, used again soon
        self._max_idle_blocks = num_blocks if max_idle_blocks is None else max_idle_blocks
        self._tree = PrefixTree()
        self._held: dict[int, Node] = {}  # by chain hash; a held node counts one user more

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
        num_blocks = (len(sequence.token_ids) - 1) // self.block_size
        sequence.nodes = self._tree.match(islice(sequence.block_keys(self.block_size, num_blocks), num_blocks))
        self._tree.acquire(sequence.nodes)
        sequence.block_table = [node.block_id for node in sequence.nodes]
        sequence.num_computed_tokens = len(sequence.nodes) * self.block_size

    def can_grow(self, sequence: Sequence, num_tokens: int) -> bool:
        """Whether the next `num_tokens` tokens of the sequence find room."""
        return self.missing(sequence, num_tokens) <= self.num_available

    def grow(self, sequence: Sequence, num_tokens: int) -> None:
        """Give the sequence room for its next `num_tokens` tokens; needs can_grow."""
        missing = self.missing(sequence, num_tokens)
        idle = min(missing, self._tree.num_unused - self._max_idle_blocks)
        if (wanted := max(missing - len(self._free), idle)) > 0:
            self._free.extend(self._tree.evict(wanted))
        if missing:
            sequence.block_table += self._free[: -missing - 1 : -1]
            del self._free[-missing:]

    def missing(self, sequence: Sequence, num_tokens: int) -> int:
        """Blocks that the next `num_tokens` tokens of the sequence need beyond those that it has."""
        wanted = self.blocks_for(sequence.num_computed_tokens + num_tokens)
        return max(0, wanted - len(sequence.block_table))

    def share(self, sequence: Sequence, num_tokens: int | None = None) -> None:
        """Put the sequence's full computed blocks into the tree, so that others find them.

        num_tokens: only blocks of the first so many tokens; a step that is still under way may have computed more.
        Where another sequence has computed the same block meanwhile, this one goes over to that block.
        """
        if not self.shares_prefixes:
            return
        num_full = (sequence.num_computed_tokens if num_tokens is None else num_tokens) // self.block_size
        if num_full == len(sequence.nodes):
            return
        table, nodes = sequence.block_table, sequence.nodes
        keys = sequence.block_keys(self.block_size, num_full)
        for index in range(len(nodes), num_full):
            node = self._tree.insert(nodes[-1] if nodes else None, keys[index], table[index])
            if node.block_id != table[index]:
                self._free.append(table[index])
                table[index] = node.block_id
            nodes.append(node)

    def release(self, sequence: Sequence, num_wanted: int = 0) -> None:
        """Take back all blocks of a sequence; shared ones stay in the tree until their room is needed.

        The first `num_wanted` blocks are held until `unhold`: somebody who waits begins with them.
        """
        hashes = sequence.block_hashes or ()
        for index in range(min(num_wanted, len(sequence.nodes)) - 1, -1, -1):
            if hashes[index] in self._held:  # then all before it are, too
                break
            self._held[hashes[index]] = sequence.nodes[index]
            self._tree.acquire([sequence.nodes[index]])
        self._free.extend(reversed(sequence.block_table[len(sequence.nodes) :]))
        self._tree.release(sequence.nodes)
        sequence.nodes = []
        sequence.block_table = []
        sequence.num_computed_tokens = 0

    def unhold(self, hashes: Iterable[int]) -> None:
        """Nobody who waits begins with these blocks, which lead on from one another, any more."""
        held: list[Node] = []
        for chain in hashes:
            node = self._held.pop(chain, None)
            if node is None:  # then nothing behind it is held, either
                break
            held.append(node)
        if held:
            self._tree.release(held)

    def unhold_all(self) -> bool:
        """Let everything go that is held; False when nothing was."""
        held = list(self._held.values())
        self._held.clear()
        self._tree.release(held)
        return bool(held)

    def evict_unused(self) -> None:
        """Free every block that only the prefix tree holds."""
        self._free.extend(self._tree.evict(self._tree.num_unused))

    def fragmentation(self, sequences: Iterable[Sequence]) -> float:
        """Share of the slots in the blocks of these sequences that hold no token; shared blocks count once."""
        empty = own = 0
        shared: set[int] = set()
        for s in sequences:
            num_own = len(s.block_table) - len(s.nodes)
            own += num_own
            empty += num_own * self.block_size - (s.num_computed_tokens - len(s.nodes) * self.block_size)
            shared.update(node.block_id for node in s.nodes)
        slots = (own + len(shared)) * self.block_size
        return empty / slots if slots else 0.0

    def check(self, sequences: Iterable[Sequence]) -> None:
        """Raise AssertionError unless every block is in exactly one place and the users are counted right."""
        sequences = list(sequences)
        nodes = list(self._tree)
        owned = [block for s in sequences for block in s.block_table[len(s.nodes) :]]
        places = Counter([*self._free, *owned, *(node.block_id for node in nodes)])
        assert places == Counter(range(self.num_blocks)), f"blocks lost or held twice: {places}"
        users = Counter(id(node) for s in sequences for node in s.nodes)
        users.update(id(node) for node in self._held.values())
        assert all(node.num_users == users[id(node)] for node in nodes), "users of shared blocks are miscounted"
        assert sum(users.values()) == sum(node.num_users for node in nodes), "a sequence uses a block that was evicted"
        assert self._tree.num_unused == sum(not node.num_users for node in nodes), "unused blocks are miscounted"
        for s in sequences:
            assert [node.block_id for node in s.nodes] == s.block_table[: len(s.nodes)], f"{s} lost its shared blocks"
