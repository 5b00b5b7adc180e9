"""Many records through the whole run with a stub in place of the engine: flat memory, and little time for the rest.

Time is that of the processor: what a commit waits for the medium depends on the medium, and there is one for each step.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from qwen_batch.write.verify import verify


def measure(folder: Path, model: Path, count: int) -> dict[str, float]:
    with (folder / "records.jsonl").open("w") as file:
        for number in range(count):
            text = f"Ticket {number}: the customer shall pay the supplier a penalty for each week of delay. " * 3
            file.write(json.dumps({"id": f"ticket-{number}", "text": text}) + "\n")
    job = folder / "job.yaml"
    job.write_text(
        f"name: many\nmodel: {model}\ninput: records.jsonl\nprompt: List the parties.\n"
        "engine: {device: cpu, dtype: float32, kv_memory: 16MiB, max_model_len: 1024}\noutput: {dir: out}\n"
    )
    command = [sys.executable, str(Path(__file__).with_name("hundred_thousand.py")), str(job)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=1200)
    found: dict[str, float] = json.loads(done.stdout)
    table = pq.read_table(folder / "out/results", columns=["doc_id"])
    assert len(table) == len(table["doc_id"].unique()) == found["documents"] == count
    return found


@pytest.mark.slow
def test_a_hundred_thousand_records(tmp_path: Path, tiny_qwen3: Path) -> None:
    found = measure(tmp_path, tiny_qwen3, 100_000)
    print(found)
    assert found["peak_rss_bytes"] - found["early_rss_bytes"] < 300e6
    assert found["planner_cpu_seconds"] + found["journal_cpu_seconds"] < 0.3e-3 * 100_000
    assert len(list((tmp_path / "out/results").iterdir())) <= 30, "small parts are merged at the end"
    assert verify(tmp_path / "out").problems == []


def test_five_thousand_records(tmp_path: Path, tiny_qwen3: Path) -> None:
    found = measure(tmp_path, tiny_qwen3, 5_000)
    assert found["planner_cpu_seconds"] + found["journal_cpu_seconds"] < 0.6e-3 * 5_000, (
        found
    )  # twice as much as is promised
