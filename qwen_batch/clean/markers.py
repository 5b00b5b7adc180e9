"""What the beginning and the end of a printed line tell: list items, clauses, sentences, code, columns."""

from __future__ import annotations

import re
import unicodedata

from qwen_batch.patterns import late

_CJK = (  # first and last of each range
    ("\u2e80", "\u31bf"),
    ("\u3200", "\u9fff"),
    ("\uf900", "\ufaff"),
    ("\ufe30", "\ufe4f"),
    ("\uff01", "\uff60"),
    ("\U00020000", "\U0003ffff"),
)
# Whatever runs from right to left, and more: finer sets take longer to compile.
_RTL = re.compile("[\u0590-\u08ff\ufb1d-\ufeff\U00010800-\U0001efff]")
_SHARED_PUNCTUATION = "“”‘’—–…·×"  # wide beside Chinese, narrow beside Latin
RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹"  # reading writes footnote marks and exponents so
COLUMN_GAP = "   "  # a gap between words too wide for a space; reading writes it so
TYPED_WORDS = 6  # of a line with a wide gap after a sentence, at least: pieces of rows are shorter

# Private characters are what symbol fonts call their bullets.
_SIGNS = "•●○◦▪▫■□◆◇♦◊►▶▸▹✓✔✗✘☐☑☒‣⁃∙❖➢➤➔※\uf020-\uf0ff"
_BULLET = re.compile(rf"[{_SIGNS}][\s\w(（“\"]|\[[x ]\]\s|[*–—·-]\s+\S|[oO]\s{{2,}}\S|[^\w\s]\s{{3}}\S")
_DIVISIONS = (
    "article|section|clause|chapter|schedule|exhibit|appendix|annex|part|art[.]|sec[.]",
    "artikel|abschnitt|anlage|anhang|kapitel",
)
_CLAUSES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("decimal", re.compile(r"\d{1,3}(?:\.\d{1,3})+\.?\s")),
    ("number", re.compile(r"\(?\d{1,3}(?:[.)]\s|\s?[、．]|\)(?=\w))")),
    ("letter", re.compile(r"\(?([a-zA-Z])\1?\)\s?|[A-Z]\.\s|[a-z]\.\s(?=\S)")),
    ("roman", re.compile(r"\(?(?:[ivxl]{1,7}|[IVXL]{1,7})[.)]\s?")),
    ("word", re.compile(rf"(?i:{'|'.join(_DIVISIONS)})\s+(?:\d|[IVXLC]+\b|[A-Z]\b)")),
    ("chinese_number", re.compile(r"\(\d{1,3}\)")),
)
_WIDE_CLAUSES = (  # all but the second tell themselves by their first character, and that by its first five
    ("chinese", late(r"第\s?[〇零一二三四五六七八九十百千\d.]+\s?[条條章节節款项項编編部]")),
    ("chinese_number", late(r"[一二三四五六七八九十]{1,3}\s?[、．.]|[（(][一二三四五六七八九十\d]{1,3}[)）]")),
    ("circled", late(r"[①-⑳⑴-⒇]")),
    ("paragraph_sign", late(r"§+\s?\d")),
)
_SENTENCE_END = re.compile(rf"[.!?;:。！？；：︰…][\"'”’»」』)）\]】〕]*(?:\d{{1,3}}|\[\d+\]|[{RAISED}]{{1,3}})?$")
_CODE_START = re.compile(r"[$#%>]\s|//|/\*|<[/?!a-zA-Z]|\||```|[-+]{3}\s|@@|\.\.\s")
_CODE_SIGNS = re.compile(r"[{}<>=$|\\#&*_^~`@]")
_NUMERIC = re.compile(r"[-–+(]?[$€£¥￥]?\d[\d,.]*[%)]?")
_DIGIT = re.compile(r"\d")
_MARK_WITH_GAP = re.compile(r"(?:[^\w\s]{1,2}|\(?\w{1,4}[.)]|\d+(?:\.\d+)+|\d{1,3})\s{3,}")  # of a list item
_BARE = re.compile(r"(\d{1,3})\s+[^\W\d]")  # a number without a dot
_LABEL = re.compile(r"[A-ZÄÖÜ][\w./'’&()-]*(?: [\w./'’&()-]+){0,4} ?:(?:\s|$)")
_HAN = "\u4e00", "\u9fff"  # the first and the last
_HAN_NAME = 10  # characters of a label before its colon
_CITATION = late(r"\(\d{1,3}\)[.,;]\s|\[\d{1,3}\][.,;]?\s")
_LONE = re.compile(r"[IVXLC]{1,6}\.?|[A-Z]\.?")
_TYPED_END = late(r"[.?!][\"'”’)\]]{0,2}$")
_GAP = late(r"\s{3,}")
_LEADING, MIN_LEADING = ".·…", 4
_LEADERS = re.compile(rf"(?:[{_LEADING}]\s?){{{MIN_LEADING},}}\s*(?:\d+|[ivxlc]+)?$")


def is_cjk(char: str) -> bool:
    """Whether a character is written without spaces around it: Chinese and Japanese, not Korean."""
    return char >= _CJK[0][0] and any(first <= char <= last for first, last in _CJK)


def joins_without_space(before: str, after: str) -> bool:
    """Whether two lines meet in Chinese or Japanese text."""
    wide = is_cjk(before), is_cjk(after)
    if any(wide) and (before in _SHARED_PUNCTUATION or after in _SHARED_PUNCTUATION):
        return True
    return any(wide)


def bullet(text: str) -> bool:
    return bool(_BULLET.match(text))


def clause_kind(text: str) -> str | None:
    """Kind of numbering that a line begins with: `1.2`, `(a)`, `第三条`, `一、` ..."""
    found = next((kind for kind, pattern in _CLAUSES if pattern.match(text)), None)
    if found or text[:5].isascii():
        return found
    return next((kind for kind, pattern in _WIDE_CLAUSES if pattern().match(text)), None)


def is_item_text(text: str) -> bool:
    """Whether a line begins a list item or a clause."""
    return bullet(text) or clause_kind(text) is not None


def is_citation(text: str) -> bool:
    """Whether a line begins with a number that ends the sentence before, as `(10). The samples` does."""
    return _CITATION().match(text) is not None


def follows_number(before: str, text: str) -> bool:
    """Whether two lines begin with a number without a dot, the second with the next one."""
    first, second = _BARE.match(before), _BARE.match(text)
    return first is not None and second is not None and int(second[1]) == int(first[1]) + 1


def is_label(text: str) -> bool:
    """Whether a line begins with a name and a colon, as in blocks of addresses and signatures: `Title: Director`."""
    return _is_han_label(text) if _HAN[0] <= text[:1] <= _HAN[1] else _LABEL.match(text) is not None


def _is_han_label(text: str) -> bool:
    """A pattern with all ideographs takes two milliseconds to compile."""
    name, colon, _ = text[: _HAN_NAME + 1].replace("：", ":").partition(":")
    return bool(colon) and all(_HAN[0] <= char <= _HAN[1] or char.isspace() or char in "（）" for char in name)


def is_lone_mark(text: str) -> bool:
    """Whether a line is a number or a letter by itself, as headings of opinions and outlines are: `II`, `B.`."""
    return _LONE.fullmatch(text) is not None


def ends_sentence(text: str) -> bool:
    return bool(_SENTENCE_END.search(text[-12:]))


def looks_like_code(text: str) -> bool:
    """Lines of programs, logs and rules, which stay as they are."""
    if _CODE_START.match(text) or text.endswith(("{", "}", "\\", ");", "*/")):
        return True
    return len(text) > 2 and len(_CODE_SIGNS.findall(text)) > 0.15 * len(text)


def has_columns(text: str) -> bool:
    """Whether a line has a wide gap other than the one after the mark of a list item."""
    return COLUMN_GAP in text and COLUMN_GAP in text[mark.end() if (mark := _MARK_WITH_GAP.match(text)) else 0 :]


def is_stretched(text: str) -> bool:
    """Whether wide gaps stand between single words, hardly any of them a number: so justified lines look."""
    if COLUMN_GAP not in text:
        return False
    words = text.split()
    gaps = len([piece for piece in text.split(COLUMN_GAP) if piece]) - 1
    return 2 * gaps >= len(words) - 1 and not any(_NUMERIC.fullmatch(word) for word in words)


def has_sentence_gaps(text: str) -> bool:
    """Whether wide gaps stand after the ends of sentences only, as typewritten lines have them."""
    if not has_columns(text) or len(text.split()) < TYPED_WORDS:
        return False
    return all(_TYPED_END().search(piece) for piece in _GAP().split(text)[:-1])


def is_tabular(text: str) -> bool:
    """A row of columns: wide gaps, leaders to a page number, or mostly numbers."""
    if has_columns(text) or _has_leaders(text[-60:]):
        return True
    if not _DIGIT.search(text):
        return False
    words = text.split()
    numbers = sum(bool(_NUMERIC.fullmatch(word)) for word in words) if len(words) < 60 else 0
    return numbers >= 2 and numbers >= 0.4 * len(words)


def _has_leaders(text: str) -> bool:
    """Whether a line ends with dots that lead to a page number. They are counted first, since hardly a line has any."""
    return sum(map(text.count, _LEADING)) >= MIN_LEADING and _LEADERS.search(text) is not None


def starts_lower(text: str) -> bool:
    """Whether a line begins in the middle of a sentence, as far as letters tell."""
    first = next((char for char in text if char.isalnum()), "")
    return first.islower()


def is_rtl(text: str) -> bool:
    """Whether most letters run from right to left."""
    if not _RTL.search(text, 0, 80):
        return False
    classes = [unicodedata.bidirectional(char) for char in text[:80] if char.isalpha()]
    return 2 * sum(name in ("R", "AL") for name in classes) > len(classes)


def display_width(text: str) -> int:
    """Columns on a terminal: two for a wide character."""
    if text.isascii():
        return len(text)
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)
