"""From paths to items."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from qwen_batch.errors import UsageError
from qwen_batch.read.inputs import FileItem, iter_inputs
from qwen_batch.records import Document, Failure


@pytest.fixture
def tmp_path(tmp_path: Path) -> Path:
    """A folder with a name that stays: doc_ids begin with it."""
    folder = tmp_path / "in"
    folder.mkdir()
    return folder


def ids(*paths: str | Path) -> list[str]:
    """doc_ids, without the name of the folder that most tests search."""
    return [item.doc_id.removeprefix("in/") for item in iter_inputs([str(path) for path in paths])]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("b.txt", "a.txt", "sub/a.txt", "sub/deep/c.md", ".hidden.txt", ".git/x.txt", "no_suffix"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("text of " + name)
    return tmp_path


def test_a_folder_is_searched_through_in_order(tree: Path) -> None:
    assert ids(tree) == ["a.txt", "b.txt", "no_suffix", "sub/a.txt", "sub/deep/c.md"]


def test_a_file_is_named_by_its_folder_and_its_name(tree: Path) -> None:
    assert next(iter_inputs([str(tree)])).doc_id == "in/a.txt"
    assert ids(tree / "sub" / "a.txt") == ["sub/a.txt"]


def test_a_glob_is_relative_to_its_fixed_part(tree: Path) -> None:
    assert ids(tree / "*.txt") == ["a.txt", "b.txt"]
    assert ids(tree / "**" / "*.txt") == ["a.txt", "b.txt", "sub/a.txt"]
    assert ids(tree / "s*" / "*.txt") == ["sub/a.txt"]
    assert ids(tree / "sub" / "**") == ["sub/a.txt", "sub/deep/c.md"]


def test_a_file_with_glob_characters_in_its_name(tmp_path: Path) -> None:
    (tmp_path / "a[1].txt").write_text("x")
    assert ids(tmp_path / "a[1].txt") == ["a[1].txt"]


def test_a_file_that_is_named_twice_counts_once(tree: Path) -> None:
    assert ids(tree / "a.txt", tree / "*.txt", tree / "sub" / ".." / "b.txt") == ["a.txt", "b.txt"]


def test_a_link_to_a_file_is_a_document_of_its_own(tree: Path) -> None:
    (tree / "link.txt").symlink_to(tree / "a.txt")
    assert ids(tree / "*.txt") == ["a.txt", "b.txt", "link.txt"]


def test_a_document_keeps_its_doc_id_whatever_else_is_there(tmp_path: Path) -> None:
    first, second = tmp_path / "A", tmp_path / "B"
    for folder in (first, second):
        folder.mkdir()
    (second / "x.txt").write_text("beta")
    alone = ids(first, second)
    (first / "x.txt").write_text("alpha")
    assert alone == ["B/x.txt"]
    assert ids(first, second) == ["A/x.txt", "B/x.txt"]
    assert ids(second, first) == ["B/x.txt", "A/x.txt"]


def test_folders_of_the_same_name_are_told_apart_by_their_parents(tmp_path: Path) -> None:
    folders = [tmp_path / parent / "inbox" for parent in ("p", "q")]
    for folder in folders:
        folder.mkdir(parents=True)
        (folder / "a.txt").write_text("x")
    assert ids(*folders) == ["p/inbox/a.txt", "q/inbox/a.txt"]


def test_an_input_inside_another_is_part_of_it(tree: Path) -> None:
    assert ids(tree / "sub", tree) == ["sub/a.txt", "sub/deep/c.md", "a.txt", "b.txt", "no_suffix"]
    assert ids(tree, tree / "sub") == ["a.txt", "b.txt", "no_suffix", "sub/a.txt", "sub/deep/c.md"]


@pytest.mark.parametrize("other", ["archive", "archive/*.txt", "archive/**/*.txt"])
def test_ids_do_not_change_with_a_folder_that_comes_and_goes(tmp_path: Path, other: str) -> None:
    (tmp_path / "inbox").mkdir()
    (tmp_path / "inbox/a.txt").write_text("a")
    paths = [str(tmp_path / "inbox"), str(tmp_path / other)]
    before = [item.doc_id for item in iter_inputs(paths)]
    (tmp_path / "archive").mkdir()
    (tmp_path / "archive/b.txt").write_text("b")
    assert [item.doc_id for item in iter_inputs(paths)] == ["inbox/a.txt", "archive/b.txt"]
    assert before[0] == "inbox/a.txt"


@pytest.mark.parametrize("name", ["none.pdf", "none/*.pdf", "none"])
def test_a_path_that_does_not_exist_is_a_failure(tmp_path: Path, name: str) -> None:
    missing = str(tmp_path / name)
    (item,) = iter_inputs([missing])
    assert item == Failure(
        {"none/*.pdf": missing, "none.pdf": "in/none.pdf", "none": "none"}[name],
        missing,
        "read",
        "not_found",
        f"{missing}: no such file or folder; paths in a job file are relative to that file",
    )


@pytest.mark.parametrize("name", ["", "*.pdf", "**"])
def test_an_empty_folder_is_a_warning(tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture) -> None:
    path = str(tmp_path / name)
    assert list(iter_inputs([path])) == []
    assert f"{path}: no files there" in caplog.text


def test_kinds_that_are_not_read_are_failures(tmp_path: Path) -> None:
    (tmp_path / "a.epub").write_bytes(b"PK\x03\x04")
    (tmp_path / "b").write_bytes(b"\x89PNG\r\n")
    made = list(iter_inputs([str(tmp_path)]))
    assert [(item.doc_id, getattr(item, "error_type", None)) for item in made] == [
        ("in/a.epub", "unsupported"),
        ("in/b", "unsupported"),
    ]


def test_a_pdf_without_a_suffix_is_recognised(tmp_path: Path) -> None:
    (tmp_path / "report").write_bytes(b"%PDF-1.4\n")
    assert [type(item) for item in iter_inputs([str(tmp_path)])] == [FileItem]


def test_links_in_a_circle_end(tree: Path) -> None:
    (tree / "sub" / "up").symlink_to(tree)
    (tree / "sub" / "self").symlink_to(tree / "sub")
    assert ids(tree) == ["a.txt", "b.txt", "no_suffix", "sub/a.txt", "sub/deep/c.md"]
    assert ids(tree / "**" / "*.md") == ["sub/deep/c.md"]


def test_linked_folders_are_followed(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "z.txt").write_text("z")
    (tree / "linked").symlink_to(elsewhere)
    assert "linked/z.txt" in ids(tree)


def test_a_broken_link_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "gone.txt").symlink_to(tmp_path / "nowhere.txt")
    (item,) = iter_inputs([str(tmp_path)])
    assert isinstance(item, Failure)
    assert (item.doc_id, item.error_type) == ("in/gone.txt", "not_found")


def test_what_is_not_a_regular_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.txt")
    for named in (tmp_path / "pipe.txt", tmp_path, tmp_path / "*.txt", tmp_path / "**" / "*"):
        (item,) = iter_inputs([str(named)])
        assert isinstance(item, Failure)
        assert (item.doc_id, item.error_type) == ("in/pipe.txt", "unsupported")
        assert item.error == (
            "not a regular file but a pipe, socket or device, which is never opened: save what it gives as a file"
        )


def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9.txt")
    try:
        (tmp_path / name).write_text("x")
    except OSError:
        pytest.skip("the file system refuses such names")
    (item,) = iter_inputs([str(tmp_path)])
    assert item.doc_id == "in/caf\\xe9.txt"
    assert item.source.encode()


def test_jsonl_files_and_standard_input(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"id":"1","text":"x"}\nbad\n')
    stdin = io.BytesIO(b'{"id":"2","text":"y"}\nbad\n')
    made = list(iter_inputs([str(tmp_path), "-"], stdin))
    assert [item.doc_id for item in made] == ["1", "in/a.jsonl:2", "2", "stdin:2"]
    assert made[2].source == "stdin:1"


def test_standard_input_is_read_once_and_must_be_there() -> None:
    assert len(list(iter_inputs(["-", "-"], io.BytesIO(b'{"text":"x"}')))) == 1
    with pytest.raises(UsageError, match="needs JSON lines on standard input"):
        list(iter_inputs(["-"]))


def test_inputs_are_streamed() -> None:
    class Endless(io.RawIOBase):
        number = 0

        def readline(self, size: int | None = -1, /) -> bytes:
            self.number += 1
            return b'{"text":"x"}\n'

    endless = Endless()
    items = iter_inputs(["-"], endless)  # type: ignore[arg-type]
    for _ in range(3):
        assert isinstance(next(items), Document)
    assert endless.number == 3


def test_duplicate_ids_keep_the_first_and_name_it(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"id":"x","text":"1"}\n{"id":"x","text":"2"}\n')
    (tmp_path / "b.jsonl").write_text('\n{"id":"x","text":"3"}\n')
    first, second, third = iter_inputs([str(tmp_path)])
    assert isinstance(first, Document)
    source = tmp_path / "a.jsonl"
    assert second == Failure(
        "x@in/a.jsonl:2",
        f"{source}:2",
        "read",
        "duplicate_id",
        f"the id 'x' is taken by {source}:1: ids must differ within a run",
    )
    assert third.doc_id == "x@in/b.jsonl:2"


def test_failures_have_ids_of_their_own(tmp_path: Path) -> None:
    for folder in ("p", "q"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.jsonl").write_text("bad\n" + '{"id":"k","text":5}\n{"id":"k","text":5}\n')
    names = ids(tmp_path)
    assert len(set(names)) == len(names) == 6


def test_a_record_may_not_take_the_id_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    (tmp_path / "b.jsonl").write_text('{"id":"in/a.txt","text":"1"}\n')
    _, item = iter_inputs([str(tmp_path)])
    assert isinstance(item, Failure)
    assert item.error_type == "duplicate_id"
    assert str(tmp_path / "a.txt") in item.error
