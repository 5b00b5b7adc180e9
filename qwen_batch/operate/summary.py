"""What a run says when it ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from qwen_batch.operate.stages import format_busy


@dataclass(frozen=True, slots=True)
class RunSummary:
    """The end of a run in numbers. Documents are all of this run's inputs, `unchanged` ones in their status too."""

    ok: int
    flagged: int
    failed: int
    skipped: int
    unchanged: int  # of all these, how many an earlier run had finished
    prompt_tokens: int  # of the model calls that this run made, as the next two
    completion_tokens: int
    cached_tokens: int  # prompt tokens that were not computed because their prefix was there
    wall_seconds: float
    table: str  # the folder that table readers open, or where else the rows went
    error_types: Mapping[str, int] = field(default_factory=dict)  # of failed documents
    stage_seconds: Mapping[str, float] = field(default_factory=dict)  # of the main thread; see operate/stages.py
    kept_answers: int = 0  # of model calls that did not have to be made again

    @property
    def num_documents(self) -> int:
        return self.ok + self.flagged + self.failed + self.skipped

    @property
    def exit_code(self) -> int:
        """0: every document ok or skipped; 3: some failed or flagged."""
        return 3 if self.failed or self.flagged else 0


def format_summary(summary: RunSummary) -> str:
    """The summary as lines of text, without a line end after the last."""
    lines = [_documents(summary)]
    if summary.error_types:
        ranked = sorted(summary.error_types.items(), key=lambda item: (-item[1], item[0]))
        lines.append("errors     " + ", ".join(f"{kind} {count:,}" for kind, count in ranked))
    lines.append(_tokens(summary))
    lines.append(f"time       {format_seconds(summary.wall_seconds)}")
    if busy := format_busy(summary.stage_seconds):
        lines.append(f"device     {busy}")
    lines.append(f"table      {summary.table}")
    if summary.exit_code == 3:
        lines.append("exit       3: look at the rows whose status is failed or flagged")
    return "\n".join(lines)


def format_seconds(seconds: float) -> str:
    """`4.2 s`, `3 min 07 s`, `2 h 05 min`."""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours:,} h {minutes:02d} min"


def _documents(summary: RunSummary) -> str:
    counts = (
        ("ok", summary.ok),
        ("flagged", summary.flagged),
        ("failed", summary.failed),
        ("skipped", summary.skipped),
    )
    shown = ", ".join(f"{count:,} {name}" for name, count in counts if count or name == "ok")
    unchanged = f"; {summary.unchanged:,} unchanged since an earlier run" if summary.unchanged else ""
    return f"documents  {summary.num_documents:,}: {shown}{unchanged}"


def _tokens(summary: RunSummary) -> str:
    total = summary.prompt_tokens + summary.completion_tokens
    rate = f", {total / summary.wall_seconds:,.0f} tokens/s" if total and summary.wall_seconds > 0 else ""
    cached = f" ({summary.cached_tokens:,} cached)" if summary.cached_tokens else ""
    kept = f"; {summary.kept_answers:,} answers were kept from before" if summary.kept_answers else ""
    return f"tokens     {summary.prompt_tokens:,} in{cached}, {summary.completion_tokens:,} out{rate}{kept}"
