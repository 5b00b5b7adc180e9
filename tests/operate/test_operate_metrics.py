"""Metrics of real runs, and the alert rules through promtool."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from importlib import resources
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from qwen_batch.cli import main
from qwen_batch.errors import RunError, StoppedError, UsageError
from qwen_batch.job import load_job
from qwen_batch.operate.metrics import NoMetrics, open_metrics
from qwen_batch.pipeline import RunOptions, run_job

Samples = dict[tuple[str, ...], float]
MONITORING = resources.files("qwen_batch.operate").joinpath("monitoring")


def parse(text: str) -> Samples:
    """(name, label values but batch_job's ...) -> value."""
    samples: Samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = [value for name, value in sorted(sample.labels.items()) if name != "batch_job"]
            assert sample.labels["batch_job"] == "night"
            samples[(sample.name.removeprefix("qwen_batch_"), *labels)] = sample.value
    return samples


@pytest.fixture
def job(tmp_path: Path, tiny_qwen3: Path) -> Path:
    records = [{"id": str(number), "text": f"Text {number}."} for number in range(8)]
    lines = [*map(json.dumps, records), "{broken"]
    (tmp_path / "records.jsonl").write_text("\n".join(lines) + "\n")
    path = tmp_path / "job.yaml"
    path.write_text(
        f"name: night\nmodel: {tiny_qwen3}\ninput: records.jsonl\nprompt: List the parties.\n"
        "sampling: {max_tokens: 6}\nengine: {device: cpu, dtype: float32}\n"
        "output: {dir: out}\noperate: {metrics_file: metrics.prom}\n"
    )
    return path


def test_a_text_file_tells_of_the_run(job: Path) -> None:
    started = time.time()
    summary = run_job(load_job(job), RunOptions(quiet=True))
    found = parse((job.parent / "metrics.prom").read_text())
    assert found["documents_total", "failed"] == 1
    assert found["documents_total", "ok"] + found["documents_total", "flagged"] == 8
    assert found["tokens_total", "prompt"] == summary.prompt_tokens
    assert found["tokens_total", "completion"] == summary.completion_tokens > 0
    assert found[("document_seconds_count",)] == 9
    assert found["stage_seconds_total", "device"] > 0
    assert 0 < found[("device_busy_ratio",)] <= 1
    assert 0 <= found[("kv_used_ratio",)] <= 1
    assert found[("disk_free_bytes",)] > 0
    assert (found[("run_active",)], found[("run_exit_code",)]) == (0, 3)
    assert started <= found[("last_success_timestamp_seconds",)] <= time.time()
    assert found["queue_length", "documents"] == 0
    assert not list(job.parent.glob("metrics.prom.*")), "the temporary file is gone"


@pytest.mark.parametrize(("file", "message"), [("", "is a folder; name the"), ("no/x.prom", "there is no such folder")])
def test_a_metrics_file_that_cannot_be_is_refused(job: Path, file: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        run_job(load_job(job), RunOptions(quiet=True, metrics_file=str(job.parent / file)))


def test_a_failed_night_does_not_hide_the_last_good_one(job: Path) -> None:
    run_job(load_job(job), RunOptions(quiet=True))
    good = parse((job.parent / "metrics.prom").read_text())[("last_success_timestamp_seconds",)]
    with pytest.raises(UsageError):
        run_job(load_job(job, ["engine.max_model_len=99999", "prompt.question=Why?"]), RunOptions(quiet=True))
    found = parse((job.parent / "metrics.prom").read_text())
    assert found[("last_success_timestamp_seconds",)] == good > 0
    assert (found[("run_exit_code",)], found[("run_active",)]) == (2, 0)


def test_a_port_alone_tells_of_the_last_success_too(tmp_path: Path) -> None:
    (tmp_path / ".journal").mkdir()
    started = time.time()
    for seen in (False, True):
        port = free_port()
        with open_metrics("night", tmp_path, file=None, host="127.0.0.1", port=port) as metrics:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as response:
                found = parse(response.read().decode())
            assert (found[("last_success_timestamp_seconds",)] >= started) == seen
            metrics.finish(0)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_real_run_is_scraped_while_it_lasts(job: Path) -> None:
    port = free_port()
    pages: list[str] = []
    ended = threading.Event()

    def scrape() -> None:
        while not ended.is_set():
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as response:
                    pages.append(response.read().decode())
            except OSError:
                pass  # not open yet
            time.sleep(0.05)

    scraper = threading.Thread(target=scrape)
    scraper.start()
    try:
        options = [f"operate.metrics_port={port}", "sampling={max_tokens: 120, ignore_eos: true}"]
        run_job(load_job(job, options), RunOptions(quiet=True))
    finally:
        ended.set()
        scraper.join()
    assert parse(pages[0])[("run_active",)] == 1
    assert any(parse(page).get(("queue_length", "requests_running"), 0) > 0 for page in pages)
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5)


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        with (
            pytest.raises(RunError, match=f"operate.metrics_port: 127.0.0.1:{port} cannot be opened: .*another port"),
            open_metrics("night", None, file=None, host="127.0.0.1", port=port),
        ):
            pass


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with (
        pytest.raises(UsageError, match="there is no such folder for the metrics file"),
        open_metrics("night", None, file=str(tmp_path / "none/x.prom"), host="", port=None),
    ):
        pass


def test_a_signal_is_an_exit_code(tmp_path: Path) -> None:
    file = tmp_path / "x.prom"
    with (
        pytest.raises(StoppedError),
        open_metrics("night", tmp_path, file=str(file), host="", port=None),
    ):
        raise StoppedError("stopped", 15)
    assert parse(file.read_text())[("run_exit_code",)] == 143


def test_nobody_asked() -> None:
    with open_metrics("night", None, file=None, host="", port=None) as metrics:
        assert isinstance(metrics, NoMetrics)
    script = "import sys, qwen_batch.operate.metrics; sys.exit('prometheus_client' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def series(name: str, values: str, **labels: str) -> dict[str, str]:
    inner = ",".join(f'{key}="{value}"' for key, value in {"batch_job": "night", **labels}.items())
    return {"series": f"qwen_batch_{name}{{{inner}}}", "values": values}


def alert(minutes: str, name: str, *firing: str) -> dict[str, object]:
    """At this time the alert fires with this summary, or does not."""
    rules = yaml.safe_load(MONITORING.joinpath("alerts.yml").read_text())["groups"][0]["rules"]
    (rule,) = (rule for rule in rules if rule["alert"] == name)
    expected = [
        {
            "exp_labels": {"batch_job": "night", **rule["labels"]},
            "exp_annotations": {"summary": text, "description": rule["annotations"]["description"]},
        }
        for text in firing
    ]
    return {"eval_time": minutes, "alertname": name, "exp_alerts": expected}


RULE_TESTS = [
    {
        "interval": "1m",
        "input_series": [
            series("last_success_timestamp_seconds", "1x2000"),
            series("run_start_timestamp_seconds", "0+60x2000"),
        ],
        "alert_rule_test": [
            alert("26h", "QwenBatchNoSuccess"),
            alert("26h10m", "QwenBatchNoSuccess", "night: no run has come to its end for more than 26 hours"),
        ],
    },
    {  # a first run, that goes on and on
        "interval": "1m",
        "input_series": [
            series("last_success_timestamp_seconds", "0x3600"),
            series("run_start_timestamp_seconds", "_x60 3600x3540"),
        ],
        "alert_rule_test": [
            alert("26h", "QwenBatchNoSuccess"),
            alert("27h10m", "QwenBatchNoSuccess", "night: no run has come to its end for more than 26 hours"),
        ],
    },
    {
        "interval": "1m",
        "input_series": [series("run_exit_code", "0x9 1x9 3x9 143x9")],
        "alert_rule_test": [
            alert("5m", "QwenBatchRunFailed"),
            alert("15m", "QwenBatchRunFailed", "night: the last run ended with exit code 1"),
            alert("25m", "QwenBatchRunFailed"),
            alert("35m", "QwenBatchRunFailed", "night: the last run ended with exit code 143"),
        ],
    },
    {
        "interval": "1m",
        "input_series": [
            series("documents_total", "94x20 80x20", status="ok"),
            series("documents_total", "4x20 10x20", status="failed"),
        ],
        "alert_rule_test": [
            alert("19m", "QwenBatchFailureShare"),
            alert("39m", "QwenBatchFailureShare", "night: 11.11% of the documents failed"),
        ],
    },
    {
        "interval": "1m",
        "input_series": [
            series("documents_total", "1x30", status="ok"),
            series("documents_total", "4x30", status="failed"),
        ],
        "alert_rule_test": [alert("29m", "QwenBatchFailureShare")],  # too few to tell
    },
    {
        "interval": "1m",
        "input_series": [
            series("stage_seconds_total", "0+57x60 3420+15x60", stage="device"),
            series("run_active", "1x120"),
        ],
        "alert_rule_test": [
            alert("1h", "QwenBatchDeviceIdle"),
            alert("1h50m", "QwenBatchDeviceIdle", "night: the device is busy 25% of the time"),
        ],
    },
    {
        "interval": "1m",
        "input_series": [series("stage_seconds_total", "0+0x120", stage="device"), series("run_active", "0x120")],
        "alert_rule_test": [alert("1h50m", "QwenBatchDeviceIdle")],  # no run
    },
    {
        "interval": "1m",
        "input_series": [series("disk_free_bytes", "10737418240x20 1073741824x20")],
        "alert_rule_test": [
            alert("19m", "QwenBatchDiskFull"),
            alert("39m", "QwenBatchDiskFull", "night: 1GiB left where the output is"),
        ],
    },
]


def test_alert_rules(tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not here; it comes with Debian's package prometheus")
    rules = tmp_path / "alerts.yml"
    rules.write_text(MONITORING.joinpath("alerts.yml").read_text())
    tests = tmp_path / "tests.yml"
    tests.write_text(yaml.safe_dump({"rule_files": ["alerts.yml"], "evaluation_interval": "1m", "tests": RULE_TESTS}))
    for command in (["check", "rules", str(rules)], ["test", "rules", str(tests)]):
        done = subprocess.run([promtool, *command], capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr


def test_dashboard_and_rules_name_metrics_that_exist(job: Path) -> None:
    run_job(load_job(job), RunOptions(quiet=True))
    exported = {name for name, *_ in parse((job.parent / "metrics.prom").read_text())}
    used = set()
    dashboard = json.loads(MONITORING.joinpath("dashboard.json").read_text())
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            used |= set(re.findall(r"qwen_batch_(\w+)", target["expr"]))
    used |= set(re.findall(r"qwen_batch_(\w+)", MONITORING.joinpath("alerts.yml").read_text()))
    assert len(used) >= 10
    assert used <= exported


def test_the_command_line_writes_them(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def call(*arguments: object) -> int:
        monkeypatch.setattr(sys, "argv", ["qwen-batch", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0)

    assert call("run", job, "-q", "--metrics-file", job.parent / "other.prom") == 3
    assert parse((job.parent / "other.prom").read_text())[("run_exit_code",)] == 3
    assert not (job.parent / "metrics.prom").exists()
    assert call("monitoring", job.parent) == 0
    for name in ("dashboard.json", "alerts.yml"):
        assert (job.parent / f"qwen-batch-{name}").read_bytes() == MONITORING.joinpath(name).read_bytes()
    assert call("monitoring", job.parent / "none") == 2
