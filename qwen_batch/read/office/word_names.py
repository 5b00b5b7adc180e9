"""Names of Word's elements (ECMA-376 part 1, 17)."""

from __future__ import annotations

from typing import Any

WORD_NS = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
MATH_NS = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
MC_NS = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
_OFF = ("0", "false", "off")


def named(*names: str) -> list[str]:
    return [f"{WORD_NS}{name}" for name in names]


def value_of(element: Any, name: str) -> str | None:
    """The value of a child such as <w:numId w:val="3"/>."""
    child = element.find(f"{WORD_NS}{name}")
    return None if child is None else child.get(f"{WORD_NS}val")


def is_on(element: Any, path: str) -> bool | None:
    """Whether a switch such as <w:vanish/> is on; None: it is not there."""
    mark = element.find("/".join(f"{WORD_NS}{name}" for name in path.split("/"))) if element is not None else None
    return None if mark is None else mark.get(f"{WORD_NS}val") not in _OFF
