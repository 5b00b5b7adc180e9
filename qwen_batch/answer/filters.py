"""Words and patterns that an answer must not hold.

Text is compared folded: upper case, full-width and compatibility forms are as their plain ones, and characters without
a width (soft hyphens, zero-width spaces) are not there. A word that begins or ends with a letter or digit of a script
that writes spaces stands for itself alone ("ass" is not in "assess"); Chinese, Japanese and Thai have no such borders,
and a line end between two of their characters counts for nothing. Patterns are Python regular expressions over the
folded text, whatever the case.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from qwen_batch.errors import DocumentError
from qwen_batch.records import Answer, Completion

Action = Literal["flag", "redact", "fail"]

REDACTED = "[redacted]"
_MARKER = re.compile(re.escape(REDACTED))
_THINK_TAG = re.compile("(</?think>)")
FLAG_PREFIX = "filter:"
# Chinese and Japanese with their extensions, Thai, Lao, Khmer, Burmese: written without spaces.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
# A character and the marks upon it, half-width voicing marks among them.
_CLUSTER = re.compile("(?s:.)[\u0300-\u036f\u3099\u309a\uff9e\uff9f]*")
_IS_UNSPACED = re.compile(f"[{_UNSPACED}]")


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing to look for."""

    name: str  # the word or the pattern, as the job has it
    pattern: re.Pattern[str]  # over folded text


@dataclass(frozen=True, slots=True)
class Folded:
    """A text for comparison, and where its characters come from."""

    text: str
    starts: Sequence[int]  # of each character: where in the original it begins
    ends: Sequence[int]


class AnswerFilter:
    """Applies rules to completions, before they are kept, and to answers and thoughts."""

    def __init__(self, words: Sequence[str], patterns: Sequence[str], action: Action) -> None:
        self._rules = (*map(_word_rule, filter(str.strip, words)), *map(_pattern_rule, patterns))
        self._action = action

    def seal(self, completion: Completion) -> Completion:
        """The completion as it may be kept and go on: what is to be redacted is gone from here on, tokens included."""
        if self._action != "redact" or not self._rules:
            return completion
        pieces = _THINK_TAG.split(completion.text)  # every other one is a tag, which is no text of the model's
        found = [[] if index % 2 else self._find(piece) for index, piece in enumerate(pieces)]
        hits = {name: None for spans in found for _, _, name in spans}
        if not hits:
            return completion
        return replace(
            completion,
            text="".join(_redact(piece, spans) for piece, spans in zip(pieces, found, strict=True)),
            token_ids=(-1,) * len(completion.token_ids),
            redacted=tuple(dict.fromkeys((*completion.redacted, *hits))),
        )

    def accepts(self, completion: Completion) -> bool:
        """Whether a kept completion lacks nothing that would not be redacted today."""
        names = {rule.name for rule in self._rules} if self._action == "redact" else set()
        return names.issuperset(completion.redacted)

    def apply(self, answer: Answer, redacted: Sequence[str] = ()) -> Answer:
        """The answer with a flag for each rule that it breaks, and without those places when they are redacted.

        redacted: rules that completions broke which led to it. Raises DocumentError when such an answer is to fail.
        """
        if not self._rules:  # folding texts costs as much as all else that is done with an answer
            return answer
        texts = [answer.text, answer.thinking or ""]
        found = [self._find(text) for text in texts]
        hits = dict.fromkeys((*redacted, *(name for spans in found for _, _, name in spans)))
        if not hits:
            return answer
        if self._action == "fail":
            raise DocumentError("filtered", f"the answer breaks {len(hits)} rules of filter: {', '.join(hits)}")
        flags = (*answer.flags, *(f"{FLAG_PREFIX}{name}" for name in hits))
        if self._action == "flag":
            return replace(answer, flags=flags)
        text, thinking = (_redact(text, spans) for text, spans in zip(texts, found, strict=True))
        return replace(answer, text=text, thinking=thinking or None, flags=flags)

    def _find(self, text: str) -> list[tuple[int, int, str]]:
        """(start, end, rule) in the original text. What was redacted before is left alone."""
        folded = fold(text)
        markers = [match.span() for match in _MARKER.finditer(text)] if self._action == "redact" else []
        spans = [
            (folded.starts[match.start()], folded.ends[match.end() - 1], rule.name)
            for rule in self._rules
            for match in rule.pattern.finditer(folded.text)
            if match.end() > match.start()
        ]
        return [span for span in spans if not any(start <= span[0] and span[1] <= end for start, end in markers)]


def fold(text: str) -> Folded:
    """The text as it is compared."""
    characters: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    for match in _CLUSTER.finditer(text):
        plain = _fold_cluster(match[0])
        characters.append(plain)
        starts += [match.start()] * len(plain)
        ends += [match.end()] * len(plain)
    return Folded("".join(characters), starts, ends)


def _fold_cluster(cluster: str) -> str:
    if cluster.isascii():
        return cluster.lower()
    visible = "".join(character for character in cluster if unicodedata.category(character) != "Cf")
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", visible).casefold())


def _word_rule(word: str) -> Rule:
    parts = fold(word.strip()).text
    pattern = ""
    for index, character in enumerate(parts):
        if character.isspace():
            pattern += "" if parts[index - 1].isspace() else r"\s+"
            continue
        if index and _IS_UNSPACED.match(character) and _IS_UNSPACED.match(parts[index - 1]):
            pattern += r"\s*"
        pattern += re.escape(character)
    start = r"(?<!\w)" if _has_border(parts[0]) else ""
    end = r"(?!\w)" if _has_border(parts[-1]) else ""
    if start or end:  # beside Chinese text a Latin word stands alone too
        start, end = start.replace(r"\w", f"[^\\W{_UNSPACED}]"), end.replace(r"\w", f"[^\\W{_UNSPACED}]")
    return Rule(word.strip(), re.compile(f"{start}{pattern}{end}"))


def _has_border(character: str) -> bool:
    return (character.isalnum() or character == "_") and not _IS_UNSPACED.match(character)


def _pattern_rule(pattern: str) -> Rule:
    return Rule(pattern, re.compile(pattern, re.IGNORECASE))


def _redact(text: str, spans: Sequence[tuple[int, int, str]]) -> str:
    """The text with each stretch of touching spans replaced once."""
    pieces: list[str] = []
    at = 0
    for start, end, _ in sorted(spans):
        if start > at or not pieces:
            pieces += [text[at:start], REDACTED]
        at = max(at, end)
    return "".join([*pieces, text[at:]])
