"""What `extract` says of a file: as the values of its JSON, and for people."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from qwen_batch.records import CleanDocument, CleanPage, Failure
from qwen_batch.terminal import one_line, visible

PIECE_CHARS = 1 << 20
_SURROGATE = re.compile("[\ud800-\udfff]")


def extract_report(path: Path, result: CleanDocument | Failure) -> dict[str, Any]:
    """The JSON of `qwen-batch extract`; every value can be encoded as UTF-8."""
    source = path_text(path)
    if isinstance(result, Failure):
        return {
            "source": source,
            "status": "failed",
            "error_type": result.error_type,
            "error": mended(result.error),
            "num_pages": result.num_pages or 0,
            **{"text": "", "pages": [], "removed": [], "warnings": [], "flags": []},
        }
    return {
        "source": source,
        "status": "ok",
        "error_type": None,
        "error": None,
        "num_pages": len(result.pages),
        "text": mended(result.text),
        "pages": [_page(page) for page in result.pages],
        "removed": [
            {"page_number": removal.page_number, "text": mended(removal.text), "reason": removal.reason}
            for removal in result.removed
        ],
        "warnings": [mended(warning) for warning in result.warnings],
        "flags": list(result.flags),
    }


def _page(page: CleanPage) -> dict[str, Any]:
    return {
        "page_number": page.page_number,
        "text": mended(page.text),
        "ocr": page.ocr_confidence is not None,
        "ocr_confidence": None if page.ocr_confidence is None else round(page.ocr_confidence, 4),
        "tables": [
            {
                "rows": [[mended(cell) for cell in row] for row in table.rows],
                "bbox": list(table.bbox) if table.bbox else None,
                "header_rows": table.header_rows,
                "spans": [span._asdict() for span in table.spans],
            }
            for table in page.tables
        ],
    }


def iter_report(report: Mapping[str, Any]) -> Iterator[str]:
    """The report for people: what became of the file, what was taken out, and the text, piece by piece, since there are
    texts of 200 MB."""
    yield _head(report)
    text = report["text"]
    if report["status"] == "ok":
        yield from (visible(text[start : start + PIECE_CHARS]) for start in range(0, len(text), PIECE_CHARS))
        yield "\n"


def _head(report: Mapping[str, Any]) -> str:
    source = one_line(report["source"])
    if report["status"] != "ok":
        return f"{source}: {report['status']} ({report['error_type']}): {one_line(report['error'])}"
    count = report["num_pages"]
    lines = [f"{source}: {count} page{'' if count == 1 else 's'}"]
    lines += [f"flagged: {', '.join(report['flags'])}"] if report["flags"] else []
    lines += [f"warning: {one_line(warning)}" for warning in report["warnings"]]
    reasons = Counter(removal["reason"] for removal in report["removed"])
    lines += [f"removed: {number} x {reason}" for reason, number in sorted(reasons.items())]
    return "\n".join((*lines, "", ""))


def path_text(path: Path) -> str:
    """A path in UTF-8, whatever the locale says that file names are in."""
    return os.fsencode(path).decode("utf-8", "replace")


def mended(text: str) -> str:
    """Without lone surrogates, which file names of other encodings bring."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)
