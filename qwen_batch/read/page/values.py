"""Values of a form among the characters of its page, each behind the label that names it.

A label stands to the left of its field or above it, that of a box on either side. Where a page draws boxes as letters
of a font of signs, the box takes their place; where it draws what a field holds, or a line to write on, nothing is said
twice.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from qwen_batch.read.page.chars import Char, PageChars
from qwen_batch.read.page.forms import NO_TICK, PITCH, Field
from qwen_batch.read.page.labels import AHEAD, SLACK, Labels, Word
from qwen_batch.read.page.rtl_letters import has_rtl_letters, is_rtl_letter
from qwen_batch.records import BBox, Table

MAX_PLACED = 1_000  # of a page: more make a time that grows with their square
NEAR = 1.5  # ems between a box and its label
MOST = 0.6  # of a line to write on: the field is for all of it
MIN_DRAWN = 4  # letters: a shorter value may be a part of a label that stands in the field
WIDE, NARROW = "   ", " "
_RULE = re.compile("_{3,}")
_GOES_ON = re.compile(r"[^\S\r\n]*_*[^\S\r\n]*(?:[^\W\d_A-Z]|[,.;)])")
_NUMBER_END = re.compile(r"\d\W*$")


class Placed(NamedTuple):
    """A page with what was filled in, and what found no place there."""

    chars: PageChars
    left: tuple[Field, ...]
    ends: frozenset[int] = frozenset()  # after which characters a value ends


class _Insert(NamedTuple):
    """What comes before a character of the page."""

    place: int
    text: str
    bbox: BBox
    number: int  # that of a letter beside it, whose font it takes
    is_box: bool


def place_values(
    page: PageChars, fields: Sequence[Field], tables: Sequence[Table] = (), at_fields: bool = False
) -> Placed:
    """The characters of a page with the values of its fields: each behind its label, and drawn close to it or,
    `at_fields`, where its field is, as cells of tables want them.

    What stands in `tables` names nothing. The places of white space have to be infinite.
    """
    return _Placer(page, fields, tables, at_fields).placed()


class _Placer:
    def __init__(self, page: PageChars, fields: Sequence[Field], tables: Sequence[Table], at_fields: bool) -> None:
        self._page, self._at_fields = page, at_fields
        self._labels = Labels(page, fields, tables, mirrored=_is_rtl(page.text))
        self._inserts: list[_Insert] = []
        self._dropped: set[int] = set()
        self._left: list[Field] = []

    def placed(self) -> Placed:
        for field in self._labels.fields():
            if not field.text or self._is_drawn(field):
                continue
            if len(self._inserts) < MAX_PLACED and self._place(field):
                continue
            if field.text != NO_TICK:
                self._left.append(field._replace(bbox=self._labels.seen(field.bbox)))
        return self._filled() if self._inserts else Placed(self._page, tuple(self._left))

    def _is_drawn(self, field: Field) -> bool:
        """Whether the page itself shows what was filled in, as flattened forms do."""
        value, drawn = "".join(field.text.split()), self._labels.within(field)
        return value == drawn or (len(value) >= MIN_DRAWN and value in drawn)

    def _place(self, field: Field) -> bool:
        if field.is_box:
            return self._place_box(field)
        return "\n" not in field.text and self._place_value(field)

    def _place_value(self, field: Field) -> bool:
        left, is_blocked = self._labels.left_of(field)
        beside = left if left and not is_blocked and not self._labels.is_lone(left) else None
        if beside and not beside.is_value and self._labels.is_in_next_column(beside, field):
            left = beside = None
        gap = field.bbox[0] - beside.x1 if beside else 0.0
        if beside and not beside.is_value and (gap <= AHEAD * beside.em or self._labels.names(beside)):
            return self._behind(beside, field)
        above = self._labels.label_of(field)
        if above and not self._at_fields and self._labels.is_sentence(above):
            return False
        label = above or beside
        if label:
            return self._behind(label, field, is_beside=not above)
        right = self._labels.right_of(field)
        if right and right.x0 - field.bbox[2] <= AHEAD * right.em:
            return self._before(right, field)
        return left is not None and self._behind(left, field)

    def _place_box(self, field: Field) -> bool:
        sign = self._labels.sign_of(field, self._dropped)
        taken = sign.start if sign else -1
        left, is_blocked = self._labels.left_of(field, taken)
        right = self._labels.right_of(field, taken)
        far = float("inf")
        to_left = (field.bbox[0] - left.x1) / left.em if left and not left.is_value and not is_blocked else far
        to_right = (right.x0 - field.bbox[2]) / right.em if right else far
        is_near = min(to_left, to_right) <= NEAR
        above = None if is_near else self._labels.word_above(field, taken)
        if sign:
            self._dropped.add(sign.start)
            if not above:
                return self._insert(sign.start, field.text, sign, field, (sign.x0, sign.x1))
        if right and is_near and to_right <= to_left:
            return self._before(right, field)
        if left and is_near:
            return self._behind(left, field)
        if above:
            return self._behind(above, field, is_beside=False)
        if left and not is_blocked:
            return self._behind(left, field)
        return right is not None and to_right <= 2 * NEAR and self._before(right, field)

    def _behind(self, label: Word, field: Field, is_beside: bool = True) -> bool:
        text = self._page.text
        is_number = label.is_value or _NUMBER_END.search(text, label.start, label.end)
        after = NARROW if text[label.end : label.end + 1].strip() else ""
        value = (WIDE if is_number and not field.is_box else NARROW) + field.text + after
        left = label.x0 if label.is_value else label.x1 + 1.0
        if is_beside and (field.is_box or label.is_value):
            left = max(left, field.bbox[0])
        right = max(left, field.bbox[0]) + PITCH * label.em * len(field.text)
        if self._goes_on(label, field):
            right = math.inf
        return self._insert(label.end, value, label, field, (left, min(right, field.bbox[2]) if is_beside else left))

    def _goes_on(self, label: Word, field: Field) -> bool:
        """Whether prose goes on behind a field: there is nothing between that and the value."""
        match = _GOES_ON.match(self._page.text, label.end)
        place = match.end() - 1 if match else 0
        box = self._labels.seen((self._page.x0[place], self._page.top[place], self._page.x1[place], 0.0))
        return match is not None and box[1] < label.bottom and box[0] >= field.bbox[2] - 2 * SLACK

    def _before(self, label: Word, field: Field) -> bool:
        return self._insert(label.start, field.text + NARROW, label, field, (field.bbox[0], label.x0))

    def _insert(self, place: int, text: str, label: Word, field: Field, between: tuple[float, float]) -> bool:
        """Put a value where its label is, as high as that, so that it is in one line with it."""
        x0, x1, top, bottom = *between, label.top, label.bottom
        x1 = max(x0 + 0.5, x1)
        if self._at_fields:  # all in the cell in which the middle of the field is
            (x0, middle), half = field.middle, label.em / 3
            x1, top, bottom = x0, middle - half, middle + half
        box, number = self._labels.seen((x0, top, x1, bottom)), self._page.numbers[label.letter]
        self._inserts.append(_Insert(place, text, box, number, field.is_box))
        self._labels.add(place, field, label.letter)
        if not field.is_box:
            self._drop_rule(field)
        return True

    def _drop_rule(self, field: Field) -> None:
        """A line to write on, drawn as letters, says no more than the value that stands on it."""
        x0, top, x1, bottom = self._labels.seen(field.bbox)
        page = self._page
        for match in _RULE.finditer(page.text):
            places = range(*match.span())
            covered = [
                place
                for place in places
                if top - SLACK <= page.bottom[place] <= bottom + 2 * SLACK
                and x0 <= (page.x0[place] + page.x1[place]) / 2 <= x1
            ]
            self._dropped.update(places if len(covered) >= MOST * len(places) else covered)

    def _filled(self) -> Placed:
        chars, kept = self._page.chars(), list[Char]()
        done, ends = 0, set[int]()
        for insert in sorted(self._inserts, key=lambda insert: insert.place):
            kept += (chars[at] for at in range(done, insert.place) if at not in self._dropped)
            if not insert.is_box:
                ends.add(len(kept) + len(insert.text.rstrip()))
            kept += _spread(insert)
            done = insert.place
        kept += (chars[at] for at in range(done, len(chars)) if at not in self._dropped)
        page = PageChars.of(kept)._replace(num_unnamed=self._page.num_unnamed)
        return Placed(page, tuple(self._left), frozenset(ends))


def _spread(insert: _Insert) -> Iterator[Char]:
    """The letters of a value close together from the left of its place, the last one up to the right; blanks are
    nowhere."""
    x0, top, x1, bottom = insert.bbox
    step = min((x1 - x0) / len(insert.text), PITCH * (bottom - top))
    for place, char in enumerate(insert.text):
        if char.isspace():
            yield Char(" ", math.inf, math.inf, -math.inf, -math.inf, insert.number)
        else:
            right = x1 if place == len(insert.text.rstrip()) - 1 else x0 + (place + 1) * step
            yield Char(char, x0 + place * step, top, right, bottom, insert.number)


def _is_rtl(text: str) -> bool:
    return has_rtl_letters(text) and 2 * sum(map(is_rtl_letter, text)) > sum(map(str.isalpha, text))
