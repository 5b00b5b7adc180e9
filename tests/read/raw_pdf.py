"""PDF files written object by object, for what no library writes: odd fonts, odd boxes, odd heads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

HEAD = b"%PDF-1.7\n"
FONT = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica {more} >>"


def write_objects(path: Path, objects: Sequence[str], head: bytes = HEAD) -> Path:
    """Objects numbered from 1, the first of them the catalogue."""
    data, offsets = head, []
    for number, body in enumerate(objects, 1):
        offsets.append(len(data))
        data += f"{number} 0 obj\n{body}\nendobj\n".encode("latin-1")
    start = len(data)
    rows = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    data += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1) + rows
    data += b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, start)
    path.write_bytes(data)
    return path


def stream(content: str) -> str:
    return f"<< /Length {len(content)} >>\nstream\n{content}\nendstream"


def write_pages(path: Path, contents: Sequence[str], page: str = "", font: str = "", head: bytes = HEAD) -> Path:
    """A page of 600 x 800 points for each content stream, whose font is /F: Helvetica, or as an entry says.

    `page` is more of each page's dictionary, `font` more of the font's.
    """
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(contents)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(contents)} /MediaBox [0 0 600 800] >>",
        FONT.format(more=font),
    ]
    for number, content in enumerate(contents):
        resources = "/Resources << /Font << /F 3 0 R >> >>"
        objects.append(f"<< /Type /Page /Parent 2 0 R /Contents {5 + 2 * number} 0 R {resources} {page} >>")
        objects.append(stream(content))
    return write_objects(path, objects, head)


def with_names(path: Path, content: str, names: Mapping[int, str]) -> Path:
    """A page whose font calls some codes by other characters (/ToUnicode)."""
    rows = "\n".join(
        f"<{code:02x}> <{name.encode('utf-16-be', 'surrogatepass').hex()}>" for code, name in names.items()
    )
    cmap = (
        "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /X def /CMapType 2 def\n"
        f"1 begincodespacerange <00> <ff> endcodespacerange\n{len(names)} beginbfchar\n{rows}\nendbfchar\n"
        "endcmap end end"
    )
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Kids [4 0 R] /Count 1 /MediaBox [0 0 600 800] >>",
        FONT.format(more="/Encoding /WinAnsiEncoding /ToUnicode 6 0 R"),
        "<< /Type /Page /Parent 2 0 R /Contents 5 0 R /Resources << /Font << /F 3 0 R >> >> >>",
        stream(content),
        stream(cmap),
    ]
    return write_objects(path, objects)
