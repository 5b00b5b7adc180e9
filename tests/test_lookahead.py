"""A run plans over the whole look-ahead, as `generate` does, and holds no more of the pile than that."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from ideal import ideal_tokens

import qwen_batch.pipeline
from qwen_batch.engine import Engine, EngineConfig, queue
from qwen_batch.engine.scheduler import Scheduler
from qwen_batch.pipeline import _Run
from qwen_batch.read.inputs import iter_inputs
from qwen_batch.read.items import Item
from qwen_batch.records import Request

RunCli = Callable[..., int]
NUM_RECORDS, NUM_WORDINGS = 600, 6
RULES = "Answer the question from the ticket alone, in one sentence, and do not guess what is not written in it. "
ENGINE = {"device": "cpu", "dtype": "float32", "max_num_seqs": 8, "kv_memory": 2_000_000, "max_model_len": 512}


@dataclass
class Seen:
    """What an engine was given, and with what it began, in order."""

    engines: list[Engine] = field(default_factory=list)
    added: list[Request] = field(default_factory=list)
    begun: list[tuple[int, ...]] = field(default_factory=list)

    @property
    def counts(self) -> tuple[int, int, int]:
        stats = self.engines[-1].stats
        return stats.num_computed_tokens, stats.num_steps, stats.num_preemptions


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    seen = Seen()
    load, add, schedule = Engine.load_folder, Engine.add, Scheduler.schedule

    def add_and_note(self: Engine, request: Request) -> None:
        seen.added.append(request)
        add(self, request)

    def schedule_and_note(self: Scheduler) -> Any:
        pieces = schedule(self)
        seen.begun += [tuple(sequence.request.prompt_token_ids) for sequence in self.started]
        return pieces

    monkeypatch.setattr(Engine, "load_folder", lambda *given: seen.engines.append(load(*given)) or seen.engines[-1])
    monkeypatch.setattr(Engine, "add", add_and_note)
    monkeypatch.setattr(Scheduler, "schedule", schedule_and_note)
    for name in ("GATHER_BATCHES", "GATHER_SECONDS", "GATHER_PAUSE_SECONDS"):  # all of it, on a busy machine, too
        monkeypatch.setattr(qwen_batch.pipeline, name, 1000)
    return seen


@pytest.fixture
def job(tmp_path: Path, tiny_qwen3: Path) -> Path:
    """Six wordings in turn, texts of many lengths, and every tenth answer eight times as long."""
    draw = random.Random(3)
    with (tmp_path / "records.jsonl").open("w") as file:
        for number in range(NUM_RECORDS):
            words = " ".join(draw.choice(("paper", "printer", "invoice", "late")) for _ in range(draw.randint(2, 40)))
            chat = [
                {"role": "system", "content": f"{number % NUM_WORDINGS} is the wording. {RULES * 4}"},
                {"role": "user", "content": f"Ticket {number}: {words}"},
            ]
            body = {"messages": chat, "max_tokens": 24 if draw.random() < 0.1 else 3}
            line = {"custom_id": str(number), "method": "POST", "url": "/v1/chat/completions", "body": body}
            file.write(json.dumps(line) + "\n")
    path = tmp_path / "job.yaml"
    path.write_text(
        f"name: test\nmodel: {tiny_qwen3}\ninput: records.jsonl\nsampling: {{max_tokens: 3, ignore_eos: true}}\n"
        f"engine: {json.dumps(ENGINE)}\noutput: {{dir: out}}\nprompt: List the parties.\n"
    )
    return path


def test_a_run_is_planned_as_generate_plans(
    job: Path, run_cli: RunCli, seen: Seen, tiny_qwen3: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_cli("run", job, "-q") in (0, 3)
    asked, begun, counts = list(seen.added), list(seen.begun), seen.counts
    assert len(asked) == len(begun) == NUM_RECORDS

    seen.begun.clear()
    engine = Engine.load_folder(tiny_qwen3, EngineConfig(**ENGINE))  # type: ignore[arg-type]
    engine.generate([request.prompt_token_ids for request in asked], [request.sampling for request in asked])
    assert begun == seen.begun
    assert counts == seen.counts

    assert counts[0] == ideal_tokens(asked, engine.config.block_size), "each shared prefix once"
    longest_first = {tuple(r.prompt_token_ids): r.sampling.max_tokens == 24 for r in asked}
    wordings = [[longest_first[ids] for ids in begun if ids[:20] == first] for first in {ids[:20] for ids in begun}]
    assert len(wordings) == NUM_WORDINGS
    for answers in wordings:
        assert answers[1:] == sorted(answers[1:], reverse=True), "but for the one that opens the group"
        assert sum(answers) > 3

    monkeypatch.setattr(queue, "LOOKAHEAD_REQUESTS", 16)
    run_cli("run", job, "-q", "--fresh")
    assert seen.counts[0] > 1.1 * counts[0], "two batches do not show which prefix comes again"
    assert seen.counts[1] > 1.5 * counts[1], "nor which answers take long"


def test_no_more_of_the_pile_is_in_memory_than_planning_looks_at(
    job: Path, run_cli: RunCli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bounded by requests and, where they are long, by tokens."""
    held: list[int] = []
    tell = _Run._tell

    def tell_and_count(self: _Run) -> None:
        held.append(len(self._under_way))
        tell(self)

    monkeypatch.setattr(_Run, "_tell", tell_and_count)
    monkeypatch.setattr(queue, "LOOKAHEAD_REQUESTS", 64)
    run_cli("run", job, "-q")
    assert 40 < max(held) <= 64 + 8, "what waits, and what runs"
    held.clear()
    monkeypatch.setattr(queue, "LOOKAHEAD_TOKENS", 4096)
    run_cli("run", job, "-q", "--fresh")
    assert 8 < max(held) <= 4096 // 200 + 1 + 8, "prompts have 200 tokens and more"


def test_only_the_first_step_waits_for_documents(
    job: Path, run_cli: RunCli, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until a batch is there. Later steps do not, though records come slowly and fewer than a batch are asked about."""
    waited: list[tuple[int, bool]] = []
    tell = _Run._tell

    def tell_and_note(self: _Run) -> None:
        if self._engine is not None and not self._feed_exhausted:
            waited.append((self._engine.stats.num_steps, self._is_gathering()))
        tell(self)

    def slow(*given: Any, **options: Any) -> Iterator[Item]:
        for item in iter_inputs(*given, **options):
            time.sleep(0.04)
            yield item

    monkeypatch.setattr(_Run, "_tell", tell_and_note)
    monkeypatch.setattr(qwen_batch.pipeline, "iter_inputs", slow)
    monkeypatch.setattr(qwen_batch.pipeline, "GATHER_BATCHES", 1)
    run_cli("run", job, "-q", "--limit", 40)
    assert len(seen.begun) == 40
    assert {gathers for steps, gathers in waited if steps} == {False}
