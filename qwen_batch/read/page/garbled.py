"""Text layers that say nothing: what a page shows is text, but its font names other characters, or none.

Wrong tables of a font give boxes, characters without a name, letters shifted in the alphabet, arbitrary Chinese ones,
or signs in the order in which a font's letters were first used. Such a page is treated like a scan.

Measured (2026-11-30) on 1,100 pages of the shared corpus and the sample data, 29,000 pieces of program messages in 105
languages in Latin script, and 21,000 of source code and data: none but binary files is taken for garbled. A page scores
at least -9.0 bits a pair of letters, a message -9.4, code of 60 words and more -10.9 (lists of processor instructions,
of 20 to 40 words, -11.9), and no shift of the alphabet makes a language of any of them. Shifted, a page scores -9.8 at
best, and 1.6 more when shifted back; with letters exchanged at random, -11.1 in the middle. Of the distinct Chinese
characters of a page 99 % are among the commonest, of arbitrary ones 34 %. Fonts that are numbered by first use give 8
kinds and more of the signs that are rare in text, a fifth to a half of all, and few letters; code has them beside many.
Found are 205 of 206 shifted pages, all of arbitrary Chinese, half of those with exchanged letters, 60 % of those with
numbered ones. Of 11,400 pieces of pages, messages and code with 15 to 19 words none is taken for shifted, of 2,858 that
were shifted 2,287 are.
"""

from __future__ import annotations

import functools
import operator
import re
import unicodedata
from collections import Counter
from collections.abc import Set as AbstractSet

from qwen_batch.patterns import late

_BOXES = "\ufffd\u25a1\u25a0\u53e3"  # stand for characters that a font does not name
_PRIVATE = late("[\ue000-\uf8ff\x00-\x1f]")  # of private meaning; controls
MIN_CHARS = 20
MAX_MEANINGLESS = 0.3
MIN_WORDS, MAX_WORDS = 20, 120  # distinct ones, of three letters or more, that are looked at
LIKELY, UNLIKELY = -9.0, -9.5  # bits a pair of letters
BETTER = 1.4  # bits a pair that a shift of the alphabet gains
FEW_WORDS, FEW_LIKELY, FEW_BETTER = 15, -8.5, 2.0  # the same for fewer words, of which a shift alone tells
IMPOSSIBLE = -10.9
MANY_WORDS = 60  # that may be called impossible without a better shift
OFTEN, OFTEN_SHARE = 5, 0.08  # of the words: what the commonest few make up
SHORT, LONG = 5, 7  # letters; sequences of genes and codes have words of one length
SHORT_SHARE, LONG_SHARE = 0.1, 0.1
MIN_HAN = 20  # distinct
COMMON_HAN = 0.7
MIN_SIGNS = 150
ONE_SIGN = 0.45  # of all signs
SIGN_SHARE, LETTER_SHARE, SIGN_KINDS = 0.22, 0.3, 8
_SIGNS = frozenset("!\"#&'*+/:;<=>?@\\^`{|}~[]")
_WORD = re.compile(r"(?<!\w)[a-z]{3,}(?!\w)")
_ANY_WORD = re.compile(r"[^\W\d_]+")
_HAN = "\u4e00", "\u9fff"  # the first and the last
# Where the commonest characters stand in the standards of simplified and traditional Chinese and of Japanese: the first
# bytes of their first levels.
_COMMON_BYTES = (("gb2312", 0xB0, 0xD7), ("big5", 0xA4, 0xC6), ("euc_jp", 0xB0, 0xCF))
# How often one letter follows another, the mean of 31 languages in Latin script without their accents (from the counts
# that come with langdetect): `a` is a share of 2 ** -5 of all pairs, each further letter half a bit less. Rows are
# for the first of a pair, a blank and a to z; columns for the second.
_PAIRS = (
    "wdffdegggegefeefdlgdegfgoii",
    "bhjigllijhkhegcmjqeffiimnjk",
    "lhqtuhwwwiswlwrjwwjqujwtwmw",
    "jhwqwhwwghqlovohwwnpmlwwwoo",
    "ffrvldutmfqqoqmhvwkmpjqqwnn",
    "bjkihimililifhdmksdefkknnmk",
    "kkwwvkowwjtwowuiwwksomwvwqw",
    "ghtwrhwoniprlqnjuwjnpkvpwmw",
    "hgwwsgwwwirqprpiwtntlkrqwnw",
    "dglhifmimkjhghdhkqheglkprlk",
    "lhwwthwwwkwswtpkwwwotktwwww",
    "hfvsvhwwphtolnqhwwklkirpwmw",
    "fenqlfqorfnmhlnhqwvkkiorwlt",
    "gfkusftqthpqpmpikwqnpjwpwpv",
    "ceqjgfofmfmlorkgwwqhgkpqwjo",
    "emkjhmkjnlkjggejjufgjjilupl",
    "lgwtwhvunitwlwthnwhonkwvvsw",
    "uqwwwqwwwrwwwwwswwwwwkwwwww",
    "eemmjeokoepkmkkfouliiimpwln",
    "dgpjrfrqjfphlmnhjvpjeinqwml",
    "eepuwetsifqpnqngvwhkjhnpwlr",
    "fkllkjqloknliigmluhhjlnqqqm",
    "jgwvvgwwwhtupwnjwwppvnwwwns",
    "lhwuvkwwtkwwswomwwrrwswwwmw",
    "nnwwvqwwwpwwwwwuuwwwsswwwww",
    "giqmmlpqrnsonmklqwmlopqqwut",
    "kjrtpjwstjvrqqmltwtrpnqswos",
)
_LETTERS = " abcdefghijklmnopqrstuvwxyz"
_BITS = {
    first + second: -5 - 0.5 * (ord(_PAIRS[row][column]) - ord("a"))
    for row, first in enumerate(_LETTERS)
    for column, second in enumerate(_LETTERS)
}


def is_garbled(text: str, num_unnamed: int = 0) -> bool:
    """Whether a page's text layer is none. `num_unnamed`: characters beside it for which its fonts have no name."""
    shown = "".join(text.split())
    if len(shown) + num_unnamed < MIN_CHARS:
        return False
    kinds = frozenset(shown)
    if _num_meaningless(shown, kinds) + num_unnamed > MAX_MEANINGLESS * (len(shown) + num_unnamed):
        return True
    return _is_rare_han(kinds) or _are_numbered_signs(shown, kinds) or _is_no_language(text)


def _num_meaningless(text: str, kinds: frozenset[str]) -> int:
    num_private = 0 if "".join(kinds).isprintable() else len(_PRIVATE().findall(text))
    return sum(map(text.count, kinds.intersection(_BOXES))) + num_private


def bits_of(text: str) -> float | None:
    """How likely the words of a text are in some language in Latin letters, in bits a pair of letters (LIKELY,
    UNLIKELY); None: there are none of three letters or more."""
    words = {match[0] for match in _WORD.finditer(_plain(text))}
    return _bits(words) if words else None


def _is_rare_han(kinds: AbstractSet[str]) -> bool:
    """Whether most of the Chinese characters are such as hardly anybody uses."""
    han = [char for char in kinds if _HAN[0] <= char <= _HAN[1]]
    return len(han) >= MIN_HAN and sum(map(_is_common, han)) < COMMON_HAN * len(han)


def _is_common(char: str) -> bool:
    for encoding, first, last in _COMMON_BYTES:
        code = char.encode(encoding, "ignore")
        if len(code) == 2 and first <= code[0] <= last:
            return True
    return False


def _are_numbered_signs(text: str, kinds: AbstractSet[str]) -> bool:
    """Whether letters were given the numbers from 33 on, as they came."""
    signs = _SIGNS & kinds
    if len(text) < MIN_SIGNS or len(signs) < SIGN_KINDS:
        return False
    counts = list(map(text.count, signs))
    if max(counts) > ONE_SIGN * sum(counts):
        return False
    return sum(counts) > SIGN_SHARE * len(text) and sum(map(str.isalpha, text)) <= LETTER_SHARE * len(text)


def _is_no_language(text: str) -> bool:
    """Whether words in Latin letters are of no language: those of another alphabet, or of none."""
    words = _first_words(_plain(text))
    if len(words) < FEW_WORDS or (bits := _bits(words)) > UNLIKELY or not _have_many_lengths(words):
        return False
    if len(words) >= MANY_WORDS and bits < IMPOSSIBLE and _says_some_often(text):
        return True
    likely, better = (LIKELY, BETTER) if len(words) >= MIN_WORDS else (FEW_LIKELY, FEW_BETTER)
    return max(_bits({_shifted(word, step) for word in words}) for step in range(1, 26)) >= max(likely, bits + better)


def _first_words(text: str) -> set[str]:
    words: set[str] = set()
    for match in _WORD.finditer(text):
        words.add(match[0])
        if len(words) == MAX_WORDS:
            break
    return words


def _plain(text: str) -> str:
    """In small letters without accents."""
    if text.isascii():
        return text.lower()
    plain = unicodedata.normalize("NFD", text.lower())
    for mark in filter(unicodedata.combining, set(plain)):
        plain = plain.replace(mark, "")
    return plain


def _have_many_lengths(words: AbstractSet[str]) -> bool:
    short, long = sum(len(word) <= SHORT for word in words), sum(len(word) >= LONG for word in words)
    return short >= SHORT_SHARE * len(words) and long >= LONG_SHARE * len(words)


def _says_some_often(text: str) -> bool:
    """Whether some words come again and again, as those for `the` and `of` do in a text, but not in a list."""
    counts = Counter(_ANY_WORD.findall(text)).most_common()
    return sum(count for _, count in counts[:OFTEN]) >= OFTEN_SHARE * sum(count for _, count in counts)


def _bits(words: AbstractSet[str]) -> float:
    """Mean logarithm of how often the pairs of letters in some words are seen."""
    return sum(map(_sum_of_bits, words)) / (sum(map(len, words)) + len(words))


@functools.lru_cache(maxsize=8192)
def _sum_of_bits(word: str) -> float:
    """Of a word between blanks; whole halves of bits, so that sums are exact."""
    line = f" {word} "
    return sum(map(_BITS.__getitem__, map(operator.add, line, line[1:])))


def _shifted(word: str, step: int) -> str:
    return "".join(chr((ord(char) - ord("a") + step) % 26 + ord("a")) for char in word)
