"""Word files as they read on paper: python-docx passes over whatever is wrapped in an element that it does not know.

Content controls (the fields of most contract forms), tracked insertions, fields and smart tags hold runs, paragraphs,
rows or cells that belong to the text; they are unwrapped. Tracked deletions and hidden runs do not; they are taken out.
Numbers of lists, symbols, equations and parts in other formats are written into the text, and text boxes stand after
their paragraph. The elements are those of ECMA-376 part 1, 17.3, 17.5, 17.9 and 17.13.
"""

from __future__ import annotations

import io
import re
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qwen_batch.read.archive import XML_SUFFIXES, drop_missing, parse_part, plain_names, relations_of
from qwen_batch.read.office.word_chunks import insert_chunks
from qwen_batch.read.office.word_lists import Numbering
from qwen_batch.read.office.word_marks import write_marks
from qwen_batch.read.office.word_names import MC_NS, RELATION, WORD_NS, is_on, named, value_of

NUMBERING, STYLES, COMMENTS = "word/numbering.xml", "word/styles.xml", "word/comments.xml"
TYPES = "[Content_Types].xml"
MAIN_TYPE = b"application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
_OTHER_TYPES = re.compile(  # with macros, and templates: python-docx refuses them, and they read the same
    rb"application/vnd\.(?:ms-word\.(?:document|template)\.macroEnabled(?:Template)?"
    rb"|openxmlformats-officedocument\.wordprocessingml\.template)\.main\+xml"
)
_PARTS = re.compile(r"word/(?:document|header\d*|footer\d*|footnotes|endnotes)\.xml")
_WRAPPERS = ("sdt", "sdtContent", "ins", "moveTo", "fldSimple", "smartTag", "customXml", "bdo", "dir")
_DELETED = ("del", "moveFrom")
_PROPERTIES = ("sdtPr", "sdtEndPr", "fldData", "smartTagPr", "customXmlPr")  # of wrappers
_SPACE = "{http://www.w3.org/XML/1998/namespace}space"
MAX_CHAIN = 50  # styles that are based on each other


@dataclass(slots=True)
class Unwrapped:
    """A copy of a .docx in which all text stands in plain runs, and what it is without."""

    copy: io.BytesIO
    hidden: list[str] = field(default_factory=list)
    num_comments: int = 0
    unread: list[str] = field(default_factory=list)  # parts in formats that are not read
    missing: list[str] = field(default_factory=list)  # parts that are named and not there, as lost pictures


def unwrap_word(path: Path) -> Unwrapped:
    """Raises lxml.etree.XMLSyntaxError and zipfile.BadZipFile."""
    done = Unwrapped(io.BytesIO())
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(done.copy, "w") as unwrapped:
        names = list(dict.fromkeys(archive.namelist()))
        styles = parse_part(archive.read(STYLES)) if STYLES in names else None
        numbering = Numbering(parse_part(archive.read(NUMBERING)) if NUMBERING in names else None, styles)
        hidden_styles = _hidden_styles(styles)
        for name in sorted(names, key=lambda each: each != "word/document.xml"):  # its lists count first
            data = archive.read(name)
            data = plain_names(data) if name.endswith(XML_SUFFIXES) else data
            if _PARTS.fullmatch(name):
                root = parse_part(data)
                _unwrap(root, hidden_styles, done.hidden)
                insert_chunks(root, archive, name, done.unread)
                _drop_missing_asides(root, archive, name)
                _write_numbers(root, numbering)
                data = _as_bytes(root)
            elif name == STYLES:
                data = _as_bytes(_without(styles, "numPr"))
            elif name.endswith(".rels"):
                data = drop_missing(data, name, frozenset(names), done.missing)
            elif name == TYPES:
                data = _OTHER_TYPES.sub(MAIN_TYPE, data)
            elif name == COMMENTS:
                done.num_comments = len(parse_part(data).findall(f"{WORD_NS}comment"))
            unwrapped.writestr(name, data)
    return done


def _drop_missing_asides(root: Any, archive: zipfile.ZipFile, part: str) -> None:
    """References to headers and footers that are not there."""
    references = list(root.iter(*named("headerReference", "footerReference")))
    targets = relations_of(archive, part) if references else {}
    for reference in references:
        if targets.get(reference.get(RELATION, "")) not in archive.namelist():
            reference.getparent().remove(reference)


def _as_bytes(root: Any) -> bytes:
    from lxml import etree

    return bytes(etree.tostring(root, xml_declaration=True, encoding="UTF-8", standalone=True))


def _without(root: Any, *names: str) -> Any:
    from lxml import etree

    etree.strip_elements(root, *named(*names), with_tail=False)
    return root


def _unwrap(root: Any, hidden_styles: frozenset[str], hidden: list[str]) -> None:
    from lxml import etree

    for row in [row for row in root.iter(f"{WORD_NS}tr") if row.find(f"{WORD_NS}trPr/{WORD_NS}del") is not None]:
        row.getparent().remove(row)
    joined = [paragraph for paragraph in root.iter(f"{WORD_NS}p") if _has_no_end(paragraph)]
    _without(root, *_DELETED, *_PROPERTIES)
    etree.strip_elements(root, f"{MC_NS}Fallback", with_tail=False)
    write_marks(root)
    for run in [run for run in root.iter(f"{WORD_NS}r") if _is_hidden(run, hidden_styles)]:
        hidden.append("".join(text.text or "" for text in run.iter(f"{WORD_NS}t")).strip())
        run.getparent().remove(run)
    etree.strip_tags(root, *named(*_WRAPPERS))
    for paragraph in reversed(joined):
        _join_to_next(paragraph)
    last: dict[Any, Any] = {}
    for box in list(root.iter(f"{WORD_NS}txbxContent")):
        _move_after_paragraph(box, last)


def _has_no_end(paragraph: Any) -> bool:
    """Whether its mark is deleted, or hidden as that of a heading which runs into the text (a style separator)."""
    mark = paragraph.find(f"{WORD_NS}pPr/{WORD_NS}rPr")
    if mark is None:
        return False
    deleted = any(mark.find(f"{WORD_NS}{name}") is not None for name in _DELETED)
    return deleted or bool(is_on(mark, "vanish") and is_on(mark, "specVanish"))


def _join_to_next(paragraph: Any) -> None:
    """What it holds stands at the start of the next paragraph; a heading that runs in keeps its own number."""
    following = paragraph.getnext()
    if following is None or following.tag != f"{WORD_NS}p" or paragraph.getparent() is None:
        return
    properties = following.find(f"{WORD_NS}pPr")
    own = paragraph.find(f"{WORD_NS}pPr")
    content = [child for child in paragraph if child is not own]
    if not any(child.tag != f"{WORD_NS}bookmarkEnd" for child in content):
        paragraph.getparent().remove(paragraph)
        return
    if own is not None:
        if properties is not None:
            following.remove(properties)
        following.insert(0, own)
    for place, child in enumerate(content, 1 if own is not None or properties is not None else 0):
        following.insert(place, child)
    paragraph.getparent().remove(paragraph)


def _move_after_paragraph(box: Any, last: dict[Any, Any]) -> None:
    """A text box's paragraphs follow the paragraph that it is anchored in, in their order; `last` is after which."""
    place = next((each for each in box.iterancestors(f"{WORD_NS}p") if each.getparent().tag != box.tag), None)
    run = next(box.iterancestors(f"{WORD_NS}r"), None)
    if place is None or run is None:
        return
    anchor = place
    place = last.get(anchor, anchor)
    for child in list(box):
        if child.tag in (f"{WORD_NS}p", f"{WORD_NS}tbl"):
            place.addnext(child)
            place = child
    last[anchor] = place


def _write_numbers(root: Any, numbering: Numbering) -> None:
    """Each paragraph begins with its number, and says no more that it has one."""
    for paragraph in root.iter(f"{WORD_NS}p"):
        if (mark := numbering.mark(paragraph)) and _holds_something(paragraph):
            run = paragraph.makeelement(f"{WORD_NS}r")
            text = run.makeelement(f"{WORD_NS}t", {_SPACE: "preserve"})
            text.text = mark
            run.append(text)
            paragraph.insert(0 if paragraph.find(f"{WORD_NS}pPr") is None else 1, run)
    _without(root, "numPr")


def _holds_something(paragraph: Any) -> bool:
    return any((text.text or "").strip() for text in paragraph.iter(f"{WORD_NS}t"))


def _hidden_styles(styles: Any) -> frozenset[str]:
    """Styles of characters and paragraphs whose text is not shown, by those that they are based on."""
    if styles is None:
        return frozenset()
    found = {style.get(f"{WORD_NS}styleId", ""): style for style in styles.iterfind(f"{WORD_NS}style")}

    def is_hidden(name: str | None) -> bool:
        for _ in range(MAX_CHAIN):
            style = found.get(name or "")
            if style is None:
                return False
            if (shown := is_on(style, "rPr/vanish")) is not None:
                return shown
            name = value_of(style, "basedOn")
        return False

    return frozenset(filter(is_hidden, found))


def _is_hidden(run: Any, hidden_styles: frozenset[str]) -> bool:
    """What the run says itself counts before its style, and that before its paragraph's."""
    own = is_on(run, "rPr/vanish")
    if own is not None or not hidden_styles:
        return bool(own)
    properties = run.find(f"{WORD_NS}rPr")
    if properties is not None and value_of(properties, "rStyle") in hidden_styles:
        return True
    paragraph = next(run.iterancestors(f"{WORD_NS}p"), None)
    around = paragraph.find(f"{WORD_NS}pPr") if paragraph is not None else None
    return around is not None and value_of(around, "pStyle") in hidden_styles
