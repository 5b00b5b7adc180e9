"""The systemd units and the crontab line of the README are what systemd and this package take."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def units() -> dict[str, str]:
    found = re.findall(r"```ini\n# /etc/systemd/system/(\S+)\n(.*?)```", README, re.DOTALL)
    return dict(found)


def test_systemd_takes_the_units(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not here")
    assert set(units()) == {"qwen-batch-nightly.service", "qwen-batch-nightly.timer"}
    program = tmp_path / "qwen-batch"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    for name, text in units().items():
        here = text.replace("/opt/qwen-batch/bin/qwen-batch", str(program)).replace("User=qwen-batch", "User=root")
        (tmp_path / name).write_text(here)
    command = ["systemd-analyze", "verify", *(str(tmp_path / name) for name in units())]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    ours = [line for line in done.stderr.split("\n") if "qwen-batch-nightly" in line]
    assert ours == [], done.stderr


def test_the_timer_fires_every_night() -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not here")
    (when,) = re.findall(r"OnCalendar=(.*)", units()["qwen-batch-nightly.timer"])
    done = subprocess.run(
        ["systemd-analyze", "calendar", when, "--iterations=2"], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.count("02:05:00 UTC") >= 2 or done.stdout.count("02:05:00") >= 3
