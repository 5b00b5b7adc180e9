"""Paragraphs, hyphens, and lines that stay apart."""

from __future__ import annotations

import pytest
from clean_helpers import LEADING, LEFT, TOP, body, document, line, page, text_document
from hypothesis import given, settings
from hypothesis import strategies as st

from qwen_batch.clean import clean_document
from qwen_batch.clean.hyphens import Vocabulary, join_texts
from qwen_batch.clean.join import to_markdown
from qwen_batch.records import CleanSteps, Document, Line, Message, Page, Table

RIGHT = 400.0


def cleaned(*pages: Page, **settings: bool) -> str:
    return clean_document(document(*pages), CleanSteps(**settings)).text


def test_full_lines_are_joined() -> None:
    lines = body(["The seller shall deliver the goods", "to the buyer within thirty days", "of the order."], x1=RIGHT)
    assert (
        cleaned(page(1, *lines)) == "The seller shall deliver the goods to the buyer within thirty days of the order."
    )


def test_a_gap_ends_a_paragraph() -> None:
    first = body(["One full line that goes on here", "and ends here with a word"], x1=RIGHT)
    second = body(["Another paragraph starts after a gap", "and goes on."], top=TOP + 4 * LEADING, x1=RIGHT)
    assert cleaned(page(1, *first, *second)) == (
        "One full line that goes on here and ends here with a word\n\nAnother paragraph starts after a gap and goes on."
    )


def test_a_line_with_room_for_the_next_word_ends_there() -> None:
    lines = (
        line("Acme Ltd", TOP),
        line("12 Main Street", TOP + 12),
        line("Springfield is where they have it", TOP + 24),
    )
    assert cleaned(page(1, *lines)).count("\n") == 2


def test_an_indent_begins_a_paragraph() -> None:
    first = body(["The first paragraph fills this line", "and ends on a full line as well."], x1=RIGHT)
    full = line("and ends on a full line as well.", TOP + 12, x1=RIGHT)
    second = line("The second one is indented and", TOP + 24, x0=LEFT + 15, x1=RIGHT)
    third = line("returns to the margin.", TOP + 36)
    assert cleaned(page(1, first[0], full, second, third)) == (
        "The first paragraph fills this line and ends on a full line as well.\n\n"
        "The second one is indented and returns to the margin."
    )


def test_a_larger_font_is_a_heading() -> None:
    lines = (line("Governing law of this agreement and", TOP, size=14), *body(["This agreement is governed"], TOP + 16))
    assert cleaned(page(1, *lines)) == "Governing law of this agreement and\n\nThis agreement is governed"


@pytest.mark.parametrize(
    "marks", [("1.1 ", "1.2 "), ("(a) ", "(b) "), ("• ", "• "), ("第一条 ", "第二条 "), ("一、", "二、"), ("- ", "- ")]
)
def test_list_items_and_clauses_stay_apart(marks: tuple[str, str]) -> None:
    lines = [marks[0] + "the supplier delivers in time;", marks[1] + "the buyer pays in full;"]
    full = tuple(line(text, TOP + 12 * number, x1=RIGHT) for number, text in enumerate(lines))
    assert cleaned(page(1, *full)).split("\n") == lines


def test_a_reference_at_a_line_start_is_no_clause() -> None:
    lines = body(["The deposit is returned as described in section", "5.6 and in the schedule."], x1=RIGHT)
    assert "section 5.6 and" in cleaned(page(1, *lines))


def test_code_and_columns_stay_apart() -> None:
    texts = ["if (a == b) {", "return x;", "}"]
    full = tuple(line(text, TOP + 12 * number, x1=RIGHT) for number, text in enumerate(texts))
    assert cleaned(page(1, *full)).split("\n") == texts
    rows = ["Rent   1,200.00", "Water   90.00"]
    full = tuple(line(text, TOP + 12 * number, x1=RIGHT) for number, text in enumerate(rows))
    assert cleaned(page(1, *full)).split("\n") == rows


def test_exponents_and_other_fonts_stay_in_their_line() -> None:
    lines = (
        line("an area of 5 m", TOP, x1=150),
        line("2", TOP, x0=151, size=6, x1=154),
        line("is let", TOP, x0=158),
    )
    assert cleaned(page(1, *lines)) == "an area of 5 m2 is let"


def test_a_large_bullet_does_not_make_its_item_a_heading() -> None:
    text = (
        line("The first line of the item", TOP, x0=LEFT + 12, x1=RIGHT),
        line("and the rest", TOP + 12, x0=LEFT + 12),
    )
    assert (
        cleaned(page(1, line("•", TOP - 1, size=12, x1=LEFT + 6), *text)) == "• The first line of the item and the rest"
    )


def test_the_margin_of_other_pages_measures_a_short_page() -> None:
    full = body(["a full line of words", "a full line of words", "a full line of words", "the end."], x1=RIGHT)
    last = (line("Signed in Paris", TOP), line("Ada Lovelace", TOP + 12))
    text = cleaned(page(1, *full), page(2, *last))
    assert text.endswith("the end.\n\nSigned in Paris\nAda Lovelace")


def test_a_list_item_with_a_wide_gap_goes_on() -> None:
    lines = body(["!   Any material that was posted without author-", "ization is removed"], x1=RIGHT)
    assert cleaned(page(1, *lines)) == "! Any material that was posted without authorization is removed"


def test_the_sentence_of_an_item_goes_on_below_its_text() -> None:
    """Where it was broken before its line was full, no empty line parts it."""
    full = line("A line of the text that fills the page", TOP, x1=RIGHT)
    item = line("• the first item that is broken", TOP + 12, x1=RIGHT - 150)
    more = line("continues on the next line", TOP + 24, x0=LEFT + 10, x1=LEFT + 130)
    second = line("• the second", TOP + 36, x1=LEFT + 60)
    assert cleaned(page(1, full, item, more, second)).endswith(
        "• the first item that is broken\ncontinues on the next line\n• the second"
    )


def test_a_step_that_would_leave_no_text_is_left_out() -> None:
    made = document(*(page(number, line("All that there is", 30.0)) for number in range(1, 6)))
    done = clean_document(made, CleanSteps())
    assert done.text.count("All that there is") == 5
    assert done.warnings == ("remove_headers was left out: hardly any text would have remained",)


def test_chinese_lines_are_joined_without_a_space() -> None:
    lines = body(["甲方应当在收到乙方发票之日起三十日内支付", "全部合同价款人民币壹佰万元整。"], x1=LEFT + 200)
    assert cleaned(page(1, *lines)) == "甲方应当在收到乙方发票之日起三十日内支付全部合同价款人民币壹佰万元整。"


def test_a_paragraph_goes_over_a_page_break() -> None:
    first = tuple(
        line(text, TOP + 12 * n, x1=RIGHT) for n, text in enumerate(["A paragraph that begins", "on this page and"])
    )
    second = (
        line("goes on over here.", TOP),
        *body(["A new one fills its line, too", "and ends."], TOP + 12, x1=RIGHT),
    )
    done = clean_document(document(page(1, *first), page(2, *second)), CleanSteps())
    assert done.text.split("\n")[0] == "A paragraph that begins on this page and goes on over here."
    assert done.pages[1].text.startswith("goes on over here.")
    assert done.text[done.page_starts[1] :] == done.pages[1].text


def test_a_word_divided_over_a_page_break() -> None:
    first = tuple(
        line(text, TOP + 12 * n, x1=RIGHT) for n, text in enumerate(["A paragraph that begins", "with distri-"])
    )
    assert "with distribution of" in cleaned(page(1, *first), page(2, line("bution of goods.", TOP)))


def test_a_finished_paragraph_does_not() -> None:
    first = tuple(
        line(text, TOP + 12 * n, x1=RIGHT) for n, text in enumerate(["A paragraph that begins", "and ends here."])
    )
    assert cleaned(page(1, *first), page(2, line("Another one.", TOP))).endswith("ends here.\n\nAnother one.")


@pytest.mark.parametrize(
    ("before", "after", "elsewhere", "wanted"),
    [
        ("the distribu-", "tion of", "", "the distribution of"),
        ("the distribu-", "tion of", "distribution", "the distribution of"),
        ("a cross-", "border deal", "cross-border", "a cross-border deal"),
        ("a cross-", "border deal", "", "a cross-border deal"),
        ("to be ex-", "pected", "", "to be expected"),
        ("a one-", "year term", "one year", "a one-year term"),
        ("with-", "out delay", "out of", "without delay"),
        ("an FAA-", "approved list", "", "an FAA-approved list"),
        ("the 24-", "hour rule", "", "the 24-hour rule"),
        ("Jean-", "Paul", "", "Jean-Paul"),
        ("Ein-", "und Ausgang", "", "Ein- und Ausgang"),
        ("state-of-the-", "art", "state of the art", "state-of-the-art"),
        ("see https://a.example/some-", "path here", "", "see https://a.example/some-path here"),
        ("the end", "of it", "", "the end of it"),
        ("合同", "金额", "", "合同金额"),
        ("使用 Debian", "系统", "", "使用 Debian系统"),
        ("他说“", "你好”", "", "他说“你好”"),
        ("5 - ", "- 6", "", "5 - - 6"),
    ],
)
def test_two_lines_as_one(before: str, after: str, elsewhere: str, wanted: str) -> None:
    assert join_texts(before, after, Vocabulary([before, after, elsewhere])) == wanted


def grid(*rows: tuple[str, ...]) -> Table:
    return Table(rows, (LEFT, 100.0, RIGHT, 160.0))


def test_a_table_stands_where_its_lines_stood() -> None:
    table = grid(("Item", "Price | net"), ("Rent", "1,200"))
    lines = (line("Before", 80), line("Item   Price | net", 105), line("Rent   1,200", 130), line("After", 180))
    assert cleaned(page(1, *lines, tables=[table])) == (
        "Before\n\n| Item | Price \\| net |\n| --- | --- |\n| Rent | 1,200 |\n\nAfter"
    )


def test_a_table_without_lines_is_not_lost() -> None:
    assert "| a | b |" in cleaned(page(1, line("Text", 300), tables=[grid(("a", "b"), ("c", "d"))]))


def test_lines_within_cells_are_joined() -> None:
    table = grid(("joint audit with ade-\nnosine test", "合同\n金额"), ("one\ntwo", ""))
    done = clean_document(document(page(1, line("Text", 300), tables=[table])), CleanSteps())
    assert done.pages[0].tables[0].rows == (("joint audit with adenosine test", "合同金额"), ("one two", ""))


def test_markdown_of_a_table() -> None:
    assert to_markdown(Table((("a", "b\nc"), ("", "d")))) == "| a | b c |\n| --- | --- |\n|  | d |"


def test_a_bar_in_a_cell_ends_no_cell() -> None:
    assert to_markdown(Table((("a|b", "c\\|d\\"),))) == "| a\\|b | c\\\\\\|d\\ |\n| --- | --- |"


def test_nothing_is_joined_when_it_is_not_wanted() -> None:
    lines = body(["One full line that", "goes on"], x1=RIGHT)
    assert cleaned(page(1, *lines), join_lines=False) == "One full line that\ngoes on"


def test_a_hand_wrapped_text_file_is_joined() -> None:
    text = (
        "The quick brown fox jumps over the lazy dog and then it runs far away\n"
        "into the forest, where nobody has ever seen it again, or so the people\n"
        "of the village like to say.\n\n"
        "The second paragraph is short."
    )
    assert clean_document(text_document(text), CleanSteps()).text == (
        "The quick brown fox jumps over the lazy dog and then it runs far away into the forest, where nobody has "
        "ever seen it again, or so the people of the village like to say.\n\nThe second paragraph is short."
    )


@pytest.mark.parametrize(
    "text", ["Name: Ada\nCity: London\nAge: 36", "word " * 60 + "\n" + "next " * 70, "# Title\n\n- a\n- b\n\n| x | y |"]
)
def test_other_text_files_keep_their_lines(text: str) -> None:
    done = clean_document(text_document(text), CleanSteps()).text
    assert done.replace("\n\n", "\n").split("\n") == [part.strip() for part in text.split("\n") if part.strip()]


def test_conversations_pass_untouched() -> None:
    messages = (Message("user", "ﬁ\u200b  as it is\n"),)
    made = Document("m", "s:1", "0" * 64, messages=messages, sampling={"seed": 1}, metadata={"k": 2}, priority=5)
    done = clean_document(made, CleanSteps())
    assert (done.messages, done.text, done.pages, done.page_starts) == (messages, "", (), ())
    assert (done.sampling, done.metadata, done.priority) == ({"seed": 1}, {"k": 2}, 5)


def test_pages_without_text_keep_their_place() -> None:
    done = clean_document(
        document(page(1), page(2, line("Text.", TOP)), page(3), page(4, line("More.", TOP))), CleanSteps()
    )
    assert [entry.text for entry in done.pages] == ["", "Text.", "", "More."]
    assert done.page_starts == (0, 0, 7, 7)


def test_scanned_pages_are_flagged() -> None:
    scan = Page(1, (), needs_ocr=True)
    assert clean_document(document(scan, page(2, line("x", TOP))), CleanSteps()).flags == ("needs_ocr",)


words = st.text(alphabet="abc甲乙-. 1(", min_size=1, max_size=12).filter(str.strip)
boxed = st.builds(
    lambda text, x0, top, size: Line(text, (x0, top, x0 + 5 * len(text), top + size), size),
    words,
    st.integers(50, 300),
    st.integers(20, 760),
    st.sampled_from([9.0, 10.0, 14.0]),
)
pages_of_lines = st.lists(st.lists(boxed | words.map(Line), max_size=12), max_size=5)


@settings(max_examples=200, deadline=None)
@given(pages_of_lines, st.booleans())
def test_page_starts_cut_the_text_into_its_pages(lines: list[list[Line]], join_lines: bool) -> None:
    pages = [Page(number, tuple(inner), (), 612.0, 792.0) for number, inner in enumerate(lines, 1)]
    done = clean_document(document(*pages), CleanSteps(join_lines=join_lines))
    ends = [*done.page_starts[1:], len(done.text)][: len(pages)]
    for clean_page, start, end in zip(done.pages, done.page_starts, ends, strict=True):
        part = done.text[start:end]
        assert part.startswith(clean_page.text)
        assert part[len(clean_page.text) :].strip() == ""
    assert list(done.page_starts) == sorted(done.page_starts)


@settings(max_examples=200, deadline=None)
@given(pages_of_lines)
def test_no_letter_is_lost_or_made_up(lines: list[list[Line]]) -> None:
    pages = [Page(number, tuple(inner), (), 612.0, 792.0) for number, inner in enumerate(lines, 1)]
    done = clean_document(document(*pages), CleanSteps())

    def letters(texts: list[str]) -> list[str]:
        return sorted(char for text in texts for char in text if char.isalnum())

    kept = [done.text, *(removal.text for removal in done.removed)]
    assert letters(kept) == letters([each.text for page_lines in lines for each in page_lines])


def test_a_justified_line_of_few_words_is_no_row_of_a_table() -> None:
    lines = body(["the delivery of goods to", "confidential   obligations", "of the seller."], x1=200.0)
    assert cleaned(page(1, *lines)) == "the delivery of goods to confidential obligations of the seller."


def test_a_row_of_words_that_does_not_fill_its_line_is_one() -> None:
    lines = (
        *body(["the delivery of goods to the seller of the", "goods is paid by the"], x1=300.0),
        line("Item   Amount", 96.0),
    )
    assert cleaned(page(1, *lines)).endswith("\nItem   Amount")


def test_lines_that_run_down_the_page_are_joined_as_those_across() -> None:
    texts = [
        "名前はまだ無い。どこで生れたかとんと見当がつかぬ。何でも薄暗い",
        "所で泣いていた事だけは",
        "吾輩はここで人間を見た。",
    ]
    lines = [Line(text, (500 - 16 * n, 72, 510 - 16 * n, 72 + 10 * len(text)), 10.0) for n, text in enumerate(texts)]
    result = cleaned(Page(1, tuple(lines), width=612.0, height=792.0, written_down=True))
    assert result == f"{texts[0]}{texts[1]}\n{texts[2]}"


def test_repeated_spaces_become_one_but_in_columns_and_code() -> None:
    assert cleaned(page(1, line("The end.  Then  it began.", TOP))) == "The end. Then it began."
    assert cleaned(page(1, line("1.   The first item", TOP))) == "1. The first item"
    assert cleaned(page(1, line("Rent   1,200.00", TOP))) == "Rent   1,200.00"
    assert clean_document(text_document("if (a == b)  {"), CleanSteps()).text == "if (a == b)  {"
    assert clean_document(text_document("Name  Quantity  Price"), CleanSteps()).text == "Name  Quantity  Price"


CAPTION = body(
    ["IN THE COURT OF THE NORTHERN DISTRICT", "FOR THE NORTHERN DIVISION OF THE STATE", "of Iowa, Plaintiff,"]
)
WIDE = 24.0  # points from line to line


def wide(*texts: str) -> tuple[Line, ...]:
    """Lines that are set twice as far apart as those above them, all but the last of them full."""
    ends = [300.0] * (len(texts) - 1) + [None]
    return tuple(line(text, 140 + WIDE * n, x1=end) for n, (text, end) in enumerate(zip(texts, ends, strict=True)))


def test_a_body_that_is_set_wider_than_the_title_above_it_is_joined() -> None:
    lines = wide(
        "By order of May, the court dismissed this case in its",
        "entirety, with prejudice, upon the settlement of both",
        "parties. The court stated that it would retain the",
        "question whether sanctions should be imposed for the",
        "destruction, during the pendency of the litigation, of",
        "minutes, and whether they should be imposed for the",
        "destruction of relevant records.",
    )
    text = clean_document(document(page(1, *CAPTION, *lines)), CleanSteps()).text
    assert text.endswith("\n\n" + " ".join(each.text for each in lines))


def test_wide_lines_that_begin_anew_stay_apart() -> None:
    names = [f"Paragraph {word} of the agreement begins here and" for word in ("one", "two", "three", "four", "five")]
    text = clean_document(document(page(1, *CAPTION, *wide(*names))), CleanSteps()).text
    assert text.endswith("\n\n".join(names))


def test_a_word_with_a_footnote_mark_behind_its_hyphen_is_whole() -> None:
    lines = body(["They agreed upon the distribu-²", "tion of the profits of the year."], x1=RIGHT)
    assert cleaned(page(1, *lines)) == "They agreed upon the distribution² of the profits of the year."


def test_a_divided_word_of_a_value_beside_its_label_is_whole() -> None:
    lines = (
        line("Date   Begin with the last one and tell for each rele-", TOP, x1=RIGHT),
        line("vant job what it was.", TOP + LEADING, LEFT + 80),
    )
    assert "each relevant job" in " ".join(cleaned(page(1, *lines)).split())


def test_a_citation_that_ends_a_sentence_begins_no_item() -> None:
    lines = (
        line("It was measured by the reaction of Griess", TOP, LEFT + 14, x1=RIGHT),
        *body(["(10). Briefly, samples were diluted with water", "and kept cold."], TOP + LEADING, x1=RIGHT),
    )
    assert "of Griess (10). Briefly, samples were diluted with water and kept cold." in cleaned(page(1, *lines))


def test_a_chinese_line_that_begins_with_a_number_is_short_by_its_number() -> None:
    full = "甲方应当在合同签订之日起三十日内向乙方支付全部货款逾期"
    lines = (
        line(full, TOP),
        line("其他", TOP + 12),
        line(f"1、{full}"[:27], TOP + 24),
        line(full, TOP + 36),
        line("违约。", TOP + 48),
    )
    assert "其他\n1、甲方应当" in cleaned(page(1, *lines))
