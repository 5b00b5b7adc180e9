"""Tables in text: what divides them, their encodings, and large ones part by part."""

from __future__ import annotations

import random
import tracemalloc
from pathlib import Path

import pytest

from qwen_batch import readers
from qwen_batch.errors import DocumentError
from qwen_batch.read.items import FileItem, Task
from qwen_batch.read.text import plain as text_module
from qwen_batch.read.text import tables_in_text
from qwen_batch.read.text.tables_in_text import read_csv
from qwen_batch.records import CleanDocument, CleanSteps


def rows(path: Path) -> tuple[tuple[str, ...], ...]:
    return read_csv(path).pages[0].tables[0].rows


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a;b\n1,5;2,5\n", (("a", "b"), ("1,5", "2,5"))),
        ("a\tb\nx, y\tz\n", (("a", "b"), ("x, y", "z"))),
        ("a|b\r\n1|2\r\n", (("a", "b"), ("1", "2"))),
        ('a,b\n"x\ny, ""z""",2\n', (("a", "b"), ('x\ny, "z"', "2"))),
        ("sep=;\na;b\n1;2\n", (("a", "b"), ("1", "2"))),
        ("a,b,c\n1\n\n,,\n4,5,6,7\n", (("a", "b", "c", ""), ("1", "", "", ""), ("4", "5", "6", "7"))),
        ("title\nmore\n", (("title",), ("more",))),
    ],
)
def test_what_divides_cells_and_rows(tmp_path: Path, text: str, wanted: object, encoding: str) -> None:
    (tmp_path / "a.csv").write_bytes(text.encode(encoding))
    assert rows(tmp_path / "a.csv") == wanted


def test_tabs_are_what_a_tsv_means(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("a\tb,c\n1\t2,3\n")
    assert rows(tmp_path / "a.tsv") == (("a", "b,c"), ("1", "2,3"))


@pytest.mark.parametrize(("data", "kind"), [(b"", "empty"), (b" \n,,\n", "empty"), (b"%PDF-1.7\n", "wrong_type")])
def test_what_is_wrong_with_a_file_is_said(tmp_path: Path, data: bytes, kind: str) -> None:
    (tmp_path / "a.csv").write_bytes(data)
    with pytest.raises(DocumentError) as caught:
        read_csv(tmp_path / "a.csv")
    assert caught.value.error_type == kind


def test_a_quote_that_is_never_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables_in_text, "MAX_FIELD_CHARS", 1000)
    (tmp_path / "a.csv").write_text('a,b\n"' + "1,2\n" * 1000)
    with pytest.raises(DocumentError, match="save it anew, or name it"):
        read_csv(tmp_path / "a.csv")


def clean(path: Path) -> CleanDocument:
    return readers.read_and_clean(Task(FileItem("d", path, "d"), (), 10, CleanSteps()))


def table(path: Path, num_rows: int) -> Path:
    random.seed(1)
    lines = (f"{number};Größe {random.random()};x|y\n" for number in range(num_rows))
    path.write_text("id;size;note\n" + "".join(lines))
    return path


def test_parts_give_the_text_of_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = table(tmp_path / "a.csv", 500)
    whole = clean(path)
    monkeypatch.setattr(text_module, "LONG_BYTES", 1000)
    monkeypatch.setattr(tables_in_text, "SECTION_CHARS", 2000)
    parts = clean(path)
    assert parts.text == whole.text
    assert parts.text.count("---") == 3
    assert (len(whole.pages[0].tables), parts.pages[0].tables) == (1, ())


def test_memory_grows_with_the_text_and_not_with_its_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = table(tmp_path / "a.csv", 6_000)
    monkeypatch.setattr(text_module, "LONG_BYTES", 1000)
    monkeypatch.setattr(tables_in_text, "SECTION_CHARS", 6_000)
    clean(path)  # what is loaded stays
    tracemalloc.start()
    done = clean(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * len(done.text.encode("utf-16-le"))
