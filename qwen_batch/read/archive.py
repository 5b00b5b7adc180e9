"""Office files are zip archives of XML: what is wrong with one is found here, before a parser opens it.

A small archive may unpack to terabytes, name files outside of itself, or hold entities that expand without end. The
formats need none of that (ECMA-376 part 2 forbids document type definitions), so such a file is refused.
"""

from __future__ import annotations

import posixpath
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from qwen_batch.errors import DocumentError
from qwen_batch.read.kinds import kind_name, sniff

MAX_MEMBERS = 20_000
MAX_XML_BYTES = 200_000_000  # of all XML parts; parsers need about ten times as much memory
MAX_RATIO = 200  # unpacked to packed, of a part that is large; honest XML reaches about 50
LARGE_BYTES = 50_000_000  # below, a form of ten thousands of like rows may pack better
HEAD_BYTES = 4096
STRICT_NAMES = b"http://purl.oclc.org/ooxml/"
XML_SUFFIXES = (".xml", ".rels")
_STRICT = re.compile(rb"""(=["'])http://purl\.oclc\.org/ooxml/([A-Za-z]+)/""")
_DTD = re.compile(rb"<!(?:DOCTYPE|ENTITY)", re.IGNORECASE)


def parse_part(xml: bytes) -> Any:
    """The root of an XML part. Nothing that it names is fetched or expanded. Raises lxml.etree.XMLSyntaxError."""
    from lxml import etree

    return etree.fromstring(plain_names(xml), etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False))


def plain_names(xml: bytes) -> bytes:
    """A part of a strict file (ECMA-376 part 1) with the names that other files use for the same (part 4)."""
    return _STRICT.sub(rb"\1http://schemas.openxmlformats.org/\2/2006/", xml) if STRICT_NAMES in xml else xml


def relations_of(archive: zipfile.ZipFile, part: str) -> dict[str, str]:
    """The parts that a part refers to, by the id of the relation (ECMA-376 part 2, 6.5)."""
    folder, _, name = part.rpartition("/")
    relations = f"{folder}/_rels/{name}.rels"
    if relations not in archive.namelist():
        return {}
    return {each.get("Id", ""): path for each, path in _inner(parse_part(archive.read(relations)), folder)}


def drop_missing(relations: bytes, name: str, parts: frozenset[str], missing: list[str]) -> bytes:
    """Relations without those to parts that are not there, whose names go to `missing`; links lead out instead."""
    from lxml import etree

    root = parse_part(relations)
    lost = [(each, path) for each, path in _inner(root, name.rpartition("_rels/")[0]) if path not in parts]
    for relation, path in lost:
        if relation.get("Type", "").endswith("/hyperlink"):
            relation.set("TargetMode", "External")
        else:
            missing.append(path)
            root.remove(relation)
    return bytes(etree.tostring(root, xml_declaration=True, encoding="UTF-8", standalone=True)) if lost else relations


def _inner(relations: Any, folder: str) -> Iterator[tuple[Any, str]]:
    """Each relation to a part of the same archive, and the part."""
    for relation in relations:
        if relation.get("TargetMode") != "External":
            yield relation, posixpath.normpath(posixpath.join("/", folder, relation.get("Target", "")))[1:]


def check_archive(path: Path) -> frozenset[str]:
    """The names of an office file's parts. Raises DocumentError: empty, damaged, encrypted, wrong_type, unsafe."""
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    if not head:
        raise DocumentError("empty", "the file is empty: check the copy, or the program that wrote it")
    kind = sniff(head)
    if kind == "ole":  # Office encrypts a document by putting it into a container of the old kind
        raise DocumentError("encrypted", "an encrypted or an old office document: save it without a password as .docx")
    if kind != "zip":
        raise DocumentError("wrong_type", f"named as an office file, but the content is {kind_name(kind)}: rename it")
    try:
        with zipfile.ZipFile(path) as archive:
            _check_parts(archive.infolist())
            for name in _iter_xml(archive):
                _check_xml(archive, name)
            return frozenset(archive.namelist())
    except (zipfile.BadZipFile, EOFError, NotImplementedError, OSError) as error:
        message = f"the archive is damaged ({error}): fetch the file again, or open and save it anew"
        raise DocumentError("damaged", message) from None


def _check_parts(parts: list[zipfile.ZipInfo]) -> None:
    if len(parts) > MAX_MEMBERS:
        _refuse(f"it has {len(parts)} parts")
    for part in parts:
        if part.filename.startswith(("/", "\\")) or ".." in re.split(r"[/\\]", part.filename):
            _refuse("a part's name leads out of the archive")
        if part.flag_bits & 1:
            raise DocumentError("encrypted", "the archive is encrypted: save the document without a password")
        if part.file_size > LARGE_BYTES and part.file_size > MAX_RATIO * max(part.compress_size, 1):
            _refuse(f"a part of {part.compress_size} bytes unpacks to {part.file_size}")
    size = sum(part.file_size for part in parts if part.filename.endswith(XML_SUFFIXES))
    if size > MAX_XML_BYTES:
        _refuse(f"it unpacks to {size} bytes of XML")


def _iter_xml(archive: zipfile.ZipFile) -> Iterator[str]:
    return (name for name in archive.namelist() if name.endswith(XML_SUFFIXES))


def _check_xml(archive: zipfile.ZipFile, name: str) -> None:
    """A document type definition stands before the first element, so the head of a part tells."""
    with archive.open(name) as part:
        head = part.read(HEAD_BYTES)
    if _DTD.search(head.replace(b"\0", b"")):
        _refuse(f"{name} defines entities")


def _refuse(why: str) -> None:
    raise DocumentError("unsafe", f"not opened, because {why}: no office program writes that; ask for another copy")
