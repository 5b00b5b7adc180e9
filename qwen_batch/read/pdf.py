"""PDF files: pages of lines with their places, and ruled tables. Text by pdfium, page by page.

pdfium may abort on a hostile file, is not thread-safe and cannot be interrupted: call this in a process of its own.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from pathlib import Path

from qwen_batch.errors import DocumentError
from qwen_batch.read.items import Content
from qwen_batch.read.kinds import kind_name, sniff
from qwen_batch.read.ocr.recogniser import MAX_SIDE, Recogniser
from qwen_batch.read.page import pdfium
from qwen_batch.read.page.chars import PageChars
from qwen_batch.read.page.covers import iter_covers
from qwen_batch.read.page.file import PdfFile, PdfiumError, PdfPage
from qwen_batch.read.page.forms import Field, is_held, read_fields, with_fields
from qwen_batch.read.page.garbled import is_garbled
from qwen_batch.read.page.lines import LineMaker, iter_lines
from qwen_batch.read.page.order import in_reading_order
from qwen_batch.read.page.pictures import COVER_CHARS, LOOK_SCALE, is_uniform, pictures_alone, shows_lines, with_picture
from qwen_batch.read.page.raised import with_raised
from qwen_batch.read.page.spreads import pages_on
from qwen_batch.read.page.turn import read_upright, with_standing
from qwen_batch.read.page.vertical import in_columns, is_written_down
from qwen_batch.read.pdf_verdict import ReadPage, judge
from qwen_batch.read.tables.marks import Marks, read_marks
from qwen_batch.read.tables.page_tables import PageTables, read_tables
from qwen_batch.records import Line, Page, Table

SCAN_SHARE = 0.3  # of the page; a textless page that an image covers this far is a scan
STAMPED_SHARE = 0.8  # of the page; an image that covers this much, with nothing but stamps over it, is a scan
STAMP_LINES = 2
STAMP_EDGE = 0.08  # of the page's height, at the top and at the bottom: where stamps stand
IMAGE_SHARE = 0.02  # of the page; a smaller image is an ornament
DRAWN_OBJECTS = 50  # letters drawn as shapes are many; a blank page may have a frame
HEAD_BYTES = 4096
LEAST_SIZE = 1.0  # points of a font: a fifth of what can be read


def read_pdf(
    path: Path,
    passwords: Sequence[str] = (),
    max_pages: int = 20_000,
    tables: bool = True,
    ocr_seconds: float = 0.0,
    ocr_pictures: bool = False,
) -> Content:
    """Read a PDF. `passwords` are tried in turn where it is encrypted.

    Pages that are images are read with the extra `ocr`, where it is installed, until `ocr_seconds` are over; with
    `ocr_pictures` also large pictures of text beside the text of a page.

    Raises DocumentError: empty, wrong_type, damaged, encrypted, too_many_pages, needs_ocr.
    """
    _check_kind(path)
    with open_pdf(path, passwords) as file:
        file.load_forms()
        num_pages = len(file)
        if num_pages > max_pages:
            message = (
                f"{num_pages} pages are more than input.max_pages allows ({max_pages}); raise it or split the file"
            )
            raise DocumentError("too_many_pages", message, num_pages)
        recogniser = Recogniser(ocr_seconds, ocr_pictures)
        read: list[ReadPage] = []
        for number in range(1, num_pages + 1):
            read.append(_read_page(file, number, tables, recogniser, read[-1].unfinished if read else None))
    return judge(read, recogniser.advice)


def _check_kind(path: Path) -> None:
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    if not head.strip(b"\0 \t\r\n"):
        raise DocumentError("empty", "the file is empty: check the copy, or the program that wrote it")
    kind = sniff(head)
    if kind not in ("pdf", "binary"):
        message = f"named as a PDF, but the content is {kind_name(kind)}: rename or convert it, or fetch the file again"
        raise DocumentError("wrong_type", message)


def open_pdf(path: Path, passwords: Sequence[str]) -> PdfFile:
    """Raises DocumentError: encrypted, damaged."""
    for password in (None, *passwords):
        try:
            return PdfFile(path, password)
        except PdfiumError as error:
            if error.code == pdfium.FPDF_ERR_SECURITY:
                raise DocumentError("encrypted", "encrypted in a way that only its own program opens") from None
            if error.code != pdfium.FPDF_ERR_PASSWORD:
                message = "the PDF is damaged and cannot be repaired: fetch the file again, or open and save it anew"
                raise DocumentError("damaged", message) from None
    tried = f"none of the {len(passwords)} passwords fits" if passwords else "no password was given"
    advice = "give it as input.passwords or input.password_file in the job file, or to `extract` as --password"
    raise DocumentError("encrypted", f"the PDF is encrypted and {tried}: {advice}")


def _read_page(file: PdfFile, page_number: int, tables: bool, recogniser: Recogniser, before: Table | None) -> ReadPage:
    try:
        with file.page(page_number - 1) as page:  # one at a time: a long document would keep hundreds of megabytes
            read = _read_open_page(page, page_number, tables, before)
            if not (read.page.lines or read.num_marks or read.garbled) and _is_undecodable(page, page_number):
                return ReadPage(read.page, broken="its content cannot be decoded")
            read = _recognised(read, page, recogniser, tables) if read.may_be_read else read
            return _with_pictures(read, page, recogniser) if read.pictures else read
    except MemoryError:
        raise
    except Exception as error:  # whatever is wrong with a page, the others are read
        return ReadPage(Page(page_number, ()), broken=f"{type(error).__name__}: {error}")


def _is_undecodable(page: PdfPage, page_number: int) -> bool:
    """Loaded here: most files have something on each of their pages."""
    from qwen_batch.read.page.content import is_undecodable

    return is_undecodable(page.file, page_number - 1)


def _read_open_page(page: PdfPage, page_number: int, tables: bool, before: Table | None) -> ReadPage:
    view = read_upright(page)
    placement, chars, (width, height) = view.placement, with_raised(view.chars), view.size
    has_text = bool(chars.text) and not chars.text.isspace()
    covers_of = functools.partial(iter_covers, page, (width / 2, height / 2), has_text)
    marks = read_marks(page.handle, placement, tables and has_text, covers_of)
    chars, hidden = _shown(page, view.textpage, chars, marks, width * height)
    fields = read_fields(page.forms, page.handle, placement)
    left = list[Field]()
    found, unfinished, read = tuple[Table, ...](), before, list[Line]()
    parts = pages_on(chars, view.size)
    for number, part in enumerate(parts):
        here = [field for field in fields if len(parts) == 1 or (2 * field.middle[0] >= width) == (number == 1)]
        filled = _filled(part, here, at_fields=True)[:2] if here else None
        ends = frozenset[int]()
        in_part, unfinished = read_tables(marks, part, filled, unfinished) if has_text and tables else PageTables()
        if here:
            part, rest, ends = _filled(part, [field for field in here if not is_held(field, in_part)], in_part)
            left += rest
        maker = LineMaker(view.textpage, placement, part)
        spans = iter_lines(part, _regions(part, in_part))
        made = (line for start, end in spans for line in _with_entry(maker.make(start, end), part, end, ends))
        read += in_reading_order(list(made))
        found += in_part
    if any(line.font_size is not None and line.font_size < LEAST_SIZE for line in read):
        read, specks = _without_specks(read)
        hidden = f"{hidden} {specks}".strip()
    lines = with_fields(with_standing(view, read, found), left, found)
    if is_garbled("\n".join(line.text for line in lines), view.num_unnamed):
        return ReadPage(
            Page(page_number, (), (), width, height, needs_ocr=True),
            max(1, marks.num_objects),
            garbled=True,
            may_be_read=True,
        )
    image_share = marks.image_area / (width * height)
    is_stamped = bool(lines) and image_share >= STAMPED_SHARE and _are_stamps(lines, height)
    is_scan = is_stamped or (not lines and image_share >= SCAN_SHARE)
    may_be_read = is_stamped or (not lines and (image_share >= IMAGE_SHARE or marks.num_objects >= DRAWN_OBJECTS))
    written_down = is_written_down(lines)
    if written_down:
        lines = in_columns(lines, width)
    page_read = Page(
        page_number,
        lines,
        found,
        width,
        height,
        is_scan,
        written_down=written_down,
        pictures=marks.pictures,
        hidden=hidden,
    )
    pictures = () if may_be_read or not lines else tuple(pictures_alone(marks.images, lines, view.size))
    return ReadPage(
        page_read,
        marks.num_objects,
        unfinished=unfinished,
        may_be_read=may_be_read,
        pictures=pictures,
        num_cut=view.num_cut,
    )


def _without_specks(lines: Sequence[Line]) -> tuple[list[Line], str]:
    """Loaded here: most files need it not."""
    from qwen_batch.read.page.hidden import without_specks

    return without_specks(lines, LEAST_SIZE)


def _shown(page: PdfPage, textpage: int, chars: PageChars, marks: Marks, area: float) -> tuple[PageChars, str]:
    """The characters that are seen; what text recognition found stands without ink over a
    scan, or below it."""
    is_scan = marks.image_area >= SCAN_SHARE * area
    suspects = marks.pale if is_scan else marks.pale | marks.inkless
    filled = [each for each in marks.filled if each.colour] if is_scan else marks.filled
    if not (suspects or filled) or not chars.text:
        return chars, ""
    from qwen_batch.read.page.hidden import without_hidden

    return without_hidden(page, textpage, chars, suspects, filled, marks.texts)


def _filled(
    chars: PageChars, fields: Sequence[Field], tables: Sequence[Table] = (), at_fields: bool = False
) -> tuple[PageChars, tuple[Field, ...], frozenset[int]]:
    """The page with its fields' values, those that found no place, and where values end. Loaded here: most files have
    no forms."""
    from qwen_batch.read.page.values import place_values

    return place_values(chars, fields, tables, at_fields)


def _with_entry(lines: list[Line], chars: PageChars, end: int, ends: Collection[int]) -> list[Line]:
    """The lines that end at a character, the last of them an entry where a value ends there."""
    while ends and end and chars.text[end - 1].isspace():
        end -= 1
    return [*lines[:-1], lines[-1]._replace(entry=True)] if lines and end in ends else lines


def _are_stamps(lines: Sequence[Line], height: float) -> bool:
    """Whether the lines are what a court or a scanner prints over the image of a page: few, and at its edges."""
    edge = STAMP_EDGE * height
    boxes = [line.bbox for line in lines if line.bbox]
    return len(lines) == len(boxes) <= STAMP_LINES and all(box[3] <= edge or box[1] >= height - edge for box in boxes)


def _recognised(read: ReadPage, page: PdfPage, recogniser: Recogniser, tables: bool) -> ReadPage:
    """The page with the text that its image shows, where that can be read."""
    found = recogniser.read(page)
    if found is None:
        return read
    if not found.lines:
        if not is_uniform(page.render(min(LOOK_SCALE, MAX_SIDE / max(*page.size, 1.0)))):
            return read
        return read._replace(page=read.page._replace(needs_ocr=False), num_marks=0, is_blank=True)
    seen = read.page._replace(lines=found.lines, needs_ocr=False, ocr_confidence=found.confidence)
    if found.quarters % 2:
        seen = seen._replace(width=seen.height, height=seen.width)
    if tables:
        from qwen_batch.read.tables.scanned import find_tables  # loads what only pages that are images need

        seen = seen._replace(tables=find_tables(found.lines))
    return read._replace(page=seen)


def _with_pictures(read: ReadPage, page: PdfPage, recogniser: Recogniser) -> ReadPage:
    """The page with the text of its pictures at their place, where they show any and it can be read."""
    look = page.render(LOOK_SCALE)
    lines, scores, partly = read.page.lines, [], False
    for box in read.pictures:
        if not shows_lines(look, box):
            continue
        found = recogniser.read_area(page, box)
        partly = partly or found is None
        if found is not None and sum(len(line.text) for line in found.lines) >= COVER_CHARS:
            lines = with_picture(lines, box, found.lines)
            scores.append(found.confidence)
    confidence = min(scores) if scores else None
    seen = read.page._replace(lines=lines, needs_ocr=partly, ocr_confidence=confidence)
    return read._replace(page=seen, partly=partly)


def _regions(chars: PageChars, tables: Sequence[Table]) -> list[int] | None:
    """The table that each character stands in, -1 for none; None: there are no tables."""
    if not tables:
        return None
    xs = [(x0 + x1) / 2 for x0, x1 in zip(chars.x0, chars.x1, strict=True)]
    ys = [(top + bottom) / 2 for top, bottom in zip(chars.top, chars.bottom, strict=True)]
    regions = [-1] * len(xs)
    for index in reversed(range(len(tables))):
        if box := tables[index].bbox:
            left, upper, right, lower = box
            for number, (x, y) in enumerate(zip(xs, ys, strict=True)):
                if left <= x <= right and upper <= y <= lower:
                    regions[number] = index
    return regions
