"""Pictures of a PDF's pages, for the eye. Call this in a process of its own, as read_pdf."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from qwen_batch.read.kinds import kind_of
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
    with contextlib.closing(open_pdf(task.path, task.passwords)) as document:
        for number in range(min(len(document), MAX_PICTURES)):
            page = document[number]
            scale = min(DPI / 72, MAX_SIDE / max(*page.get_size(), 1.0))
            stream = io.BytesIO()
            page.render(scale=scale).to_pil().convert("RGB").save(stream, "JPEG", quality=70)
            page.close()
            pictures.append(stream.getvalue())
    return tuple(pictures)
