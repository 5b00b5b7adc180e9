from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qwen_batch.answer.parse import EMPTY_ANSWER, REPETITION, is_loop, parse_answer
from qwen_batch.records import Answer, Completion, FinishReason


def parse(text: str, finish_reason: FinishReason = "stop", *, prompt_opens_think: bool = False) -> Answer:
    completion = Completion("0/0/0", (1,), text, finish_reason, 5)
    return parse_answer(completion, prompt_opens_think=prompt_opens_think)


@pytest.mark.parametrize(
    ("text", "thinking", "answer"),
    [
        ("Paris.", None, "Paris."),
        ("  Paris.\n", None, "Paris."),
        ("<think>\nHm, France.\n</think>\n\nParis.", "Hm, France.", "Paris."),
        ("\n<think>Hm.</think>Paris.", "Hm.", "Paris."),
        ("<think>\n\n</think>\n\nParis.", None, "Paris."),
        ("<think>\n\n</think>\n\n<think>Hm.</think>Paris.", "Hm.", "Paris."),
        ("</think>\n\nParis.", None, "Paris."),
        ("The tag </think> ends a block.", None, "The tag </think> ends a block."),
        ("<think>Hm.</think>Write <think>x</think> so.", "Hm.", "Write <think>x</think> so."),
        ("Use <think> first.", None, "Use <think> first."),
    ],
)
def test_thoughts_are_kept_apart(text: str, thinking: str | None, answer: str) -> None:
    assert parse(text) == Answer(answer, thinking)


@pytest.mark.parametrize(
    ("text", "thinking", "answer"),
    [
        ("Hm, France.\n</think>\n\nParis.", "Hm, France.", "Paris."),
        ("<think>Hm.</think>Paris.", "Hm.", "Paris."),
        ("\n</think>\n\nParis.", None, "Paris."),
        ("Hm.</think>Say </think> twice.", "Hm.", "Say </think> twice."),
    ],
)
def test_a_block_that_the_prompt_opened(text: str, thinking: str | None, answer: str) -> None:
    assert parse(text, prompt_opens_think=True) == Answer(answer, thinking)


def test_thoughts_cut_by_the_length_leave_no_answer() -> None:
    assert parse("<think>Hm, let me", "length") == Answer("", "Hm, let me", (EMPTY_ANSWER,))
    assert parse("Hm, let me", "length", prompt_opens_think=True) == Answer("", "Hm, let me", (EMPTY_ANSWER,))


def test_an_answer_cut_by_the_length_has_no_flag_of_its_own() -> None:
    assert parse("The parties are", "length").flags == ()


@pytest.mark.parametrize("text", ["", " \n", "<think></think>", "<think>Hm.</think> \n"])
def test_an_empty_answer(text: str) -> None:
    assert parse(text).flags == (EMPTY_ANSWER,)


@given(st.text(max_size=50), st.text(max_size=50))
def test_nothing_is_lost(thinking: str, answer: str) -> None:
    parsed = parse(f"<think>{thinking}</think>{answer}")
    if "<" not in thinking + answer:
        assert (parsed.thinking or "", parsed.text) == (thinking.strip(), answer.strip())


@given(st.text(alphabet="<>/thinka \n", max_size=60), st.booleans())
def test_any_text_is_parsed(text: str, is_open: bool) -> None:
    parsed = parse(text, prompt_opens_think=is_open)
    assert parsed.text in text
    assert (EMPTY_ANSWER in parsed.flags) is (parsed.text == "")


LOOPS = [
    "The parties are Acme Inc. " + "and Acme Inc. " * 30,
    "1. Acme Inc.\n2. Beta Ltd.\n" + "3. Gamma plc\n" * 30,
    "Notes:\n" + "\n".join(f"{n}. The party shall pay the sum." for n in range(1, 30)),
    "!" * 300,
    "1.\n" * 100,
    "Answer: " + "甲方应当付款，" * 40,
    "Once. " + "A paragraph that is somewhat longer than the others, and is said once more. " * 5 + "A paragraph that",
]
NO_LOOPS = [
    "",
    "Yes.",
    "ha " * 20,
    "\n".join(f"{n}. Party {n} pays {n * 37} EUR by {n} May 2024." for n in range(1, 60)),
    "| year | sum |\n|---|---|\n" + "\n".join(f"| {year} | {year * 7 % 1000} |" for year in range(1960, 2024)),
    "| a | b | c |\n|" + "---|" * 12 + "\n| N/A | N/A | N/A |\n| N/A | N/A | 3 |",
    "The sum is due. " * 40 + "That is what the document says, and it goes on to name the parties, the court and the "
    "governing law, after which both of them sign it in two copies before a notary of the town of Bern.",
    "第一条 甲方付款。第二条 乙方交货。第三条 双方保密。第四条 违约责任。第五条 争议解决。" * 3,
    "- Acme Inc.: none\n- Beta Ltd.: none\n- Gamma plc: none\n- Delta AG: none\n- Epsilon SA: none\n" * 1 + "none",
]


@pytest.mark.parametrize("text", LOOPS)
def test_loops(text: str) -> None:
    assert is_loop(text)
    assert parse(text, "length").flags == (REPETITION,)


@pytest.mark.parametrize("text", NO_LOOPS)
def test_lists_and_tables_are_no_loops(text: str) -> None:
    assert not is_loop(text)


def test_thoughts_that_loop_to_the_end() -> None:
    assert parse("<think>" + "Wait, no. " * 60, "length").flags == (EMPTY_ANSWER, REPETITION)
    assert parse("<think>" + "Wait, no. " * 60 + "</think>Paris.").flags == ()


@given(st.text(max_size=300), st.text(alphabet="abc甲 ", min_size=1, max_size=60), st.integers(0, 59))
def test_a_loop_is_found_behind_any_text(before: str, unit: str, cut: int) -> None:
    unit = f"x{unit}y"
    turns = 5 + 200 // len(unit)
    assert is_loop(before + unit * turns + unit[: cut % len(unit)])


def test_a_long_text_is_looked_at_quickly() -> None:
    assert is_loop("ab" * 2_000_000)
    assert not is_loop("".join(chr(97 + (n * n) % 23) + str(n) for n in range(300_000)))
