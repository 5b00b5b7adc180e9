"""Parts of a Word file in other formats, which Word shows as if they were its own (ECMA-376 part 1, 17.17.2.1)."""

from __future__ import annotations

import email
import posixpath
import zipfile
from collections.abc import Iterator
from typing import Any

from qwen_batch.read.archive import relations_of
from qwen_batch.read.office.word_names import RELATION, WORD_NS
from qwen_batch.read.text.encodings import decode
from qwen_batch.read.text.html import decode_html, parse_html
from qwen_batch.read.text.plain import split_lines
from qwen_batch.records import Page

MAX_BYTES = 20_000_000


def insert_chunks(root: Any, archive: zipfile.ZipFile, part: str, unread: list[str]) -> None:
    """Each such part as plain paragraphs where it stands; the names of those that cannot be read go to `unread`."""
    chunks = list(root.iter(f"{WORD_NS}altChunk"))
    targets = relations_of(archive, part) if chunks else {}
    for chunk in chunks:
        name = targets.get(chunk.get(RELATION, ""), "")
        page = _page(archive, name) if name in archive.namelist() else None
        if page is None:
            unread.append(posixpath.basename(name) or "a part that is missing")
        else:
            for text in _iter_texts(page):
                chunk.addprevious(_paragraph(chunk, text))
        chunk.getparent().remove(chunk)


def _page(archive: zipfile.ZipFile, name: str) -> Page | None:
    """Web pages, also as saved by Office (MHTML), and plain text."""
    if archive.getinfo(name).file_size > MAX_BYTES:
        return None
    data = archive.read(name)
    suffix = posixpath.splitext(name)[1].lower()
    if suffix in (".mht", ".mhtml") or data.lstrip().startswith(b"MIME-Version"):
        pages = (part for part in email.message_from_bytes(data).walk() if part.get_content_type() == "text/html")
        payload = next((part.get_payload(decode=True) for part in pages), None)
        return parse_html(decode_html(payload)[0]) if isinstance(payload, bytes) else None
    if suffix in (".htm", ".html", ".xhtml"):
        return parse_html(decode_html(data)[0])
    if suffix == ".txt":
        return Page(1, split_lines(decode(data)[0]))
    return None


def _iter_texts(page: Page) -> Iterator[str]:
    for line in page.lines:
        if line.table is not None:
            yield from (" | ".join(row) for row in page.tables[line.table].rows)
        elif line.text.strip() and line.aside is None:
            yield line.text.strip()


def _paragraph(near: Any, text: str) -> Any:
    paragraph = near.makeelement(f"{WORD_NS}p")
    run = paragraph.makeelement(f"{WORD_NS}r")
    content = run.makeelement(f"{WORD_NS}t")
    content.text = text
    run.append(content)
    paragraph.append(run)
    return paragraph
