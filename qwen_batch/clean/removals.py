"""Taking lines out of pages, with a reason for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from qwen_batch.records import Line, Page, Removal


def without_lines(
    pages: Sequence[Page], reason_of: Callable[[int, int], str | None]
) -> tuple[tuple[Page, ...], tuple[Removal, ...]]:
    """The pages without the lines for which `reason_of(page index, line index)` gives a reason."""
    done: list[Page] = []
    removals: list[Removal] = []
    for index, page in enumerate(pages):
        kept: list[Line] = []
        for number, line in enumerate(page.lines):
            if reason := reason_of(index, number):
                removals.append(Removal(page.page_number, line.text, reason))
            else:
                kept.append(line)
        done.append(page if len(kept) == len(page.lines) else page._replace(lines=tuple(kept)))
    return tuple(done), tuple(removals)
