"""The pile: requests that wait, in the order in which they should run.

Requests of one level (user priority, then the level of a map-reduce) stand in a tree over the blocks of their prompts,
its edges compressed. A group is a node: its members begin with the same blocks. Groups are worked off depth first, so
that a shared prefix is computed when its group is opened and is let go with the last member (planning over a known
pile as in BatchLLM, Zheng et al. 2024). Inside a group, members and smaller groups stand in buckets: longest expected
output first, then longest prompt, then as they came. The member that came first opens the group.

Nothing starves: within its level, the n-th request to come is at the latest the (n + MAX_OVERTAKES)-th to go.
"""

from __future__ import annotations

import math
from bisect import insort
from collections import OrderedDict
from collections.abc import Callable, Iterator
from functools import lru_cache

from qwen_batch.engine.sequence import Sequence

# What planning looks at in advance; more does not enter. A look-ahead of this many tokens takes about 60 MB.
LOOKAHEAD_REQUESTS = 4096
LOOKAHEAD_TOKENS = 1 << 20
MAX_OVERTAKES = 4 * LOOKAHEAD_REQUESTS
# Requests that one step passes over because they do not fit the free blocks, while smaller ones behind them do.
MAX_MISFITS = 8

Bucket = tuple[int, int]  # smaller goes first
Hashes = tuple[int, ...]
InFlight = Callable[[Hashes, int, int], bool]  # whether one of hashes[start:end] is just being computed
_OPEN: Bucket = (-(1 << 30), 0)  # of groups with members that have run


def bucket_of(expected_output_tokens: int, num_prompt_tokens: int) -> Bucket:
    """Quarters of octaves: lengths in a bucket differ by a fifth at most."""
    return -_quarter_octaves(expected_output_tokens), -_quarter_octaves(num_prompt_tokens)


@lru_cache(maxsize=LOOKAHEAD_REQUESTS)
def _quarter_octaves(count: int) -> int:
    return int(4 * math.log2(max(1, count)))


class Group:
    """Waiting sequences whose prompts begin with the same `depth` blocks."""

    __slots__ = ("bucket", "buckets", "children", "depth", "first", "group", "hashes", "is_open", "order")

    def __init__(
        self, group: Group | None, hashes: Hashes, depth: int, bucket: Bucket, first: Sequence | None = None
    ) -> None:
        self.group = group  # the one above, in whose `bucket` this one stands
        self.bucket = bucket
        self.hashes = hashes  # of any member; the first `depth` are the group's
        self.depth = depth
        self.first = first  # to come; it opens the group
        self.is_open = False
        self.children: dict[int, Group | Sequence] = {}  # by the hash of the next block
        self.buckets: dict[Bucket, OrderedDict[Group | Sequence, None]] = {}
        self.order: list[Bucket] = []  # keys of `buckets`, sorted

    def put(self, item: Group | Sequence, bucket: Bucket) -> None:
        items = self.buckets.get(bucket)
        if items is None:
            items = self.buckets[bucket] = OrderedDict()
            insort(self.order, bucket)
        items[item] = None
        item.bucket = bucket
        item.group = self

    def take(self, item: Group | Sequence) -> None:
        items = self.buckets[item.bucket]
        del items[item]
        if not items:
            del self.buckets[item.bucket]
            self.order.remove(item.bucket)

    def move(self, item: Group | Sequence, bucket: Bucket) -> None:
        if item.bucket != bucket:
            self.take(item)
            self.put(item, bucket)


class Level:
    """What waits with one priority and one level of a map-reduce."""

    def __init__(self) -> None:
        self.root = Group(None, (), 0, _OPEN)
        self.by_arrival: OrderedDict[Sequence, None] = OrderedDict()
        self.resumed: list[Sequence] = []  # preempted ones, outside the tree; the last goes first
        self.num_arrived = 0
        self.num_taken = 0

    def __len__(self) -> int:
        return len(self.by_arrival) + len(self.resumed)

    def add(self, sequence: Sequence, hashes: Hashes, bucket: Bucket) -> None:
        sequence.arrival = self.num_arrived
        self.num_arrived += 1
        self.by_arrival[sequence] = None
        group = self._group_for(sequence, hashes)
        group.put(sequence, bucket)
        _settle(group)

    def _group_for(self, sequence: Sequence, hashes: Hashes) -> Group:
        group = self.root
        while group.depth < len(hashes):
            first = hashes[group.depth]
            child = group.children.get(first)
            if child is None:
                group.children[first] = sequence
                break
            if not (isinstance(child, Group) and _begins_with(hashes, child)):
                child = _split(group, child, hashes)
            group = child
        return group

    def take(self, sequence: Sequence) -> None:
        self.num_taken += 1
        del self.by_arrival[sequence]
        group = sequence.group
        assert group is not None
        group.take(sequence)
        sequence.group = None
        hashes = sequence.block_hashes or ()
        if group.depth < len(hashes):
            del group.children[hashes[group.depth]]
        while group.group is not None:
            above = group.group
            if group.order:
                group.is_open, group.first = True, None
                above.move(group, _OPEN)
            else:
                above.take(group)
                del above.children[group.hashes[above.depth]]
            group = above

    def rebucket(self, bucket: Callable[[Sequence], Bucket]) -> None:
        for sequence in self.by_arrival:
            group = sequence.group
            assert group is not None
            group.move(sequence, bucket(sequence))
            _settle(group)

    @property
    def overdue(self) -> Sequence | None:
        """The oldest, once it has been overtaken often enough."""
        oldest = next(iter(self.by_arrival), None)
        return oldest if oldest is not None and self.num_taken >= oldest.arrival + MAX_OVERTAKES else None

    def num_wanted(self, hashes: Hashes) -> int:
        """How many of the first blocks a waiting sequence begins with, too."""
        group = self.root
        while group.depth < len(hashes):
            child = group.children.get(hashes[group.depth])
            if isinstance(child, Group) and _begins_with(hashes, child):
                group = child
                continue
            return group.depth if child is None else _common(hashes, child, group.depth)
        return group.depth


def _begins_with(hashes: Hashes, group: Group) -> bool:
    """Hashes are chained: where one is equal, all before it are."""
    return group.depth <= len(hashes) and hashes[group.depth - 1] == group.hashes[group.depth - 1]


def _common(hashes: Hashes, item: Group | Sequence, start: int) -> int:
    other = item.hashes[: item.depth] if isinstance(item, Group) else item.block_hashes or ()
    end = min(len(hashes), len(other))
    while start < end and hashes[start] == other[start]:
        start += 1
    return start


def _split(above: Group, child: Group | Sequence, hashes: Hashes) -> Group:
    """A new group between, of what `child` and `hashes` have in common."""
    depth = _common(hashes, child, above.depth)
    group = Group(above, hashes, depth, child.bucket, child.first if isinstance(child, Group) else child)
    other = child.hashes if isinstance(child, Group) else child.block_hashes or ()
    above.take(child)
    above.put(group, child.bucket)
    above.children[hashes[above.depth]] = group
    group.put(child, child.bucket)
    group.is_open = isinstance(child, Group) and child.is_open
    if depth < len(other):
        group.children[other[depth]] = child
    return group


def _settle(group: Group) -> None:
    """Groups stand in the bucket of their best member, open ones before all."""
    while group.group is not None and not group.is_open and group.order[0] != group.bucket:
        group.group.move(group, group.order[0])
        group = group.group


class WaitingQueue:
    """All levels. Counts are of sequences and of their tokens."""

    def __init__(self) -> None:
        self._levels: dict[tuple[int, int], Level] = {}
        self._order: list[tuple[int, int]] = []  # keys of levels, (-priority, -level), sorted
        self._num_waiting = 0
        self.num_tokens = 0

    def __len__(self) -> int:
        return self._num_waiting

    def has_room(self, least_requests: int, least_tokens: int) -> bool:
        """Whether planning wants to see more; it does as long as there are fewer than these of both."""
        max_requests = max(LOOKAHEAD_REQUESTS, least_requests)
        return self._num_waiting < max_requests and self.num_tokens < max(LOOKAHEAD_TOKENS, least_tokens)

    def add(self, sequence: Sequence, hashes: Hashes, bucket: Bucket) -> None:
        self._level(sequence).add(sequence, hashes, bucket)
        self._count(sequence, 1)

    def resume(self, sequence: Sequence) -> None:
        """Take back what was preempted: it goes before all that have not run yet, among those of its priority."""
        self._level(sequence).resumed.append(sequence)
        self._count(sequence, 1)

    def take(self, sequence: Sequence) -> None:
        """Remove a sequence that is to run."""
        key = _level_key(sequence)
        level = self._levels[key]
        if sequence.group is None:
            level.resumed.remove(sequence)
        else:
            level.take(sequence)
        if not level:
            del self._levels[key]
            self._order.remove(key)
        self._count(sequence, -1)

    def num_wanted(self, hashes: Hashes) -> int:
        """How many of the first blocks somebody who waits begins with, too."""
        return max((level.num_wanted(hashes) for level in self._levels.values()), default=0) if hashes else 0

    def rebucket(self, bucket: Callable[[Sequence], Bucket]) -> None:
        """Sort anew, after estimates have changed."""
        for level in self._levels.values():
            level.rebucket(bucket)

    def drain(self) -> Iterator[Sequence]:
        """Take everything out."""
        for level in self._levels.values():
            for sequence in level.by_arrival:
                sequence.group = None
                yield sequence
            yield from level.resumed
        self._levels.clear()
        self._order.clear()
        self._num_waiting = self.num_tokens = 0

    def levels(self) -> Iterator[tuple[int, Level]]:
        """(user priority, level), in the order in which they go."""
        for key in self._order:
            yield -key[0], self._levels[key]

    def _level(self, sequence: Sequence) -> Level:
        key = _level_key(sequence)
        level = self._levels.get(key)
        if level is None:
            level = self._levels[key] = Level()
            insort(self._order, key)
        return level

    def _count(self, sequence: Sequence, change: int) -> None:
        self._num_waiting += change
        self.num_tokens += change * len(sequence.token_ids)


def _level_key(sequence: Sequence) -> tuple[int, int]:
    return -sequence.request.priority, -sequence.request.level


class Picks:
    """One step's walk through the queue. `next` proposes; the caller takes what it proposes, or passes it over."""

    def __init__(self, queue: WaitingQueue, is_in_flight: InFlight) -> None:
        self._queue = queue
        self._is_in_flight = is_in_flight
        self._passed: set[Group | Sequence] = set()  # not in this step
        self._num_misfits = 0
        self._proposed_from: Level | None = None
        self._last_level: Level | None = None  # where something did not fit: levels behind it wait

    def next(self, may_open: bool) -> Sequence | None:
        """The next one whose prefix nobody is just computing; None when the step has to do without.

        may_open: whether a further group may be opened beside one whose members wait for its prefix.
        Levels of one user priority may fill up each other's steps, other priorities may not.
        """
        first_priority: int | None = None
        for priority, level in self._queue.levels():
            first_priority = priority if first_priority is None else first_priority
            if priority != first_priority:
                return None
            found = self._next_in(level, may_open)
            if found is not None:
                self._proposed_from = level
                return found
            if level is self._last_level or level.overdue is not None:
                return None
        return None

    def pass_over(self, sequence: Sequence) -> bool:
        """It does not fit. Whether to go on with others: not before one that was preempted or is overdue."""
        level = self._proposed_from
        assert level is not None
        self._passed.add(sequence)
        self._num_misfits += 1
        self._last_level = level
        return sequence.group is not None and level.overdue is not sequence and self._num_misfits < MAX_MISFITS

    def _next_in(self, level: Level, may_open: bool) -> Sequence | None:
        for sequence in reversed(level.resumed):
            if not self._is_blocked(sequence):
                return sequence
        overdue = level.overdue
        if overdue is not None:
            return None if self._is_blocked(overdue) else overdue
        return self._first(level.root, may_open)

    def _is_blocked(self, sequence: Sequence) -> bool:
        hashes = sequence.block_hashes or ()
        return sequence in self._passed or self._is_in_flight(hashes, 0, len(hashes))

    def _first(self, root: Group, may_open: bool) -> Sequence | None:
        """Depth first, without recursion: prompts that each go on where another ends make deep trees."""
        stack = [(root, _items(root, may_open))]
        while stack:
            group, items = stack[-1]
            for item in items:
                if item in self._passed:
                    continue
                opener = item if isinstance(item, Sequence) else item.first
                if opener is not None and opener not in self._passed:
                    hashes = opener.block_hashes or ()
                    if not self._is_in_flight(hashes, group.depth, len(hashes)):
                        return opener
                elif isinstance(item, Group) and not self._is_in_flight(item.hashes, group.depth, item.depth):
                    stack.append((item, _items(item, may_open)))
                    break
                self._passed.add(item)
            else:
                self._passed.add(group)
                stack.pop()
        return None


def _items(group: Group, may_open: bool) -> Iterator[Group | Sequence]:
    """Members and smaller groups in order; where a group is open, the others only with leave."""
    for bucket in group.order:
        yield from group.buckets[bucket]
        if bucket == _OPEN and not may_open:
            return
