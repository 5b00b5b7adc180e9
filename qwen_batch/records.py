"""The values that cross rooms. All are frozen; none knows how it is read, computed or stored.

Those of documents stand here. Those of requests and their answers (requests.py) are made when one of them is first
named: a process that reads a file has no use for them. For its sake these are named tuples, too: loading dataclasses
takes 8 ms, and making a frozen one half a millisecond, which every file of its own would pay.
"""

# No annotations from __future__: NamedTuple compiles those anew that are text, which is a third of making a class.
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from qwen_batch.requests import Answer as Answer
    from qwen_batch.requests import Chunk as Chunk
    from qwen_batch.requests import Completion as Completion
    from qwen_batch.requests import Evidence as Evidence
    from qwen_batch.requests import FinishReason as FinishReason
    from qwen_batch.requests import Request as Request
    from qwen_batch.requests import ResultRow as ResultRow
    from qwen_batch.requests import SamplingParams as SamplingParams
    from qwen_batch.requests import Status as Status

Stage = Literal["read", "clean", "plan", "generate", "answer", "write"]
BBox = tuple[float, float, float, float]  # x0, top, x1, bottom in points (1/72 inch) from the page's top left corner
NOTHING: Mapping[str, object] = {}  # shared by all that have no entries


class Line(NamedTuple):
    """One line of a page as it is printed."""

    text: str
    bbox: BBox | None = None  # None: the source has no geometry (text files, records)
    font_size: float | None = None  # points
    table: int | None = None  # index into the page's tables: that table stands here, and `text` is empty
    aside: str | None = None  # the format itself says that this is no running text: header, footer, hidden ...
    code: bool = False  # set in letters of one width, or kept as typed by the format: its spaces mean something
    entry: bool = False  # ends with what was filled into a form


class Span(NamedTuple):
    """A cell that takes more than one place: its first row and column, from 0, and how many it takes of each."""

    row: int
    column: int
    num_rows: int
    num_columns: int


class Table(NamedTuple):
    """A table of a page, row by row; a cell without text is ''."""

    rows: tuple[tuple[str, ...], ...]
    bbox: BBox | None = None
    spans: tuple[Span, ...] = ()  # a merged cell's text stands in its first place, its other places are ''
    header_rows: int = 1  # rows at the top that name the columns
    dividers: tuple[float, ...] = ()  # points from the left, where white alone divides the columns of a page's table


class Picture(NamedTuple):
    """An image that covers the middle of its page."""

    bbox: BBox
    content: str  # alike for the same image
    see_through: bool  # drawn with transparency; a mask of its own does not count


class Page(NamedTuple):
    """One page as it was read, before cleaning, lines in reading order. A text file is one page.

    Places are those of the page turned so that its text stands upright.
    """

    page_number: int  # from 1
    lines: tuple[Line, ...]
    tables: tuple[Table, ...] = ()
    width: float | None = None  # points
    height: float | None = None  # points
    needs_ocr: bool = False  # the page shows text, as an image, that was not read
    ocr_confidence: float | None = None  # 0 to 1, mean over characters; None: the text is the document's own
    written_down: bool = False  # lines run from the top down and follow each other from right to left
    pictures: tuple[Picture, ...] = ()  # of a PDF
    paragraphs: bool = False  # each line is a whole paragraph or list item, as office formats keep them
    hidden: str = ""  # what is written but not seen: cleaning names it among what it removed

    @property
    def text(self) -> str:
        return "\n".join(line.text for line in self.lines)


class Message(NamedTuple):
    """One turn of a conversation, in the terms of chat templates."""

    role: str
    content: str


class Document(NamedTuple):
    """One input document as it was read: pages of text, or a ready conversation."""

    doc_id: str  # unique in a run; the searched folder's name and the path below it, or the record's id
    source: str  # path, path:line, or `stdin:line`
    content_sha256: str  # hex, of the file's bytes or of the record; '': nobody asked
    pages: tuple[Page, ...] = ()
    messages: tuple[Message, ...] = ()  # not empty: the record is a conversation, and `pages` is empty
    sampling: Mapping[str, object] = NOTHING  # what the record itself asks, over the job's
    metadata: Mapping[str, object] = NOTHING  # the record's own, passed through
    priority: int = 0  # larger goes first
    warnings: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()  # what reading found that a reader of the answer must know


class ReadSettings(NamedTuple):
    """Within which bounds files are read; the job's section `input` says what each does. `extract` gets along with
    this form, which needs no pydantic."""

    timeout_seconds: float = 60.0
    memory_limit: int = 1 << 30  # bytes
    max_pages: int = 20_000
    workers: int | None = None  # None: one for each core
    ocr: Literal["auto", "all", "off"] = "auto"
    passwords: tuple[str, ...] = ()
    password_file: str | None = None


class CleanSteps(NamedTuple):
    """Which cleaning steps run; the job's section `clean` says what each does. Reading processes get this form, which
    needs no pydantic."""

    unicode: bool = True
    headers_footers: bool = True
    page_numbers: bool = True
    line_numbers: bool = True
    watermarks: bool = True
    stamps: bool = True
    footnotes: bool = True
    join_lines: bool = True
    tables: bool = True


class Removal(NamedTuple):
    """Something that cleaning took out of the text, and why."""

    page_number: int
    text: str
    reason: str  # a short fixed word: header, footer, page_number, ...


class CleanPage(NamedTuple):
    """The cleaned text of one page: paragraphs one a line, blank lines between blocks."""

    page_number: int
    text: str
    tables: tuple[Table, ...] = ()
    ocr_confidence: float | None = None  # as that of Page


class CleanDocument(NamedTuple):
    """A document after cleaning. `text` and `pages` hold the same words."""

    doc_id: str
    source: str
    content_sha256: str
    text: str
    pages: tuple[CleanPage, ...] = ()
    page_starts: tuple[int, ...] = ()  # offset into `text` at which each of `pages` begins, ascending
    messages: tuple[Message, ...] = ()
    sampling: Mapping[str, object] = NOTHING
    metadata: Mapping[str, object] = NOTHING
    priority: int = 0
    removed: tuple[Removal, ...] = ()
    warnings: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()  # what reading or cleaning found that a reader of the answer must know


class Failure(NamedTuple):
    """A document that could not be answered, and why."""

    doc_id: str
    source: str
    stage: Stage
    error_type: str  # a short fixed word
    error: str  # a sentence for the reader
    content_sha256: str | None = None  # None: not even the bytes could be read
    num_pages: int | None = None
    metadata: Mapping[str, object] = NOTHING


def clean_id(doc_id: str) -> str:
    """An id without lone surrogates: each becomes its `\\udc..` escape, so that different ids stay different."""
    return doc_id if doc_id.isascii() else doc_id.encode("utf-8", "backslashreplace").decode("utf-8")


def __getattr__(name: str) -> object:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from qwen_batch import requests

    return getattr(requests, name)
