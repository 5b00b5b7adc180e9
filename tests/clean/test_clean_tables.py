"""Tables over page breaks."""

from __future__ import annotations

import time

from clean_helpers import LEADING, TOP, document, line, page

from qwen_batch.clean import clean_document
from qwen_batch.clean.cells import join_cells
from qwen_batch.records import CleanSteps, Line, Page, Span, Table

HEAD = ("item", "price")


def table_page(number: int, rows: list[tuple[str, str]], *others: Line, x1: float = 400.0) -> Page:
    lines = [line(f"{left} {right}", TOP + LEADING * place) for place, (left, right) in enumerate(rows)]
    table = Table(tuple(rows), (70.0, TOP - 2, x1, TOP + LEADING * len(rows)))
    return page(number, *lines, *others, tables=[table])


def test_a_table_over_three_pages_is_one() -> None:
    pages = [
        table_page(1, [HEAD, ("chair", "120")]),
        table_page(2, [HEAD, ("desk", "300")]),
        table_page(3, [("lamp", "20")], line("Total 440", TOP + 60)),
    ]
    clean = clean_document(document(*pages), CleanSteps())
    assert clean.text == "| item | price |\n| --- | --- |\n| chair | 120 |\n| desk | 300 |\n| lamp | 20 |\n\nTotal 440"
    assert [len(each.tables) for each in clean.pages] == [1, 0, 0]
    assert [(removal.page_number, removal.text, removal.reason) for removal in clean.removed] == [
        (2, "item | price", "repeated_table_head")
    ]


def test_tables_with_text_between_or_other_columns_stay_apart() -> None:
    first = table_page(1, [HEAD, ("chair", "120")], line("And further:", TOP + 60))
    second = table_page(2, [HEAD, ("desk", "300")])
    wide = table_page(3, [HEAD, ("lamp", "20")], x1=560.0)
    clean = clean_document(document(first, second, wide), CleanSteps())
    assert [len(each.tables) for each in clean.pages] == [1, 1, 1]
    assert clean.text.count("| item | price |") == 3


def test_a_head_of_two_rows_is_repeated_once_and_merged_cells_keep_their_place() -> None:
    heads = [("sold", ""), ("item", "price")]
    first, second = table_page(1, [*heads, ("chair", "120")]), table_page(2, [*heads, ("both", ""), ("desk", "300")])
    spans = (Span(0, 0, 1, 2),)
    pages = [
        first._replace(tables=(first.tables[0]._replace(spans=spans, header_rows=2),)),
        second._replace(tables=(second.tables[0]._replace(spans=(*spans, Span(2, 0, 1, 2))),)),
    ]
    clean = clean_document(document(*pages), CleanSteps())
    (table,) = clean.pages[0].tables
    assert table.rows == (*heads, ("chair", "120"), ("both", ""), ("desk", "300"))
    assert (table.spans, table.header_rows) == ((Span(0, 0, 1, 2), Span(3, 0, 1, 2)), 2)
    assert [removal.text for removal in clean.removed] == ["sold | ", "item | price"]


def test_a_row_that_the_break_parts_is_one() -> None:
    upper = [HEAD, ("chair", "with arms, de-"), ("desk", "of oak and")]
    lower = [HEAD, ("", "beech"), ("lamp", "of brass")]
    clean = clean_document(document(table_page(1, upper), table_page(2, lower)), CleanSteps())
    assert clean.pages[0].tables[0].rows == (*upper[:2], ("desk", "of oak and beech"), ("lamp", "of brass"))


def test_a_row_without_an_entry_in_the_first_column_may_be_whole() -> None:
    for first, last in (("", "of beech"), ("", "300")):
        upper = [HEAD, ("desk", "of oak.")]
        clean = clean_document(document(table_page(1, upper), table_page(2, [(first, last), ("a", "b")])), CleanSteps())
        assert clean.pages[0].tables[0].rows == (*upper, (first, last), ("a", "b"))


def test_running_heads_of_two_pages_may_stand_between() -> None:
    first = table_page(1, [HEAD, ("chair", "120")])
    second = table_page(2, [HEAD, ("desk", "300")])
    pages = [
        page._replace(lines=(line(f"Our report {number}", TOP - 30), *page.lines))
        for number, page in enumerate((first, second), 1)
    ]
    clean = clean_document(document(*pages), CleanSteps(headers_footers=False, page_numbers=False))
    assert [len(each.tables) for each in clean.pages] == [1, 0]
    other = second._replace(lines=(line("Prices of 2024", TOP - 30), *second.lines))
    apart = clean_document(document(pages[0], other), CleanSteps(headers_footers=False, page_numbers=False))
    assert [len(each.tables) for each in apart.pages] == [1, 1]


def test_a_cell_of_half_a_file_takes_the_time_of_its_length() -> None:
    """A quotation mark that is not closed makes one."""
    lines = ["the quick brown fox jumps over a lazy dog and re-", "turns to the yard"] * 40_000
    started = time.process_time()
    (joined,), _ = join_cells([Page(1, (Line("", table=0),), (Table((("\n".join(lines),),)),))])
    assert time.process_time() - started < 8
    whole = "the quick brown fox jumps over a lazy dog and returns to the yard"
    assert joined.tables[0].rows == ((" ".join([whole] * 40_000),),)
