"""Japanese that is written from the top down is read from right to left, band by band."""

from __future__ import annotations

from pathlib import Path

import pytest

from qwen_batch.read.page.vertical import in_columns, is_written_down
from qwen_batch.read.pdf import read_pdf
from qwen_batch.records import Line

WIDTH = 600.0


def column(text: str, right: float, top: float = 60.0) -> Line:
    return Line(text, (right - 10, top, right, top + 10 * len(text)), 10.0)


def test_columns_come_from_right_to_left_and_bands_from_the_top_down() -> None:
    upper = [column(f"上の行は{number}番目である", 500 - 17 * number) for number in range(6)]
    lower = [column(f"下の行は{number}番目である", 500 - 17 * number, 400) for number in range(6)]
    drawn = [*upper[::-1], *lower[::-1]]
    assert is_written_down(drawn)
    assert in_columns(drawn, WIDTH) == (*upper, *lower)


def test_pages_with_some_tall_lines_are_not_written_down() -> None:
    across = [Line("横書きの行がここにある", (60, 60 + 12 * n, 170, 70 + 12 * n), 10.0) for n in range(6)]
    assert not is_written_down([*across, column("縦書きの見出し", 40.0)])
    assert not is_written_down([column("TURNED TEXT OF A LANDSCAPE TABLE", 40.0 + 12 * n) for n in range(6)])


@pytest.mark.corpus
def test_a_poem(corpus: Path) -> None:
    (page,) = read_pdf(corpus / "rtl_vertical" / "pdfminer__jo.pdf").pages
    assert page.written_down
    texts = [line.text for line in page.lines]
    assert texts[:4] == ["序", "わたくしといふ現象は", "假定された有機交流電燈の", "ひとつの青い照明です"]
    assert texts[-2:] == ["第四次延長のなかで主張されます", "大正十三年一月廿日\u3000\u3000宮澤賢治"]
