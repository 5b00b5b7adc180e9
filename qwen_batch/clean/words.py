"""Word forms of English and German, where a document's own words say nothing.

The lists are those of the package pyspellchecker (MIT), one JSON object a language, a word a line in the order of
code points. They are not parsed: a language is unpacked when the first word of it is asked for (English 12 ms and 3 MB,
German 23 ms and 7 MB; parsed 60 and 190 ms, 20 and 50 MB), and words are looked for by bisection.
"""

from __future__ import annotations

import functools
from collections import Counter
from typing import Literal

Language = Literal["en", "de"]
LANGUAGES: tuple[Language, ...] = ("en", "de")
# The commonest words of each, none of which the other has.
_ENGLISH = "the of and to for that with this be are by it or which from shall"
_GERMAN = "der und das den ist von nicht dem ein eine mit auf für im zu wird sich oder"
COMMON: dict[Language, frozenset[str]] = {"en": frozenset(_ENGLISH.split()), "de": frozenset(_GERMAN.split())}


def language_of(counts: Counter[str], least: int) -> Language | None:
    """The language of which more of the commonest words are there, `least` at least; None where that does not tell."""
    english, german = (sum(counts[word] for word in COMMON[language]) for language in LANGUAGES)
    if english == german or max(english, german) < least:
        return None
    return "en" if english > german else "de"


def is_word(word: str, language: Language) -> bool:
    """Whether the list holds this form, in any case."""
    data = unpacked(language)
    wanted = f'"{word.lower()}"'.encode()
    low, high = 2, len(data)  # after the brace
    while low < high:
        start = data.rfind(b"\n", 0, (low + high) // 2) + 1
        end = data.find(b":", start)
        if end < 0 or data[start:end] >= wanted:
            high = min(start, high - 1)
        else:
            low = data.find(b"\n", end) + 1 or len(data)
    start = data.rfind(b"\n", 0, low) + 1
    return data.startswith(wanted + b":", start)


@functools.cache
def unpacked(language: Language) -> bytes:
    """The words of a language and their numbers, each line `"word": number,`; braces around them."""
    import zlib
    from importlib.util import find_spec
    from pathlib import Path

    spec = find_spec("spellchecker")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("pyspellchecker is missing: pip install pyspellchecker")
    packed = (Path(spec.origin).parent / "resources" / f"{language}.json.gz").read_bytes()
    size = int.from_bytes(packed[-4:], "little")  # as gzip files end; a buffer that grows takes twice the memory
    return zlib.decompress(packed, wbits=31, bufsize=max(size, 1))
