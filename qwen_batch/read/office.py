"""Word and PowerPoint files, through `unstructured` (the extra `office`).

Its partitioners classify elements with spaCy, and fetch a model for that from the web at the first document. We take
the text and the structure and no class that rests on language, so a stand-in for its tokenizer module is put in
place before they are loaded: nothing is fetched, spaCy is never imported (0.3 GB of memory, seconds of start), and
what is read does not depend on what is installed.
"""

from __future__ import annotations

import importlib
import io
import os
import sys
import types
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from qwen_batch.errors import DocumentError
from qwen_batch.read.archive import check_archive, parse_part
from qwen_batch.read.html import parse_html
from qwen_batch.read.items import Content
from qwen_batch.read.word import WORD_NS, unwrap_word
from qwen_batch.records import Line, Page, Table

OfficeKind = Literal["docx", "pptx"]
MAIN_PARTS = {"docx": "word/document.xml", "pptx": "ppt/presentation.xml"}
ASIDES = {"Header": "header", "Footer": "footer"}
MAX_NAMED = 200  # characters of hidden text that a warning names
TOKENIZER = "unstructured.nlp.tokenize"
FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_QUIET = {"SCARF_NO_ANALYTICS": "true", "DO_NOT_TRACK": "true", "UNSTRUCTURED_DISABLE_NOTICE": "1"}


def read_office(path: Path, kind: OfficeKind) -> Content:
    """Pages (slides; those of Word where it stored page breaks) of paragraphs and tables.

    Raises DocumentError: empty, damaged, encrypted, wrong_type, unsafe, unsupported.
    """
    if MAIN_PARTS[kind] not in check_archive(path):
        raise DocumentError("wrong_type", f"named .{kind}, but the archive holds something else: rename or convert it")
    warnings: tuple[str, ...] = ()
    if kind == "docx":
        copy, hidden = unwrap_word(path)
        pages = _with_boxes_and_notes(_as_pages(_partition({"file": copy}, kind)), copy)
        warnings = (f"hidden text was left out: {hidden[:MAX_NAMED]}",) if hidden else ()
    else:
        pages = _as_pages(_partition({"filename": str(path)}, kind))
    if not any(line.text or line.table is not None for page in pages for line in page.lines):
        raise DocumentError("empty", "the document holds no text; text that is an image must be recognised (OCR) first")
    return Content(tuple(pages), warnings)


def _partition(source: Mapping[str, object], kind: OfficeKind) -> Sequence[Any]:
    os.environ.update(_QUIET)
    sys.modules.setdefault(TOKENIZER, _plain_tokenizer())
    try:
        module = importlib.import_module(f"unstructured.partition.{kind}")
    except ImportError as error:
        message = f"files of this kind need the extra `office`: pip install 'qwen-batch[office]' ({error})"
        raise DocumentError("unsupported", message) from None
    options: dict[str, object] = {**source, "languages": [""]}  # "": no guess of the language
    return list(getattr(module, f"partition_{kind}")(**options))


def _plain_tokenizer() -> types.ModuleType:
    """Stands for unstructured's module of the same three functions; see above."""
    module = types.ModuleType(TOKENIZER)
    vars(module).update(
        sent_tokenize=lambda text: [text],
        word_tokenize=lambda text: text.split(),
        pos_tag=lambda text: [(word, "NN") for word in text.split()],
    )
    return module


def _as_pages(elements: Sequence[Any]) -> list[Page]:
    pages: list[Page] = []
    number, lines, tables = 1, list[Line](), list[Table]()
    for element in elements:
        there = element.metadata.page_number or number
        if there > number:
            pages.append(Page(number, tuple(lines), tuple(tables), paragraphs=True))
            pages += [Page(blank, ()) for blank in range(number + 1, min(there, number + 1000))]
            number, lines, tables = there, [], []
        _add(element, lines, tables)
    return [*pages, Page(number, tuple(lines), tuple(tables), paragraphs=True)]


def _add(element: Any, lines: list[Line], tables: list[Table]) -> None:
    kind = type(element).__name__
    found = parse_html(element.metadata.text_as_html).tables if element.metadata.text_as_html else ()
    if found:
        lines.append(Line("", table=len(tables)))
        tables.extend(found[:1])
        return
    text = element.text.strip()
    if kind == "ListItem" and not text[:6].lstrip("(")[:1].isdigit():
        text = f"- {text}"
    lines.extend(Line(part.strip(), aside=ASIDES.get(kind)) for part in text.split("\n") if part.strip())


def _with_boxes_and_notes(pages: list[Page], file: io.BytesIO) -> list[Page]:
    """Text boxes stand after the paragraph before them, notes at the end of the document: both are left out else."""
    with zipfile.ZipFile(file) as archive:
        body = parse_part(archive.read(MAIN_PARTS["docx"]))
        for before, text in _iter_boxes(body):
            pages = _inserted(pages, before, Line(text))
        for part in ("word/footnotes.xml", "word/endnotes.xml"):
            if part in archive.namelist():
                notes = list(_iter_notes(parse_part(archive.read(part))))
                last = pages[-1]
                lines = (*last.lines, *map(Line, notes))
                pages[-1] = Page(last.page_number, lines, last.tables, paragraphs=True)
    return pages


def _iter_boxes(body: Any) -> Iterator[tuple[str, str]]:
    """(the paragraph that stands before it, text) of each paragraph in a text box; each box once."""
    before = ""
    for paragraph in body.iter(f"{WORD_NS}p"):
        holders = {ancestor.tag for ancestor in paragraph.iterancestors()}
        text = _text_of(paragraph)
        if f"{WORD_NS}txbxContent" not in holders:
            before = text or before
        elif FALLBACK not in holders and text:
            yield before, text


def _iter_notes(part: Any) -> Iterator[str]:
    for note in part:
        if note.get(f"{WORD_NS}type") is None:  # the others draw the line above notes
            yield from filter(None, map(_text_of, note.iter(f"{WORD_NS}p")))


def _text_of(paragraph: Any) -> str:
    """The text of a paragraph itself, without what its text boxes hold."""
    parts = []
    for run in paragraph.iter(f"{WORD_NS}t", f"{WORD_NS}tab", f"{WORD_NS}br"):
        owner = next(run.iterancestors(f"{WORD_NS}p"))
        if owner is paragraph and run.getparent().tag == f"{WORD_NS}r":
            parts.append(run.text or "" if run.tag == f"{WORD_NS}t" else " ")
    return " ".join("".join(parts).split())


def _inserted(pages: list[Page], before: str, line: Line) -> list[Page]:
    """The pages with a line after the paragraph that it follows, or at the end."""
    places = [
        (index, number)
        for index, page in enumerate(pages)
        for number, other in enumerate(page.lines)
        if before and " ".join(other.text.split()).endswith(before)
    ]
    index, number = places[-1] if places else (len(pages) - 1, len(pages[-1].lines) - 1)
    page = pages[index]
    lines = (*page.lines[: number + 1], line, *page.lines[number + 1 :])
    return [*pages[:index], Page(page.page_number, lines, page.tables, paragraphs=True), *pages[index + 1 :]]
