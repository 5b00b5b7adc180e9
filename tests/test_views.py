"""`extract --diff` and `--html`: what was changed and taken out is there to be seen."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from qwen_batch.cli import app
from qwen_batch.records import ReadSettings
from qwen_batch.views import format_diff, format_html

TAGS = ("!doctype", "meta", "title", "style", "body", "h1", "h2", "div", "pre", "table", "tr", "th", "td", "p")
CONTRACT = Path(__file__).resolve().parents[1] / "sample_data" / "contracts" / "employment.pdf"


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["extract", *arguments])
    return result.exit_code, result.output


def test_diff_shows_words_and_reasons() -> None:
    code, shown = run("--diff", str(CONTRACT))
    assert code == 0
    assert "@@ page 1 @@\nremoved header: Veldt & Marsh" in shown
    assert "[-addi- tional-] {+additional+}" in shown
    assert "on the first [-pay- day.-] {+pay-day.+} If" in shown


def test_a_reason_stands_in_one_line_however_much_it_took(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("It is so ordered.")
    removed = [{"page_number": 1, "text": str(number), "reason": "line_number"} for number in (1, 2, 3)]
    pages = [{"page_number": 1, "text": "It is so ordered.", "ocr": True, "ocr_confidence": 0.987}]
    report = {"source": "a.txt", "num_pages": 1, "warnings": [], "flags": ["ocr"], "removed": removed, "pages": pages}
    assert "<ul class=gone><li>line_number: 1 | 2 | 3</ul>" in format_html(tmp_path / "a.txt", ReadSettings(), report)
    assert "removed line_number: 1 | 2 | 3\n" in format_diff(tmp_path / "a.txt", ReadSettings(), report)


def test_diff_of_text_that_is_too_long_says_so(tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("\u200bx " + "word " * 30_000 + "\u200bx")
    assert "too many to compare" in run("--diff", str(tmp_path / "long.txt"))[1]


def test_html_holds_pictures_text_and_what_is_gone() -> None:
    code, shown = run("--html", str(CONTRACT))
    assert code == 0
    assert len(re.findall(r'<img alt="page \d" loading=lazy src="data:image/jpeg;base64,/9j/', shown)) == 3
    assert "first pay-day" in shown
    assert "<li>header: Veldt &amp; Marsh" in shown
    assert "http" not in shown


def test_html_of_other_files_has_text_alone(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("<b>5 < 6</b>")
    shown = run("--html", str(tmp_path / "a.txt"))[1]
    assert "&lt;b&gt;5 &lt; 6&lt;/b&gt;" in shown
    assert "<img" not in shown


@pytest.mark.parametrize("flag", ["--diff", "--html"])
def test_a_file_that_fails_is_told_as_always(tmp_path: Path, flag: str) -> None:
    (tmp_path / "a.pdf").write_bytes(b"")
    code, shown = run(flag, str(tmp_path / "a.pdf"))
    assert (code, "failed (empty)" in shown) == (3, True)


def test_html_draws_tables_where_they_stand(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("Name,Sum\n<b>,1|2\n")
    shown = run("--html", str(tmp_path / "a.csv"))[1]
    assert "<table><tr><th>Name<th>Sum<tr><td>&lt;b&gt;<td>1|2</table>" in shown


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    text = "<script>x</script> \x1b[2J \u202edrow \0 http://a.b/c <img src=http://a.b/d onerror=x>"
    (tmp_path / "a.txt").write_text(f"{text}\n\n| a |\n| --- |\n| {text} |")
    for flag in ("--html", "--diff"):
        shown = run(flag, "--without", "unicode", str(tmp_path / "a.txt"))[1]
        assert not {"\x1b", "\0", "\u202e"} & {*shown}
    tags = re.findall(r"<([^>]*)", run("--html", "--without", "unicode", str(tmp_path / "a.txt"))[1])
    assert {tag.partition(" ")[0] for tag in tags} <= {*TAGS, *(f"/{tag}" for tag in TAGS)}
    assert not any("src" in tag or "href" in tag for tag in tags)


@pytest.mark.parametrize("word", ["word", "w{}"])
def test_diff_of_a_long_page_takes_no_square(tmp_path: Path, word: str) -> None:
    words = [word.format(number) for number in range(19_000)]
    (tmp_path / "a.txt").write_text(" ".join(["of\ufb01ce", *words, "of\ufb01ce"]))
    start = time.process_time()
    code, shown = run("--diff", str(tmp_path / "a.txt"))
    assert code == 0
    assert "{+office" in shown
    assert (shown.count("{+office+}") == 2) == (word != "word")
    assert time.process_time() - start < 5
