"""Which reader takes which kind of file that is neither PDF nor plain text."""

from __future__ import annotations

from pathlib import Path

from qwen_batch.errors import DocumentError
from qwen_batch.read.items import Content
from qwen_batch.read.kinds import Kind, kind_name
from qwen_batch.read.office.legacy import read_legacy
from qwen_batch.read.office.mail import read_email
from qwen_batch.read.office.msg import read_msg
from qwen_batch.read.office.odf import read_odf
from qwen_batch.read.office.parts import read_docx
from qwen_batch.read.office.pptx import read_pptx
from qwen_batch.read.office.rtf import read_rtf
from qwen_batch.read.office.xlsx import read_xlsx
from qwen_batch.read.text.html import read_html
from qwen_batch.read.text.tables_in_text import read_csv

_READERS = {
    "html": read_html,
    "csv": read_csv,
    "email": read_email,
    "msg": read_msg,
    "rtf": read_rtf,
    "odf": read_odf,
    "legacy": read_legacy,
    "xlsx": read_xlsx,
    "pptx": read_pptx,
    "docx": read_docx,
}


def read_other(path: Path, kind: Kind) -> Content:
    """Read a file by its kind. Raises DocumentError."""
    if reader := _READERS.get(kind):
        return reader(path)
    raise DocumentError("unsupported", f"{kind_name(kind)} is not read: convert it to PDF or text")
