"""Who was being worked on when a run died."""

from __future__ import annotations

import threading
from pathlib import Path

from write_helpers import abandon, make_call, make_row, open_store


def test_a_death_counts_for_what_was_in_flight(tmp_path: Path) -> None:
    for deaths in range(3):
        store = open_store(tmp_path)
        assert store.deaths("poison") == deaths
        store.begin(["poison", f"innocent-{deaths}"])
        store.add_rows([(make_row(f"innocent-{deaths}"), "k")])
        abandon(store)
    store = open_store(tmp_path)
    assert (store.deaths("poison"), store.deaths("innocent-0")) == (3, 0)
    store.add_rows([(make_row("poison", None, status="failed"), "k")])
    assert store.deaths("poison") == 0
    store.close()


def test_a_document_that_gets_on_is_not_to_blame(tmp_path: Path) -> None:
    for part in range(5):
        store = open_store(tmp_path)
        assert store.deaths("book") == min(part, 1)
        store.begin(["book", "poison"])
        store.add_completions([make_call(f"part-{part}", "book")])
        assert store.deaths("book") == 0
        abandon(store)
    assert open_store(tmp_path).deaths("poison") == 5


def test_an_orderly_end_blames_nobody_and_forgets_nothing(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.begin(["a", "b"])
    store.close()
    store = open_store(tmp_path)
    assert (store.deaths("a"), store.deaths("b")) == (0, 0)
    store.begin(["a"])
    abandon(store)
    open_store(tmp_path).close()
    assert open_store(tmp_path).deaths("a") == 1


def test_a_begin_waits_for_no_part_that_is_being_written(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    told = threading.Thread(target=store.begin, args=(["a"],))
    with store._lock:  # whoever writes parts holds it
        told.start()
        told.join(timeout=60)
        assert not told.is_alive()
    abandon(store)
    assert open_store(tmp_path).deaths("a") == 1
