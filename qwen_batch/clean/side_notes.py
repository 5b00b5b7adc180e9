"""Notes in the margin that were drawn between two lines of a paragraph: they stay in the text, after the paragraph."""

from __future__ import annotations

from collections.abc import Sequence

from qwen_batch.clean.markers import ends_sentence, is_cjk
from qwen_batch.clean.rows import Entry, Row, in_one_run

FULL = 0.35  # ems that the line before a note may lack
MIN_CHARS = 15  # of that line: less is mathematics
APART = 0.5  # ems between the text and a note, at least
NARROW = 0.6  # of the lines beside it: no note is wider


def mark_side_notes(pages: Sequence[Sequence[Entry]]) -> list[list[Entry]]:
    """The same entries; rows of such notes say so."""
    return [_mark_page(page) for page in pages]


def _mark_page(page: Sequence[Entry]) -> list[Entry]:
    done = list(page)
    place = 1
    while place < len(page):
        end = _end_of_note(page, place)
        for number in range(place, end):
            row = page[number]
            if isinstance(row, Row):
                done[number] = row._replace(note="starts" if number == place else "goes on")
        place = max(end, place + 1)
    return done


def _end_of_note(page: Sequence[Entry], start: int) -> int:
    """Where a note that begins at a place ends; the place itself where none begins."""
    before = page[start - 1]
    if not isinstance(before, Row) or before.note or before.room > FULL * before.size:
        return start
    if len(before.text) < MIN_CHARS or ends_sentence(before.text):
        return start
    end = start
    while end < len(page) and _is_beside(page[end], before):
        end += 1
    after = page[end] if end < len(page) else None
    goes_on = isinstance(after, Row) and in_one_run(before, after) and _takes_up(after)
    return end if goes_on else start


def _is_beside(entry: Entry, line: Row) -> bool:
    """Whether a row stands beside a line of the text, in a narrow column of its own."""
    if not isinstance(entry, Row) or not entry.flows or entry.note:
        return False
    apart = APART * line.size
    is_outside = entry.x0 > line.right + apart or entry.x1 < line.x0 - apart
    return is_outside and entry.x1 - entry.x0 < NARROW * (line.x1 - line.x0)


def _takes_up(row: Row) -> bool:
    return row.text[0].islower() or is_cjk(row.text[0])
