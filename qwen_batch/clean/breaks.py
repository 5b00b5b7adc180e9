"""Where paragraphs end, among printed lines.

The measure of a line end is whether the next line's first word would still have fitted: if so, the writer meant to
end the line there. Gaps, indents, font sizes, list marks and clause numbers end a paragraph as well.
"""

from __future__ import annotations

from collections.abc import Sequence

from qwen_batch.clean.hyphens import HYPHENS
from qwen_batch.clean.markers import (
    RAISED,
    bullet,
    clause_kind,
    display_width,
    ends_sentence,
    follows_number,
    has_columns,
    is_citation,
    is_cjk,
    is_item_text,
    is_label,
    is_lone_mark,
    is_tabular,
    looks_like_code,
    starts_lower,
)
from qwen_batch.clean.rows import INDENT, Row, same_size

PARAGRAPH = "\n\n"
LINE = "\n"
GAP = 1.3  # of the usual leading: more is a gap between paragraphs
FAR_INDENT = 4.0  # ems: hardly a first line of a paragraph stands so far in
FIRST_INDENT = 8.0  # ems: none does
CJK_ROOM = 2.2  # ems that a full Chinese line may lack: punctuation may not begin a line
LISTED = ("letter", "roman", "circled")  # kinds of numbering whose items stand close together
BESIDE, BESIDE_IN_FULL = 1.5, 3.0  # ems between pieces of one line
SAME_MIDDLE = 0.6  # ems, twice the distance between the middles of centred lines
FULL_SLACK = 0.35  # ems that a full line may lack


def break_before(paragraph: Sequence[Row], row: Row) -> str | None:
    """What separates a line from the open paragraph; None: it goes on."""
    last = paragraph[-1]
    if (last.code or row.code) and last.flows and row.flows:
        return LINE if _is_below(last, row) else PARAGRAPH
    if not (last.flows and row.flows):
        return LINE if last.page_number == row.page_number and not row.apart else PARAGRAPH
    if row.apart:
        return LINE
    if not same_size(last, row):
        return PARAGRAPH
    distance = row.bottom - last.bottom
    if row.page_number == last.page_number and distance < -0.5 * row.size and last.x0 - row.x0 > FAR_INDENT * row.size:
        return PARAGRAPH  # no column goes on in one before it
    if row.page_number != last.page_number or distance < -0.5 * row.size:
        return None if _goes_on(paragraph, row) else LINE if _same_list(paragraph[0], row) else PARAGRAPH
    if distance < 0.4 * row.size:
        return _within_row(last, row)
    if distance > GAP * row.leading + 0.5:
        return PARAGRAPH
    if ends_divided(last.text) and starts_lower(row.text):
        is_full = row.x0 < last.x0 and last.x1 > row.right - FULL_SLACK * row.size
        is_below = has_columns(last.text) and last.x0 < row.x0 < last.x1  # the value that stands beside a label
        if is_full or is_below or abs(row.x0 - last.x0) < FAR_INDENT * row.size:
            return None
    glue = _break_at_marks(paragraph, row) or _break_at_edges(paragraph, row)
    return LINE if glue is None and last.entry and not starts_lower(row.text) else glue


def _is_below(last: Row, row: Row) -> bool:
    return row.page_number == last.page_number and 0 < row.bottom - last.bottom <= GAP * row.leading + 0.5


def _same_list(first: Row, row: Row) -> bool:
    """Whether a list goes on over a page break. Numbered clauses are paragraphs of their own."""
    kind = clause_kind(row.text)
    level = abs(row.x0 - first.x0) < INDENT * row.size and same_size(first, row)
    return level and (kind == clause_kind(first.text) in LISTED or (bullet(row.text) and bullet(first.text)))


def _within_row(last: Row, row: Row) -> str | None:
    """Two pieces printed side by side; in a justified line, which a footnote mark may have cut, they are far apart."""
    is_full = row.room < FULL_SLACK * row.size and not has_columns(row.text)
    is_full = is_full or (last.room < FULL_SLACK * row.size and starts_lower(row.text))  # the next column
    return None if 0 <= row.x0 - last.x1 < (BESIDE_IN_FULL if is_full else BESIDE) * row.size else LINE


def _break_at_marks(paragraph: Sequence[Row], row: Row) -> str | None:
    last, text = paragraph[-1], row.text
    if (bullet(text) and not _is_dash_within(paragraph, row)) or looks_like_code(text) or looks_like_code(last.text):
        return LINE
    if is_tabular(last.text) and (is_tabular(text) or has_columns(last.text)):
        return LINE
    first = paragraph[0]
    level = abs(row.x0 - first.x0) < INDENT * row.size
    if level and (follows_number(first.text, text) or (is_label(first.text) and is_label(text))):
        return LINE
    if is_lone_mark(last.text if len(paragraph) == 1 else text) and abs(row.x0 - last.x0) > INDENT * row.size:
        return LINE
    kind = clause_kind(text)
    if kind is None:
        return None
    if ends_sentence(last.text) or is_short(last, row):
        return LINE
    if kind == clause_kind(first.text) and level:
        return LINE
    if is_citation(text):
        return None
    step = row.x0 - last.x0
    hanging = len(paragraph) == 1 and is_item_text(first.text)
    return LINE if step < -INDENT * row.size or (step > INDENT * row.size and not hanging) else None


def _break_at_edges(paragraph: Sequence[Row], row: Row) -> str | None:
    last = paragraph[-1]
    if is_short(last, row):
        is_further_in = row.x0 - last.x0 > INDENT * row.size and not _hangs(paragraph, row)
        return PARAGRAPH if is_further_in and not _are_centred([*paragraph, row]) else LINE
    step = row.x0 - last.x0
    if step < -FAR_INDENT * row.size:
        return None if len(paragraph) == 1 and _is_first(last, row) else LINE
    if row.indented and ends_sentence(last.text):
        return PARAGRAPH
    if step > INDENT * row.size and not (len(paragraph) == 1 and is_item_text(last.text)):
        return PARAGRAPH if ends_sentence(last.text) else None
    if step < -INDENT * row.size and len(paragraph) > 1:
        return PARAGRAPH if ends_sentence(last.text) else None
    return None


def _is_first(first: Row, row: Row) -> bool:
    """Whether a line that begins far in is the first of the paragraph that a line goes on with, as in pleadings."""
    is_near = first.x0 - row.x0 < FIRST_INDENT * row.size
    is_wide = 2 * (first.x1 - first.x0) > row.right - row.x0
    return is_near and is_wide and not ends_sentence(first.text) and not is_short(first._replace(right=row.right), row)


def _hangs(paragraph: Sequence[Row], row: Row) -> bool:
    """Whether a line goes on with the sentence of an item, below its text."""
    last = paragraph[-1]
    return len(paragraph) == 1 and is_item_text(last.text) and not ends_sentence(last.text) and row.text[0].islower()


def _are_centred(rows: Sequence[Row]) -> bool:
    first = rows[0].x0 + rows[0].x1
    return all(abs(row.x0 + row.x1 - first) < SAME_MIDDLE * row.size for row in rows)


def _is_dash_within(paragraph: Sequence[Row], row: Row) -> bool:
    """Whether the dash that a line begins with is one of the sentence, not the mark of an item."""
    last = paragraph[-1]
    goes_on = row.text[0] in "–—" and starts_lower(row.text) and not bullet(paragraph[0].text)
    return goes_on and not ends_sentence(last.text) and not is_short(last, row)


def is_short(last: Row, row: Row) -> bool:
    """Whether the first word of a line would have fitted at the end of the line before."""
    if ends_divided(last.text):
        return False
    word = row.text.split(None, 1)[0]
    latin = len(word)
    if not word.isascii():
        latin = next((place for place, char in enumerate(word) if is_cjk(char)), latin)
    if last.text[-1].islower() and word[0].islower():  # Latin words among Chinese ones
        latin = len(word)
    while 0 < latin < len(word) and not word[latin].isalnum():  # closing signs do not begin a line
        latin += 1
    per_column = (row.x1 - row.x0) / max(display_width(row.text), 1)
    spaced = (display_width(word[:latin]) + 1) * per_column + FULL_SLACK * row.size if latin else 0.0
    needed = spaced if latin == len(word) else max(spaced, CJK_ROOM * row.size)
    return last.room > max(needed, row.size)


def ends_divided(text: str) -> bool:
    """Whether a line ends within a word; the mark of a footnote may stand behind its hyphen."""
    plain = text.rstrip(RAISED)
    is_marked = len(plain) < len(text) and plain[-2:-1].isalpha()
    return plain[-1:] in HYPHENS and (is_marked or (plain == text and text[-2:-1].isalnum()))


def _goes_on(paragraph: Sequence[Row], row: Row) -> bool:
    """Whether a paragraph continues at the top of the next column or page."""
    last, text = paragraph[-1], row.text
    if ends_sentence(last.text) or bullet(text) or looks_like_code(text) or looks_like_code(last.text):
        return False
    if is_tabular(last.text) or is_tabular(text) or clause_kind(text) is not None or is_short(last, row):
        return False
    if ends_divided(last.text) or starts_lower(text):
        return True
    if len(paragraph) < 2 and not is_cjk(last.text[-1]):  # one full line may be a heading
        return False
    return is_cjk(text[0]) or last.text[-1] in ",，、" or row.room <= last.room + row.size
