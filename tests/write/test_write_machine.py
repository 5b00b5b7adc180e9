"""Random histories of a store: adds, changes, flushes, time, stops, reopenings. The table never lies."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from write_helpers import Killed, StoppingDisk, abandon, answers, make_row, open_store

DOC_IDS = st.sampled_from([f"doc-{number}" for number in range(8)])


class StoreMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.durable: dict[str, tuple[str, str | None]] = {}  # document -> (answer, key) that must be there
        self.maybe: dict[str, tuple[str, str | None]] = {}  # what the add that was stopped would have made of it
        self.seen: dict[str, str] = {}  # what a reader has seen
        self.version = 0
        self.now = 0.0
        self.disk = StoppingDisk(10**9)
        self.store = open_store(self.folder, disk=self.disk)

    def attempt(self, action: Callable[[], None]) -> bool:
        """Run it; when the world stops in it, begin a new one."""
        try:
            action()
        except Killed:
            abandon(self.store)
            answers(self.folder)
            self.disk = StoppingDisk(10**9)
            self.store = open_store(self.folder, disk=self.disk, clock=lambda: self.now, flush_seconds=10.0)
            return False
        return True

    @rule(doc_ids=st.lists(DOC_IDS, max_size=5))
    def add(self, doc_ids: list[str]) -> None:
        self.version += 1
        new = dict.fromkeys(doc_ids, (f"answer-{self.version}", f"key-{self.version}"))
        rows = [(make_row(doc_id, new[doc_id][0], seconds=self.version), new[doc_id][1]) for doc_id in doc_ids]
        if self.attempt(lambda: self.store.add_rows(rows)):
            self.durable.update(new)
        else:
            self.maybe = {**self.durable, **new}

    @rule()
    def flush(self) -> None:
        if self.attempt(self.store.flush):
            assert answers(self.folder) == {doc_id: answer for doc_id, (answer, _) in self.durable.items()}

    @rule(seconds=st.floats(0, 15))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.attempt(self.store.tick)

    @rule(steps=st.integers(1, 8))
    def stop_soon(self, steps: int) -> None:
        self.disk._stop_at = len(self.disk.names) + steps

    @rule(fresh=st.booleans())
    def reopen(self, fresh: bool) -> None:
        if self.attempt(self.store.close):
            self.disk = StoppingDisk(10**9)
            self.store = open_store(self.folder, disk=self.disk, fresh=fresh)
            if fresh:
                self.durable = {doc_id: (answer, None) for doc_id, (answer, _) in self.durable.items()}

    @precondition(lambda self: len(self.durable) > 2)
    @rule()
    def lose_a_part(self) -> None:
        self.attempt(self.store.close)
        abandon(self.store)
        next((self.folder / "results").glob("part-*")).unlink()
        self.disk = StoppingDisk(10**9)
        self.store = open_store(self.folder, disk=self.disk)
        self.seen = {}

    @invariant()
    def readers_see_each_document_once(self) -> None:
        found = answers(self.folder)
        assert self.seen.keys() <= found.keys(), "a document vanished"
        self.seen = found

    @invariant()
    def keys_tell_the_truth(self) -> None:
        if self.maybe:
            documents = self.maybe.items()
            kept = all(
                self.store.is_current(doc_id, key or "") == ("ok" if key else None) for doc_id, (_, key) in documents
            )
            self.durable, self.maybe = (self.maybe if kept else self.durable), {}
        for doc_id, (_, key) in self.durable.items():
            assert self.store.is_current(doc_id, key or "") == ("ok" if key else None)

    def teardown(self) -> None:
        self.attempt(self.store.close)
        abandon(self.store)
        open_store(self.folder).close()
        assert answers(self.folder) == {doc_id: answer for doc_id, (answer, _) in self.durable.items()}
        shutil.rmtree(self.folder)


StoreMachine.TestCase.settings = settings(
    max_examples=25,
    stateful_step_count=20,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestStoreMachine = StoreMachine.TestCase
