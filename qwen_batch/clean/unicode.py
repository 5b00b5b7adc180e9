"""Characters: one form for each, and none that cannot be seen.

NFC, not NFKC: NFKC would also turn m² into m2, ① into 1 and Chinese punctuation into ASCII. Only the characters that
stand for letters in disguise are taken apart: ligatures, full-width letters and digits with the points, commas and
percent signs of such numbers, half-width katakana, radicals used as ideographs, Arabic letter shapes. UTF-8 that a
program before us took for Windows-1252 (`schÃ¶n`) is decoded again, by ftfy, which leaves alone what may be meant.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

from qwen_batch.clean.fences import fenced
from qwen_batch.patterns import late
from qwen_batch.records import Line, Page, Removal, Table

REASON = "control_character"
MISREAD = "encoding"  # what stood there before it was decoded again
MAX_NAMED = 8  # kinds of characters that a removal names

_DISGUISED = re.compile(
    "[\ufb00-\ufb06\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\uff66-\uff9f\u2f00-\u2fd5\u2e80-\u2ef3\ufb50-\ufdff\ufe70-\ufefc]"
    "|(?<=[\uff10-\uff19])(?:\uff0e(?=[\uff10-\uff19])|\uff0c(?=[\uff10-\uff19]{3}(?![\uff10-\uff19]))|\uff05)"
)
_SPACES = re.compile("[\t\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]")
# What ends a line within what its format takes for one. On a printed page they stand for letters without a name.
_BREAKS = late(" ?[\x0b\x0c\x85\u2028\u2029]+ ?")
_SOFT_HYPHEN_AT_END = re.compile("\u00ad\\s*$")
_INVISIBLE = late(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u200b\u200e\u200f\u202a-\u202e\u2028\u2029\u2060-\u2064\u2066-\u206f"
    "\ufeff\ufff9-\ufffb\ufffe\uffff\ud800-\udfff\U000e0000-\U000e007f]"
)
MIN_APART, SHARE_APART = 3, 4  # pairs of characters with a space between them: at least; for each pair without one
_FIRST_WIDE = "\u3040"
_WIDE_RANGES = ("\u3040", "\u30ff"), ("\u3400", "\u9fff"), ("\uf900", "\ufaff")  # the first and the last
_WIDE = "".join(f"{first}-{last}" for first, last in _WIDE_RANGES)
_SIDES = f"{_WIDE}\u3000-\u303f\uff00-\uff65\u2018-\u201d\u2026\u2014\u00b7"  # wide characters and signs
_TOGETHER = late(f"[{_WIDE}](?=[{_WIDE}])")
_TRACKED = late(f"(?<=[{_SIDES}]) (?=[{_SIDES}])|(?<=[{_SIDES}] [0-9]) (?=[0-9](?: |$))")  # 6 ms to compile
_PLAIN = "[\u0000-\u02ff\u2000-\u200b\u2010-\u2fff\u3000-\u9fff\uac00-\ud7a3\uff00-\uffef]"
# Joiners shape Arabic, Indic and emoji sequences; between other letters they only hide.
_JOINERS = frozenset("\u200c\u200d")
_IDLE_JOINER = late(f"(?:^|(?<={_PLAIN}))[\u200c\u200d]+|[\u200c\u200d]+(?={_PLAIN}|$)")

# The second and later bytes of a character in UTF-8, as Latin-1 and Windows-1252 show them.
_LATER = (
    "[\u0080-\u00bf\u0152\u0153\u0160\u0161\u0178\u017d\u017e\u0192\u02c6\u02dc\u2013\u2014\u2018-\u201a\u201c-\u201e"
    "\u2020-\u2022\u2026\u2030\u2039\u203a\u20ac\u2122]"
)
_MEANT = "(?<=[A-Z\u00c0-\u00de])[\u00c2\u00c3][\u00a0\u2018\u2019\u201c\u201d]"  # IRMÃ” ends a quotation
_MAY_BE_MISREAD = re.compile(r"[\u00c2-\u00f4](?![\x00-\x7f])")
_MISREAD = late(
    f"(?:(?!{_MEANT})(?:[\u00c2-\u00df]{_LATER}|[\u00e0-\u00ef]{_LATER}{{2}}|[\u00f0-\u00f4]{_LATER}{{3}}))+"
)


def decode_again(text: str, misread: list[str]) -> str:
    """One line's text without UTF-8 that was taken for Windows-1252; what stood there is added to `misread`."""
    if text.isascii() or not _MAY_BE_MISREAD.search(text) or not _MISREAD().search(text):
        return text
    from ftfy import fix_encoding  # hardly a document needs it

    def decode(match: re.Match[str]) -> str:
        meant = fix_encoding(match[0])
        if meant != match[0]:
            misread.append(match[0])
        return meant

    return _MISREAD().sub(decode, text)


def without_tracking(text: str) -> str:
    """Chinese and Japanese text without the spaces that wide setting leaves between all its characters."""
    if text.count(" ") < MIN_APART or max(text) < _FIRST_WIDE:
        return text
    pieces = text.split(" ")
    num_apart = sum(_is_wide(before[-1:]) and _is_wide(after[:1]) for before, after in pairwise(pieces))
    is_tracked = num_apart >= MIN_APART and num_apart >= SHARE_APART * len(_TOGETHER().findall(text))
    return _TRACKED().sub("", text) if is_tracked else text


def _is_wide(char: str) -> bool:
    return any(first <= char <= last for first, last in _WIDE_RANGES)


def normalise_text(text: str, removed: Counter[str] | None = None) -> str:
    """One line's text in its normal form; characters that are taken out are counted in `removed`."""
    if text.isascii() and text.isprintable():
        return text
    text = _SOFT_HYPHEN_AT_END.sub("-", text)
    text = _SPACES.sub(" ", text)
    if not text.isprintable():
        text = _without_invisible(text, removed)
    text = _DISGUISED.sub(lambda match: unicodedata.normalize("NFKC", match[0]), text)
    return without_tracking(unicodedata.normalize("NFC", text))


def _without_invisible(text: str, removed: Counter[str] | None) -> str:
    for pattern in (_INVISIBLE(), None if _JOINERS.isdisjoint(text) else _IDLE_JOINER()):
        if pattern is not None and (found := pattern.findall(text)):
            if removed is not None:
                removed.update("".join(found))
            text = pattern.sub("", text)
    return text


def normalise_pages(pages: Sequence[Page]) -> tuple[tuple[Page, ...], tuple[Removal, ...]]:
    """All lines and tables in their normal form; removals of a page name what was taken out or was misread."""
    done: list[Page] = []
    removals: list[Removal] = []
    for page in pages:
        removed: Counter[str] = Counter()
        misread: list[str] = []
        fences = _fences(page)
        lines = tuple(
            _normalise_line(line, removed, misread) if number not in fences else _visible(line, removed)
            for number, line in enumerate(page.lines)
        )
        tables = tuple(_normalise_table(table, misread) for table in page.tables)
        done.append(page._replace(lines=lines, tables=tables))
        if removed:
            removals.append(Removal(page.page_number, _named(removed), REASON))
        if misread:
            removals.append(Removal(page.page_number, _shown(misread), MISREAD))
    return tuple(done), tuple(removals)


def _fences(page: Page) -> frozenset[int]:
    """The lines of a text file that stand between fences."""
    if page.paragraphs or all(line.bbox is not None for line in page.lines):
        return frozenset()
    return frozenset(number for number, inside in enumerate(fenced(page.lines)) if inside)


def _visible(line: Line, removed: Counter[str]) -> Line:
    """Code as it is, but for characters that cannot be seen."""
    if line.text.isprintable():
        return line
    removed.update("".join(_INVISIBLE().findall(line.text)))
    return line._replace(text=_INVISIBLE().sub("", line.text))


def _normalise_line(line: Line, removed: Counter[str], misread: list[str]) -> Line:
    text = decode_again(line.text, misread)
    if line.bbox is None:
        text = _without_breaks(text)
        start = len(text) - len(text.lstrip(" \t"))
        if "\t" in text[:start]:  # what follows may be code
            return line._replace(text=text[:start] + normalise_text(text[start:], removed))
    text = normalise_text(text, removed)
    return line if text is line.text else line._replace(text=text)


def _without_breaks(text: str) -> str:
    """Words on both sides of a line break stay apart."""
    return text if text.isprintable() else _BREAKS().sub(" ", text)


def _normalise_table(table: Table, misread: list[str]) -> Table:
    printed = table.bbox is not None
    rows = tuple(tuple(_normalise_cell(cell, misread, printed) for cell in row) for row in table.rows)
    return table._replace(rows=rows)


def _normalise_cell(cell: str, misread: list[str], printed: bool) -> str:
    lines = [decode_again(line, misread) for line in cell.split("\n")]
    return "\n".join(normalise_text(line if printed else _without_breaks(line)) for line in lines)


def _named(removed: Counter[str]) -> str:
    """`U+200B x3, U+0007 x1`: the characters themselves would not show."""
    return _first(f"U+{ord(char):04X} x{count}" for char, count in sorted(removed.items()))


def _shown(misread: list[str]) -> str:
    """`Ã¶ x2, ÃŸ x1`, without characters that could not be shown."""
    return _first(f"{_INVISIBLE().sub('', text)} x{count}" for text, count in sorted(Counter(misread).items()))


def _first(names: Iterable[str]) -> str:
    named = list(names)
    return ", ".join(named[:MAX_NAMED]) + (" ..." if len(named) > MAX_NAMED else "")
