from __future__ import annotations

import pytest

from qwen_batch.operate.summary import RunSummary, format_seconds, format_summary


def test_a_good_night() -> None:
    summary = RunSummary(1200, 0, 0, 0, 0, 3_000_000, 96_000, 0, 7530.0, "out/tickets/results")
    assert summary.exit_code == 0
    assert format_summary(summary) == (
        "documents  1,200: 1,200 ok\n"
        "tokens     3,000,000 in, 96,000 out, 411 tokens/s\n"
        "time       2 h 06 min\n"
        "table      out/tickets/results"
    )


def test_a_night_with_troubles() -> None:
    errors = {"encrypted": 1, "too_long": 2}
    summary = RunSummary(5, 1, 3, 2, 4, 1000, 100, 250, 10.0, "out/results", errors)
    assert summary.exit_code == 3
    assert format_summary(summary) == (
        "documents  11: 5 ok, 1 flagged, 3 failed, 2 skipped; 4 unchanged since an earlier run\n"
        "errors     too_long 2, encrypted 1\n"
        "tokens     1,000 in (250 cached), 100 out, 110 tokens/s\n"
        "time       10.0 s\n"
        "table      out/results\n"
        "exit       3: look at the rows whose status is failed or flagged"
    )


def test_a_night_without_work() -> None:
    summary = RunSummary(2, 0, 0, 0, 0, 0, 0, 0, 1.0, "out/results", kept_answers=2)
    assert "tokens     0 in, 0 out; 2 answers were kept from before\n" in format_summary(summary)
    summary = RunSummary(0, 0, 0, 0, 0, 0, 0, 0, 0.0, "out/results")
    assert format_summary(summary).splitlines()[:2] == ["documents  0: 0 ok", "tokens     0 in, 0 out"]


@pytest.mark.parametrize(
    ("ok", "flagged", "failed", "skipped", "code"), [(1, 0, 0, 1, 0), (0, 1, 0, 0, 3), (0, 0, 1, 0, 3), (0, 0, 0, 0, 0)]
)
def test_exit_codes(ok: int, flagged: int, failed: int, skipped: int, code: int) -> None:
    assert RunSummary(ok, flagged, failed, skipped, 0, 0, 0, 0, 1.0, "t").exit_code == code


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.04, "0.0 s"),
        (59.9, "59.9 s"),
        (59.97, "1 min 00 s"),
        (187, "3 min 07 s"),
        (3599.7, "1 h 00 min"),
        (7500, "2 h 05 min"),
    ],
)
def test_times(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text
