"""Word files, through `unstructured` (the extra `office`).

Its partitioners classify elements with spaCy, and fetch a model for that from the web at the first document. We take
the text and the structure and no class that rests on language, so a stand-in for its tokenizer module is put in
place before they are loaded: nothing is fetched, spaCy is never imported (0.3 GB of memory, seconds of start), and
what is read does not depend on what is installed.
"""

from __future__ import annotations

import functools
import importlib
import io
import os
import sys
import types
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from qwen_batch.errors import DocumentError
from qwen_batch.read.archive import check_archive, parse_part
from qwen_batch.read.items import Content, warning_of_hidden
from qwen_batch.read.office.word import Unwrapped, unwrap_word
from qwen_batch.read.office.word_lists import BULLETED, NUMBERED, read_marks
from qwen_batch.read.office.word_names import WORD_NS
from qwen_batch.read.text.html import parse_html
from qwen_batch.records import Line, Page, Table

MAIN_PART = "word/document.xml"
ASIDES = {"Header": "header", "Footer": "footer"}
MAX_NAMED = 200  # characters of a warning's list
TOKENIZER = "unstructured.nlp.tokenize"
_QUIET = {"SCARF_NO_ANALYTICS": "true", "DO_NOT_TRACK": "true", "UNSTRUCTURED_DISABLE_NOTICE": "1"}


def read_docx(path: Path) -> Content:
    """Pages, where Word stored page breaks, of paragraphs and tables.

    Raises DocumentError: empty, damaged, encrypted, wrong_type, unsafe, unsupported.
    """
    if MAIN_PART not in check_archive(path):
        raise DocumentError("wrong_type", "named .docx, but the archive holds something else: rename or convert it")
    unwrapped = _unwrapped(path)
    pages = _with_notes(_as_pages(_partition(unwrapped.copy)), unwrapped.copy)
    if not any(line.text or line.table is not None for page in pages for line in page.lines):
        raise DocumentError("empty", "the document holds no text; text that is an image must be recognised (OCR) first")
    return Content(tuple(pages), tuple(_word_warnings(unwrapped)))


def _unwrapped(path: Path) -> Unwrapped:
    from lxml import etree

    try:
        return unwrap_word(path)
    except (etree.XMLSyntaxError, zipfile.BadZipFile) as error:
        raise DocumentError("damaged", f"a part of it is damaged ({error}): open and save it anew") from None


def _partition(file: io.BytesIO) -> Iterator[Any]:
    os.environ.update(_QUIET)
    sys.modules.setdefault(TOKENIZER, _plain_tokenizer())
    try:
        module = importlib.import_module("unstructured.partition.docx")
    except ImportError as error:
        message = f"files of this kind need the extra `office`: pip install 'qwen-batch[office]' ({error})"
        raise DocumentError("unsupported", message) from None
    _keep_paths()
    options = {"file": file, "file_path": None, "include_page_breaks": True, "infer_table_structure": True}
    elements: Iterator[Any] = _lean_partitioner(module).iter_document_elements(
        module.DocxPartitionerOptions.load(**options)
    )
    return elements


def _lean_partitioner(module: types.ModuleType) -> Any:
    """unstructured's reader without what it says of a paragraph beyond its text, its page and whether it is of a list:
    emphasis, links, hashes and guesses from the words take two thirds of the time, and keep all elements in memory."""
    of_page = functools.lru_cache(maxsize=1)(lambda number: module.ElementMetadata(page_number=number))

    class Lean(module._DocxPartitioner):  # type: ignore[name-defined, misc]
        def _iter_paragraph_elements(self, paragraph: Any) -> Iterator[Any]:
            if paragraph.contains_page_break:
                yield from super()._iter_paragraph_elements(paragraph)
            else:
                yield from self._classify_paragraph_to_element(paragraph)

        def _paragraph_metadata(self, paragraph: Any) -> Any:
            return of_page(self._opts.metadata_page_number)

        def _parse_paragraph_text_for_element_type(self, paragraph: Any) -> None:
            return None

        def _is_list_item(self, paragraph: Any) -> bool:  # numbers are written by now, and taken out of the styles
            return bool(module.is_bulleted_text(paragraph.text))

    return Lean


def _keep_paths() -> None:
    """python-docx compiles the path of each of its dozen questions about a paragraph anew, which is most of the time
    that a long document takes: here each path is compiled once."""
    from docx.oxml import xmlchemy
    from docx.oxml.ns import nsmap
    from lxml import etree

    compiled = functools.lru_cache(maxsize=1000)(functools.partial(etree.XPath, namespaces=nsmap))
    element_class: Any = xmlchemy.BaseOxmlElement
    element_class.xpath = lambda element, path: compiled(path)(element)


def _plain_tokenizer() -> types.ModuleType:
    """Stands for unstructured's module of the same three functions; see above."""
    module = types.ModuleType(TOKENIZER)
    vars(module).update(
        sent_tokenize=lambda text: [text],
        word_tokenize=lambda text: text.split(),
        pos_tag=lambda text: [(word, "NN") for word in text.split()],
    )
    return module


def _as_pages(elements: Iterable[Any]) -> list[Page]:
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
        rows = tuple(tuple(map(read_marks, row)) for row in found[0].rows)
        lines.append(Line("", table=len(tables)))
        tables.append(found[0]._replace(rows=rows))
        return
    text = element.text.strip()
    if kind == "ListItem" and not text.startswith((NUMBERED, BULLETED)):
        text = f"- {text}"
    text = read_marks(text)
    lines.extend(Line(part.strip(), aside=ASIDES.get(kind)) for part in text.split("\n") if part.strip())


def _with_notes(pages: list[Page], file: io.BytesIO) -> list[Page]:
    """Footnotes and endnotes stand at the end of the document: they are left out else."""
    with zipfile.ZipFile(file) as archive:
        for part in ("word/footnotes.xml", "word/endnotes.xml"):
            if part in archive.namelist():
                notes = [Line(read_marks(note)) for note in _iter_notes(parse_part(archive.read(part)))]
                last = pages[-1]
                pages[-1] = Page(last.page_number, (*last.lines, *notes), last.tables, paragraphs=True)
    return pages


def _word_warnings(unwrapped: Unwrapped) -> Iterator[str]:
    if hidden := " ".join(filter(None, unwrapped.hidden)):
        yield warning_of_hidden(hidden)
    if unwrapped.num_comments:
        yield f"comments were left out: {unwrapped.num_comments}"
    if unwrapped.unread:
        yield f"parts in other formats are not read: {', '.join(unwrapped.unread)[:MAX_NAMED]}"
    if unwrapped.missing:
        yield f"parts that the file names and does not hold: {', '.join(unwrapped.missing)[:MAX_NAMED]}"


def _iter_notes(part: Any) -> Iterator[str]:
    for note in part:
        if note.get(f"{WORD_NS}type") is None:  # the others draw the line above notes
            yield from filter(None, map(_text_of, note.iter(f"{WORD_NS}p")))


def _text_of(paragraph: Any) -> str:
    names = (f"{WORD_NS}{name}" for name in ("t", "tab", "br", "cr", "noBreakHyphen"))
    parts = (
        {"t": run.text or "", "noBreakHyphen": "-"}.get(run.tag.rpartition("}")[2], " ")
        for run in paragraph.iter(*names)
    )
    return " ".join("".join(parts).split())
