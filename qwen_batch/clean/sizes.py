"""The font size of the body: what running heads, watermarks and footnotes are compared with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from qwen_batch.records import Page


def body_size_of(pages: Sequence[Page]) -> float:
    """The font size of the middle letter, in points; 0 where no line has a size."""
    return middle_size((line.font_size or 0.0, len(line.text)) for page in pages for line in page.lines)


def middle_size(sizes: Iterable[tuple[float, int]]) -> float:
    """The size of the middle letter of lines, each with its size and how many letters it has. Not the commonest: a
    text is often set in sizes that differ by hundredths of a point."""
    letters: Counter[float] = Counter()
    for size, number in sizes:
        letters[size] += number
    half = letters.total() / 2
    for size in sorted(letters):
        half -= letters[size]
        if half <= 0:
            return size
    return 0.0


def median(values: Sequence[float]) -> float:
    """As in `statistics`, which loads decimals and fractions."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return (ordered[half] + ordered[-half - 1]) / 2 if ordered else 0.0
