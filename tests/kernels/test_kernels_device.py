"""The measurement for a card, tried on the CPU: the whole command with a tiny shape, and its arithmetic."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from qwen_batch.bench import device, kernels, tune
from qwen_batch.bench.device import EXPECTED_SHARE, Bench
from qwen_batch.bench.device_baselines import baselines, expected_seconds, one_by_one
from qwen_batch.bench.device_checks import all_checks
from qwen_batch.bench.device_targets import describe, targets
from qwen_batch.bench.roofline import Rates
from qwen_batch.bench.shapes import WORK, Work, flops_per_request, random_weights, shape_config
from qwen_batch.engine import Engine
from qwen_batch.model.config import ModelConfig
from qwen_batch.model.decoder import Decoder
from qwen_batch.model.weights import Weights
from qwen_batch.records import Request, SamplingParams

ROOT = Path(__file__).resolve().parents[2]


def test_a_request_takes_what_the_shape_says() -> None:
    config = shape_config("Qwen3-32B")
    seed = flops_per_request(config, Work("seed", 1, 256, 128))
    assert seed == pytest.approx(24.6e12, rel=0.02)  # 2 FLOP for each of 31.2 B weights of layers, and the rest
    shared = flops_per_request(config, Work("tickets", 1, 256, 128, shared_tokens=200))
    assert seed / 3 < shared < seed


def test_prompts_share_what_they_say() -> None:
    prompts = Work("tickets", 3, 20, 1, shared_tokens=16).prompts(500, seed=0)
    assert len({tuple(prompt[:16]) for prompt in prompts}) == 1
    assert len({tuple(prompt) for prompt in prompts}) == 3
    assert {len(prompt) for prompt in prompts} == {20}


@pytest.mark.slow
def test_kernels_pass_the_checks_of_a_card_in_the_interpreter() -> None:
    torch.manual_seed(0)
    checks = list(all_checks(torch.device("cpu"), 0))
    assert len(checks) == 14
    assert all(check.ok for check in checks), checks


def run_device(output: Path, *arguments: str, interpret: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TRITON_INTERPRET": interpret}
    command = [sys.executable, "-W", "ignore", "-m", "qwen_batch.bench.device", "--output", str(output), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=ROOT)


@pytest.mark.slow
def test_the_whole_command_with_a_tiny_shape(tmp_path: Path) -> None:
    done = run_device(tmp_path / "device.json", "--tiny", interpret="1")
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "device.json").read_text())
    assert all(check["ok"] for check in result["checks"])
    assert result["engine_agrees_with_torch"] is True
    assert (result["failed"], result["left_out"], result["running"]) == ([], [], None)
    assert {run.get("who") for run in result["runs"]} == {
        None,  # the profile
        "qwen-batch",
        "transformers one by one",
        "transformers padded batch",
        "transformers continuous batching",
    }
    (profiled,) = (run for run in result["runs"] if "profile" in run)
    assert 0 < profiled["busy_share"] < 1
    assert profiled["profile"][0]["kernel"] == "aten::mm"


def test_a_part_that_hangs_ends_with_what_was_measured(tmp_path: Path) -> None:
    """The kernels' checks take seconds in the interpreter; here they may take half a one."""
    done = run_device(tmp_path / "device.json", "--tiny", "--limit-seconds", "0.5", interpret="1")
    assert done.returncode == -signal.SIGALRM
    assert "in all_checks" in done.stderr, "it says where"
    assert json.loads((tmp_path / "device.json").read_text())["running"] == "kernels"


def bench(output: Path, monkeypatch: pytest.MonkeyPatch, *, deadline: float = 1e9, end: float = 1e9) -> Bench:
    """One whose parts do nothing."""
    made = Bench(torch.device("cpu"), True, output, time.monotonic() + deadline, time.monotonic() + end, print)
    for name in ("_kernels", "_agreement"):
        monkeypatch.setattr(Bench, name, lambda self, seed: True)
    monkeypatch.setattr(Bench, "_ceilings", lambda self: Rates(790e12, 4.3e12))
    for name in ("_attention", "_shape", "_baselines"):
        monkeypatch.setattr(Bench, name, lambda self, *arguments: None)
    return made


@pytest.mark.parametrize("part", ["_kernels", "_agreement", "_ceilings", "_attention", "_shape"])
def test_what_breaks_is_told_and_the_rest_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench(tmp_path / "device.json", monkeypatch).run(["Qwen3-32B"], 0)

    def broken(self: Bench, *arguments: object) -> None:
        raise RuntimeError("CUDA error: misaligned address")

    one = bench(tmp_path / "device.json", monkeypatch)
    monkeypatch.setattr(Bench, part, broken)
    assert not one.run(["Qwen3-32B"], 0)
    assert "FAILED" in capsys.readouterr().out
    result = json.loads((tmp_path / "device.json").read_text())
    assert len(result["failed"]) == 1
    assert result["failed"][0].endswith("RuntimeError: CUDA error: misaligned address")
    assert "Qwen3-32B: transformers" in result["seconds"] or part == "_ceilings", "without ceilings there is no share"


@pytest.mark.parametrize("broken", ["seed", "tickets", "profile"])
def test_a_workload_that_breaks_does_not_take_the_others_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    ran: list[str] = []

    def work(self: Bench, name: str, engine: Engine, work: Work, ceiling: float, prompts: list[list[int]]) -> None:
        ran.append(work.name)
        if work.name == broken:
            engine.add(Request("left", prompts[0], SamplingParams()))
            raise RuntimeError("CUDA error: misaligned address")
        assert not engine.has_unfinished, "what the one before left is gone"

    def profile(self: Bench, *arguments: object) -> None:
        ran.append("profile")
        if broken == "profile":
            raise RuntimeError("CUDA error: misaligned address")

    one = Bench(torch.device("cpu"), True, tmp_path / "d.json", time.monotonic() + 1e9, time.monotonic() + 1e9, print)
    monkeypatch.setattr(Bench, "_work", work)
    monkeypatch.setattr(Bench, "_profile", profile)
    one._shape("tiny", Rates(790e12, 4.3e12), 0)
    assert ran == (["seed", "tickets"] if broken == "seed" else ["seed", "profile", "tickets"])
    at = "tickets" if broken == "tickets" else "seed"
    assert one.result["failed"] == [f"tiny {at}: engine: RuntimeError: CUDA error: misaligned address"]


def test_steps_under_way_are_not_in_the_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    one = Bench(torch.device("cpu"), True, tmp_path / "d.json", time.monotonic() + 1e9, time.monotonic() + 1e9, print)
    engine = one._engine(Decoder(*tiny_decoder(), use_triton=False), "torch", 64)
    step, profile = engine.step, torch.profiler.profile
    monkeypatch.setattr(engine, "step", lambda: (events.append("step"), step())[1])
    monkeypatch.setattr(Bench, "_wait", lambda self: events.append("wait"))
    monkeypatch.setattr(torch.profiler, "profile", lambda **options: (events.append("profile"), profile(**options))[1])
    one._profile("tiny", engine, [[1, 2, 3]], Work("seed", 1, 3, 9))
    assert events[:4] == ["step", "wait", "profile", "wait"]
    assert not engine.has_unfinished


def tiny_decoder() -> tuple[ModelConfig, Weights]:
    config = shape_config("tiny")
    return config, random_weights(config, torch.float32, torch.device("cpu"))


def test_what_was_left_out_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bench(tmp_path / "device.json", monkeypatch, deadline=-1).run(["tiny"], 0)
    assert "left out: kernels: out of time (it would take about 0 s)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("main", "arguments", "message"),
    [
        (device.main, ["--tiny", "--output", "nowhere/at/all.json"], "name a file in a folder that exists"),
        (device.main, ["--tiny", "--output", "."], "name a file in a folder that exists"),
        (
            device.main,
            ["--tiny", "--output", "x.json", "--limit-seconds", "-5"],
            "-5 is not a number of seconds above 0",
        ),
        (
            device.main,
            ["--tiny", "--output", "x.json", "--budget-seconds", "nan"],
            "is not a number of seconds above 0",
        ),
        (tune.main, ["--tiny", "--seconds", "0"], "0 is not a number of seconds above 0"),
        (kernels.main, ["--jobs", "0"], "0 is below 1"),
        (kernels.main, ["--match", "nosuch"], "no form of these kernels has 'nosuch' in its label"),
    ],
)
def test_wrong_arguments_are_refused_in_words(
    main: Callable[[list[str]], int], arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("module", ["device", "tune"])
def test_a_trial_sees_to_the_interpreter_itself(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, module: str) -> None:
    begun: list[tuple[list[str], str]] = []

    def execve(program: str, command: list[str], environment: dict[str, str]) -> None:
        begun.append((command, environment["TRITON_INTERPRET"]))
        raise SystemExit(0)  # as nothing comes after it

    monkeypatch.setattr("qwen_batch.bench.arguments.INTERPRETED", False)
    monkeypatch.setattr(os, "execve", execve)
    given = ["--tiny", *(["--output", str(tmp_path / "device.json")] if module == "device" else [])]
    with pytest.raises(SystemExit):
        {"device": device.main, "tune": tune.main}[module](given)
    assert begun == [([sys.executable, "-m", f"qwen_batch.bench.{module}", *given], "1")]


@pytest.mark.parametrize("part", ["_kernels", "_agreement"])
def test_wrong_numbers_do_not_keep_the_timings_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    one = bench(tmp_path / "device.json", monkeypatch)
    monkeypatch.setattr(Bench, part, lambda self, seed: False)
    assert not one.run(["Qwen3-32B"], 0)
    assert list(one.result["seconds"])[-2:] == ["Qwen3-32B: engine", "Qwen3-32B: transformers"]


def test_nothing_begins_late_or_would_run_beyond_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = bench(tmp_path / "device.json", monkeypatch, end=1000)
    assert not one._late("short", 500)
    assert one._late("long", 1001)
    late = bench(tmp_path / "device.json", monkeypatch, deadline=-1)
    assert not late.run(["Qwen3-32B"], 0)
    assert late.result["left_out"][0].startswith("kernels: out of time")


def test_the_programme_of_qwen3_32b_is_expected_to_fit_on_an_h200() -> None:
    """At a quarter of the matrix rate, and at what transformers is known to reach, with 100 s for the rest."""
    config, rates = shape_config("Qwen3-32B"), Rates(790e12, 4.3e12)
    ours = sum(w.num_requests * flops_per_request(config, w) / (EXPECTED_SHARE * rates.matmul_flops) for w in WORK)
    theirs = sum(
        expected_seconds(config, work, count, rates, one_by_one=run is one_by_one)
        for work in WORK
        for _, count, run in baselines(work, tiny=False)
    )
    assert 60 < ours < 200
    assert 60 < theirs < 240
    assert ours + theirs < 475 - 100


def test_targets_are_told_met_or_missed() -> None:
    def run(work: str, who: str, rate: float, tokens: float) -> dict[str, object]:
        return {"shape": "Qwen3-32B", "who": who, "work": {"name": work}, "requests_per_second": rate,
                "tokens_per_second": tokens}  # fmt: skip

    result = {
        "attention": {"decode_of_copy": 0.8, "prefill_of_matmul": 0.5},
        "runs": [
            run("seed", "qwen-batch", 24.0, 9216.0),
            run("seed", "transformers one by one", 1.2, 460.0),
            {"shape": "Qwen3-32B", "busy_share": 0.98, "profile": []},
        ],
    }
    assert [(target["got"], target["met"]) for target in targets(result)] == [
        (24.0, True), (20.0, True), (None, False), (0.8, True), (0.5, False), (0.98, True),
    ]  # fmt: skip
    assert [describe(target)[:6] for target in targets({"runs": []})] == ["MISSED"] * 6
    assert describe(targets(result)[2]) == "MISSED doc, tokens/s: not measured, wanted 8,000"


@pytest.mark.gpu
def test_a_card_computes_what_the_references_do(tmp_path: Path) -> None:
    done = run_device(tmp_path / "device.json", "--shape", "tiny", "--budget-seconds", "1", interpret="0")
    assert done.returncode == 0, done.stdout + done.stderr
