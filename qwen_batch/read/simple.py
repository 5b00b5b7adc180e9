"""Formats that the standard library reads, or nearly: tables in text."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

from qwen_batch.errors import DocumentError
from qwen_batch.read.encodings import decode
from qwen_batch.read.items import Content
from qwen_batch.read.text import read_bytes
from qwen_batch.records import Line, Page, Table

DELIMITERS = ",;\t|"
SAMPLE_CHARS = 20_000


def read_csv(path: Path) -> Content:
    """One table. Raises DocumentError: empty, too_large, wrong_type, damaged."""
    text, warnings = decode(read_bytes(path))
    try:
        dialect: Any = csv.Sniffer().sniff(text[:SAMPLE_CHARS], DELIMITERS)
    except csv.Error:
        dialect = csv.excel_tab if path.suffix.lower() == ".tsv" else csv.excel
    try:
        rows = [[cell.strip() for cell in row] for row in csv.reader(io.StringIO(text, newline=""), dialect)]
    except csv.Error as error:
        raise DocumentError("damaged", f"not a table in text ({error}): save it anew, or name it .txt") from None
    width = max(map(len, rows), default=0)
    table = Table(tuple((*row, *("" for _ in range(width - len(row)))) for row in rows if any(row)))
    return Content((Page(1, (Line("", table=0),), (table,), paragraphs=True),), warnings)
