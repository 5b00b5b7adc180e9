"""Rich text (.rtf), by striprtf."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from qwen_batch.errors import DocumentError
from qwen_batch.read.items import Content
from qwen_batch.read.text import read_bytes
from qwen_batch.records import Line, Page


def read_rtf(path: Path) -> Content:
    """Rich text as paragraphs. Raises DocumentError: empty, too_large, wrong_type, unsupported."""
    data = read_bytes(path)
    if not data.lstrip().startswith(b"{\\rtf"):
        raise DocumentError("wrong_type", "named .rtf, but the content is something else: rename or convert it")
    page = rtf_page(data)
    if not page.lines:
        raise DocumentError("empty", "the document holds no text")
    return Content((page,))


def rtf_page(data: bytes) -> Page:
    """The paragraphs of rich text. Raises DocumentError unsupported."""
    try:
        from striprtf.striprtf import rtf_to_text
    except ImportError:
        message = "files of this kind need the extra `office`: pip install 'qwen-batch[office]'"
        raise DocumentError("unsupported", message) from None
    to_text: Callable[..., str] = rtf_to_text
    text = to_text(data.decode("latin-1"), errors="replace")
    return Page(1, tuple(Line(line.strip()) for line in text.split("\n") if line.strip()), paragraphs=True)
