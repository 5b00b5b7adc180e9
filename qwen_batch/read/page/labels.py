"""The words of a page that name the fields of its form: beside them, above or below."""

from __future__ import annotations

import bisect
import functools
import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

from qwen_batch.read.page.chars import DIVIDED, PageChars
from qwen_batch.read.page.forms import LEVEL as LEVEL_FIELDS
from qwen_batch.read.page.forms import Field
from qwen_batch.records import BBox, Table

EM, LEAST_EM = 1.3, 6.0  # heights of letters; points
SLACK = 2.0  # points that a field may be askew to its label
PIECE_GAP = 0.9  # ems between labels in a row
AHEAD = 2.5  # ems from a label to its field: nothing above is nearer
ABOVE = 1.6  # ems from the middle of a label down to its field
CLOSE = 0.7  # ems from a line to write on down to what names it
BELOW = 1.4  # ems from a field down to the middle of a label
COLUMN = 100.0  # points up and down, where lines tell that a column begins there
LEVEL = 1.0  # ems that a label above may begin beside its field
AWRY = 4.0  # times that a step down counts more than one along
LONG_LABEL = 60  # letters: a sentence, not a name
_WORD = re.compile(rf"[^\s_{DIVIDED}]+")
_LINE_END = re.compile(rf"[\r\n{DIVIDED}]")
_SIGNS = r"[^\w\s()\[\].,:;/$%&'\"▶►-]|[oqnr]|[\ue000-\uf8ff]"  # of boxes, as text has them
_IS_SIGN, _IS_BOX = re.compile(_SIGNS), re.compile(rf"{_SIGNS}|[xX]")
_NAMES = re.compile(r"[:$€£▶►]\)?$")  # a label that ends so is that of what follows


class Word(NamedTuple):
    """Characters of a page side by side, or a value between them."""

    start: int
    end: int
    x0: float
    top: float
    x1: float
    bottom: float
    letter: int  # the place of its last one
    is_value: bool = False  # nothing of the page, but put there: it begins and ends where that was

    @property
    def middle(self) -> float:
        return (self.top + self.bottom) / 2

    @property
    def em(self) -> float:
        return max(LEAST_EM, EM * (self.bottom - self.top))


Item = TypeVar("Item", bound="Word | Field")


class _Rows(Generic[Item]):
    """Things by the height of their middles; those that are added later stand among them."""

    def __init__(self, items: Iterable[Item]) -> None:
        self._items: list[Item] = sorted(items, key=_height_of)
        self._heights = [_height_of(item) for item in self._items]

    def add(self, item: Item) -> None:
        place = bisect.bisect(self._heights, _height_of(item))
        self._items.insert(place, item)
        self._heights.insert(place, _height_of(item))

    def between(self, top: float, bottom: float) -> Sequence[Item]:
        return self._items[bisect.bisect_left(self._heights, top) : bisect.bisect(self._heights, bottom)]


def _height_of(item: Word | Field) -> float:
    return item.middle if isinstance(item, Word) else item.middle[1]


class Labels:
    """Words and fields of a page, by their places. Where text runs from right to left all is seen in a mirror."""

    def __init__(self, page: PageChars, fields: Sequence[Field], tables: Sequence[Table], mirrored: bool) -> None:
        self._text, self._mirrored = page.text, mirrored
        self._fields = [field._replace(bbox=self.seen(field.bbox)) for field in fields]
        words = [word for word in self._words(page) if not any(self._is_in(word, table) for table in tables)]
        self._words_at, self._pieces_at = _Rows(words), _Rows(_pieces(words, page.text))
        self._fields_at = _Rows(self._fields)

    def seen(self, box: BBox) -> BBox:
        """A box in the mirror, if there is one; seen twice, it is itself."""
        return (-box[2], box[1], -box[0], box[3]) if self._mirrored else box

    def add(self, place: int, field: Field, letter: int) -> None:
        """A value was put before a character: it is a word from now on."""
        self._words_at.add(Word(place, place, *field.bbox, letter, is_value=True))

    def fields(self) -> list[Field]:
        """From the top down, and in a row from the left."""
        rows: list[list[Field]] = []
        for field in sorted(self._fields, key=_height_of):
            if rows and _height_of(field) - _height_of(rows[-1][-1]) < LEVEL_FIELDS:
                rows[-1].append(field)
            else:
                rows.append([field])
        return [field for row in rows for field in sorted(row, key=lambda field: field.bbox[0])]

    def within(self, field: Field) -> str:
        """What the page draws where a field is."""
        x0, top, x1, bottom = field.bbox
        inside = (word for word in self._words_at.between(top, bottom) if x0 <= (word.x0 + word.x1) / 2 <= x1)
        return "".join(self._text[word.start : word.end] for word in sorted(inside, key=lambda word: word.start))

    def _words(self, page: PageChars) -> Iterator[Word]:
        for match in _WORD.finditer(page.text):
            start, end = match.span()
            box = self.seen(
                (
                    min(page.x0[start:end]),
                    min(page.top[start:end]),
                    max(page.x1[start:end]),
                    max(page.bottom[start:end]),
                )
            )
            yield Word(start, end, *box, letter=end - 1)

    def _is_in(self, word: Word, table: Table) -> bool:
        if table.bbox is None:
            return False
        x0, top, x1, bottom = self.seen(table.bbox)
        return x0 <= (word.x0 + word.x1) / 2 <= x1 and top <= word.middle <= bottom

    def _level(self, field: Field) -> tuple[float, float]:
        """Where the middles of words stand that are in one row with a field."""
        _, top, _, bottom = field.bbox
        slack = SLACK / 4 if field.is_box else SLACK
        return top - slack, bottom + slack

    def left_of(self, field: Field, taken: int = -1) -> tuple[Word | None, bool]:
        """The word to the left, and whether a field that is empty stands between."""
        x, y = field.bbox[0], field.middle[1]
        level = self._level(field)
        words = [
            word
            for word in self._words_at.between(*level)
            if word.x1 <= x + SLACK and word.start != taken and not (field.is_box and self._is_sign(word))
        ]
        if not words:
            return None, False
        nearest = min(words, key=lambda word: x - word.x1 + AWRY * abs(word.middle - y))
        return nearest, any(
            not other.text and nearest.x1 - SLACK <= other.bbox[0] and other.bbox[2] <= x + SLACK
            for other in self._fields_at.between(*level)
        )

    def right_of(self, field: Field, taken: int = -1) -> Word | None:
        """The word to the right, with no other field between."""
        x, y = field.bbox[2], field.middle[1]
        level, within = self._level(field), field.middle[0] if field.is_box else x - 2 * SLACK
        words = [
            word
            for word in self._words_at.between(*level)
            if word.x0 >= within and word.start != taken and not word.is_value and not self._is_sign(word)
        ]
        if not words:
            return None
        nearest = min(words, key=lambda word: word.x0 - x + AWRY * abs(word.middle - y))
        others = (other for other in self._fields_at.between(*level) if other is not field)
        return None if any(x - SLACK <= other.bbox[0] < nearest.x0 - SLACK for other in others) else nearest

    def label_of(self, field: Field) -> Word | None:
        """The words right above a field, or right below it where that is the way of the page."""
        if self._is_in_table(field):
            return None
        above = self._label_at(field, above=True)
        if above and not self._are_below:
            return above
        below = self._label_at(field, above=False)
        if below and not self._are_below and self._text[below.start] not in "(（":
            return above if below.top - field.bbox[3] > CLOSE * below.em else below
        return below or above

    def _is_in_table(self, field: Field) -> bool:
        """Whether fields stand in columns: what is above them names the column and not the first field of it."""
        y = field.middle[1]
        row = (other for other in self._fields_at.between(y - LEVEL_FIELDS, y + LEVEL_FIELDS) if other != field)
        return self._goes_on_below(field) and any(map(self._goes_on_below, row))

    def _goes_on_below(self, field: Field) -> bool:
        x0, _, x1, bottom = field.bbox
        below = [
            other
            for other in self._fields_at.between(bottom, bottom + 4 * LEAST_EM)
            if abs(other.bbox[0] - x0) <= SLACK
            and abs(other.bbox[2] - x1) <= SLACK
            and other.bbox[1] - bottom <= LEAST_EM
        ]
        return any(self._label_at(other, above=True) is None for other in below)

    def _label_at(self, field: Field, above: bool) -> Word | None:
        """The words right above a field or below it that begin where it does or stand within its sides."""
        _, top, _, bottom = field.bbox
        reach, inside = 3 * ABOVE * LEAST_EM, (bottom - top) / 4
        span = (top - reach, field.middle[1] - inside) if above else (field.middle[1] + inside, bottom + reach)
        found = [
            label
            for piece in self._pieces_at.between(*span)
            if (top - piece.middle if above else piece.middle - bottom) <= (ABOVE if above else BELOW) * piece.em
            and (label := self._part_of(piece, field))
        ]
        if not found:
            return None
        nearest = min(
            found, key=lambda label: AWRY * abs(label.middle - field.middle[1]) + abs(label.x0 - field.bbox[0])
        )
        return None if self._is_between(nearest, field) else nearest

    def _part_of(self, piece: Word, field: Field) -> Word | None:
        """The words of a piece that name a field: not those that begin where the next field does, or before it where
        the field before has them."""
        x0, _, x1, _ = field.bbox
        if piece.x1 < x0 - SLACK or piece.x0 > x1:
            return None
        y, near = field.middle[1], LEVEL * piece.em / 2
        row = [other for other in self._fields_at.between(y - LEVEL_FIELDS, y + LEVEL_FIELDS) if other != field]
        lefts = [other.bbox[0] for other in row]
        words = sorted(
            word
            for word in self._words_at.between(piece.top, piece.bottom)
            if piece.start <= word.start < piece.end and not word.is_value
        )
        if any(abs(left - piece.x0) <= near for left in lefts if left < x0 - near):
            words = list(itertools.dropwhile(lambda word: word.x0 < x0 - near, words))
        after = [left for left in lefts if left > x0 + near]
        for place, (before, word) in enumerate(itertools.pairwise(words), 1):
            is_apart = word.x0 - before.x1 >= PIECE_GAP / 2 * piece.em
            if is_apart and any(abs(word.x0 - left) <= near for left in after):
                words = words[:place]
                break
        if not any(map(str.isalpha, "".join(self._text[word.start : word.end] for word in words))):
            return None
        left, right = min(word.x0 for word in words), max(word.x1 for word in words)
        if abs(left - x0) > LEVEL * piece.em and not (x0 - SLACK <= left and right <= x1 + SLACK):
            return None
        return Word(words[0].start, words[-1].end, left, piece.top, right, piece.bottom, words[-1].letter)

    @functools.cached_property
    def _are_below(self) -> bool:
        """Whether labels stand below their fields on this page, as they do below lines to write on."""
        fields = [field for field in self._fields if not field.is_box]
        sides = [(self._label_at(field, above=True), self._label_at(field, above=False)) for field in fields]
        only_above = sum(bool(above and not below) for above, below in sides)
        return sum(bool(below and not above) for above, below in sides) > only_above

    def word_above(self, box: Field, taken: int) -> Word | None:
        """The word over the middle of a box."""
        x, top = box.middle[0], box.bbox[1]
        found = [
            word
            for word in self._words_at.between(top - 3 * ABOVE * LEAST_EM, box.middle[1])
            if word.x0 - SLACK <= x <= word.x1 + SLACK
            and top - word.middle <= ABOVE * word.em
            and word.start != taken
            and not word.is_value
        ]
        nearest = max(found, key=lambda word: word.middle, default=None)
        return None if nearest is None or self._is_between(nearest, box) else nearest

    def _is_between(self, label: Word, field: Field) -> bool:
        """Whether another field stands between a label and the field below or above it."""
        x0, top, x1, bottom = field.bbox
        span = (label.middle, top - SLACK) if label.middle < field.middle[1] else (bottom + SLACK, label.middle)
        return any(
            other.bbox[0] < x1 - SLACK and x0 + SLACK < other.bbox[2] for other in self._fields_at.between(*span)
        )

    def sign_of(self, box: Field, dropped: Collection[int]) -> Word | None:
        """The sign that the page draws where a box is."""
        (x0, top, x1, bottom), (x, y) = box.bbox, box.middle
        signs = [
            word
            for word in self._words_at.between(top - SLACK, bottom + SLACK)
            if word.end - word.start == 1
            and x0 - SLACK <= (word.x0 + word.x1) / 2 <= x1 + SLACK
            and word.start not in dropped
            and _IS_BOX.fullmatch(self._text[word.start])
        ]
        return min(signs, key=lambda sign: abs(sign.middle - y) + abs((sign.x0 + sign.x1) / 2 - x), default=None)

    def _is_sign(self, word: Word) -> bool:
        """Whether a word is a box that the page draws, or would be in a font of signs."""
        return word.end - word.start == 1 and _IS_SIGN.fullmatch(self._text[word.start]) is not None

    def names(self, word: Word) -> bool:
        return _NAMES.search(self._text, word.start, word.end) is not None

    def is_in_next_column(self, word: Word, field: Field) -> bool:
        """Whether a field far from a word begins where lines of text do: that word ends a line of another column."""
        x, y = field.bbox[0], field.middle[1]
        if x - word.x1 <= AHEAD * word.em or self.names(word):
            return False
        near = self._pieces_at.between(y - COLUMN, y + COLUMN)
        return sum(abs(piece.x0 - x) <= SLACK for piece in near) >= 2

    def is_lone(self, word: Word) -> bool:
        """Whether a word is a single letter and all of its line, as in text that runs down the page."""
        letter = self._text[max(0, word.start - 1) : word.end + 1].strip("\r\n")
        return not word.is_value and len(letter) == 1 and letter.isalpha()

    def is_sentence(self, piece: Word) -> bool:
        """Whether a label is a sentence that fills its line: what is written below it stays there."""
        text = self._text
        start = max(text.rfind(sign, 0, piece.start) for sign in "\r\n") + 1
        ends = [place for sign in "\r\n" if (place := text.find(sign, piece.end)) >= 0]
        line = text[start : min(ends, default=len(text))]
        return piece.end - piece.start > LONG_LABEL and len(line.strip()) <= piece.end - piece.start + 2


def _pieces(words: Sequence[Word], text: str) -> Iterator[Word]:
    """Words that stand close together in one line, as one."""
    piece: Word | None = None
    for word in words:
        if piece and not _LINE_END.search(text, piece.end, word.start) and word.x0 - piece.x1 < PIECE_GAP * piece.em:
            box = piece.x0, min(piece.top, word.top), max(piece.x1, word.x1), max(piece.bottom, word.bottom)
            piece = Word(piece.start, word.end, *box, word.letter)
            continue
        if piece:
            yield piece
        piece = word
    if piece:
        yield piece
