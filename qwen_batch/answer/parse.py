"""Completion -> Answer: thoughts apart from the answer, and what is wrong with it at a glance."""

from __future__ import annotations

import re

from qwen_batch.records import Answer, Completion

_OPEN, _CLOSE = "<think>", "</think>"
EMPTY_ANSWER = "empty_answer"
REPETITION = "repetition"
_MIN_LOOP_CHARS = 200  # shorter repetitions are rules, empty table cells, a handful of equal values
_MIN_LOOP_TURNS = 4
_MAX_PERIOD_CHARS = 400
_TAIL_CHARS = _MIN_LOOP_TURNS * _MAX_PERIOD_CHARS
_LIST_NUMBER = re.compile(r"^[ \t]*\d+[.)、][ \t]*", re.MULTILINE)


def parse_answer(completion: Completion, *, prompt_opens_think: bool = False) -> Answer:
    """Separate the leading think block from the answer and look for signs of a failed answer.

    prompt_opens_think: the chat template ends in `<think>`, so that the text starts inside the block.
    A block that was never closed (cut by the length) is all thoughts and leaves the answer empty; an empty block
    counts as no thoughts; `</think>` inside the answer is text. Whether the answer was cut is told by finish_reason.
    """
    thinking, text = _split_thinking(completion.text.strip(), prompt_opens_think)
    flags = []
    if not text:
        flags.append(EMPTY_ANSWER)
    if is_loop(text or thinking):
        flags.append(REPETITION)
    return Answer(text=text, thinking=thinking or None, flags=tuple(flags))


def _split_thinking(text: str, is_open: bool) -> tuple[str, str]:
    """(thoughts, answer), both without outer white space."""
    thoughts: list[str] = []
    while is_open or text.startswith((_OPEN, _CLOSE)):
        inside, _, rest = text.removeprefix(_OPEN).partition(_CLOSE)
        thoughts.append(inside.strip())
        text, is_open = rest.strip(), False
    return "\n\n".join(filter(None, thoughts)), text


def is_loop(text: str) -> bool:
    """Whether the text ends in one short stretch over and over, as when a model is caught in a loop.

    True when the last 200 characters or more repeat with a period of at most 400 characters, at least four times; the
    last turn may be incomplete, and the numbers of a list may count up.
    """
    text = text.rstrip()
    return _is_periodic(text) or _is_periodic(_LIST_NUMBER.sub("", text[-_TAIL_CHARS * 2 :]))


def _is_periodic(text: str) -> bool:
    """Periods come from the borders of the reversed tail (Knuth, Morris and Pratt 1977), at linear cost."""
    tail = text[: -_TAIL_CHARS - 1 : -1]
    for length, border in enumerate(_borders(tail), start=1):
        period = length - border
        if period <= _MAX_PERIOD_CHARS and length >= max(_MIN_LOOP_CHARS, _MIN_LOOP_TURNS * period):
            return True
    return False


def _borders(text: str) -> list[int]:
    """For each beginning of the text, the length of its longest proper beginning that is also its end."""
    borders: list[int] = []
    for index, character in enumerate(text):
        border = borders[-1] if borders else 0
        while border and text[border] != character:
            border = borders[border - 1]
        borders.append(border + 1 if index and text[border] == character else 0)
    return borders
