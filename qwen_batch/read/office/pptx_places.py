"""Where the shapes of a slide stand: within groups, and by the layout where a placeholder does not say it itself."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from typing import Any

from qwen_batch.read.archive import parse_part, relations_of


@dataclass(frozen=True, slots=True)
class Frame:
    """How the places within a group become places on the slide: x * scale + shift."""

    scale_x: float = 1.0
    scale_y: float = 1.0
    shift_x: float = 0.0
    shift_y: float = 0.0


class Places:
    """Places by the slide, else by its layout, else by its master."""

    whole = Frame()

    def __init__(self, archive: zipfile.ZipFile, part: str) -> None:
        self._inherited: dict[tuple[str | None, str | None], tuple[float, float]] = {}
        for folder in ("/slideLayouts/", "/slideMasters/"):
            part = next((each for each in relations_of(archive, part).values() if folder in each), "")
            if part not in archive.namelist():
                return
            for shape in parse_part(archive.read(part)).iter("{*}sp"):
                kind, index = placeholder_of(shape)
                if (kind or index) and (place := _offset(shape)) is not None:
                    self._inherited.setdefault((kind, index), place)
                    self._inherited.setdefault((kind, None), place)
                    self._inherited.setdefault((None, index), place)

    def of(self, shape: Any, within: Frame) -> tuple[float, float]:
        """(top, left); what says nothing stands at the top."""
        place = _offset(shape)
        if place is None:
            kind, index = placeholder_of(shape)
            keys = ((kind, index), (None, index), (kind, None)) if kind or index else ()
            place = next((self._inherited[key] for key in keys if key in self._inherited), (0.0, 0.0))
        left, top = place
        return top * within.scale_y + within.shift_y, left * within.scale_x + within.shift_x

    def inside(self, group: Any, within: Frame) -> Frame:
        """The frame for what a group holds."""
        form = group.find("{*}grpSpPr/{*}xfrm")
        if form is None:
            return within
        x, y = _pair(form, "off", "x", "y")
        width, height = _pair(form, "ext", "cx", "cy")
        inner_x, inner_y = _pair(form, "chOff", "x", "y")
        inner_width, inner_height = _pair(form, "chExt", "cx", "cy")
        scale_x, scale_y = width / inner_width if inner_width else 1.0, height / inner_height if inner_height else 1.0
        return Frame(
            within.scale_x * scale_x,
            within.scale_y * scale_y,
            within.shift_x + within.scale_x * (x - inner_x * scale_x),
            within.shift_y + within.scale_y * (y - inner_y * scale_y),
        )


def placeholder_of(shape: Any) -> tuple[str | None, str | None]:
    """(kind, index) of a placeholder; None for what it does not say."""
    found = next(iter(shape.iterfind("*/{*}nvPr/{*}ph")), None)
    if found is None:
        return None, None
    index = found.get("idx")
    return found.get("type", "body" if index is None else None), index


def _offset(shape: Any) -> tuple[float, float] | None:
    """(left, top), if the shape says it."""
    form = shape.find("{*}spPr/{*}xfrm")
    form = shape.find("{*}xfrm") if form is None else form
    return None if form is None or form.find("{*}off") is None else _pair(form, "off", "x", "y")


def _pair(form: Any, name: str, first: str, second: str) -> tuple[float, float]:
    element = form.find(f"{{*}}{name}")
    try:
        return (float(element.get(first, 0)), float(element.get(second, 0))) if element is not None else (0.0, 0.0)
    except ValueError:
        return 0.0, 0.0
