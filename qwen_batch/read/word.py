"""Word files as they read on paper: python-docx passes over whatever is wrapped in an element that it does not know.

Content controls (the fields of most contract forms), tracked insertions, fields and smart tags hold runs, paragraphs,
rows or cells that belong to the text; they are unwrapped. Tracked deletions and hidden runs do not; they are taken out.
The elements are those of ECMA-376 part 1, 17.5 and 17.13.
"""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import Path
from typing import Any

from qwen_batch.read.archive import parse_part

WORD_NS = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_PARTS = re.compile(r"word/(?:document|header\d*|footer\d*|footnotes|endnotes)\.xml")
_WRAPPERS = ("sdt", "sdtContent", "ins", "moveTo", "fldSimple", "smartTag", "customXml")
_DELETED = ("del", "moveFrom")
_PROPERTIES = ("sdtPr", "sdtEndPr", "fldData", "smartTagPr", "customXmlPr")  # of wrappers
_OFF = ("0", "false", "off")


def unwrap_word(path: Path) -> tuple[io.BytesIO, str]:
    """(a copy of a .docx in which no text is wrapped, the hidden text that it is without)."""
    copy, hidden = io.BytesIO(), list[str]()
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(copy, "w") as unwrapped:
        for name in dict.fromkeys(archive.namelist()):
            data = archive.read(name)
            unwrapped.writestr(name, _unwrap(data, hidden) if _PARTS.fullmatch(name) else data)
    return copy, " ".join(filter(None, hidden))


def _unwrap(xml: bytes, hidden: list[str]) -> bytes:
    from lxml import etree

    root = parse_part(xml)
    etree.strip_elements(root, *_named(*_DELETED, *_PROPERTIES), with_tail=False)
    for run in [run for run in root.iter(f"{WORD_NS}r") if _is_hidden(run)]:
        hidden.append("".join(text.text or "" for text in run.iter(f"{WORD_NS}t")).strip())
        run.getparent().remove(run)
    etree.strip_tags(root, *_named(*_WRAPPERS))
    return bytes(etree.tostring(root, xml_declaration=True, encoding="UTF-8", standalone=True))


def _named(*names: str) -> list[str]:
    return [f"{WORD_NS}{name}" for name in names]


def _is_hidden(run: Any) -> bool:
    mark = run.find(f"{WORD_NS}rPr/{WORD_NS}vanish")
    return mark is not None and mark.get(f"{WORD_NS}val") not in _OFF
