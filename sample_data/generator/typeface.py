"""Fonts: the standard Times and Helvetica, which a PDF only names, and one embedded font for Chinese.

The Chinese font has no Latin letters, so a Chinese line is printed in runs of two fonts, as word processors do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from reportlab.pdfbase import pdfmetrics, ttfonts  # type: ignore[import-untyped]

from generator.linebreak import CHINESE

CHINESE_FONT = "Chinese"
DEFAULT_FONT = Path("/usr/share/fonts/truetype/droid/DroidSansFallbackFull.ttf")  # where Debian puts it


class FontMissingError(Exception):
    """There is no Chinese font; the message says how to get one."""


@dataclass(frozen=True, slots=True)
class Face:
    """The fonts of one style of text; `embolden` thickens the outlines where there is no bold font."""

    latin: str
    chinese: str | None = None
    embolden: bool = False


def register_chinese_font(path: Path) -> None:
    """Load the Chinese font. Raises FontMissingError."""
    if not path.is_file():
        raise FontMissingError(
            f"no Chinese font at {path}: install it with `apt-get install fonts-droid-fallback`, "
            "or name a TrueType font with --font, or leave the Chinese contracts out with --skip-chinese"
        )
    pdfmetrics.registerFont(ttfonts.TTFont(CHINESE_FONT, str(path)))


def face_of(font: str, bold: bool = False) -> Face:
    """The face for a font name of `Style`."""
    if font == "Chinese":
        return Face("Helvetica", CHINESE_FONT, embolden=bold)
    return Face({"Times": "Times-Bold", "Helvetica": "Helvetica-Bold"}[font] if bold else _regular(font))


def _regular(font: str) -> str:
    return "Times-Roman" if font == "Times" else font


def iter_runs(text: str, face: Face) -> Iterator[tuple[str, str]]:
    """Pairs of font name and text."""
    if face.chinese is None:
        yield face.latin, text
        return
    for match in re.finditer(f"([{CHINESE}]+)|[^{CHINESE}]+", text):
        yield (face.chinese if match.group(1) else face.latin), match.group()


def text_width(text: str, face: Face, size: float) -> float:
    """Natural width in points."""
    return sum(float(pdfmetrics.stringWidth(run, font, size)) for font, run in iter_runs(text, face))
