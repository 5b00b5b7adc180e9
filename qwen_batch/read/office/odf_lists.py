"""What stands before the items of OpenDocument lists and before numbered headings (OASIS ODF 1.3, 5.3 and 16.30).

A contract is quoted by its clause numbers, and the text of the file does not hold them: they are counted here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from qwen_batch.read.office.odf_names import STYLE, TEXT, number_of
from qwen_batch.read.text.list_marks import as_mark

BULLET = "- "
MAX_LEVELS = 10
XML_ID = "{http://www.w3.org/XML/1998/namespace}id"
_LEVELS = (f"{TEXT}list-level-style-number", f"{TEXT}outline-level-style")


@dataclass(slots=True)
class _Level:
    """How one level of a list is numbered."""

    style: str  # '1', 'a', ...; '': no number
    prefix: str
    suffix: str
    num_shown: int  # levels that the number names: 2 for "3.1"
    start: int


@dataclass(slots=True)
class Numbering:
    """The list styles of a document, and how far each list has counted."""

    styles: dict[str, dict[int, _Level]]  # by name, by level from 1; a level that is missing has a bullet
    headings: dict[int, _Level]
    _counts: dict[str, list[int]] = field(default_factory=dict)  # by the name of a style or the id of a list
    _heading_counts: list[int] = field(default_factory=lambda: [0] * (MAX_LEVELS + 1))

    def enter(self, element: Any) -> None:
        """A list begins: unless it goes on with another one, it counts anew."""
        if element.tag != f"{TEXT}list" or _lists_around(element):
            return
        name = element.get(f"{TEXT}style-name", "")
        before = self._counts.get(element.get(f"{TEXT}continue-list", ""))
        if before is None and element.get(f"{TEXT}continue-numbering") == "true":
            before = self._counts.get(name)
        counts = before if before is not None else [0] * (MAX_LEVELS + 1)
        self._counts[name] = counts
        if identity := element.get(XML_ID):
            self._counts[identity] = counts

    def mark(self, paragraph: Any) -> str:
        """What stands before a paragraph, with the space after it; each item has one mark."""
        item = paragraph.getparent()
        if item.tag == f"{TEXT}list-item":
            return self._item_mark(item) if item[0] is paragraph or _is_first(item, paragraph) else ""
        if paragraph.tag == f"{TEXT}h" and paragraph.get(f"{TEXT}is-list-header") != "true":
            return _counted(self.headings, self._heading_counts, number_of(paragraph, "outline-level", TEXT), None, "")
        return ""

    def _item_mark(self, item: Any) -> str:
        lists = [item.getparent(), *_lists_around(item.getparent())]
        named = (each.get(f"{TEXT}style-name") for each in lists)
        name = item.get(f"{TEXT}style-override") or next(filter(None, named), "")
        levels = self.styles.get(name)
        if levels is None:
            return BULLET
        counts = self._counts.get(lists[-1].get(f"{TEXT}style-name", ""), [0] * (MAX_LEVELS + 1))
        start = item.get(f"{TEXT}start-value", "")
        return _counted(levels, counts, len(lists), int(start) if start.isdecimal() else None, BULLET)


def read_numbering(roots: Sequence[Any]) -> Numbering:
    """From styles.xml and content.xml."""
    styles = {style.get(f"{STYLE}name"): _levels(style) for root in roots for style in root.iter(f"{TEXT}list-style")}
    headings = {
        key: level
        for root in roots
        for each in root.iter(f"{TEXT}outline-style")
        for key, level in _levels(each).items()
    }
    return Numbering(styles, headings)


def _levels(style: Any) -> dict[int, _Level]:
    return {
        number_of(level, "level", TEXT): _Level(
            level.get(f"{STYLE}num-format", ""),
            level.get(f"{STYLE}num-prefix", ""),
            level.get(f"{STYLE}num-suffix", ""),
            number_of(level, "display-levels", TEXT),
            number_of(level, "start-value", TEXT),
        )
        for level in style.iterchildren(*_LEVELS)
    }


def _counted(levels: dict[int, _Level], counts: list[int], depth: int, start: int | None, other: str) -> str:
    """The next number at a depth; levels below it begin anew."""
    depth = min(depth, MAX_LEVELS)
    level = levels.get(depth)
    if level is None:
        return other
    counts[depth] = start if start is not None else counts[depth] + 1 if counts[depth] else level.start
    counts[depth + 1 :] = [0] * (MAX_LEVELS - depth)
    shown = [
        as_mark(counts[each] or levels[each].start, levels[each].style)
        for each in range(depth - level.num_shown + 1, depth + 1)
        if each in levels
    ]
    number = ".".join(filter(None, shown)) if level.style else ""
    text = f"{level.prefix}{number}{level.suffix}".strip()
    return f"{text} " if text else ""


def _lists_around(element: Any) -> list[Any]:
    return list(element.iterancestors(f"{TEXT}list"))


def _is_first(item: Any, paragraph: Any) -> bool:
    """Whether no other paragraph of the item stands before it."""
    return next(item.iterchildren(f"{TEXT}p", f"{TEXT}h"), None) is paragraph
