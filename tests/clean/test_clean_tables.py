"""Tables over page breaks."""

from __future__ import annotations

from clean_helpers import LEADING, TOP, document, line, page

from qwen_batch.clean import clean_document
from qwen_batch.records import CleanSteps, Line, Page, Table

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
