"""Characters: one form for each, and none that cannot be seen.

NFC, not NFKC: NFKC would also turn m² into m2, ① into 1 and Chinese punctuation into ASCII. Only the characters that
stand for letters in disguise are taken apart: ligatures, full-width letters and digits, radicals used as ideographs,
Arabic letter shapes.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence

from qwen_batch.records import Line, Page, Removal, Table

REASON = "control_character"
MAX_NAMED = 8  # kinds of removed characters that a removal names

_DISGUISED = re.compile(
    "[\ufb00-\ufb06\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\u2f00-\u2fd5\u2e80-\u2ef3\ufb50-\ufdff\ufe70-\ufefc]"
)
_SPACES = re.compile("[\t\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]")
_SOFT_HYPHEN_AT_END = re.compile("\u00ad\\s*$")
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u200b\u200e\u200f\u202a-\u202e\u2028\u2029\u2060-\u2064\u2066-\u206f"
    "\ufeff\ufff9-\ufffb\ufffe\uffff\ud800-\udfff\U000e0000-\U000e007f]"
)
_PLAIN = "[\u0000-\u02ff\u2000-\u200b\u2010-\u2fff\u3000-\u9fff\uac00-\ud7a3\uff00-\uffef]"
# Joiners shape Arabic, Indic and emoji sequences; between other letters they only hide.
_JOINERS = frozenset("\u200c\u200d")


def normalise_text(text: str, removed: Counter[str] | None = None) -> str:
    """One line's text in its normal form; characters that are taken out are counted in `removed`."""
    if text.isascii() and text.isprintable():
        return text
    text = _SOFT_HYPHEN_AT_END.sub("-", text)
    text = _SPACES.sub(" ", text)
    for pattern in (_INVISIBLE, None if _JOINERS.isdisjoint(text) else _idle_joiner()):
        if pattern is not None:
            if removed is not None:
                removed.update("".join(pattern.findall(text)))
            text = pattern.sub("", text)
    text = _DISGUISED.sub(lambda match: unicodedata.normalize("NFKC", match[0]), text)
    return unicodedata.normalize("NFC", text)


@functools.cache
def _idle_joiner() -> re.Pattern[str]:
    """Takes three milliseconds to compile, and hardly a document has any."""
    return re.compile(f"(?:^|(?<={_PLAIN}))[\u200c\u200d]+|[\u200c\u200d]+(?={_PLAIN}|$)")


def normalise_pages(pages: Sequence[Page]) -> tuple[tuple[Page, ...], tuple[Removal, ...]]:
    """All lines and tables in their normal form; one removal a page names what was taken out."""
    done: list[Page] = []
    removals: list[Removal] = []
    for page in pages:
        removed: Counter[str] = Counter()
        lines = tuple(_normalise_line(line, removed) for line in page.lines)
        tables = tuple(_normalise_table(table) for table in page.tables)
        done.append(dataclasses.replace(page, lines=lines, tables=tables))
        if removed:
            removals.append(Removal(page.page_number, _named(removed), REASON))
    return tuple(done), tuple(removals)


def _normalise_line(line: Line, removed: Counter[str]) -> Line:
    text = normalise_text(line.text, removed)
    return line if text is line.text else dataclasses.replace(line, text=text)


def _normalise_table(table: Table) -> Table:
    return dataclasses.replace(table, rows=tuple(tuple(_normalise_cell(cell) for cell in row) for row in table.rows))


def _normalise_cell(cell: str) -> str:
    return "\n".join(normalise_text(line) for line in cell.split("\n"))


def _named(removed: Counter[str]) -> str:
    """`U+200B x3, U+0007 x1`: the characters themselves would not show."""
    named = [f"U+{ord(char):04X} x{count}" for char, count in sorted(removed.items())]
    return ", ".join(named[:MAX_NAMED]) + (" ..." if len(named) > MAX_NAMED else "")
