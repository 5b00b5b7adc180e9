"""Places at which a text may be parted without changing its tokens: the ids of both sides joined are the text's.

Byte-level tokenizers part a text by a pattern before they merge anything. In the patterns that are known here letters
are followed by letters alone, and nothing looks back: where a letter stands before a space or a mark, one match ends
and the next begins, whatever else the text says.
"""

from __future__ import annotations

import json
import re
from typing import Any, cast

from tokenizers import AddedToken, Tokenizer
from tokenizers.models import BPE
from tokenizers.normalizers import Normalizer
from tokenizers.pre_tokenizers import PreTokenizer

# Alphabets that have had the same letters for decades: what is a letter to Python must be one to the tokenizer.
_LETTER = "A-Za-zÀ-ÖØ-öø-ʯΑ-ΡΣ-Ωα-ωЁА-яёא-תء-غف-يぁ-ゔァ-ヺ一-龥가-힣"
SEAM = re.compile(rf"(?<=[{_LETTER}])(?=[ \n,.;:!?()，。；：！？、（）])")

_CONTRACTIONS = ("(?i:'s|'t|'re|'ve|'m|'ll|'d)", "'s|'t|'re|'ve|'m|'ll|'d")
_LETTERS = (r"[^\r\n\p{L}\p{N}]?\p{L}+", r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+", r" ?\p{L}+")
_OTHERS = {
    r"\p{N}",
    r"\p{N}{1,3}",
    r" ?\p{N}+",
    r" ?[^\s\p{L}\p{N}]+",
    r" ?[^\s\p{L}\p{N}]+[\r\n]*",
    r" ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*",
    r"\s*[\r\n]+",
    r"\s+(?!\S)",
    r"\s+",
}


def has_seams(tokenizer: Tokenizer) -> bool:
    """Whether SEAM holds for this tokenizer; False where that is not certain."""
    steps = _flat(_state_of(tokenizer.pre_tokenizer))
    normalizer = _state_of(tokenizer.normalizer)
    return (
        isinstance(tokenizer.model, BPE)
        and not tokenizer.model.dropout
        and (normalizer is None or normalizer["type"] == "NFC")
        and all(map(_is_known, steps))
        and any(map(_parts_letters, steps))
        and all(map(_is_local, tokenizer.get_added_tokens_decoder().values()))
    )


def _state_of(component: PreTokenizer | Normalizer | None) -> dict[str, Any] | None:
    """As tokenizer.json has it."""
    return None if component is None else cast("dict[str, Any]", json.loads(component.__getstate__()))


def _flat(step: dict[str, Any] | None) -> list[dict[str, Any]]:
    if step is None:
        return []
    return [inner for each in step["pretokenizers"] for inner in _flat(each)] if step["type"] == "Sequence" else [step]


def _is_known(step: dict[str, Any]) -> bool:
    if step["type"] == "ByteLevel":
        return not step["add_prefix_space"]
    return step["type"] == "Digits" or (step["type"] == "Split" and _parts_letters(step))


def _parts_letters(step: dict[str, Any]) -> bool:
    if step["type"] == "ByteLevel":  # by the pattern of GPT-2
        return bool(step["use_regex"])
    if step["type"] != "Split" or step["behavior"] != "Isolated" or step["invert"]:
        return False
    return _is_known_pattern(step["pattern"].get("Regex", ""))


def _is_known_pattern(pattern: str) -> bool:
    for contractions in _CONTRACTIONS:
        pattern = pattern.removeprefix(contractions + "|")
    alternatives = set(pattern.split("|"))
    return not alternatives.isdisjoint(_LETTERS) and alternatives <= _OTHERS.union(_LETTERS)


def _is_local(added: AddedToken) -> bool:
    """Whether an added token looks at nothing around it, and no seam is within it."""
    return not (added.single_word or added.lstrip or added.rstrip or SEAM.search(added.content))
