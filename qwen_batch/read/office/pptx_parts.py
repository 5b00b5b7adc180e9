"""What a slide's shapes hold: paragraphs with their bullets and numbers, tables, charts as tables, diagrams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from qwen_batch.read.text.html import span_of, spanned_table
from qwen_batch.read.text.list_marks import as_mark
from qwen_batch.records import Table

MAX_SPAN = 1000
MAX_POINTS = 10_000  # of a chart
_NUMBERS = {"arabic": "1", "alphaLc": "a", "alphaUc": "A", "romanLc": "i", "romanUc": "I"}
_ENDS = {"Period": "{}.", "ParenR": "{})", "ParenBoth": "({})", "Plain": "{}"}


def text_lines(body: Any, between: str = "\n") -> Iterator[str]:
    """The paragraphs of a text, those that the file marks as items with their marks; breaks are read as `between`."""
    counts: dict[str, int] = {}
    for paragraph in body.iterchildren("{*}p"):
        properties = paragraph.find("{*}pPr")
        level = properties.get("lvl", "0") if properties is not None else "0"
        text = _paragraph_text(paragraph, between)
        if not text.strip():
            continue
        counts = {each: count for each, count in counts.items() if each <= level}
        mark = _mark(properties, level, counts)
        for number, line in enumerate(part for part in text.split("\n") if part.strip()):
            yield f"{mark if number == 0 else ''}{' '.join(line.split())}"


def _paragraph_text(paragraph: Any, between: str) -> str:
    parts = (between if each.tag.endswith("}br") else each.text or "" for each in paragraph.iter("{*}t", "{*}br"))
    return "".join(parts)


def _mark(properties: Any, level: str, counts: dict[str, int]) -> str:
    if properties is None:
        counts.pop(level, None)
        return ""
    numbered = properties.find("{*}buAutoNum")
    if numbered is None:
        counts.pop(level, None)
        return "- " if properties.find("{*}buChar") is not None else ""
    start = numbered.get("startAt", "1")
    counts[level] = counts.get(level, (int(start) if start.isdecimal() and len(start) < 6 else 1) - 1) + 1
    kind = numbered.get("type", "arabicPeriod")
    style = next((mark for name, mark in _NUMBERS.items() if kind.startswith(name)), "1")
    shape = next((form for name, form in _ENDS.items() if kind.endswith(name)), "{}.")
    return f"{shape.format(as_mark(counts[level], style))} "


def slide_table(element: Any) -> Table | None:
    """Merged cells hold their text in the first place."""
    return spanned_table([list(_iter_cells(row)) for row in element.iterchildren("{*}tr")])


def _iter_cells(row: Any) -> Iterator[tuple[str, int, int]]:
    for cell in row.iterchildren("{*}tc"):
        if cell.get("hMerge") in ("1", "true") or cell.get("vMerge") in ("1", "true"):
            continue
        body = cell.find("{*}txBody")
        text = " ".join(text_lines(body)) if body is not None else ""
        yield text, span_of(cell.get("gridSpan"), MAX_SPAN), span_of(cell.get("rowSpan"), MAX_SPAN)


def chart_table(chart: Any) -> tuple[str, Table | None]:
    """(title, a column for each series), by the values that the chart keeps."""
    title = " ".join("".join(text.text or "" for text in chart.iterfind("{*}chart/{*}title//{*}t")).split())
    series = list(chart.iter("{*}ser"))
    columns = [_points(each, "val", "yVal") for each in series]
    categories = next(filter(None, (_points(each, "cat", "xVal") for each in series)), {})
    names = ["".join(value.text or "" for value in each.iterfind("{*}tx//{*}v")) for each in series]
    places = sorted({*categories, *(place for column in columns for place in column)})
    if not places:
        return title, None
    rows = ((categories.get(place, ""), *(column.get(place, "") for column in columns)) for place in places)
    return title, Table((("", *names), *rows))


def _points(series: Any, *names: str) -> dict[int, str]:
    """Values by their place; of categories in several levels the innermost."""
    for name in names:
        points = series.findall(f"{{*}}{name}//{{*}}lvl[1]/{{*}}pt") or series.findall(f"{{*}}{name}//{{*}}pt")
        found = {int(point.get("idx", "0")): _value(point.findtext("{*}v") or "") for point in points[:MAX_POINTS]}
        if found:
            return found
    return {}


def _value(text: str) -> str:
    """Stored numbers have all digits that they are computed with."""
    try:
        return f"{float(text):.10g}" if len(text) > 10 and "." in text else text
    except ValueError:
        return text


def diagram_lines(data: Any) -> Iterator[str]:
    """The texts of a diagram (SmartArt), in the order of its points."""
    for body in data.iterfind("{*}ptLst/{*}pt/{*}t"):
        yield from text_lines(body)
