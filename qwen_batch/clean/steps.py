"""Cleaning a document: pure steps over its pages, each reporting what it took out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from qwen_batch.clean.cells import join_cells
from qwen_batch.clean.footnotes import mark_footnotes
from qwen_batch.clean.headers import remove_headers
from qwen_batch.clean.join import Piece, join_entries, keep_entries
from qwen_batch.clean.line_numbers import remove_line_numbers
from qwen_batch.clean.measures import document_entries
from qwen_batch.clean.page_numbers import remove_page_numbers
from qwen_batch.clean.side_notes import mark_side_notes
from qwen_batch.clean.stamps import remove_stamps
from qwen_batch.clean.tables import join_tables
from qwen_batch.clean.unicode import normalise_pages
from qwen_batch.clean.watermarks import PICTURE, remove_watermarks
from qwen_batch.clean.watermarks import REASON as WATERMARK
from qwen_batch.records import CleanDocument, CleanPage, CleanSteps, Document, Page, Removal

Step = Callable[[Sequence[Page]], tuple[tuple[Page, ...], tuple[Removal, ...]]]
MIN_LETTERS_KEPT = 0.1  # of the text; a step that would leave less mistakes the text itself for running heads
MAX_NAMED = 200  # characters of watermarks that a warning names
NEEDS_OCR = "needs_ocr"
HIDDEN = "hidden"  # the reason that office formats and web pages give, too
OCR = "ocr"  # some of the text was recognised, not read


def clean_document(document: Document, settings: CleanSteps) -> CleanDocument:
    """Text with whole paragraphs, without running heads and page numbers. Conversations pass as they are.

    `text[page_starts[i]:page_starts[i + 1]]` is the text of page i and what separates it from the next.
    """
    pages, warnings = document.pages, list(document.warnings)
    removed = [Removal(page.page_number, page.hidden, HIDDEN) for page in pages if page.hidden]
    num_letters = _num_letters(pages)
    for step in _steps(settings):
        kept, taken = step(pages)
        num_kept = num_letters + _num_letters(_others(kept, pages)) - _num_letters(_others(pages, kept))
        if num_kept < MIN_LETTERS_KEPT * num_letters:
            warnings.append(f"{step.__name__} was left out: hardly any text would have remained")
            continue
        pages, num_letters = kept, num_kept
        removed.extend(taken)
    entries = document_entries(pages)
    if settings.footnotes:
        entries = mark_side_notes(mark_footnotes(entries))
    pieces = join_entries(entries) if settings.join_lines else keep_entries(entries)
    text, clean_pages, starts = _assemble(pages, pieces)
    return CleanDocument(
        doc_id=document.doc_id,
        source=document.source,
        content_sha256=document.content_sha256,
        text=text,
        pages=clean_pages,
        page_starts=starts,
        messages=document.messages,
        sampling=document.sampling,
        metadata=document.metadata,
        priority=document.priority,
        removed=tuple(removed),
        warnings=(*warnings, *_of_watermarks(removed)),
        flags=(*document.flags, *_flags(pages)),
    )


def _of_watermarks(removed: Sequence[Removal]) -> Iterator[str]:
    """Whether a document is a draft matters to who reads an answer about it."""
    texts = dict.fromkeys(removal.text for removal in removed if removal.reason == WATERMARK)
    if texts:
        yield f"printed over the text: {', '.join(texts)[:MAX_NAMED]}"
    if numbers := [removal.page_number for removal in removed if removal.reason == PICTURE]:
        yield f"an image lies over the text, as a watermark does, on {len(set(numbers))} of the pages"


def _flags(pages: Sequence[Page]) -> tuple[str, ...]:
    found = ((NEEDS_OCR, any(page.needs_ocr for page in pages)), (OCR, any(page.ocr_confidence for page in pages)))
    return tuple(flag for flag, is_found in found if is_found)


def _steps(settings: CleanSteps) -> tuple[Step, ...]:
    """The steps that the job wants, in their order: what follows compares normal forms."""
    wanted: tuple[tuple[bool, Step], ...] = (
        (settings.unicode, normalise_pages),
        (settings.watermarks, remove_watermarks),
        (settings.line_numbers, remove_line_numbers),
        (settings.stamps, remove_stamps),
        (settings.headers_footers, remove_headers),
        (settings.page_numbers, remove_page_numbers),
        (settings.tables, join_tables),
        (settings.join_lines, join_cells),
    )
    return tuple(step for is_wanted, step in wanted if is_wanted)


def _others(pages: Sequence[Page], than: Sequence[Page]) -> list[Page]:
    """The pages that are not those at the same place: most steps leave most of them as they are."""
    return [page for page, other in zip(pages, than, strict=True) if page is not other]


def _num_letters(pages: Sequence[Page]) -> int:
    """Characters of lines and tables: a document whose text is all in tables keeps it."""
    lines = sum([len(line.text.strip()) for page in pages for line in page.lines])
    return lines + sum(len(cell) for page in pages for table in page.tables for row in table.rows for cell in row)


def _assemble(pages: Sequence[Page], pieces: Sequence[Piece]) -> tuple[str, tuple[CleanPage, ...], tuple[int, ...]]:
    """One text, the same text page by page, and where each page begins in it."""
    parts: list[str] = []
    length = 0
    texts: dict[int, list[str]] = {}
    begins: dict[int, int] = {}
    for piece in pieces:
        glue = piece.glue if length else ""
        parts += (glue, piece.text)
        length += len(glue)
        if piece.page_number in texts:
            texts[piece.page_number] += (glue, piece.text)
        else:
            begins[piece.page_number] = length
            texts[piece.page_number] = [piece.text]
        length += len(piece.text)
    starts: list[int] = []
    for page in reversed(pages):  # a page without text begins where the next one does
        starts.append(begins.get(page.page_number, starts[-1] if starts else length))
    clean = (
        CleanPage(page.page_number, "".join(texts.get(page.page_number, ())), page.tables, page.ocr_confidence)
        for page in pages
    )
    return "".join(parts), tuple(clean), tuple(reversed(starts))
