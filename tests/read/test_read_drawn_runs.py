"""What was drawn before or after the text goes to its place; an order that makes sense stays."""

from __future__ import annotations

from qwen_batch.read.page.order import in_reading_order
from qwen_batch.records import Line

HEAD = Line("Case 20-1507, Document 17", (72, 20, 500, 30), 10.0)
NUMBER = Line("3", (300, 760, 306, 770), 10.0)


def text(name: str, x0: float, x1: float, top: float, count: int) -> list[Line]:
    tops = [top + 12 * number for number in range(count)]
    return [Line(f"{name} line {number}", (x0, tops[number], x1, tops[number] + 10), 10.0) for number in range(count)]


def order(*drawn: Line) -> list[str]:
    return [line.text for line in in_reading_order(drawn)]


def texts(*lines: Line) -> list[str]:
    return [line.text for line in lines]


BODY = text("body", 72, 500, 72, 40)
LEFT, RIGHT = text("left", 72, 280, 72, 47), text("right", 320, 520, 72, 46)
LEFT_NOTE, RIGHT_NOTE = text("left note", 72, 280, 640, 3), text("right note", 320, 520, 628, 2)


def test_heads_and_page_numbers_stand_at_the_edges_whenever_they_were_drawn() -> None:
    wanted = texts(HEAD, *BODY, NUMBER)
    assert order(NUMBER, HEAD, *BODY) == wanted
    assert order(NUMBER, *BODY, HEAD) == wanted
    assert order(*BODY, NUMBER, HEAD) == wanted


def test_notes_that_were_drawn_first_stand_below_the_text() -> None:
    notes = text("note", 72, 500, 600, 4)
    assert order(*notes, *BODY) == texts(*BODY, *notes)


def test_a_box_between_lines_that_was_drawn_last_goes_between_them() -> None:
    box = text("box", 80, 400, 232, 2)
    upper, lower = text("upper", 72, 500, 72, 12), text("lower", 72, 500, 280, 12)
    assert order(*upper, *lower, *box) == texts(*upper, *box, *lower)


def test_notes_of_columns_follow_their_column() -> None:
    drawn = [HEAD, *LEFT_NOTE, *RIGHT_NOTE, *LEFT, *RIGHT]
    assert order(*drawn) == texts(HEAD, *LEFT, *LEFT_NOTE, *RIGHT, *RIGHT_NOTE)


def test_a_figure_that_was_drawn_last_stands_above_its_column_alone() -> None:
    figure, column = text("figure", 80, 270, 72, 3), text("left", 72, 280, 150, 41)
    assert order(HEAD, *column, *RIGHT, *figure) == texts(HEAD, *figure, *column, *RIGHT)


def test_a_page_number_below_the_left_column_is_last() -> None:
    number = Line("14", (72, 760, 84, 770), 10.0)
    assert order(number, *LEFT, *RIGHT) == texts(*LEFT, *RIGHT, number)


def test_columns_and_side_notes_stay_as_drawn() -> None:
    side = text("side", 540, 600, 100, 3)
    from_the_right = [*text("first", 320, 520, 72, 30), *text("second", 72, 280, 72, 30)]
    for drawn in ([*BODY, *side], [*side, *BODY], from_the_right, [*LEFT, *RIGHT]):
        assert order(*drawn) == texts(*drawn)


def test_labels_of_a_drawing_stay_as_drawn() -> None:
    labels = [Line(str(number), (90, 400 - 12 * number, 100, 410 - 12 * number), 10.0) for number in range(8)]
    drawn = [*text("above", 72, 500, 72, 3), *labels, *text("beside", 120, 500, 300, 20)]
    assert order(*drawn) == texts(*drawn)


def test_a_line_that_runs_up_the_page_stays_with_those_drawn_before_it() -> None:
    stamp = Line("printed by the office", (20, 72, 30, 400), 10.0)
    assert order(NUMBER, stamp, *BODY) == texts(*BODY, NUMBER, stamp)
    assert order(*BODY, stamp, HEAD) == texts(HEAD, *BODY, stamp)


def test_a_caption_above_that_was_drawn_last_does_not_part_the_text_from_the_page_before() -> None:
    caption = [Line(line.text, line.bbox, 8.0) for line in text("caption", 80, 270, 72, 3)]
    column = text("left", 72, 280, 150, 41)
    assert order(*column, *RIGHT, *caption) == texts(*column, *RIGHT, *caption)
