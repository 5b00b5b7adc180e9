"""What reading and cleaning made of a file, for the eye: word by word beside the raw text, and beside the pages."""

from __future__ import annotations

import base64
import difflib
import html
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from qwen_batch.ingest import extract, passwords_of
from qwen_batch.read.frames import Trouble
from qwen_batch.read.pictures import MAX_PICTURES, PictureTask
from qwen_batch.read.pool import ProcessPool
from qwen_batch.records import CleanDocument, CleanSteps, ReadSettings
from qwen_batch.terminal import one_line, visible

RAW = CleanSteps(**dict.fromkeys(CleanSteps._fields, False))
CONTEXT_WORDS = 6  # around a change
MAX_WORDS = 20_000  # of a page, between the first change and the last
FEW_WORDS = 1_000  # of which every one is compared; their square is what it takes
_TABLE = re.compile(r"^\|.*\|\n\|(?: --- \|)+(?:\n\|.*\|$)*", re.MULTILINE)
_BAR = re.compile(r"(?<!\\)\|")  # between cells; one within a cell is escaped
_STYLE = (
    "body{font:14px/1.5 sans-serif;margin:1em 2em;color:#222}h1{font-size:1.2em}.page{border-top:1px solid #999;"
    "padding:1em 0}.pictures .page{display:grid;gap:1.5em;grid-template-columns:minmax(0,1fr) minmax(0,1fr)}"
    "img{width:100%;border:1px solid #ccc;position:sticky;top:1em}pre{white-space:pre-wrap;overflow-wrap:anywhere;"
    "margin:0;font:inherit}h2{font-size:.85em;color:#666;margin:0 0 .7em;font-weight:normal}table{border-collapse:"
    "collapse;margin:.7em 0;font-size:.9em}td,th{border:1px solid #bbb;padding:.15em .4em;vertical-align:top;"
    "text-align:left;font-weight:normal}th{background:#eee}.gone{color:#a00;font-size:.9em;overflow-wrap:anywhere;"
    "white-space:pre-wrap}.note{background:#ffd;padding:.3em .6em}summary{color:#666;margin-top:1em}"
)


def format_diff(path: Path, input: ReadSettings, report: Mapping[str, Any]) -> str:
    """What cleaning changed: `[-removed-]` and `{+put in+}` words with those around them, page by page.

    Paragraphs that were only rebuilt do not show: lines and spaces are not compared.
    """
    raw = extract(path, input, RAW)
    source = one_line(report["source"])
    if not isinstance(raw, CleanDocument):
        return f"{source}: failed ({raw.error_type}): {one_line(raw.error)}\n"
    lines = [f"--- {source}: as it was read", f"+++ {source}: cleaned"]
    cleaned = {page["page_number"]: page["text"] for page in report["pages"]}
    reasons = _reasons(report)
    for page in raw.pages:
        changes = list(_changes(page.text.split(), cleaned.get(page.page_number, "").split()))
        taken = reasons.get(page.page_number, [])
        if changes or taken:
            lines += [f"@@ page {page.page_number} @@", *(f"removed {reason}" for reason in taken), *changes]
    return visible("\n".join((*lines, "")))


def _reasons(report: Mapping[str, Any]) -> dict[int, list[str]]:
    """What was taken out of each page, a line for each reason: a page of court paper has 28 line numbers."""
    texts: dict[int, dict[str, list[str]]] = {}
    for item in report["removed"]:
        texts.setdefault(item["page_number"], {}).setdefault(item["reason"], []).append(item["text"])
    return {
        number: [f"{reason}: {' | '.join(taken)}" for reason, taken in by_reason.items()]
        for number, by_reason in texts.items()
    }


def _changes(before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    """Groups of changed words. What both begin and end with is set aside first; in long texts frequent words are no
    anchors (difflib's autojunk), since a page of one word alone would take the square of its length."""
    start = max(0, _num_common(before, after) - CONTEXT_WORDS)
    end = max(0, _num_common(before[:start:-1], after[:start:-1]) - CONTEXT_WORDS)
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    if max(len(old), len(new)) > MAX_WORDS:
        yield f"({len(before)} words before, {len(after)} after: too many to compare one by one)"
        return
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=max(len(old), len(new)) > FEW_WORDS)
    for group in matcher.get_grouped_opcodes(CONTEXT_WORDS):
        parts: list[str] = []
        for tag, first, last, new_first, new_last in group:
            if tag == "equal":
                parts += old[first:last]
                continue
            if last > first:
                parts.append(f"[-{' '.join(old[first:last])}-]")
            if new_last > new_first:
                parts.append(f"{{+{' '.join(new[new_first:new_last])}+}}")
        yield " ".join(parts)


def _num_common(words: Sequence[str], others: Sequence[str]) -> int:
    """How many words both begin with."""
    pairs = zip(words, others, strict=False)
    return next((index for index, (one, other) in enumerate(pairs) if one != other), min(len(words), len(others)))


def format_html(path: Path, input: ReadSettings, report: Mapping[str, Any]) -> str:
    """A page to open in a browser: each page's picture, beside its text and what was taken out of it. Needs nothing
    but itself."""
    pictures = _pictures(path, input)
    notes = [*report["warnings"], *(f"flag: {flag}" for flag in report["flags"])]
    if len(pictures) == MAX_PICTURES < report["num_pages"]:
        notes.append(f"pictures are shown of the first {MAX_PICTURES} pages")
    reasons = _reasons(report)
    columns = " class=pictures" if pictures else ""
    pages = [_page(page, pictures, reasons.get(page["page_number"], [])) for page in report["pages"]]
    title = _shown(one_line(report["source"]))
    head = f"<!doctype html><meta charset=utf-8><title>{title}</title><style>{_STYLE}</style><body{columns}><h1>{title}"
    return "\n".join((f"{head}</h1>", *(f"<p class=note>{_shown(note)}" for note in notes), *pages, ""))


def _pictures(path: Path, input: ReadSettings) -> tuple[bytes, ...]:
    target = "qwen_batch.read.pictures:page_pictures"
    task = PictureTask(path, passwords_of(input))
    with ProcessPool[PictureTask, tuple[bytes, ...]](target, 1, input.timeout_seconds, input.memory_limit) as pool:
        ((_, result),) = pool.run([task])
    return () if isinstance(result, Trouble) else result


def _page(page: Mapping[str, Any], pictures: Sequence[bytes], reasons: Sequence[str]) -> str:
    number = page["page_number"]
    confidence = page["ocr_confidence"]
    name = f"page {number}" + (f", recognised from its picture (confidence {confidence:.2f})" if page["ocr"] else "")
    gone = "".join(f"<li>{_shown(reason)}" for reason in reasons)
    taken = f"<details open><summary>taken out</summary><ul class=gone>{gone}</ul></details>" if gone else ""
    return f"<div class=page>{_picture(pictures, number)}<div><h2>{name}</h2>{_text(page['text'])}{taken}</div></div>"


def _picture(pictures: Sequence[bytes], number: int) -> str:
    if not pictures:
        return ""
    if number > len(pictures):
        return "<div></div>"
    data = base64.b64encode(pictures[number - 1]).decode("ascii")
    return f'<div><img alt="page {number}" loading=lazy src="data:image/jpeg;base64,{data}"></div>'


def _text(text: str) -> str:
    """The text with its tables, which stand in it as Markdown, drawn as such."""
    parts: list[str] = []
    end = 0
    for found in _TABLE.finditer(text):
        parts += (_plain(text[end : found.start()]), _table(found.group().splitlines()))
        end = found.end()
    return "".join((*parts, _plain(text[end:])))


def _plain(text: str) -> str:
    text = re.sub(r"\n{3,}", "\n\n", text.strip("\n"))
    return f"<pre>{_shown(text)}</pre>" if text else ""


def _table(lines: Sequence[str]) -> str:
    rows = [[cell.strip().replace("\\|", "|") for cell in _BAR.split(line.strip())[1:-1]] for line in lines]
    head = "".join(f"<th>{_shown(cell)}" for cell in rows[0])
    body = "".join("<tr>" + "".join(f"<td>{_shown(cell)}" for cell in row) for row in rows[2:])
    return f"<table><tr>{head}{body}</table>"


def _shown(text: str) -> str:
    return html.escape(visible(text))
