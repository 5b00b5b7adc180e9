"""Code in text files: between fences, as Markdown has them, and blocks of lines that look like statements."""

from __future__ import annotations

import re
from collections.abc import Sequence

from qwen_batch.clean.markers import looks_like_code
from qwen_batch.records import Line

TAB = 4  # columns that a tab takes at the beginning of a line, for what counts them
MIN_STEP = 2  # columns by which lines of a block are indented at least, one more than another
STATEMENTS = 0.5  # of the lines of a block
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_STATEMENT = (  # compiled where it is wanted: most files have no such text
    r"(?:def|class|if|elif|else|for|while|try|except|with|switch|function|fn|func)\b.*[:{]$"
    r"|(?:return|import|raise|yield|var|let|const|int|static)\b.*[;)\w\]]$"
    r"|[\w.\[\]]+\s*[-+*/]?=\s*\S|\w[\w.]*\(.*\);?$"
)


def code_lines(lines: Sequence[Line]) -> list[bool]:
    """Whether each line of a text file is code."""
    inside = fenced(lines)
    start = 0
    for number in range(len(lines) + 1):
        if number < len(lines) and not inside[number] and lines[number].text.strip():
            continue
        if number - start > 1 and _is_code([line.text for line in lines[start:number]]):
            inside[start:number] = [True] * (number - start)
        start = number + 1
    return inside


def fenced(lines: Sequence[Line]) -> list[bool]:
    """Whether each line of a text file stands within a fence, its ends included; one that is not closed is none."""
    inside = [False] * len(lines)
    start, fence = -1, ""
    for number, line in enumerate(lines):
        match = _FENCE.match(line.text)
        if match is None:
            continue
        if start < 0:
            start, fence = number, match[1]
        elif match[1].startswith(fence) and not line.text[match.end() :].strip():
            inside[start : number + 1] = [True] * (number + 1 - start)
            start = -1
    return inside


def indent_of(text: str) -> str:
    """The blanks that a line begins with, tabs as spaces."""
    return text[: len(text) - len(text.lstrip())].expandtabs(TAB)


def _is_code(block: Sequence[str]) -> bool:
    """Whether lines that follow each other are indented like code and look like it."""
    indents = [len(indent_of(text)) for text in block]
    if max(indents) - min(indents) < MIN_STEP:
        return False
    plain = [text.strip() for text in block]
    return sum(looks_like_code(text) or re.match(_STATEMENT, text) is not None for text in plain) >= STATEMENTS * len(
        plain
    )
