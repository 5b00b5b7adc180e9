"""What is aimed for on one H200, and how near a run came: Qwen3-32B in bfloat16.

Of 256 tokens in and 128 out no engine in bfloat16 can do more than 32 requests a second there (24.6 TFLOP each, 790
TFLOP/s measured); published engines reach 15 to 56 % of such limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SHAPE = "Qwen3-32B"


def targets(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """(what, wanted at least, got or None when it was not measured, met)."""
    attention = result.get("attention") or {}
    seed = _rate(result, "seed", "qwen-batch", "requests_per_second")
    alone = _rate(result, "seed", "transformers one by one", "requests_per_second")
    busy = [run["busy_share"] for run in result["runs"] if run["shape"] == SHAPE and "busy_share" in run]
    measured: tuple[tuple[str, float, float | None], ...] = (
        ("seed, requests/s", 22.0, seed),
        ("seed, times transformers one by one", 15.0, None if seed is None or alone is None else seed / alone),
        ("doc, tokens/s", 8000.0, _rate(result, "doc", "qwen-batch", "tokens_per_second")),
        ("attention of decoding, share of the copy rate, 64 x 8k", 0.75, attention.get("decode_of_copy")),
        ("attention of prompts, share of the matrix rate, 8k", 0.55, attention.get("prefill_of_matmul")),
        ("device busy in steady state", 0.97, busy[0] if busy else None),
    )
    return [
        {"what": what, "wanted": wanted, "got": got, "met": got is not None and got >= wanted}
        for what, wanted, got in measured
    ]


def describe(target: Mapping[str, Any]) -> str:
    """One line."""
    got = "not measured" if target["got"] is None else f"{target['got']:,.3g}"
    return f"{'met' if target['met'] else 'MISSED'} {target['what']}: {got}, wanted {target['wanted']:,g}"


def _rate(result: Mapping[str, Any], work: str, who: str, what: str) -> float | None:
    for run in result["runs"]:
        if run["shape"] == SHAPE and run.get("who") == who and run["work"]["name"] == work:
            return float(run[what])
    return None
