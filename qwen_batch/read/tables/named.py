"""Tables that begin with the names of their columns: invoices, price lists, schedules, lists of words in columns.

A rule below the names, or a shade behind them, is enough; `under_names.py` has those without one.
The white between the names divides the columns as far down as no row has ink in it. Two columns of prose below a rule
are told by their long lines, running heads and forms by what follows them.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence

from qwen_batch.read.page.words import Row, Word, em_of, middle_of, pieces_of, rows_of
from qwen_batch.read.tables.bodies import ends_in_prose, table_of
from qwen_batch.read.tables.columns import overlap
from qwen_batch.read.tables.grids import SAME_ENDS, Rule
from qwen_batch.read.tables.lines import Columns
from qwen_batch.read.tables.names import APART, body_of, head_between, head_of, may_be_names
from qwen_batch.read.tables.rivers import placed_cells
from qwen_batch.read.tables.under_names import find_under_names, is_number
from qwen_batch.records import BBox, Table

MIN_WIDTH = 60.0  # points of a rule
MAX_RULES = 200  # of a page; more are a drawing
ABOVE_RULE = 1.6  # ems from the middle of names down to their rule
CLEAR = 0.6  # ems of white beside a table
MAX_WORDS = 4.0  # of a line of the column with the shortest ones, on average
MIN_ROWS, MIN_TEXT_ROWS = 2, 3  # of words alone; in two columns
SURE_ROWS = 4  # whatever follows them
FRAME = 12.0  # points between the text of a table and its outer rules
MIN_FILLED = 0.5  # of the cells of full rows
PRIVATE = ("\ue000", "\uf8ff")
BETWEEN = 40.0  # points between rules of one run
MAX_FIRST = 3  # rules of a run: that of the page's head, the one above the names, the one below them
ABOVE_NAMES = 80.0  # points: names are not higher
MIN_BAND = 8.0  # points between two rules with lines of names
BESIDE = 20.0  # points: what stands further away is not looked at


def find_named(
    rows: Sequence[Row], level: Sequence[Rule], parts: Sequence[Sequence[Row]], within: Sequence[Table]
) -> list[Table]:
    """The tables of a page that begin with names above a rule, or above numbers, these in the `parts` of the page.

    `level`: the level rules of the page. `within`: tables that rules close or part; nothing is looked for in them.
    """
    boxes = [table.bbox for table in within if table.bbox]
    wide = sorted(rule for rule in level if rule.end - rule.start >= MIN_WIDTH)
    rules = wide if len(wide) <= MAX_RULES else []
    found: list[Table] = []
    for rule in _rules_below_names(rows, rules, boxes):
        if not any(table.bbox and _is_within(rule, table.bbox) for table in found):
            found += filter(None, [_below_rule(rule, rows, rules)])
    for part in parts:
        free = find_under_names(part, rules, boxes)
        found += [table for table in free if not any(overlap(table, other) for other in found)]
    return found


def _is_standing(word: Word) -> bool:
    """Whether a word stands upright, at the edge of a page."""
    return word.bottom - word.top > 2 * (word.x1 - word.x0) and len(word.text) > 1


def _is_within(rule: Rule, box: BBox) -> bool:
    return box[1] + SAME_ENDS <= rule.place <= box[3] and rule.start < box[2] and box[0] < rule.end


def _rules_below_names(rows: Sequence[Row], rules: Sequence[Rule], boxes: Sequence[BBox]) -> Iterator[Rule]:
    """The rules with several pieces of text right above. Of rules of one width close below each other the first ones:
    the others part rows, or are the shades of lines of code."""
    middles = [middle_of(row[0]) for row in rows]
    seen: dict[tuple[int, int], tuple[float, int]] = {}  # where the last one of a width is, and how many are near
    for rule in rules:
        ends = round(rule.start / SAME_ENDS), round(rule.end / SAME_ENDS)
        place, count = seen.get(ends, (-math.inf, 0))
        count = count + 1 if rule.place - place < BETWEEN else 1
        seen[ends] = rule.place, count
        after = bisect_left(middles, rule.place)
        if count > MAX_FIRST or after == 0 or any(_is_within(rule, box) for box in boxes):
            continue
        inside = [word for word in rows[after - 1] if rule.start <= (word.x0 + word.x1) / 2 <= rule.end]
        near = rule.place - middles[after - 1] < ABOVE_RULE * em_of(rows[after - 1])
        are_names = near and len(inside) > 1 and may_be_names(pieces_of(inside))
        is_band = MIN_BAND < rule.place - place < ABOVE_NAMES
        if are_names or (is_band and (after - bisect_left(middles, place) > 1 or _has_gap(inside))):
            yield rule


def _has_gap(line: Row) -> bool:
    return len(line) > 1 and len(pieces_of(line, APART)) > 1


def _below_rule(rule: Rule, page_rows: Sequence[Row], rules: Sequence[Rule]) -> Table | None:
    middles = [middle_of(row[0]) for row in page_rows]
    first, after = (bisect_left(middles, place) for place in (rule.place - ABOVE_NAMES, rule.place))
    above, beside = _inside(page_rows[first:after], rule)
    upper = max((o.place for o in rules if o.place < rule.place and _differ(o, rule) < SAME_ENDS), default=0.0)
    between = [row for row in above if middle_of(row[0]) > upper]
    head = (head_between(between) if upper > rule.place - ABOVE_NAMES else None) or head_of(above)
    if head is None or any(_leads_out(row, rule, beside) for row in head.lines):
        return None
    below, beside = _inside(page_rows[after:], rule)
    covering = (other for other in rules if other.start <= rule.start + SAME_ENDS and other.end >= rule.end - SAME_ENDS)
    ends = [other.place for other in covering if other.place > rule.place]
    body, strips = body_of(head, below, ends, lambda row: not _leads_out(row, rule, beside))
    if not body:
        return None
    columns = Columns(tuple(strips))
    table = table_of(head.lines, body, columns, rules)
    framing = [other.place for other in rules if _differ(other, rule) < SAME_ENDS]
    least = 1 if _is_framed(table, framing) else MIN_TEXT_ROWS if len(strips) == 1 else MIN_ROWS
    return table if _is_sound(table, least, body, columns, below[len(body) :]) else None


def _inside(rows: Sequence[Row], rule: Rule) -> tuple[list[Row], list[Word]]:
    """The rows of what stands within the ends of a rule, and words near by."""
    within, beside = list[Word](), list[Word]()
    for word in (word for row in rows for word in row):
        if _is_standing(word):
            continue
        if rule.start <= (word.x0 + word.x1) / 2 <= rule.end:
            within.append(word)
        elif word.x1 > rule.start - BESIDE and word.x0 < rule.end + BESIDE:
            beside.append(word)
    return rows_of(within), beside


def _differ(one: Rule, other: Rule) -> float:
    return max(abs(one.start - other.start), abs(one.end - other.end))


def _leads_out(row: Row, rule: Rule, near: Sequence[Word]) -> bool:
    """Whether words cross the ends of a rule, or stand so close to them that they belong to what is inside."""
    clear = CLEAR * em_of(row)
    if row[0].x0 < rule.start - SAME_ENDS or row[-1].x1 > rule.end + SAME_ENDS:
        return True
    return any(
        word.top < row[0].bottom
        and word.bottom > row[0].top
        and rule.start - clear < word.x1
        and word.x0 < rule.end + clear
        for word in near
    )


def _is_framed(table: Table, places: Sequence[float]) -> bool:
    """Whether rules close a table above and below, and nothing else stands within them."""
    _, top, _, bottom = table.bbox or (0.0, 0.0, 0.0, 0.0)
    return any(top - FRAME < place < top + SAME_ENDS for place in places) and any(
        bottom - SAME_ENDS < place < bottom + FRAME for place in places
    )


def _is_sound(table: Table, least: int, body: Sequence[Row], columns: Columns, after: Sequence[Row]) -> bool:
    """Whether rows below a rule, `least` of them or more, are a table, not prose or what happens to stand there."""
    rows = table.rows[table.header_rows :]
    full = [row for row in rows if sum(map(_says, row)) > 1]
    cells = [cell for row in full for cell in row[1:] if cell]
    numbers = sum(map(is_number, (cell.replace("\n", " ") for cell in cells)))
    if not full or not all(any(row[column] for row in full) for column in range(len(table.rows[0]))):
        return False
    if numbers >= max(2, len(full)):  # amounts: one row will do
        return True
    if len(full) < (min(least, MIN_ROWS) if numbers else least):
        return False
    if sum(map(bool, (cell for row in full for cell in row))) < MIN_FILLED * len(full) * len(table.rows[0]):
        return False
    return _shortest(body, columns) <= MAX_WORDS and not (ends_in_prose(body, after) and len(full) < SURE_ROWS)


def _shortest(body: Sequence[Row], columns: Columns) -> float:
    lengths: list[list[float]] = [[] for _ in range(len(columns.strips) + 1)]
    for row in body:
        for column, cell in enumerate(placed_cells(row, columns.dividers)[0]):
            if cell:
                lengths[column].append(_length(cell))
    return min(sum(each) / len(each) for each in lengths if each)


def _length(cell: str) -> float:
    """Words; of Chinese and Japanese two characters are one."""
    wide = sum(char >= "\u3000" for char in cell)
    return max(float(len(cell.split())), wide / 2)


def _says(text: str) -> bool:
    """Whether a cell has more than signs of a font's own, which say nothing to others."""
    return any(char.isprintable() and not PRIVATE[0] <= char <= PRIVATE[1] for char in text)
