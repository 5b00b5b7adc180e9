"""The numbers and bullets that Word shows before paragraphs (ECMA-376 part 1, 17.9).

They are not in the text of the file, and a contract is quoted by them: here they are counted as Word counts them, for
paragraphs of the text, of tables and of text boxes alike, and written into the paragraphs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from qwen_batch.read.office.word_names import WORD_NS, value_of
from qwen_batch.read.text.list_marks import word_mark

NUMBERED, BULLETED, APART = "\ue000", "\ue001", "\ue002"  # before a number, for a bullet, for the space after a number:
# unstructured takes typed bullets off and keeps these
_MARKS = re.compile(rf"{NUMBERED}|({BULLETED}|{APART})\s*")
MAX_LEVEL = 8
MAX_CHAIN = 50  # styles that are based on each other
_PLACE = re.compile(r"%([1-9])")


def read_marks(text: str) -> str:
    """A paragraph's text with its number or bullet as they are read."""
    return _MARKS.sub(lambda match: {BULLETED: "- ", APART: " "}.get(match[1], ""), text).strip()


@dataclass(frozen=True, slots=True)
class _Level:
    style: str  # a number format's name
    text: str  # %1 stands for the number of the first level
    start: int
    restart: int | None  # the level after whose numbers this one begins anew; 0: after none
    legal: bool  # all numbers are Arabic
    apart: bool  # white space between the number and the text


@dataclass(frozen=True, slots=True)
class _Reference:
    """The list and the level of a paragraph or a style; None: not said there."""

    number: str | None
    level: int | None


class Numbering:
    """Counts the lists of one document."""

    def __init__(self, numbering: Any, styles: Any) -> None:
        self._instances = {_own(each, "numId"): each for each in _children(numbering, "num")}
        self._definitions = {_own(each, "abstractNumId"): each for each in _children(numbering, "abstractNum")}
        self._styles = {_own(each, "styleId"): each for each in _children(styles, "style")}
        self._default = next((key for key, each in self._styles.items() if _is_default(each)), None)
        self._levels: dict[tuple[str, int], _Level | None] = {}
        self._counts: dict[str, list[int | None]] = {}
        self._restarted: set[tuple[str, int]] = set()
        self._of_styles: dict[str | None, tuple[_Reference, str | None]] = {}

    def mark(self, paragraph: Any) -> str:
        """What stands before a paragraph; '' before most. To be asked once for each, in the order of the text."""
        number, level = self._place_of(paragraph)
        if number in (None, "0") or number not in self._instances or not 0 <= level <= MAX_LEVEL:
            return ""
        shape = self._level(number, level)
        if shape is None:
            return ""
        counts = self._count(number, level, shape)
        if shape.style == "bullet":
            return BULLETED
        text = _PLACE.sub(lambda match: self._shown(number, int(match[1]) - 1, counts, shape), shape.text).strip()
        return f"{NUMBERED}{text}{APART * shape.apart}" if text else ""

    def _place_of(self, paragraph: Any) -> tuple[str | None, int]:
        properties = paragraph.find(f"{WORD_NS}pPr")
        own = _reference(properties)
        style = value_of(properties, "pStyle") if properties is not None else None
        inherited, owner = self._of_style(style or self._default)
        number = own.number if own.number is not None else inherited.number
        if number is None:
            return None, 0
        level = own.level if own.level is not None else inherited.level
        if level is None:
            level = self._linked_level(number, owner) if own.number is None else 0
        return number, level

    def _of_style(self, name: str | None) -> tuple[_Reference, str | None]:
        """(list and level of a style, the style that names the list), by the styles that it is based on."""
        if name not in self._of_styles:
            number, level, owner = None, None, None
            for each in _chain(self._styles, name):
                found = _reference(self._styles[each].find(f"{WORD_NS}pPr"))
                if number is None and found.number is not None:
                    number, owner = found.number, each
                level = level if level is not None else found.level
            self._of_styles[name] = _Reference(number, level), owner
        return self._of_styles[name]

    def _linked_level(self, number: str, style: str | None) -> int:
        """The level of a list that names a style as its own."""
        for level in range(MAX_LEVEL + 1):
            element = self._element(number, level)
            if element is not None and style is not None and value_of(element, "pStyle") == style:
                return level
        return 0

    def _count(self, number: str, level: int, shape: _Level) -> list[int | None]:
        """The counters of a list after its next number; lists of one definition go on with each other's."""
        definition = value_of(self._instances[number], "abstractNumId") or ""
        counts = self._counts.setdefault(definition, [None] * (MAX_LEVEL + 1))
        begins_anew = self._start_override(number, level) is not None and (number, level) not in self._restarted
        self._restarted.add((number, level))
        before = counts[level]
        counts[level] = self._start(number, level) if begins_anew or before is None else before + 1
        for deeper in range(level + 1, MAX_LEVEL + 1):
            other = self._level(number, deeper)
            if other is None or other.restart is None or (other.restart and level < other.restart):
                counts[deeper] = None
        return counts

    def _shown(self, number: str, level: int, counts: list[int | None], shape: _Level) -> str:
        other = self._level(number, level)
        if other is None or level > MAX_LEVEL:
            return ""
        count = counts[level]
        style = "decimal" if shape.legal and other.style != "none" else other.style
        return word_mark(count if count is not None else self._start(number, level), style)

    def _start(self, number: str, level: int) -> int:
        override, shape = self._start_override(number, level), self._level(number, level)
        return override if override is not None else shape.start if shape else 1

    def _start_override(self, number: str, level: int) -> int | None:
        override = _at_level(self._instances[number], "lvlOverride", level)
        return _whole(value_of(override, "startOverride")) if override is not None else None

    def _level(self, number: str, level: int) -> _Level | None:
        if (number, level) not in self._levels:
            element = self._element(number, level)
            self._levels[number, level] = _as_level(element) if element is not None else None
        return self._levels[number, level]

    def _element(self, number: str, level: int) -> Any:
        """The definition of a level: the list's own, or that of its kind, which may be that of a style."""
        instance = self._instances.get(number)
        for _ in range(MAX_CHAIN):
            if instance is None:
                return None
            override = _at_level(instance, "lvlOverride", level)
            if override is not None and (own := override.find(f"{WORD_NS}lvl")) is not None:
                return own
            definition = self._definitions.get(value_of(instance, "abstractNumId") or "")
            if definition is None:
                return None
            linked = value_of(definition, "numStyleLink")
            if linked is None:
                return _at_level(definition, "lvl", level)
            instance = self._instances.get(self._of_style(linked)[0].number or "")
        return None


def _as_level(element: Any) -> _Level:
    return _Level(
        value_of(element, "numFmt") or "decimal",
        value_of(element, "lvlText") or "",
        _whole(value_of(element, "start")) or 0 if value_of(element, "start") else 1,
        _whole(value_of(element, "lvlRestart")),
        element.find(f"{WORD_NS}isLgl") is not None,
        value_of(element, "suff") != "nothing",
    )


def _reference(properties: Any) -> _Reference:
    found = properties.find(f"{WORD_NS}numPr") if properties is not None else None
    if found is None:
        return _Reference(None, None)
    return _Reference(value_of(found, "numId"), _whole(value_of(found, "ilvl")))


def _whole(value: str | None) -> int | None:
    return int(value) if value is not None and value.isdecimal() and len(value) < 9 else None


def _chain(styles: dict[str, Any], name: str | None) -> Iterator[str]:
    """A style and those that it is based on."""
    for _ in range(MAX_CHAIN):
        if name is None or name not in styles:
            return
        yield name
        name = value_of(styles[name], "basedOn")


def _is_default(style: Any) -> bool:
    return _own(style, "type") == "paragraph" and _own(style, "default") in ("1", "true", "on")


def _own(element: Any, name: str) -> str:
    return str(element.get(f"{WORD_NS}{name}", ""))


def _children(root: Any, name: str) -> list[Any]:
    return [] if root is None else root.findall(f"{WORD_NS}{name}")


def _at_level(parent: Any, name: str, level: int) -> Any:
    return next((each for each in _children(parent, name) if _own(each, "ilvl") == str(level)), None)
