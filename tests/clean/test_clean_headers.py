"""Running heads and page numbers, and headings that are none."""

from __future__ import annotations

import pytest
from clean_helpers import HEIGHT, body, line, page

from qwen_batch.clean.headers import remove_headers
from qwen_batch.clean.page_numbers import parse_page_number, remove_page_numbers
from qwen_batch.records import Line, Page

FOOT = HEIGHT - 50


def texts(pages: tuple[Page, ...]) -> list[list[str]]:
    return [[line.text for line in page.lines] for page in pages]


WORDS = ("amber", "basil", "cedar", "dune", "ember", "fjord", "grove", "heath", "islet", "jetty", "knoll", "lagoon")


def story(number: int) -> list[str]:
    """Six lines that no page nearby says."""
    return [f"{WORDS[(number + row) % 12]} {WORDS[(number * row + 5) % 12]} {number * row + 7}" for row in range(6)]


def with_head(number: int, head: str, top: float = 30.0) -> Page:
    return page(number, line(head, top), *body(story(number)))


def test_a_head_with_a_page_number_goes() -> None:
    pages, removals = remove_headers([with_head(n, f"Annual Report   {n}") for n in range(1, 6)])
    assert texts(pages) == [story(n) for n in range(1, 6)]
    assert [(r.page_number, r.text, r.reason) for r in removals] == [
        (n, f"Annual Report   {n}", "header") for n in range(1, 6)
    ]


def test_a_foot_goes() -> None:
    made = [page(n, *body(story(n)), line(f"Confidential - Page {n} of 4", FOOT)) for n in range(1, 5)]
    pages, removals = remove_headers(made)
    assert texts(pages) == [story(n) for n in range(1, 5)]
    assert {r.reason for r in removals} == {"footer"}


def test_heads_of_odd_and_even_pages_go() -> None:
    heads = ["The Book", "The Chapter"]
    pages, removals = remove_headers([with_head(n, heads[n % 2]) for n in range(1, 9)])
    assert len(removals) == 8
    assert texts(pages) == [story(n) for n in range(1, 9)]


def test_a_head_that_changes_with_the_chapter_goes() -> None:
    heads = [f"CHAPTER {n // 3}. {'TOOLS' if n < 6 else 'RULES'} {n}.1 TOPIC {'ABCDEFGHIJ'[n]}" for n in range(10)]
    pages, _ = remove_headers([with_head(n + 1, head) for n, head in enumerate(heads)])
    assert texts(pages) == [story(n) for n in range(1, 11)]


def test_lines_that_change_below_text_that_stays_are_no_heads() -> None:
    said = body(["The board of the company met in Leeds.", "It heard what was asked for.", "It then said this."])
    decisions = (
        "Approved by the board",
        "Rejected by the board",
        "Postponed until May",
        "Withdrawn by the author",
        "Approved by the author",
    )
    made = [page(n, *said, line(decision, 122.0)) for n, decision in enumerate(decisions, 1)]
    assert remove_headers(made)[1] == ()


def test_three_pages_with_alternating_heads_and_their_numbers() -> None:
    heads = ["Lease of Unit 7   1", "2   Tidewell / Norrland", "Lease of Unit 7   3"]
    assert len(remove_headers([with_head(n, head) for n, head in enumerate(heads, 1)])[1]) == 3


def test_a_head_of_the_odd_pages_of_a_short_document() -> None:
    heads = ["Support Agreement", "Hours and places", "Support Agreement"]
    _, removals = remove_headers([with_head(n, head) for n, head in enumerate(heads, 1)])
    assert [removal.page_number for removal in removals] == [1, 3]


@pytest.mark.parametrize(
    ("heads", "removed"),
    [
        (["Agreement", "Services   Ref. 17", "Services   Ref. 17"], [2, 3]),
        (["Services   Secret", "Secret   Services", "Services   Secret"], [1, 2, 3]),
        (["Services", "Warranty", "Payment"], []),
    ],
)
def test_heads_of_three_pages(heads: list[str], removed: list[int]) -> None:
    _, removals = remove_headers([with_head(n, head) for n, head in enumerate(heads, 1)])
    assert [removal.page_number for removal in removals] == removed


def test_a_roman_number_beside_a_year_that_stays_the_same() -> None:
    romans = ("i", "ii", "iii", "iv", "v", "vi")
    assert len(remove_headers([with_head(n, f"{romans[n - 1]}   Report 2023") for n in range(1, 7)])[1]) == 6


def stamped(size: float) -> list[Page]:
    """Pages with a date and a time, which is another one on each."""
    heads = [f"Rev. 2 of 3/12/2024, printed 3/12/2024 10:{15 + n * n}:{n * 17 % 60:02}" for n in range(1, 6)]
    return [page(n, line(head, 30.0, size=size), *body(story(n))) for n, head in enumerate(heads, 1)]


def test_small_heads_whose_numbers_are_mostly_the_same() -> None:
    assert len(remove_headers(stamped(size=8.0))[1]) == 5
    assert remove_headers(stamped(size=10.0))[1] == ()


def test_numbered_headings_on_following_pages_stay() -> None:
    heads = ["1. Purpose", "2. Term", "3. Duties"]
    assert remove_headers([with_head(n, head) for n, head in enumerate(heads, 1)])[1] == ()


def test_two_pages_prove_nothing() -> None:
    made = [page(n, line("Same words", 30.0), *body([*story(n), "That is all."])) for n in (1, 2)]
    assert remove_headers(made) == (tuple(made), ())


def test_two_pages_over_which_a_sentence_goes_on_lose_what_parts_it() -> None:
    halves = ["the seller keeps the goods until they are", "asked for by the buyer who paid for them"]
    made = [page(n, line("Lease", 30), *body([half] * 3), line("Acme", FOOT)) for n, half in enumerate(halves, 1)]
    removals = remove_headers(made)[1]
    assert [(r.page_number, r.text, r.reason) for r in removals] == [(1, "Acme", "footer"), (2, "Lease", "header")]
    ended = [page(n, line("Lease", 30), *body([f"{half}."] * 3)) for n, half in enumerate(halves, 1)]
    assert remove_headers(ended)[1] == ()


def test_sheets_with_two_pages_count_by_two() -> None:
    made = [page(n, *body(story(n)), line(f"Page {2 * n - 1}   Page {2 * n}", FOOT)) for n in range(1, 5)]
    assert len(remove_headers(made)[1]) == 4


def test_a_small_page_in_the_middle_of_a_large_sheet_has_its_own_foot() -> None:
    made = [page(n, *body(story(n), 300), line("Acme 1/2026", 560.0, size=8.0)) for n in range(1, 5)]
    assert [r.text for r in remove_headers(made)[1]] == ["Acme 1/2026"] * 4
    few = [page(n, *body(story(n), 300), line("Acme 1/2026", 560.0 + 9 * n, size=8.0)) for n in range(1, 5)]
    assert remove_headers(few)[1] == ()


def test_a_heading_at_different_places_stays() -> None:
    made = [with_head(n, "Obligations", 40.0 + 25 * n) for n in range(1, 6)]
    assert remove_headers(made)[1] == ()


def test_headings_of_body_pages_stay() -> None:
    words = ["Parties", "Payment", "Delivery", "Warranty", "Liability", "Term"]
    made = [with_head(n, words[n - 1]) for n in range(1, 7)]
    assert remove_headers(made)[1] == ()


def test_numbered_headings_that_do_not_count_with_pages_stay() -> None:
    made = [with_head(n, f"Section {n * n + 3}") for n in range(1, 7)]
    assert remove_headers(made)[1] == ()


def test_a_line_in_the_middle_of_the_page_stays() -> None:
    made = [
        page(n, *body(story(n)), line("Repeated in the middle", 400), *body(story(n + 50), top=500))
        for n in range(1, 6)
    ]
    assert remove_headers(made)[1] == ()


@pytest.mark.parametrize(
    "first",
    [
        "The parties agree as follows:",
        "The monthly rent in year {n} is 500 euros.",
        "Question {n}",
        "Invoice No. 10{n}",
    ],
)
def test_a_first_line_of_the_body_stays(first: str) -> None:
    made = [page(n, *body([first.format(n=n), *story(n)])) for n in range(1, 5)]
    assert remove_headers(made)[1] == ()


def test_lines_of_a_form_below_its_first_stay() -> None:
    made = [
        page(n, *(line(text, 80.0 + 28 * row) for row, text in enumerate([WORDS[n], f"Due on {n}.5.2024", *story(n)])))
        for n in range(1, 5)
    ]
    assert remove_headers(made)[1] == ()


def test_a_sentence_below_other_headings_stays() -> None:
    words = ["Parties", "Payment", "Delivery"]
    lines = ["This clause is meant for demonstration only and has", "no weight whatsoever."]
    made = [
        page(n, line("Agreement", 30, size=9), line(words[n - 1], 60, size=15), *body(lines, 82), *body(story(n), 113))
        for n in (1, 2, 3)
    ]
    assert {removal.text for removal in remove_headers(made)[1]} == {"Agreement"}


@pytest.mark.parametrize(
    "headings",
    [
        [f"Article {n}" for n in range(1, 7)],
        [f"EXHIBIT {letter}" for letter in "ABCDEF"],
        [f"Chapter {n}: {WORDS[n].title()}" for n in range(1, 7)],
    ],
)
def test_large_headings_close_above_their_text_stay(headings: list[str]) -> None:
    made = [page(n, line(text, 60, size=14), *body(story(n), 90)) for n, text in enumerate(headings, 1)]
    assert remove_headers(made)[1] == ()


def test_headings_below_a_running_head_at_the_place_of_few_pages_stay() -> None:
    headings = {
        7: "3.1 Hydro Events",
        11: "3.2 Point Events",
        12: "3.3 Line Events",
        15: "3.4 Line Areas",
        17: "4 Areas",
    }
    made = [
        page(n, line("Data Model", 30), *([line(headings[n], 60)] if n in headings else []), *body(story(n), 90 + n))
        for n in range(1, 20)
    ]
    assert {removal.text for removal in remove_headers(made)[1]} == {"Data Model"}


def test_what_repeats_in_the_middle_of_short_pages_stays() -> None:
    made = [page(n, *body(story(n), 200), line("Signed by the buyer", 300), line("Date", 330)) for n in range(1, 5)]
    assert remove_headers(made)[1] == ()


def bundle(title: str, texts: list[str], top: float = 72.0, foot: str = "") -> list[Page]:
    """Pages that begin with the same title, a wide gap below it, as invoices of one bundle do."""
    made = [page(n, line(title, top), *body(story(n), top + 30), line(text, 700)) for n, text in enumerate(texts, 1)]
    return [page(each.page_number, *each.lines, line(foot.format(n=n), FOOT)) for n, each in enumerate(made, 1)]


def test_a_title_of_every_page_stays() -> None:
    made = bundle("Invoice", [f"Paid in {word}." for word in WORDS[:4]])
    assert remove_headers(made)[1] == ()


def test_a_larger_title_may_stand_nearer_to_the_edge() -> None:
    lines = [
        [line("Application", 54.0, size=size), *body([f"{word}."] * 4, 90)] for size in (13, 10) for word in WORDS[:4]
    ]
    small, large = lines[4:], lines[:4]
    assert remove_headers([page(n, *each) for n, each in enumerate(large, 1)])[1] == ()
    assert len(remove_headers([page(n, *each) for n, each in enumerate(small, 1)])[1]) == 4


def test_a_title_of_every_page_goes_where_the_text_runs_on_over_it_but_for_its_first_place() -> None:
    full = "which the parties have agreed upon, and the seller has the goods brought to the"
    made = [page(n, line("Sale of Goods", 72), *body([WORDS[n], *story(n), full], 102)) for n in (1, 2, 3)]
    assert [removal.page_number for removal in remove_headers(made)[1]] == [2, 3]
    said = [page(1, *made[0].lines[:-1], line("On the sale of goods in general", 550), made[0].lines[-1]), *made[1:]]
    assert [removal.page_number for removal in remove_headers(said)[1]] == [1, 2, 3]


def test_a_title_of_every_page_is_kept_once_where_the_pages_are_counted_through() -> None:
    made = bundle("Price Schedule", ["a.", "b.", "c.", "d."], foot="Page {n} of 4")
    assert {(r.page_number, r.reason) for r in remove_headers(made)[1] if r.text == "Price Schedule"} == {
        (n, "header") for n in (2, 3, 4)
    }


def test_a_line_as_large_as_the_body_that_stands_in_the_margin_goes() -> None:
    assert len(remove_headers(bundle("Annual Report", ["a.", "b.", "c.", "d."], top=36.0))[1]) == 4


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("3", (3, False)),
        ("- 12 -", (12, True)),
        ("Page 3 of 12", (3, True)),
        ("page 7", (7, True)),
        ("Seite 4 von 9", (4, True)),
        ("3 / 12", (3, True)),
        ("第 3 页 共 12 页", (3, True)),
        ("第3页", (3, True)),
        ("共 12 页，第 3 页", (3, True)),
        ("xiv", (14, False)),
        ("[9]", (9, False)),
        ("Page", None),
        ("3 apples", None),
        ("1,200", None),
        ("2021-03-04", None),
        ("Section 3", None),
    ],
)
def test_forms_of_page_numbers(text: str, wanted: tuple[int, bool] | None) -> None:
    assert parse_page_number(text) == wanted


def test_numbers_that_count_with_the_pages_go() -> None:
    made = [page(n, *body(story(n)), line(str(n + 10), FOOT)) for n in range(1, 5)]
    pages, removals = remove_page_numbers(made)
    assert texts(pages) == [story(n) for n in range(1, 5)]
    assert [(r.text, r.reason) for r in removals] == [(str(n + 10), "page_number") for n in range(1, 5)]


def test_roman_and_then_arabic_numbers_go() -> None:
    numbers = ["i", "ii", "iii", "1", "2", "3", "4"]
    made = [page(n, *body(story(n)), line(number, FOOT)) for n, number in enumerate(numbers, 1)]
    assert len(remove_page_numbers(made)[1]) == 7


def test_numbers_that_begin_anew_in_each_chapter_go() -> None:
    labels = ["1-1", "1-2", "1-3", "2-1", "2-2", "A-1"]
    made = [page(n, *body(story(n)), line(label, FOOT)) for n, label in enumerate(labels, 1)]
    assert [removal.text for removal in remove_page_numbers(made)[1]] == labels
    ranges = [page(n, *body(story(n)), line(f"{n * n}-{n * 7}", FOOT)) for n in range(1, 7)]
    assert remove_page_numbers(ranges)[1] == ()


def test_numbers_that_do_not_count_stay() -> None:
    made = [page(n, *body(story(n)), line("42", FOOT)) for n in range(1, 5)]
    assert remove_page_numbers(made)[1] == ()


def test_a_lone_number_on_a_single_page_stays_but_at_the_centre_of_its_foot() -> None:
    for kept in (line("1", FOOT), line("2", FOOT, 303.0), line("1", 300.0, 303.0)):
        assert remove_page_numbers([page(1, *body(story(1)), kept)])[1] == ()
    assert len(remove_page_numbers([page(1, *body(story(1)), line("1", FOOT, 303.0))])[1]) == 1


def test_a_single_page_may_say_that_it_is_page_one() -> None:
    assert len(remove_page_numbers([page(1, *body(story(1)), line("Page 1 of 1", FOOT))])[1]) == 1


def test_many_pages_are_quick() -> None:
    made = [page(n, line("Head", 30), *body(story(n), 300), line(str(n), FOOT)) for n in range(1, 5001)]
    pages, first = remove_headers(made)
    _, second = remove_page_numbers(pages)
    assert (len(first), len(second)) == (5000, 5000)


def test_larger_heads_that_count_through_left_and_right_pages_go() -> None:
    def head(number: int) -> Line:
        text = f"{number} K. T. Smith" if number % 2 == 0 else f"A guide for the authors of papers {number}"
        return line(text, 40.0, size=12.0)

    pages = [page(n, *([head(n)] if n > 1 else []), *body(story(n))) for n in range(1, 7)]
    kept, removed = remove_headers(pages)
    assert [removal.page_number for removal in removed] == [2, 3, 4, 5, 6]
    assert texts(kept) == [story(n) for n in range(1, 7)]


def test_headings_with_numbers_on_one_side_stay() -> None:
    pages = [page(n, *([line(f"Chapter {n}", 40.0, size=12.0)] if n % 2 else []), *body(story(n))) for n in range(1, 9)]
    assert remove_headers(pages)[1] == ()


def test_two_right_pages_after_the_first_are_enough_for_a_head() -> None:
    pages = [with_head(n, "The journal, June 2009" if n % 2 else "A. Writer, On exercise") for n in range(2, 6)]
    kept, removed = remove_headers([page(1, *body(story(1))), *pages])
    assert len(removed) == 4
    assert texts(kept) == [story(n) for n in range(1, 6)]


NAMES = ("Ann Smith", "Robert Brown", "Cid Jones", "Dana White", "Eve Black")


@pytest.mark.parametrize(
    "form", ["Signed: {name}", "Fee: {n} EUR", "Born: {n}", "Total:   {n}", "Signed: {name}, Berlin"]
)
def test_lines_of_every_page_that_say_something_else_stay_beside_running_ones(form: str) -> None:
    made = [
        page(n, *body(story(n)), line(form.format(name=name, n=1949 + n), 720), line("ACME Academy", 740))
        for n, name in enumerate(NAMES, 1)
    ]
    assert {removal.text for removal in remove_headers(made)[1]} == {"ACME Academy"}


@pytest.mark.parametrize("form", ["Fee: {n} EUR", "Born: {n}", "Account {n}", "No. {n}"])
def test_a_growing_number_that_is_no_page_number_by_form_stays(form: str) -> None:
    made = [page(n, *body(story(n)), line(form.format(n=1949 + n), FOOT)) for n in range(1, 6)]
    assert remove_headers(made)[1] == ()


@pytest.mark.parametrize(
    "form", ["Report {n}", "{n} Report", "Report - {n}", "Report (S. {n})", "Report {n} of 90 ACME"]
)
def test_a_page_number_beside_a_head_goes(form: str) -> None:
    assert len(remove_headers([with_head(n, form.format(n=n + 6)) for n in range(1, 6)])[1]) == 5


def test_a_larger_heading_that_returns_where_other_pages_have_theirs_stays() -> None:
    words = ["Balance", "Notes", "Cash", "Notes", "Equity", "Notes"]
    made = [
        page(n, line("Report", 22, size=9), line(word, 58, size=14), *body(story(n), 90), line(f"{n}", FOOT))
        for n, word in enumerate(words, 1)
    ]
    assert {removal.text for removal in remove_headers(made)[1]} == {"Report"}


def test_a_larger_title_in_the_margin_is_kept_once() -> None:
    made = [page(n, line("Certificate", 41, size=12), *body([f"{word}."] * 4, 90)) for n, word in enumerate(NAMES, 1)]
    assert [removal.page_number for removal in remove_headers(made)[1]] == [2, 3, 4, 5]


def test_years_as_headings_and_as_large_as_the_body_stay() -> None:
    heads = [page(n, line(f"{2018 + n}", 46, size=16), *body(story(n), 90)) for n in range(1, 5)]
    assert remove_page_numbers(heads)[1] == ()
    feet = [[page(n, *body(story(n)), line(f"{2018 + n}", 740, size=size)) for n in range(1, 5)] for size in (10, 8)]
    assert [len(remove_page_numbers(made)[1]) for made in feet] == [0, 4]
