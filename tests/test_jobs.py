"""The job files that come with the project load, and say what their comments promise."""

from __future__ import annotations

from pathlib import Path

import pytest

from qwen_batch.job import load_job

ROOT = Path(__file__).resolve().parents[1]
JOBS = sorted((ROOT / "jobs").glob("*.yaml"))
DEMO_WINDOW = 8192  # tokens that the demo model sees
QWEN3_WINDOW = 32768


def test_the_three_jobs_are_there() -> None:
    assert [path.stem for path in JOBS] == ["contracts", "nightly", "tickets"]


@pytest.mark.parametrize("path", JOBS, ids=lambda path: path.stem)
def test_a_job_loads_and_fits_its_model(path: Path) -> None:
    job = load_job(path)
    assert job.name == path.stem
    assert job.prompt.question.count("\n") >= 4
    window = DEMO_WINDOW if job.model.name == "demo" else QWEN3_WINDOW
    assert (job.long_documents.threshold or 0) + job.sampling.max_tokens < 0.95 * window


@pytest.mark.parametrize(("name", "source"), [("contracts", "contracts"), ("tickets", "tickets.jsonl")])
def test_a_demo_job_reads_the_sample_data_and_writes_under_out(name: str, source: str) -> None:
    job = load_job(ROOT / "jobs" / f"{name}.yaml")
    assert [Path(path).resolve() for path in job.input.paths] == [ROOT / "sample_data" / source]
    assert Path(job.input.paths[0]).exists()
    assert job.output.dir is not None
    assert Path(job.output.dir).resolve() == ROOT / "out" / name
    assert job.sampling.temperature == 0


def test_nightly_follows_the_advice_for_qwen3_without_thinking() -> None:
    job = load_job(ROOT / "jobs" / "nightly.yaml")
    assert job.model.name == "Qwen/Qwen3-32B"
    assert job.prompt.thinking == "off"
    assert (job.sampling.temperature, job.sampling.top_p, job.sampling.top_k) == (0.7, 0.8, 20)
    assert job.input.paths == ("/data/inbox",)
