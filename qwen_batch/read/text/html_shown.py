"""What a web page says besides its text: what is chosen and filled in, what pictures stand for, its title."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from qwen_batch.records import Line

TICK, NO_TICK = "[x]", "[ ]"
MIN_WORDS = 4  # of what stands for a picture in running text: fewer name a logo or an icon
DOT = 2  # pixels: a picture of this size counts visitors
NEAR = 10  # lines at the beginning, in which a title may stand already
_UNSEEN_INPUTS = ("hidden", "password", "file", "image")
_FILE_NAME = re.compile(r"\S+\.(?:png|jpe?g|gif|svg|webp|bmp|tiff?)|\S*\d\S*", re.IGNORECASE)
_BARE_NAME = re.compile(r"[\w.-]*[\d_.][\w.-]*", re.ASCII)  # of a file, given as a title
_SIZE = re.compile(r"\s*(\d+)")


def fill_in(root: Any) -> None:
    """Put into the tree, as text, what a browser shows of fields, lists and pictures."""
    boxes = [each for each in root.iter("input") if each.get("type", "").lower() in ("checkbox", "radio")]
    any_ticked = any(box.get("checked") is not None for box in boxes)
    for element in list(root.iter("input", "select", "img")):
        text = _shown(element, any_ticked)
        if element.tag == "select":
            for option in list(element):
                element.remove(option)
            element.tag = "span"
        element.text = f" {text} " if text else None


def _shown(element: Any, any_ticked: bool) -> str:
    if element.tag == "select":
        chosen = (" ".join("".join(each.itertext()).split()) for each in element.iter("option") if _is_chosen(each))
        return ", ".join(text for text in chosen if text)
    if element.tag == "img":
        return _alternative(element)
    kind = element.get("type", "text").lower()
    if kind in ("checkbox", "radio"):
        return (TICK if element.get("checked") is not None else NO_TICK) if any_ticked else ""
    return "" if kind in _UNSEEN_INPUTS else element.get("value") or ""


def _is_chosen(option: Any) -> bool:
    return option.get("selected") is not None


def _alternative(image: Any) -> str:
    """What stands for a picture, where that says something: in a cell that it fills, or as a description."""
    text = " ".join((image.get("alt") or "").split())
    sizes = [int(match[1]) for side in ("width", "height") if (match := _SIZE.match(image.get(side) or ""))]
    is_idle = image.get("role") in ("presentation", "none") or image.get("aria-hidden") == "true"
    if not text or is_idle or (sizes and max(sizes) <= DOT) or _FILE_NAME.fullmatch(text):
        return ""
    around = next(image.iterancestors("td", "th", "figure", "a"), None)
    said = "" if around is None else " ".join("".join(around.itertext()).split())
    if around is not None and around.tag in ("td", "th") and not said:
        return text
    return f"[image: {text}]" if len(text.split()) >= MIN_WORDS and text not in said else ""


def title_of(root: Any, lines: Sequence[Line]) -> str:
    """The title of a page that has no heading of its own, unless its first lines say it already."""
    if any("".join(heading.itertext()).strip() for heading in root.iter("h1")):
        return ""
    title = next(_iter_titles(root), "")
    if not title or _BARE_NAME.fullmatch(title):
        return ""
    said = " ".join(" ".join(line.text for line in lines[:NEAR]).split()).casefold()
    return "" if title.casefold() in said else title


def _iter_titles(root: Any) -> Iterator[str]:
    for head in root.iter("head"):
        for title in head.iterchildren("title"):
            yield " ".join((title.text or "").split())
