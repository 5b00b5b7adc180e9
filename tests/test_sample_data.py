"""The sample files are what their README says, and the generator still writes them."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pypdfium2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qwen_batch.read.items import FileItem, Task
from qwen_batch.readers import read_and_clean
from qwen_batch.records import CleanSteps

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "sample_data"
CONTRACTS = sorted(path.stem for path in (DATA / "contracts").glob("*.pdf"))
LINE_END_HYPHENS = "\x02\ufffe\xad"  # what PDFium makes of a hyphen at the end of a line, by version
sys.path.append(str(DATA))  # the generator is a script beside its data, not a part of the package
LINEBREAK = importlib.import_module("generator.linebreak")
FRAME_CHARS = 150  # header and footer of one page, without white space, at most
MEBIBYTE = 2**20


def page_texts(path: Path, password: str | None = None) -> list[str]:
    with pypdfium2.PdfDocument(path, password=password) as document:
        return [page.get_textpage().get_text_range() for page in document]


def squeeze(text: str) -> str:
    """Without white space and hyphens."""
    return re.sub(rf"[\s\-{LINE_END_HYPHENS}]", "", text)


def truth_blocks(name: str) -> list[str]:
    return (DATA / "truth" / "contracts" / f"{name}.txt").read_text(encoding="utf-8").rstrip("\n").split("\n\n")


def truth_words(name: str) -> Iterator[str]:
    """Words in order, Chinese ones without the signs around them; the bars and rules of tables are not words."""
    for block in truth_blocks(name):
        for line in block.split("\n"):
            if not re.fullmatch(r"\|( --- \|)+", line):
                bare = line.replace("|", " ") if line.startswith("| ") else line
                yield from filter(None, map(squeeze, re.split(r"\s|(?<=[，。；：、])", bare)))


def records(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").rstrip("\n").split("\n")]


def test_there_are_english_and_chinese_contracts() -> None:
    chinese = [name for name in CONTRACTS if name.startswith("zh_")]
    assert len(CONTRACTS) - len(chinese) >= 6
    assert len(chinese) >= 4
    assert {path.stem for path in (DATA / "truth" / "contracts").iterdir()} == set(CONTRACTS)


@pytest.mark.parametrize("name", CONTRACTS)
def test_every_word_of_the_truth_is_in_the_pdf_in_order_and_little_else_is(name: str) -> None:
    pages = page_texts(DATA / "contracts" / f"{name}.pdf")
    printed = squeeze("".join(pages))
    position = matched = 0
    for word in truth_words(name):
        found = printed.find(word, position)
        # Nothing but the end of a page stands between two words.
        assert 0 <= found - position <= 2 * FRAME_CHARS, f"{word!r} after {printed[max(0, position - 60) : position]!r}"
        position = found + len(word)
        matched += len(word)
    assert len(printed) - matched <= FRAME_CHARS * len(pages)


@pytest.mark.parametrize("name", CONTRACTS)
def test_the_truth_has_no_printing_in_it(name: str) -> None:
    for block in truth_blocks(name):
        assert block.strip() == block
        assert not re.search(rf"[{LINE_END_HYPHENS}]|[a-z]-$|第 ?\d+ ?页|^- \d+ -$|^Page \d+", block, re.MULTILINE)
        if block.startswith("|"):
            rows = block.split("\n")
            assert re.fullmatch(r"\|( --- \|)+", rows[1])
            assert len({row.count("|") for row in rows}) == 1


def test_page_numbers_and_headers_are_printed_in_the_styles_that_the_readme_lists() -> None:
    styles = {
        "mutual_nda": r"^Page 2 of 3\r?$",
        "it_services": r"^- 2 -\r?$",
        "warehouse_lease": r"^2\b",
        "software_licence": r"Page 2/3",
        "zh_procurement": r"^第 2 页 共 3 页\r?$",
        "zh_software_development": r"^2/3\r?$",
    }
    for name, pattern in styles.items():
        assert re.search(pattern, page_texts(DATA / "contracts" / f"{name}.pdf")[1], re.MULTILINE), name


def test_words_are_broken_at_added_hyphens_and_at_their_own() -> None:
    added, own = [], []
    for name in CONTRACTS:
        words = set(re.findall(r"[a-z]+(?:-[a-z]+)*", "\n".join(truth_blocks(name))))
        text = "\n".join(page_texts(DATA / "contracts" / f"{name}.pdf"))
        line_end = rf"([a-z]+)(?:-\r?\n|[{LINE_END_HYPHENS}]\s*)([a-z]+)"
        for head, tail in re.findall(line_end, text):
            added += [f"{head}-{tail}"] if head + tail in words else []
            own += [f"{head}-{tail}"] if any(f"{head}-{tail}" in word for word in words) else []
    assert len(added) >= 40
    assert len(own) >= 5
    assert "non-compete" in own


@given(
    words=st.lists(st.text("abdeginorst-Z中文，（）", min_size=1, max_size=14).filter(str.strip), min_size=1),
    width=st.integers(20, 60),
)
def test_broken_lines_hold_the_same_text_and_fit(words: list[str], width: int) -> None:
    text = " ".join(words)
    lines: list[str] = LINEBREAK.break_lines(text, width - 4, width, len)
    assert squeeze("".join(lines)) == squeeze(text)
    assert len(lines[0]) <= width - 4
    assert all(0 < len(line) <= width for line in lines)


def test_a_chinese_line_does_not_start_with_a_closing_sign() -> None:
    assert LINEBREAK.break_lines("甲方支付（三日内）。", 4, 4, len) == ["甲方支付", "（三日", "内）。"]


def test_one_contract_is_long_and_the_others_are_short() -> None:
    pages = {name: len(page_texts(DATA / "contracts" / f"{name}.pdf")) for name in CONTRACTS}
    assert pages.pop("master_services") >= 30
    assert set(pages.values()) <= {2, 3, 4, 5}
    assert sum(1 for word in truth_words("master_services")) >= 12_000
    blocks = [block for block in truth_blocks("master_services") if len(block) > 200]
    assert len(set(blocks)) == len(blocks)


def test_tickets() -> None:
    tickets = records(DATA / "tickets.jsonl")
    assert len({ticket["id"] for ticket in tickets}) == len({ticket["text"] for ticket in tickets}) == 60
    assert [ticket["priority"] for ticket in tickets if "priority" in ticket] == [10]
    for ticket in tickets:
        metadata, text = ticket["metadata"], ticket["text"]
        assert isinstance(metadata, dict)
        assert isinstance(text, str)
        assert not re.search(r"[{}]", text)
        length = len(text.split()) if metadata["language"] == "en" else len(squeeze(text))
        assert 20 <= length <= 250


def test_troublesome_pdfs_have_the_trouble_that_they_are_named_for() -> None:
    folder = DATA / "troublesome"
    for name in ("truncated", "zero_bytes", "html_named", "encrypted"):
        with pytest.raises(pypdfium2.PdfiumError, match="password" if name == "encrypted" else "format"):
            pypdfium2.PdfDocument(folder / f"{name}.pdf")
    assert "Settlement" in page_texts(folder / "encrypted.pdf", password="open-sesame")[0]
    assert page_texts(folder / "image_only.pdf") == page_texts(folder / "blank.pdf") == [""]
    with pypdfium2.PdfDocument(folder / "image_only.pdf") as scan, pypdfium2.PdfDocument(folder / "blank.pdf") as blank:
        assert [len(list(document[0].get_objects())) for document in (scan, blank)] == [1, 0]
    assert (folder / "zero_bytes.pdf").stat().st_size == 0
    assert (folder / "html_named.pdf").read_bytes().startswith(b"<!DOCTYPE html>")
    assert (folder / "truncated.pdf").read_bytes().startswith(b"%PDF-")
    assert (folder / "good.pdf").read_bytes() == (DATA / "contracts" / "mutual_nda.pdf").read_bytes()
    assert "Copyright" in (folder / "good.txt").read_text(encoding="utf-8")


def test_bad_lines() -> None:
    def verdict(line: bytes) -> str:
        try:
            record = json.loads(line.decode())
        except UnicodeDecodeError:
            return "not UTF-8"
        except json.JSONDecodeError:
            return "not JSON"
        if not isinstance(record, dict):
            return "not an object"
        return str(record["id"]) if "text" in record else "no text"

    lines = (DATA / "troublesome" / "bad_lines.jsonl").read_bytes().rstrip(b"\n").split(b"\n")
    expected = ["L-1", "not JSON", "not an object", "no text", "L-1", "not UTF-8", "L-7"]
    assert [verdict(line) for line in lines] == expected


def test_the_files_are_small() -> None:
    sizes = {
        path: path.stat().st_size for path in DATA.rglob("*") if path.is_file() and "__pycache__" not in path.parts
    }
    assert sum(sizes.values()) < 3 * MEBIBYTE
    assert max(size for path, size in sizes.items() if path.parent.name == "troublesome") < 60_000


def test_the_generator_writes_the_same_bytes_each_time_and_what_is_committed(tmp_path: Path) -> None:
    """PDFs are compared by their text: other versions of zlib or reportlab may write other bytes."""
    generator = [sys.executable, str(DATA / "make_sample_data.py"), "--skip-chinese", "--out", str(tmp_path)]
    subprocess.run(generator, check=True, capture_output=True, timeout=60)
    again = subprocess.run([*generator, "--check"], check=False, capture_output=True, text=True, timeout=60)
    assert (again.returncode, again.stderr) == (0, "")
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) >= 26
    for path in written:
        committed = DATA / path.relative_to(tmp_path)
        if path.suffix != ".pdf":
            assert path.read_bytes() == committed.read_bytes(), path.name
        elif path.parent.name == "contracts":
            assert page_texts(path) == page_texts(committed), path.name


def test_a_changed_file_fails_the_check(tmp_path: Path) -> None:
    generator = [sys.executable, str(DATA / "make_sample_data.py"), "--skip-chinese", "--out", str(tmp_path)]
    subprocess.run(generator, check=True, capture_output=True, timeout=60)
    (tmp_path / "tickets.jsonl").write_text("{}\n")
    result = subprocess.run([*generator, "--check"], check=False, capture_output=True, text=True, timeout=60)
    assert result.returncode == 1
    assert result.stderr == "tickets.jsonl: differs from what this script writes; run it without --check\n"


def test_a_missing_font_names_the_package() -> None:
    generator = [sys.executable, str(DATA / "make_sample_data.py"), "--font", "no-such-font.ttf", "--check"]
    result = subprocess.run(generator, check=False, capture_output=True, text=True, timeout=60)
    assert result.returncode == 2
    assert result.stderr.startswith("no Chinese font at no-such-font.ttf: install it with `apt-get install fonts-droid")


@pytest.mark.parametrize("name", CONTRACTS)
def test_reading_and_cleaning_give_the_truth_to_the_character(name: str) -> None:
    path = DATA / "contracts" / f"{name}.pdf"
    task = Task(FileItem(name, path, str(path)), (), 1000, CleanSteps())
    assert read_and_clean(task).text == "\n\n".join(truth_blocks(name))
