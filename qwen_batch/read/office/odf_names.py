"""Names of OpenDocument's elements and attributes (OASIS ODF 1.3)."""

from __future__ import annotations

from typing import Any

_ODF = "{urn:oasis:names:tc:opendocument:xmlns:%s:1.0}"
OFFICE, TEXT, TABLE, DRAW, STYLE, PRESENTATION = (
    _ODF % name for name in ("office", "text", "table", "drawing", "style", "presentation")
)


def number_of(element: Any, name: str, space: str = TABLE) -> int:
    """An attribute that counts something, at least 1."""
    value = element.get(f"{space}{name}", "1")
    return max(1, int(value)) if value.isdecimal() and len(value) < 9 else 1
