"""Which full blocks of keys and values exist, by the tokens that lead to them.

Every node is one full block; the path from the root spells the tokens from position 0. Sequences that begin alike walk
the same path and share its blocks (the tree over blocks follows SGLang's RadixAttention, Zheng et al. 2023). A node
counts its users; a user of a node uses all nodes above it. Nodes without users stay until their block is needed, and
go leaf first, the longest unused first.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence


class Node:
    """A full block. `key` is its own block_size tokens as bytes, so that comparing them is quick."""

    __slots__ = ("block_id", "children", "key", "last_used", "num_users", "parent")

    def __init__(self, block_id: int, key: bytes, parent: Node | None) -> None:
        self.block_id = block_id
        self.key = key
        self.parent = parent
        self.children: dict[bytes, Node] | None = None  # most never have one
        self.num_users = 0
        self.last_used = 0

    def __repr__(self) -> str:
        return f"Node(block {self.block_id}, {self.num_users} users, {len(self.children or ())} children)"


class PrefixTree:
    """See the module's docstring. Blocks are numbers here; who allocates them is not the tree's concern."""

    def __init__(self) -> None:
        self._root = Node(-1, b"", None)
        self._root.num_users = 1  # never evicted
        self._clock = 0
        self._unused_leaves: list[tuple[int, int, Node]] = []  # heap of (last_used, tie, node), entries may be stale
        self._num_pushed = 0
        self.num_unused = 0  # nodes without users: blocks that eviction can give back

    def match(self, keys: Iterable[bytes]) -> list[Node]:
        """The longest path of blocks that spells the beginning of `keys`."""
        path: list[Node] = []
        node = self._root
        for key in keys:
            child = node.children.get(key) if node.children else None
            if child is None:
                break
            path.append(child)
            node = child
        return path

    def insert(self, parent: Node | None, key: bytes, block_id: int) -> Node:
        """The node of these tokens below `parent` (None: the root), made with `block_id` if it is new.

        The caller looks at the node's block_id to learn whether its own block was taken. Acquires the node.
        """
        above = parent or self._root
        if above.children is None:
            above.children = {}
        node = above.children.get(key)
        if node is None:
            node = above.children[key] = Node(block_id, key, above)
            node.num_users = 1
        else:
            self.acquire([node])
        return node

    def acquire(self, nodes: Iterable[Node]) -> None:
        """Count one more user of each node."""
        for node in nodes:
            if node.num_users == 0:
                self.num_unused -= 1
            node.num_users += 1

    def release(self, path: Sequence[Node]) -> None:
        """Count one user less of each node of a path."""
        self._clock += 1
        for node in reversed(path):
            node.num_users -= 1
            node.last_used = self._clock
            if node.num_users == 0:
                self.num_unused += 1
                if not node.children:
                    self._push(node)

    def evict(self, count: int) -> list[int]:
        """Remove `count` nodes, always the leaf that has been unused for longest; their blocks. Needs that many."""
        evicted: list[int] = []
        self.num_unused -= count
        while count:
            last_used, _, node = heapq.heappop(self._unused_leaves)
            if node.parent is None or node.last_used != last_used or node.num_users or node.children:
                continue
            # What was let go together goes together, without a way through the heap for each block.
            while count and node.last_used == last_used and not node.num_users and not node.children:
                evicted.append(node.block_id)
                node = self._remove(node)
                count -= 1
            if not node.num_users and not node.children:
                self._push(node)
        return evicted

    def _remove(self, node: Node) -> Node:
        parent = node.parent
        assert parent is not None
        assert parent.children is not None
        del parent.children[node.key]
        node.parent = None
        return parent

    def _push(self, node: Node) -> None:
        self._num_pushed += 1
        heapq.heappush(self._unused_leaves, (node.last_used, self._num_pushed, node))

    def __iter__(self) -> Iterator[Node]:
        stack = list((self._root.children or {}).values())
        while stack:
            node = stack.pop()
            yield node
            stack.extend((node.children or {}).values())
