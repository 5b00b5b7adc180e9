"""Patterns that are compiled when they are first used."""

from __future__ import annotations

import re

import pytest

from qwen_batch.patterns import late


def test_a_pattern_is_compiled_when_it_is_first_used_and_once() -> None:
    broken = late("[")
    with pytest.raises(re.error):
        broken()
    word = late("[a-z]+", re.IGNORECASE)
    assert word() is word()
    assert word().fullmatch("Word")
