"""Footnotes: small lines at the foot of a column that begin with a mark. They stay in the text, but apart, so that the
paragraph that they interrupt goes on."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence

from qwen_batch.clean.markers import RAISED, ends_sentence, starts_lower
from qwen_batch.clean.rows import Entry, Placed, Row
from qwen_batch.clean.sizes import middle_size
from qwen_batch.patterns import late

SMALLER = 0.94  # of the body's font size: notes are at most this large
SMALLEST = 0.5
FOOT = 0.4  # of the page's lines, from its top: what ends above is no foot
_RULE = late(r"[-–—_=\s]{3,}")  # that is typed, not drawn
_NUMBER = late(rf"\[?(\d{{1,3}}|[{RAISED}]{{1,3}})")
_MARK = late(rf"(?:\d{{1,3}}|[{RAISED}]{{1,3}}|\[\d{{1,3}}\]|[*†‡§¶#]{{1,3}})[.)]?\s*(?=[^\W_]|[\"“'‘(«„\[])")


def mark_footnotes(pages: Sequence[Sequence[Entry]]) -> list[list[Entry]]:
    """The same entries; rows of footnotes say so, and where a note begins."""
    rows = (entry for page in pages for entry in page if isinstance(entry, Row) and entry.printed)
    body = middle_size((row.size, len(row.text)) for row in rows)
    return [_mark_page(page, body) for page in pages]


def _mark_page(page: Sequence[Entry], body: float) -> list[Entry]:
    """Notes that were drawn before the page's text go to its end."""
    done: list[Entry] = []
    early: list[Entry] = []
    for run in _runs(page, body):
        rows = [entry for entry in run if isinstance(entry, Row)]
        if not _is_small(run[0], body) or not _are_notes(rows, done or early) or not _is_foot(rows, page):
            done += run
            continue
        marked = [row._replace(note="starts" if starts else "goes on") for row, starts in _marked(rows)]
        if done:
            _add_notes(done, marked)
        else:
            early += marked
    return done + early


def _add_notes(done: list[Entry], notes: Sequence[Row]) -> None:
    """Add notes of a column; what takes up a note of the column before goes after that, not after this one's text."""
    ends = [place for place, entry in enumerate(done, 1) if isinstance(entry, Row) and entry.note]
    num_taken = next((place for place, row in enumerate(notes) if row.note == "starts"), len(notes)) if ends else 0
    if num_taken:
        done[ends[-1] : ends[-1]] = notes[:num_taken]
    done += notes[num_taken:]


def _runs(page: Sequence[Entry], body: float) -> Iterator[list[Entry]]:
    """Runs of entries that are all small or all not, and do not jump up to another column."""
    run: list[Entry] = []
    for entry in page:
        if run and (_is_small(entry, body) != _is_small(run[-1], body) or _is_above(entry, run[-1])):
            yield run
            run = []
        run.append(entry)
    if run:
        yield run


def _is_above(entry: Entry, before: Entry) -> bool:
    return isinstance(entry, Row) and isinstance(before, Row) and entry.bottom < before.bottom - 0.5 * entry.size


def _are_notes(rows: Sequence[Row], before: Sequence[Entry]) -> bool:
    """Whether a run begins with a mark, or takes up a note of the column before."""
    first = next((row for row in rows if not _RULE().fullmatch(row.text)), rows[0])
    if _is_mark(first.text):
        return True
    last = next((entry for entry in reversed(before) if isinstance(entry, Row) and entry.note), None)
    return last is not None and not ends_sentence(last.text) and (last is before[-1] or starts_lower(first.text))


def _marked(rows: Sequence[Row]) -> Iterator[tuple[Row, bool]]:
    """Each row of a block of notes, and whether a note begins there: the next number, or a sign after a sentence."""
    last: int | None = None
    ended = True
    for row in rows:
        number = _NUMBER().match(row.text)
        starts = ended and bool(_is_mark(row.text) or _RULE().fullmatch(row.text))
        if number:
            starts = _is_mark(row.text) and (last is None or _value(number[1]) == last + 1)
            last = _value(number[1]) if starts else last
        ended = ends_sentence(row.text) or bool(_RULE().fullmatch(row.text))
        yield row, starts


def _value(number: str) -> int:
    return int(unicodedata.normalize("NFKC", number))


def _is_mark(text: str) -> bool:
    return bool(_MARK().match(text))


def _is_small(entry: Entry, body: float) -> bool:
    return isinstance(entry, Row) and entry.flows and entry.printed and SMALLEST * body < entry.size <= SMALLER * body


def _is_foot(rows: Sequence[Row], page: Sequence[Entry]) -> bool:
    """Whether nothing else stands below a run of rows in its column, and it stands low on the page."""
    top = min(row.bottom - row.size for row in rows)
    left, right = min(row.x0 for row in rows), max(row.x1 for row in rows)
    bottoms = [entry.bottom for entry in page if isinstance(entry, Row)]
    if top < min(bottoms) + FOOT * (max(bottoms) - min(bottoms)) or len(rows) == len(page):
        return False
    below = (entry for entry in page if not (isinstance(entry, Row) and entry in rows))
    return not any(_is_below(entry, top, left, right) for entry in below)


def _is_below(entry: Entry, top: float, left: float, right: float) -> bool:
    if isinstance(entry, Placed):
        box = entry.table.bbox
        return box is not None and box[3] > top and box[0] < right and box[2] > left
    return entry.bottom > top and entry.x0 < right and entry.x1 > left
