"""The measures of printed lines that tell where paragraphs end."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Sequence

from qwen_batch.clean.blocks import is_prose
from qwen_batch.clean.code import as_prose, is_typewritten, with_indents
from qwen_batch.clean.margins import Margins, margins_everywhere, printed_rights, typed_rights
from qwen_batch.clean.markers import has_columns, has_sentence_gaps, is_stretched
from qwen_batch.clean.rows import INDENT, Entry, Row, in_one_run, iter_entries, same_size
from qwen_batch.records import Page

SPACED_LINES = 4  # of double-spaced prose, at least
MORE_LINES = 6  # the same, where they are less than this times the usual distance apart
WIDELY = 1.6
SPACED = 1.4  # times the usual distance: less is a gap between paragraphs
SPACED_EMS = 3.0  # between two of its lines, at most
SAME_DISTANCE = 1.0  # points
FULL_ROOM = 0.35  # ems that a justified line may lack


def document_entries(pages: Sequence[Page]) -> list[list[Entry]]:
    """The lines and tables of each page in reading order, with their measures."""
    plain = [list(iter_entries(page)) for page in pages]
    if is_typewritten([entry for entries in plain for entry in entries if isinstance(entry, Row)]):
        plain = [[as_prose(entry) if isinstance(entry, Row) else entry for entry in entries] for entries in plain]
    everywhere = margins_everywhere([entry for entries in plain for entry in entries if isinstance(entry, Row)])
    return [_measured(page, entries, everywhere) for page, entries in zip(pages, plain, strict=True)]


def _measured(page: Page, entries: Sequence[Entry], everywhere: Margins) -> list[Entry]:
    rows = [entry for entry in entries if isinstance(entry, Row)]
    measured = iter(_measure(rows, everywhere, page.width))
    return [next(measured) if isinstance(entry, Row) else entry for entry in entries]


def _measure(rows: Sequence[Row], everywhere: Margins, width: float | None) -> list[Row]:
    leadings = _leadings(rows) if width is not None else {}  # typed: a blank line always ends a paragraph
    rows = [_with(row, leadings.get(round(row.size * 2), 1.2 * row.size)) for row in rows]
    rows = rows if width is None else with_indents(_spaced(rows))
    rights = printed_rights(rows, everywhere, width) if width is not None else typed_rights(rows)
    indented = [_is_indented(row, after) for row, after in itertools.pairwise(rows)]
    done = [
        _with(row, row.leading, right, is_indented)
        for row, right, is_indented in zip(rows, rights, [*indented, False][: len(rows)], strict=True)
    ]
    for index, row in enumerate(done):
        around = done[index - 1] if index else None, done[index + 1] if index + 1 < len(done) else None
        done[index] = _unstretched(row, *around)
    return done


def _spaced(rows: Sequence[Row]) -> list[Row]:
    """Rows of double-spaced prose have its distance as theirs, where other lines of the page stand closer."""
    done = list(rows)
    start = 0
    for index in range(1, len(rows) + 1):
        if index < len(rows) and _are_spaced(rows[index - 1], rows[index], rows[start : index - 1]):
            continue
        run = rows[start:index]
        if len(run) >= _num_needed(run) and is_prose(run, max(row.x1 for row in run)):
            leading = run[1].bottom - run[0].bottom
            done[start + 1 : index] = [_with(row, leading) for row in run[1:]]
        start = index - 1 if index < len(rows) and len(run) > 1 else index
    return done


def _num_needed(run: Sequence[Row]) -> int:
    """Lines that must follow each other alike: more, where they are hardly further apart than paragraphs."""
    is_wide = len(run) > 1 and run[1].bottom - run[0].bottom > WIDELY * run[1].leading
    return SPACED_LINES if is_wide else MORE_LINES


def _are_spaced(before: Row, row: Row, run: Sequence[Row]) -> bool:
    """Whether a line is as far below the last as the lines of a run are from each other, and further than usual."""
    distance = row.bottom - before.bottom
    as_usual = not run or abs(distance - (before.bottom - run[-1].bottom)) < SAME_DISTANCE
    if before.code or row.code:
        return False
    return SPACED * row.leading < distance < SPACED_EMS * row.size and as_usual and same_size(before, row)


def _unstretched(row: Row, before: Row | None, after: Row | None) -> Row:
    """A line of few words in a narrow justified column has gaps as wide as those between the columns of a table; so
    have typewritten lines after a sentence."""
    if row.code or not (is_stretched(row.text) or has_sentence_gaps(row.text)) or not _is_full(row):
        return row
    follows = before is not None and _is_full(before) and not has_columns(before.text) and in_one_run(before, row)
    goes_on = after is not None and in_one_run(row, after) and abs(after.x0 - row.x0) < INDENT * row.size
    return row._replace(text=" ".join(row.text.split())) if follows or goes_on else row


def _is_full(row: Row) -> bool:
    return row.room <= FULL_ROOM * row.size


def _with(row: Row, leading: float, right: float = 0.0, indented: bool = False) -> Row:
    """A copy with these measures."""
    return row._replace(right=right, leading=leading, indented=indented)


def _is_indented(row: Row, after: Row) -> bool:
    return in_one_run(row, after) and row.x0 - after.x0 > INDENT * row.size


def _leadings(rows: Sequence[Row]) -> dict[int, float]:
    """Usual distance between lines, by font size in half points. The smallest that is common, not the mean: gaps
    between paragraphs must not count."""
    distances: dict[int, Counter[float]] = defaultdict(Counter)
    for before, after in itertools.pairwise(rows):
        distance = after.bottom - before.bottom
        if same_size(before, after) and 0.7 * after.size < distance < 3 * after.size:
            distances[round(after.size * 2)][round(distance * 2) / 2] += 1
    result: dict[int, float] = {}
    for size, counts in distances.items():
        often = max(counts.values())
        result[size] = min(distance for distance, count in counts.items() if count >= 0.4 * often)
    return result
