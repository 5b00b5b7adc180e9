"""Printed code: lines in letters of one width, whose spaces and ends mean something.

A document that is set in such letters as a whole is typewritten, and prose within it is prose.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from qwen_batch.clean.blocks import is_prose
from qwen_batch.clean.markers import COLUMN_GAP, ends_sentence, is_item_text
from qwen_batch.clean.rows import INDENT, Row, in_one_run

TYPEWRITTEN = 0.5  # of a document's letters: more than so many in letters of one width
COLUMN_EMS = 2.0  # a wider gap stands between columns
HANGING = 3.0  # ems by which the later lines of an item may begin further in
MIN_PITCH = 0.2  # ems: no letter is narrower
MAX_INDENT = 80  # letters
_SPACES = re.compile(" {2,}")


def is_typewritten(rows: Sequence[Row]) -> bool:
    """Whether most of a document is set in letters of one width."""
    total = sum(len(row.text) for row in rows if row.printed)
    return sum(len(row.text) for row in rows if row.printed and row.code) > TYPEWRITTEN * total


def as_prose(row: Row) -> Row:
    """A printed row that is no code; only wide gaps stand between columns."""
    if not (row.code and row.printed):
        return row
    widest = COLUMN_EMS * row.size / _pitch(row)
    return row._replace(text=_SPACES.sub(lambda gap: COLUMN_GAP if len(gap[0]) > widest else " ", row.text), code=False)


def with_indents(rows: Sequence[Row]) -> list[Row]:
    """The printed rows of a page; code with its indentation, prose in letters of one width as prose."""
    done = list(rows)
    start = 0
    for index in range(1, len(rows) + 1):
        if index == len(rows) or not (rows[index].code and rows[index - 1].code):
            if index - start == 1 and start and _goes_on(rows[start - 1], rows[start]):
                done[start] = as_prose(rows[start])
            elif rows[start].code:
                done[start:index] = _indented(rows[start:index])
            start = index
    return done


def _goes_on(before: Row, row: Row) -> bool:
    """Whether one line of code alone is the rest of a sentence, which ends with a command."""
    step = row.x0 - before.x0
    level = abs(step) < INDENT * row.size or (0 < step < HANGING * row.size and is_item_text(before.text))
    return not before.code and level and in_one_run(before, row) and not ends_sentence(before.text)


def _indented(block: Sequence[Row]) -> list[Row]:
    is_name = len(block) == 1 and " " not in block[0].text  # a link, the name of a file
    if is_name or is_prose(block, max(row.x1 for row in block)):
        return [as_prose(row) for row in block]
    left, pitch = min(row.x0 for row in block), _pitch(max(block, key=lambda row: len(row.text)))
    return [row._replace(text=" " * min(MAX_INDENT, round((row.x0 - left) / pitch)) + row.text) for row in block]


def _pitch(row: Row) -> float:
    """The width of each letter."""
    return max((row.x1 - row.x0) / len(row.text), MIN_PITCH * row.size)
