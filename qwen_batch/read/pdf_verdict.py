"""What becomes of a PDF by what was read of its pages: its content with warnings, or the reason why it has none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from qwen_batch.errors import DocumentError
from qwen_batch.read.items import MAX_HIDDEN, UNREAD_PAGES, Content
from qwen_batch.records import BBox, Page, Table

DOUBTFUL = 0.7  # confidence of OCR; drawings that it takes for text have less
PAGE_LIST = 12  # page numbers that a warning names


class ReadPage(NamedTuple):
    page: Page
    num_marks: int = 0  # drawn objects besides text
    broken: str = ""  # why it could not be read
    garbled: bool = False  # its text layer says nothing
    unfinished: Table | None = None  # may go on on the next page
    may_be_read: bool = False  # by OCR: no text, but an image, or so much drawn that it may be letters
    pictures: tuple[BBox, ...] = ()  # beside its text, that may show more of it
    partly: bool = False  # such a picture shows text that was not read
    num_cut: int = 0  # words beyond what is shown of it
    is_blank: bool = False  # shown as an image on which nothing is seen


def judge(read: Sequence[ReadPage], advice: str) -> Content:
    """Its content, with warnings of what is missing from it. Raises DocumentError where it has no text: damaged,
    needs_ocr, empty. `advice`: what to do about images."""
    if not any(each.page.lines and (each.partly or not each.page.needs_ocr) for each in read):
        raise _why_empty(read, advice)
    flags = (UNREAD_PAGES,) if any(each.broken for each in read) else ()
    return Content(tuple(each.page for each in read), tuple(_warnings(read)), flags)


def _why_empty(read: Sequence[ReadPage], advice: str) -> DocumentError:
    broken = [each.page.page_number for each in read if each.broken]
    if len(broken) == len(read):
        message = f"none of its pages can be read ({_causes(read)}): fetch the file again, or save it anew"
        return DocumentError("damaged", message, len(read))
    if any(each.num_marks and (each.may_be_read or not each.page.hidden) for each in read):
        what = "its text layer is garbled" if any(each.garbled for each in read) else "image-only"
        message = f"{what}: {_pages(len(read))} and no text that can be read; {advice}"
        return DocumentError("needs_ocr", message, len(read))
    if broken:
        what = f"pages that cannot be read: {_listed(broken)} ({_causes(read)}), and the others are blank"
        return DocumentError("damaged", f"{what}: fetch the file again, or save it anew", len(read))
    what = "nothing is written or drawn on them"
    if any(each.is_blank for each in read):
        what = "nothing is seen on their images"
    if hidden := " ".join(each.page.hidden for each in read if each.page.hidden):
        what = f"nobody sees what is written on them ({hidden[:MAX_HIDDEN]})"
    return DocumentError("empty", f"{_pages(len(read))}, all blank: {what}", len(read))


def _warnings(read: Sequence[ReadPage]) -> Iterator[str]:
    if scans := _numbers(each for each in read if each.page.needs_ocr and not each.garbled and not each.partly):
        yield f"pages without text, shown as images (need OCR): {_listed(scans)}"
    if garbled := _numbers(each for each in read if each.page.needs_ocr and each.garbled):
        yield f"pages whose text layer is garbled (need OCR): {_listed(garbled)}"
    if partly := _numbers(each for each in read if each.partly):
        yield f"pages with pictures of text that was not read (input.ocr: all reads it): {_listed(partly)}"
    scores = {each.page.page_number: each.page.ocr_confidence for each in read if each.page.ocr_confidence is not None}
    if scores:
        mean = sum(scores.values()) / len(scores)
        yield f"pages read by OCR, with a confidence of {mean:.2f}: {_listed(list(scores))}"
    if doubtful := [number for number, score in scores.items() if score < DOUBTFUL]:
        yield f"pages on which much may be misread (OCR was unsure): {_listed(doubtful)}"
    if cut := _numbers(each for each in read if each.num_cut):
        words = _words(sum(each.num_cut for each in read))
        yield f"pages with text beyond their edges, which is not shown and left out ({words}): {_listed(cut)}"
    if unseen := _numbers(each for each in read if each.page.hidden):
        text = " ".join(each.page.hidden for each in read if each.page.hidden)
        yield f"hidden text was left out ({_words(len(text.split()))} on pages {_listed(unseen)}): {text[:MAX_HIDDEN]}"
    if broken := _numbers(each for each in read if each.broken):
        yield f"pages that could not be read: {_listed(broken)} ({_causes(read)})"


def _numbers(read: Iterable[ReadPage]) -> list[int]:
    return [each.page.page_number for each in read]


def _causes(read: Sequence[ReadPage]) -> str:
    return ", ".join(dict.fromkeys(each.broken for each in read if each.broken))


def _words(count: int) -> str:
    return "one word" if count == 1 else f"{count} words"


def _pages(count: int) -> str:
    return "one page" if count == 1 else f"{count} pages"


def _listed(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:PAGE_LIST]))
    return shown if len(numbers) <= PAGE_LIST else f"{shown} and {len(numbers) - PAGE_LIST} more"
