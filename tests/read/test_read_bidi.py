"""Lines that run from right to left come in the order in which they are read, whatever pdfium made of them."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qwen_batch.read.page.bidi import in_logical_order, words_in_order
from qwen_batch.read.page.chars import Char

WIDTH, SPACE = 6.0, 4.0


def drawn(visual: str, ligatures: dict[str, str] | None = None, written: bool = True) -> list[Char]:
    """A line as it is seen, from left to right. A ligature is at one place, a mark over the letter before."""
    chars: list[Char] = []
    x, numbers = 0.0, count()
    for char in visual:
        if char == " ":
            if written:
                chars.append(Char(" ", x, 10.0, x + SPACE, 10.0, next(numbers)))
            x += SPACE
        elif char == "\u064b":
            chars.append(Char(char, x - 4, 1.0, x - 2, 3.0, next(numbers)))
        else:
            box = (x, 2.0, x + WIDTH - 0.5, 10.0)
            chars += (Char(letter, *box, next(numbers)) for letter in (ligatures or {}).get(char, char))
            x += WIDTH
    return [*chars, Char("\r", x, 10, x, 10, next(numbers)), Char("\n", x, 10, x, 10, next(numbers))]


def read(*lines: list[Char]) -> list[str]:
    chars = in_logical_order([char for line in lines for char in line])
    return "".join(char.text for char in chars).replace("\r", "").removesuffix("\n").split("\n")


@pytest.mark.parametrize(
    ("visual", "logical"),
    [
        ("םולש", "שלום"),
        ("Acme Ltd תרבח ןיב", "בין חברת Acme Ltd"),
        (".2024 ץרמב 5 םויב", "ביום 5 במרץ 2024."),
        ("1,250.50 םלשי", "ישלם 1,250.50"),
        ("-4.3% 30% ךס", "סך 30% -4.3%"),
        ("the word םולש is here", "the word שלום is here"),
        ("some text םולש 30 ךס and more", "some text סך 30 שלום and more"),
        ("plain text, (as it is)", "plain text, (as it is)"),
    ],
)
def test_order(visual: str, logical: str) -> None:
    assert read(drawn(visual)) == [logical]


def test_letters_drawn_in_any_order_come_out_the_same() -> None:
    chars = drawn("Acme 30 תרבח")
    ends = chars[-2:]
    assert read(chars[:-2][::-1] + ends) == read(chars) == ["חברת Acme 30"]


def test_gaps_are_spaces_where_none_is_written() -> None:
    assert read(drawn("Acme תרבח ןיב", written=False)) == ["בין חברת Acme"]


@pytest.mark.parametrize("expanded", ["ال", "لا"])
def test_lam_stands_before_alef_in_a_ligature(expanded: str) -> None:
    """pdfium gives the letters of the ligature backwards; a file whose table does so already must not be turned."""
    assert read(drawn("م#س", {"#": expanded})) == ["س" + "لا" + "م"]


def test_marks_stay_with_their_letter() -> None:
    assert read(drawn("اض\u064bيأ")) == ["أيض\u064bا"]


@pytest.mark.parametrize("line", ["(ללוכ) םלשי", ")ללוכ( םלשי"], ids=["as drawn", "as meant"])
def test_brackets_point_to_what_they_hold(line: str) -> None:
    assert read(drawn(line)) == ["ישלם (כולל)"]


def test_a_bracket_that_closes_on_the_next_line_follows_the_others() -> None:
    first, second = read(drawn("ללוכ) א (ב)"), drawn("א (ב"))
    assert (first, second) == ("(ב) א (כולל", "ב) א")


def test_pages_without_such_letters_are_left_alone() -> None:
    chars = drawn("plain (text)")[::-1]
    assert in_logical_order(chars) == chars


@given(st.text("אבגabc12 ().-", max_size=25))
def test_nothing_is_lost_and_nothing_but_brackets_changes(visual: str) -> None:
    def letters(text: str) -> list[str]:
        return sorted(text.translate(str.maketrans(")", "(")).replace(" ", ""))

    assert letters("".join(read(drawn(visual)))) == letters(visual)


def test_words_of_a_cell() -> None:
    assert words_in_order(["גולמי", "מקומי", "תוצר"]) == ["תוצר", "מקומי", "גולמי"]
    assert words_in_order(["Acme", "Ltd", "חברת"]) == ["חברת", "Acme", "Ltd"]
    assert words_in_order(["as", "it", "is"]) == ["as", "it", "is"]
