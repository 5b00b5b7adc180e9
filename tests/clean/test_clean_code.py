"""Code keeps its lines, its spaces and its indentation; typewritten prose does not."""

from __future__ import annotations

from clean_helpers import LEADING, LEFT, TOP, body, document, page, text_document

from qwen_batch.clean import clean_document
from qwen_batch.records import CleanSteps, Line, Page

PITCH = 6.0
CODE = ["def f(x):", "    if  x > 1:", '        return "x" - 1', "    return 0"]
PROSE = ["The parties agree upon all of the terms of this agreement", "and on no others, whatever they may be."]


def typed(texts: list[str], top: float = TOP) -> tuple[Line, ...]:
    """Lines in letters of one width."""
    made: list[Line] = []
    for number, text in enumerate(texts):
        plain, y = text.strip(), top + LEADING * number
        x0 = LEFT + PITCH * (len(text) - len(text.lstrip()))
        made.append(Line(plain, (x0, y, x0 + PITCH * len(plain), y + 10.0), 10.0, code=True))
    return tuple(made)


def text_of(*lines: Line) -> str:
    return clean_document(document(page(1, *lines)), CleanSteps()).text


def test_code_keeps_its_indentation() -> None:
    prose = body(PROSE, 300.0, x1=540.0)
    assert text_of(*typed(CODE), *prose) == "\n".join(CODE) + "\n\n" + " ".join(PROSE)


def test_a_gap_within_code_stays() -> None:
    prose = body(PROSE * 3, 300.0, x1=540.0)
    text = text_of(*typed(CODE), *typed(["print(f(1))"], TOP + 6 * LEADING), *prose)
    assert text.startswith("\n".join(CODE) + "\n\nprint(f(1))\n\n")


def test_prose_in_letters_of_one_width_is_joined() -> None:
    letter = [
        "I write to you since the goods that you sent",
        "in May of this year have not come to the place",
        "named.",
    ]
    prose = body(PROSE * 3, 300.0, 120.0, 540.0)
    assert text_of(*typed(letter), *prose).startswith(" ".join(letter) + "\n\n")


def test_a_typewritten_document_is_prose() -> None:
    letter = ["I write to you.  The goods that you sent", "in May of this year have not come to me.", "Yours"]
    assert text_of(*typed(letter)) == f"I write to you. The goods that you sent {letter[1]} Yours"


def test_the_name_of_a_file_on_a_line_of_its_own_is_no_code() -> None:
    lines = (*body(["The picture of the torus is that of", "Oleg, to be found at"], x1=540.0), *typed(["a/torus.png"]))
    moved = Line(lines[-1].text, (LEFT, TOP + 2 * LEADING, 150.0, TOP + 2 * LEADING + 10.0), 10.0, code=True)
    assert text_of(lines[0], Line(lines[1].text, (72.0, 84.0, 540.0, 94.0), 10.0), moved).endswith("at a/torus.png")


def test_a_command_that_ends_a_sentence_is_no_code_of_its_own() -> None:
    lines = body(["The package can be used as its backend by adding", "full"], x1=540.0)
    command = typed(["--git-builder='sbuild -A -s -v'"], TOP + LEADING)
    assert text_of(lines[0], *command) == f"{lines[0].text} {command[0].text}"


FENCED = '# Title\n\n```python\nif  x > 1:\n\treturn "x"  -  1\n\n\n    y = 2  \n```\n\nThe end.'


def test_fenced_code_is_left_as_it_is() -> None:
    assert clean_document(text_document(FENCED), CleanSteps()).text == FENCED


def test_a_fence_that_is_not_closed_is_none() -> None:
    text = clean_document(text_document("```\nThe  end."), CleanSteps()).text
    assert text == "```\nThe end."


def test_indented_code_in_a_text_file_stays() -> None:
    source = "To use it:\n\n    def g(a, b):\n        return a + b\n\nThat is all."
    assert clean_document(text_document(source), CleanSteps()).text == source


def test_indented_prose_in_a_text_file_is_no_code() -> None:
    source = "      The seller sells.\n  The buyer buys."
    assert clean_document(text_document(source), CleanSteps()).text == "The seller sells.\nThe buyer buys."


def test_text_that_a_web_page_keeps_as_typed() -> None:
    lines = (Line("Use it:"), *(Line(text, code=True) for text in ("for a in b:", "", "    c(a)", "")), Line("End."))
    text = clean_document(document(Page(1, lines, paragraphs=True)), CleanSteps()).text
    assert text == "Use it:\n\nfor a in b:\n\n    c(a)\n\nEnd."


def test_code_that_is_indented_with_tabs_keeps_them() -> None:
    code = "int main(void)\n{\n\treturn 0;\n}"
    assert clean_document(text_document(f"Text before it.\n\n{code}\n\nText."), CleanSteps()).text == (
        f"Text before it.\n\n{code}\n\nText."
    )
    typed = Page(1, tuple(Line(part, code=True) for part in code.split("\n")), paragraphs=True)  # as HTML keeps it
    assert clean_document(document(typed), CleanSteps()).text == code
