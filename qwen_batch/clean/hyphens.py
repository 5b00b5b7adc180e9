"""How the text of two lines is put together: with a space, without, and what becomes of a hyphen between them.

The document itself is the first dictionary: a word that stands undivided elsewhere in it is one word, one that stands
elsewhere with its hyphen keeps it. Lists of word forms are the second.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterable

from qwen_batch.clean.markers import joins_without_space
from qwen_batch.clean.words import Language, is_word, language_of
from qwen_batch.patterns import late

HYPHENS = "-\u2010\u2011"
_ENDS = tuple(HYPHENS)
# No words of their own; before a word that no list has together with them they keep it: multi-arch, mid-term.
PREFIXES = frozenset(("multi", "semi", "pseudo", "ultra", "anti", "mid", "intra"))
CONJUNCTIONS = frozenset(("and", "or", "und", "oder", "bzw", "sowie", "bis", "et", "ou", "to"))
# First parts that keep their hyphen, and first parts of words that are written as one; of English.
COMPOUNDING = frozenset(("self", "non", "cross", "quasi"))
# "co-" begins as many undivided words ("co-gent"); before these nouns of contracts it is a part of its own.
_PARTNERS = (
    "worker author owner founder tenant borrower defendant plaintiff director signatory insurer insured trustee "
    "debtor obligor licensee licensor applicant inventor creator chair"
)
PARTNERS = frozenset(_PARTNERS.split())
# Also written as one word, and known as one, but with their hyphen in contracts.
_TERMS = (
    "pay-day set-off buy-back buy-out carry-over know-how mark-up roll-over write-off write-down stand-by lock-up "
    "pay-off sell-off hold-back call-off break-up take-over hand-over"
)
TERMS = frozenset(_TERMS.split())
_NUMBERS = "one two three four five six seven eight nine twenty thirty forty fifty sixty seventy eighty"
NUMBERS = frozenset(_NUMBERS.split())
NOT_AFTER_NUMBERS = frozenset(("self", "teen", "teenth", "fold", "some", "een", "ness"))
_CLOSING = (
    "with in into an any under over out up down there some every what when where how who not can may for fore back "
    "after through your him her them inter here other like along mean further never none"
)
CLOSING = frozenset(_CLOSING.split())
_LINKING = "in to of the at by on and for up off a de la"
LINKING = frozenset(_LINKING.split())  # inner parts of long compounds
DASHES = f"{HYPHENS}–—"
MIN_COMMON = 4  # words of a document that tell its language
_WORD = re.compile(r"[^\W\d_]+(?:[-\u2010\u2011'’][^\W\d_]+)*")
_LAST = late(r"([^\W_]+(?:[-\u2010\u2011][^\W_]+)*)[-\u2010\u2011]$")
_FIRST = late(r"[^\W_]+(?:[-\u2010\u2011][^\W_]+)*")
_OPENING = "(“\"'‘„«$€£§"
_CLOSING_SIGNS = ".)”\"’'»%]"
_DOMAIN = "(?:com|org|net|gov|edu|info|int|mil|io|eu|de|uk|fr|it|nl|ch|at|cn|jp|us|au|ca)"
_REST = late(rf"{_DOMAIN}(?![^\W_])|[a-z0-9][\w.-]*/")  # of an address after a dot
_DOTTED = late(rf"\.(?:[\w-]+\.)*{_DOMAIN}(?![^\W_])")
_ADDRESS = re.compile(r"\S*(?:://|www\.|/|@|\\)\S*$")
_ENDINGS = "txt|pdf|docx?|xlsx?|csv|html?|xml|json|ya?ml|md|py|sh|c|conf|log|zip|gz|png|jpe?g"
_FILE_NAME = late(rf"[\w-]*\.(?:{_ENDINGS})(?!\w)")


class Vocabulary:
    """The words of a document, divided ones left out. They are counted when they are first asked for."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = lines

    @functools.cached_property
    def _counts(self) -> Counter[str]:
        counts: Counter[str] = Counter()
        whole: list[str] = []  # lines that neither begin nor end with a part of a word
        divided = False
        for line in self._lines:
            goes_on, divided = divided, line.endswith(_ENDS)
            if goes_on or divided:
                words = _words(line)[goes_on:]
                counts.update(words[:-1] if divided else words)
            else:
                whole.append(line)
        counts.update(_words("\n".join(whole)))
        counts.update({part: 1 for word in counts if "-" in word for part in word.split("-")})
        return counts

    @functools.cached_property
    def language(self) -> Language | None:
        """The language of the document, as far as its commonest words tell."""
        return language_of(self._counts, MIN_COMMON)

    def count(self, word: str) -> int:
        return self._counts[word.casefold()]

    def knows(self, word: str) -> bool:
        """Whether the word, or its other number (`day` and `days`), stands somewhere."""
        folded = word.casefold()
        return any(self._counts[form] for form in (folded, f"{folded}s", folded.removesuffix("s")))


def _words(text: str) -> list[str]:
    """Words as they are counted, whatever their case."""
    if text.isascii():
        return _WORD.findall(text.lower())
    return [word.casefold() for word in _WORD.findall(text.replace("\u2010", "-").replace("\u2011", "-"))]


def join_texts(before: str, after: str, vocabulary: Vocabulary) -> str:
    """Two lines of one paragraph as one."""
    before, after = before.rstrip(), after.lstrip()
    if not before or not after:
        return before + after
    glue, keep = glue_between(before, after, vocabulary)
    return before[:keep] + glue + after


def glue_between(before: str, after: str, vocabulary: Vocabulary) -> tuple[str, int]:
    """(what stands between, how many characters of `before` stay)."""
    if before[-1] in HYPHENS and (last := _LAST().search(before[-80:])):
        return _at_hyphen(last[1], before, after, vocabulary)
    if _is_closed(before[-2:], after[:2]) or _goes_on_in_address(before[-200:].split(" ")[-1], after):
        return "", len(before)
    return "" if joins_without_space(before[-1], after[0]) else " ", len(before)


def _is_closed(before: str, after: str) -> bool:
    """Whether a dash or a hyphen stands between two lines without a space: `2019–` and `2020`, `U.S.-` and `China`."""
    if before[-1] in DASHES and len(before) > 1:
        return (before[-2].isalnum() or before[-2] in _CLOSING_SIGNS) and (after[0].isalnum() or after[0] in _OPENING)
    return after[0] in "–—" and after[1:].isalnum() and not before[-1].isspace()


def _goes_on_in_address(token: str, after: str) -> bool:
    """Whether the next line begins within the address that a line ends with."""
    if not _ADDRESS.search(token):
        return False
    if token[-1] in "/-_=&?@#%" or token.endswith("www."):
        return True
    is_link = "://" in token or "www." in token or "@" in token
    return is_link and bool(_REST().match(after) if token[-1] == "." else after[0] in "/?&" or _DOTTED().match(after))


def _at_hyphen(left: str, before: str, after: str, vocabulary: Vocabulary) -> tuple[str, int]:
    first = _FIRST().match(after)
    keep, drop = ("", len(before)), ("", len(before) - 1)
    if first is None:
        return ("" if after[0] in "/,;.)" else " "), len(before)
    right = first[0]
    if right.casefold() in CONJUNCTIONS and vocabulary.count(f"{left}{right}") == 0:
        return " ", len(before)
    token = before[-200:].split(" ")[-1]
    if _ADDRESS.search(token) or token[0] in HYPHENS:  # the option of a command, too
        return keep
    head, _, tail = left.rpartition("-")
    is_inner = bool(head) and tail.casefold() not in LINKING
    whole = vocabulary.count(left + right) + (vocabulary.count(tail + right) if is_inner else 0)
    hyphened = vocabulary.count(f"{left}-{right}")
    if whole or hyphened:
        return drop if whole >= hyphened else keep
    near = Counter(f"{before[-200:]} {after[:200]}".casefold().split())
    language = language_of(near, least=1) or vocabulary.language
    if _FILE_NAME().match(after):
        return drop if language and is_word(left + right, language) else keep
    return keep if _is_compound(left, tail, right, vocabulary, language) else drop


def _is_compound(left: str, tail: str, right: str, vocabulary: Vocabulary, language: Language | None) -> bool:
    """Whether a hyphen belongs to the word, where the document says neither: rules first, then the words of the
    language, then whether the document knows both parts."""
    if right.isupper() and language and is_word(tail + right, language):
        return False
    if not right[0].islower() or (tail.isupper() and len(tail) > 1) or any(char.isdigit() for char in left + right):
        return True
    if len(tail) == 1 or ("-" in left and tail.casefold() in LINKING):  # e-mail, mother-in-law
        return True
    if "-" in left and vocabulary.count(tail) and vocabulary.count(right):
        return True
    if tail.casefold() in COMPOUNDING or (tail.casefold() == "co" and right.removesuffix("s") in PARTNERS):
        return True
    if f"{tail}-{right}".casefold().removesuffix("s") in TERMS:
        return True
    if tail.casefold() in NUMBERS and right not in NOT_AFTER_NUMBERS:
        return True
    if language and is_word(tail + right, language):
        return False
    if language == "en" and tail.casefold() in PREFIXES and len(right) > 2 and is_word(right.partition("-")[0], "en"):
        return True
    if min(len(tail), len(right)) <= 2 or tail.casefold() in CLOSING:
        return False
    if language == "en" and tail.islower() and is_word(tail, "en") and is_word(right.partition("-")[0], "en"):
        return True
    is_german_noun = language == "de" and not tail.islower()  # its second part would have a capital, too
    return not is_german_noun and vocabulary.knows(tail) and vocabulary.knows(right)
