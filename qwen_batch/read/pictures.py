"""Pictures of a PDF's pages, for the eye. Call this in a process of its own, as read_pdf."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from qwen_batch.read.kinds import kind_of
from qwen_batch.read.page.file import Picture
from qwen_batch.read.pdf import open_pdf

DPI = 80
MAX_SIDE = 1600  # pixels
MAX_PICTURES = 300


@dataclass(frozen=True, slots=True)
class PictureTask:
    """Which file, and what opens it."""

    path: Path
    passwords: Sequence[str] = ()


def page_pictures(task: PictureTask) -> tuple[bytes, ...]:
    """A JPEG of each page, of the first MAX_PICTURES; none for files that have no pages to show."""
    if kind_of(task.path) != "pdf":
        return ()
    pictures: list[bytes] = []
    with open_pdf(task.path, task.passwords) as file:
        for index in range(min(len(file), MAX_PICTURES)):
            with file.page(index) as page:
                pictures.append(_jpeg(page.render(min(DPI / 72, MAX_SIDE / max(*page.size, 1.0)))))
    return tuple(pictures)


def _jpeg(picture: Picture) -> bytes:
    from PIL import Image

    stream = io.BytesIO()
    image = Image.frombuffer("RGB", (picture.width, picture.height), picture.data, "raw", "BGR", 0, 1)
    image.save(stream, "JPEG", quality=70)
    return stream.getvalue()
