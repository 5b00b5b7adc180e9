"""The bench of reading: what it prints for a file with tables, and for one that cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from qwen_batch.bench.reading import Reading, format_readings, main


def test_rates_are_pages_over_seconds_and_the_last_line_is_for_all() -> None:
    readings = [Reading(Path("a.pdf"), 10, 2, 0.5, 0.25), Reading(Path("b.pdf"), 30, 0, 0.5, 0.25)]
    lines = [line.split() for line in format_readings(readings)]
    assert lines[1:] == [
        ["10", "2", "20.0", "40.0", "a.pdf"],
        ["30", "0", "60.0", "120.0", "b.pdf"],
        ["40", "2", "40.0", "80.0", "all"],
    ]


def test_files_are_read_and_those_that_cannot_be_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = tmp_path / "good.txt", tmp_path / "bad.pdf"
    good.write_text("One paragraph.\n\nAnd another one.")
    bad.write_bytes(b"")
    assert main([str(good), str(bad), "--repeat", "1"]) == 1
    printed = capsys.readouterr()
    assert "the file is empty" in printed.err
    assert printed.out.splitlines()[1].split()[0] == "1"
    assert printed.out.splitlines()[1].endswith("good.txt")
