"""What reading and cleaning made of a file, for the eye: word by word beside the raw text, and beside the pages."""

from __future__ import annotations

import base64
import difflib
import html
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from qwen_batch.ingest import extract, passwords_of
from qwen_batch.read.frames import Trouble
from qwen_batch.read.pictures import PictureTask
from qwen_batch.read.pool import ProcessPool
from qwen_batch.records import CleanDocument, CleanSteps, ReadSettings

RAW = CleanSteps(**{step.name: False for step in fields(CleanSteps)})
CONTEXT_WORDS = 6  # around a change
MAX_WORDS = 20_000  # of a page; the comparison takes their square
_STYLE = (
    "body{font:14px/1.45 sans-serif;margin:1em}.page{display:grid;grid-template-columns:1fr 1fr;gap:1em;"
    "border-top:1px solid #999;padding:1em 0}img{width:100%;border:1px solid #ccc}pre{white-space:pre-wrap;margin:0;"
    "font:inherit}.gone{color:#a00}.note{background:#ffd}"
)


def format_diff(path: Path, input: ReadSettings, report: Mapping[str, Any]) -> str:
    """What cleaning changed: `[-removed-]` and `{+put in+}` words with those around them, page by page.

    Paragraphs that were only rebuilt do not show: lines and spaces are not compared.
    """
    raw = extract(path, input, RAW)
    if not isinstance(raw, CleanDocument):
        return f"{raw.source}: failed ({raw.error_type}): {raw.error}"
    lines = [f"--- {report['source']}: as it was read", f"+++ {report['source']}: cleaned"]
    for before, after in zip(raw.pages, report["pages"], strict=True):
        changes = list(_changes(before.text.split(), after["text"].split()))
        reasons = _reasons(report, before.page_number)
        if changes or reasons:
            lines += [f"@@ page {before.page_number} @@", *(f"removed {reason}" for reason in reasons), *changes]
    return "\n".join((*lines, ""))


def _reasons(report: Mapping[str, Any], number: int) -> list[str]:
    """What was taken out of a page, a line for each reason: a page of court paper has 28 line numbers."""
    texts: dict[str, list[str]] = {}
    for item in report["removed"]:
        if item["page_number"] == number:
            texts.setdefault(item["reason"], []).append(item["text"])
    return [f"{reason}: {' | '.join(taken)}" for reason, taken in texts.items()]


def _changes(before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    if max(len(before), len(after)) > MAX_WORDS:
        yield f"({len(before)} words before, {len(after)} after: too many to compare one by one)"
        return
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for group in matcher.get_grouped_opcodes(CONTEXT_WORDS):
        parts: list[str] = []
        for tag, start, end, new_start, new_end in group:
            if tag == "equal":
                parts += before[start:end]
                continue
            if end > start:
                parts.append(f"[-{' '.join(before[start:end])}-]")
            if new_end > new_start:
                parts.append(f"{{+{' '.join(after[new_start:new_end])}+}}")
        yield " ".join(parts)


def format_html(path: Path, input: ReadSettings, report: Mapping[str, Any]) -> str:
    """A page to open in a browser: each page's picture, beside its text and what was taken out of it. Needs nothing
    but itself."""
    pictures = _pictures(path, input)
    notes = [f"<p class=note>{html.escape(note)}" for note in (*report["warnings"], report["error"] or "") if note]
    pages = [
        f"<div class=page><div>{_picture(pictures, page['page_number'])}</div><div>{_text(report, page)}</div></div>"
        for page in report["pages"]
    ]
    title = html.escape(report["source"])
    head = f"<!doctype html><meta charset=utf-8><title>{title}</title><style>{_STYLE}</style><h1>{title}</h1>"
    return "\n".join((head, *notes, *pages, ""))


def _pictures(path: Path, input: ReadSettings) -> tuple[bytes, ...]:
    target = "qwen_batch.read.pictures:page_pictures"
    task = PictureTask(path, passwords_of(input))
    with ProcessPool[PictureTask, tuple[bytes, ...]](target, 1, input.timeout_seconds, input.memory_limit) as pool:
        ((_, result),) = pool.run([task])
    return () if isinstance(result, Trouble) else result


def _picture(pictures: Sequence[bytes], number: int) -> str:
    if number > len(pictures):
        return ""
    data = base64.b64encode(pictures[number - 1]).decode("ascii")
    return f'<img alt="page {number}" src="data:image/jpeg;base64,{data}">'


def _text(report: Mapping[str, Any], page: Mapping[str, Any]) -> str:
    gone = "".join(f"<li>{html.escape(reason)}" for reason in _reasons(report, page["page_number"]))
    text = re.sub(r"\n{3,}", "\n\n", page["text"])
    return f"<pre>{html.escape(text)}</pre>" + (f"<ul class=gone>{gone}</ul>" if gone else "")
