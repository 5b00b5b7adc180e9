"""Text that runs from right to left, in the order in which it is read.

pdfium turns what was drawn around by itself, but takes numbers and words of Latin between for granted: their spaces go
astray, ligatures of two letters come out backwards, brackets point the wrong way. Here the order follows from the
places alone: the reverse of what the Unicode Bidirectional Algorithm (UAX #9) does for a line, as far as a line without
its paragraph tells.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from qwen_batch.read.page.chars import LINE_ENDS, Char
from qwen_batch.read.page.rtl_letters import has_rtl_letters, is_rtl_letter

# Of the tallest letter: a wider gap is a space where none was written, between digits, where pdfium saw one.
SPACE_GAP, NUMBER_GAP, SEEN_GAP = 0.4, 0.8, 0.15
NO_SPACE_BEFORE = ".,:;!?،؛؟"
LIGATURE = 3  # letters at most
LAMS, ALEFS = "لﻝﻟﻠ", "اأإآٱ"
_MIRRORED = str.maketrans("()[]{}<>«»‹›", ")(][}{><»«›‹")
_OPENING, _CLOSING = "([{«‹", ")]}»›"
_NUMERIC = frozenset(("EN", "AN", "ES", "ET", "CS"))


class _Glyph(NamedTuple):
    """What is drawn at one place: a letter, its marks, or the letters of a ligature."""

    chars: tuple[Char, ...]  # in the order in which they are read
    x0: float
    x1: float
    kind: str  # L, R, N (part of a number), or a blank: what stands between

    @property
    def middle(self) -> float:
        return (self.x0 + self.x1) / 2


def in_logical_order(chars: Sequence[Char]) -> list[Char]:
    """The characters of a page; those of lines with letters that run from right to left as they are read."""
    if not has_rtl_letters("".join(char.text for char in chars)):
        return list(chars)
    lines = [_reordered(line) if _is_rtl(line) else [_Glyph(tuple(line), 0.0, 0.0, "")] for line in _lines(chars)]
    mirrored = [[_mirrored(glyph) for glyph in line] for line in lines]
    # Some files say which bracket is drawn, others which is meant: the way in which most of them pair is right.
    read, turned = ([char for line in each for glyph in line for char in glyph.chars] for each in (lines, mirrored))
    return turned if _num_pairs(turned) > _num_pairs(read) else read


def words_in_order(words: Sequence[str]) -> list[str]:
    """Words from left to right as they are read: those of one direction stand together."""
    kinds = [_kind_of(word) for word in words]
    if "R" not in kinds:
        return list(words)
    runs: list[list[str]] = []
    for place, (word, kind) in enumerate(zip(words, kinds, strict=True)):
        if runs and kind == kinds[place - 1] == "L":
            runs[-1].append(word)
        else:
            runs.append([word])
    return [word for run in reversed(runs) for word in run]


def _lines(chars: Sequence[Char]) -> Iterator[list[Char]]:
    line: list[Char] = []
    for char in chars:
        line.append(char)
        if char.text in LINE_ENDS:
            yield line
            line = []
    if line:
        yield line


def _is_rtl(line: Sequence[Char]) -> bool:
    return any(is_rtl_letter(char.text) for char in line)


def _reordered(line: Sequence[Char]) -> list[_Glyph]:
    end = [_Glyph((char,), 0.0, 0.0, "") for char in line if char.text in LINE_ENDS]
    groups = _groups([char for char in line if char.text not in LINE_ENDS])
    drawn = [group for group in groups if not group[0].text.isspace()]
    if not _is_upright(drawn):
        return [_Glyph(tuple(group), 0.0, 0.0, "") for group in groups] + end
    tallest = max(group[0].bottom - group[0].top for group in drawn)
    glyphs = sorted(_glyphs(drawn), key=lambda glyph: glyph.middle)
    apart = _with_spaces(glyphs, [char for char in line if char.text == " "], max(tallest, 4.0))
    is_rtl = sum(glyph.kind == "R" for glyph in apart) >= sum(glyph.kind == "L" for glyph in apart)
    return (_from_right(apart) if is_rtl else _from_left(apart)) + end


def _groups(chars: Sequence[Char]) -> list[list[Char]]:
    """Several characters at one very place are a ligature, whose letters pdfium turned around with the rest."""
    groups: list[list[Char]] = []
    for char in chars:
        if groups and (char.x0, char.x1, char.top) == (groups[-1][0].x0, groups[-1][0].x1, groups[-1][0].top):
            groups[-1].append(char)
        else:
            groups.append([char])
    return [_ligature(group) for group in groups]


def _ligature(group: list[Char]) -> list[Char]:
    """The letters of a ligature as they are read; lam stands before alef, always."""
    if len(group) == 1 or not _is_rtl(group) or (group[0].text in LAMS and group[1].text in ALEFS):
        return group
    return group[::-1]


def _is_upright(groups: Sequence[Sequence[Char]]) -> bool:
    """Whether a line runs across the page, its Latin forwards, and each place holds a letter and not a whole word."""
    drawn = [group[0] for group in groups]
    width = max(char.x1 for char in drawn) - min(char.x0 for char in drawn)
    if width < max(char.bottom for char in drawn) - min(char.top for char in drawn) and len(drawn) > 2:
        return False
    latin = [(a, b) for a, b in pairwise(drawn) if a.text.isascii() and b.text.isascii() and b.number - a.number == 1]
    steps = [after.x0 - before.x0 for before, after in latin]
    return sum(step < 0 for step in steps) <= len(steps) / 2 and max(map(len, groups)) <= LIGATURE


def _glyphs(groups: Sequence[Sequence[Char]]) -> Iterator[_Glyph]:
    """Letters with the marks that stand at them."""
    letters = [group for group in groups if unicodedata.category(group[0].text) != "Mn"]
    marks = [char for group in groups if unicodedata.category(group[0].text) == "Mn" for char in group]
    held: dict[int, list[Char]] = {}
    for mark in marks if letters else ():
        middle = mark.x0 + mark.x1
        place = min(range(len(letters)), key=lambda i: abs(letters[i][0].x0 + letters[i][0].x1 - middle))
        held.setdefault(place, []).append(mark)
    for place, group in enumerate(letters or [marks]):
        kind = _kind_of("".join(char.text for char in group)) if letters else "R"
        yield _Glyph((*group, *held.get(place, ())), group[0].x0, group[0].x1, kind)


def _kind_of(text: str) -> str:
    classes = [unicodedata.bidirectional(char) for char in text]
    if any(name in ("R", "AL") for name in classes):
        return "R"
    if "L" in classes:
        return "L"
    return "N" if any(name in ("EN", "AN") for name in classes) else "S" if _NUMERIC.issuperset(classes) else ""


def _with_spaces(glyphs: Sequence[_Glyph], spaces: Sequence[Char], tallest: float) -> list[_Glyph]:
    """A blank between glyphs where a space was written or seen between them, or where the gap is as wide as one."""
    done = list(glyphs[:1])
    for before, after in pairwise(glyphs):
        between = [space for space in spaces if before.middle < (space.x0 + space.x1) / 2 < after.middle]
        if _is_space(before, after, between, tallest):
            place = before.x1, before.chars[0].bottom, max(after.x0, before.x1), before.chars[0].bottom
            done.append(_Glyph((Char(" ", *place, before.chars[0].number),), place[0], place[2], ""))
        done.append(after)
    return done


def _is_space(before: _Glyph, after: _Glyph, between: Sequence[Char], tallest: float) -> bool:
    gap = after.x0 - before.x1
    if gap > (NUMBER_GAP if {before.kind, after.kind} <= {"N", "S"} else SPACE_GAP) * tallest:
        return True
    seen = gap > SEEN_GAP * tallest and before.chars[0].text not in NO_SPACE_BEFORE
    return any(space.x1 - space.x0 > 0.1 or seen for space in between)


def _from_left(glyphs: Sequence[_Glyph]) -> list[_Glyph]:
    """A line that runs from left to right: what stands between its first and last letters of a run is turned around."""
    done: list[_Glyph] = []
    start = 0
    while start < len(glyphs):
        if glyphs[start].kind != "R":
            done.append(glyphs[start])
            start += 1
            continue
        stop = next((i for i in range(start, len(glyphs)) if glyphs[i].kind == "L"), len(glyphs))
        last = max(i for i in range(start, stop) if glyphs[i].kind == "R")
        done += _from_right(glyphs[start : last + 1])
        start = last + 1
    return done


def _from_right(glyphs: Sequence[_Glyph]) -> list[_Glyph]:
    """A line that runs from right to left: words of Latin and numbers within it keep their order."""
    runs: list[list[_Glyph]] = []
    forward = _forward(glyphs)
    for place, glyph in enumerate(glyphs):
        if runs and forward[place] and forward[place - 1]:
            runs[-1].append(glyph)
        else:
            runs.append([glyph])
    return [glyph for run in reversed(runs) for glyph in run]


def _forward(glyphs: Sequence[_Glyph]) -> list[bool]:
    """For each glyph, whether it belongs to words of Latin or to a number: what stands between two of the one, and the
    signs that touch the other, go with them."""
    forward = [glyph.kind in ("L", "N") for glyph in glyphs]
    strong = [place for place, glyph in enumerate(glyphs) if glyph.kind in ("L", "N", "R")]
    for before, after in pairwise(strong):
        kinds = glyphs[before].kind, glyphs[after].kind
        between = range(before + 1, after)
        joined = "R" not in kinds and ("L" in kinds or all(glyphs[i].kind == "S" for i in between))
        if joined:
            for place in between:
                forward[place] = True
    for place, glyph in enumerate(glyphs):
        beside = glyphs[max(0, place - 1) : place + 2]
        if glyph.kind == "S" and glyph.chars[0].text not in ",.:" and any(other.kind == "N" for other in beside):
            forward[place] = True
    return forward


def _mirrored(glyph: _Glyph) -> _Glyph:
    """A bracket the other way round."""
    if glyph.kind or len(glyph.chars) > 1:
        return glyph
    chars = tuple(char._replace(text=char.text.translate(_MIRRORED)) for char in glyph.chars)
    return _Glyph(chars, glyph.x0, glyph.x1, glyph.kind)


def _num_pairs(chars: Sequence[Char]) -> int:
    """Brackets that open and are closed again, less those that close what was not open."""
    open_now, pairs = 0, 0
    for char in chars:
        if char.text in _OPENING:
            open_now += 1
        elif char.text in _CLOSING:
            pairs += 1 if open_now else -1
            open_now = max(0, open_now - 1)
    return pairs
