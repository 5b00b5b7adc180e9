"""Reading and cleaning together, in child processes."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from reportlab.lib.pagesizes import A4
from reportlab.pdfgen.canvas import Canvas

from qwen_batch import ingest as ingest_module
from qwen_batch import readers
from qwen_batch.errors import DocumentError, UsageError
from qwen_batch.ingest import MAX_PASSWORD_BYTES, Ingest, extract, extract_all, more_seconds, passwords_of
from qwen_batch.read.frames import Trouble
from qwen_batch.read.hashes import hash_file
from qwen_batch.read.inputs import iter_inputs
from qwen_batch.read.items import FileItem, Task
from qwen_batch.read.kinds import Kind
from qwen_batch.records import CleanDocument, CleanSteps, Document, Failure, Line, Message, Page, ReadSettings
from qwen_batch.reports import extract_report, iter_report


def write_pdf(path: Path, pages: list[list[str]], encrypt: str | None = None) -> Path:
    canvas = Canvas(str(path), pagesize=A4, encrypt=encrypt)
    for lines in pages:
        for number, line in enumerate(lines):
            canvas.drawString(72, A4[1] - 84 - 14 * number, line)
        canvas.showPage()
    canvas.save()
    return path


def ingest(*paths: Path, **settings: Any) -> dict[str, CleanDocument | Failure]:
    worker = Ingest(ReadSettings(workers=2, **settings), CleanSteps())
    results = list(worker.iter_clean(iter_inputs([str(path) for path in paths])))
    by_id = {result.doc_id.rpartition("/")[2]: result for result in results}
    assert len(by_id) == len(results)
    return by_id


def outcome(result: CleanDocument | Failure) -> str:
    return result.error_type if isinstance(result, Failure) else "ok"


def test_a_folder_of_troublesome_files(tmp_path: Path) -> None:
    good = write_pdf(tmp_path / "good.pdf", [["Good text."]])
    (tmp_path / "cut.pdf").write_bytes(good.read_bytes()[:200])
    (tmp_path / "zero.pdf").write_bytes(b"")
    (tmp_path / "page.pdf").write_text("<html><body>Not found</body></html>")
    write_pdf(tmp_path / "locked.pdf", [["Secret"]], encrypt="Sesame1")
    write_pdf(tmp_path / "blank.pdf", [[]])
    (tmp_path / "note.txt").write_text("A note.")
    (tmp_path / "office.docx").write_bytes(b"PK\x03\x04")
    (tmp_path / "rows.jsonl").write_text('{"id":"r1","text":"one"}\nbad\n')
    results = ingest(tmp_path)
    assert {name: outcome(result) for name, result in results.items()} == {
        "good.pdf": "ok",
        "cut.pdf": "damaged",
        "zero.pdf": "empty",
        "page.pdf": "wrong_type",
        "locked.pdf": "encrypted",
        "blank.pdf": "empty",
        "note.txt": "ok",
        "office.docx": "damaged",
        "r1": "ok",
        "rows.jsonl:2": "bad_record",
    }
    assert all(result.content_sha256 for name, result in results.items() if name.endswith(".pdf"))
    document = results["good.pdf"]
    assert isinstance(document, CleanDocument)
    assert document.text == "Good text."
    assert document.content_sha256 == hash_file(good)


def test_passwords_from_the_job_and_from_a_file(tmp_path: Path) -> None:
    write_pdf(tmp_path / "a.pdf", [["Secret A"]], encrypt="Alpha1")
    write_pdf(tmp_path / "b.pdf", [["Secret B"]], encrypt="Beta 2")
    (tmp_path / "passwords").write_text("wrong\r\nBeta 2\r\n")
    results = ingest(tmp_path / "*.pdf", passwords=("Alpha1",), password_file=str(tmp_path / "passwords"))
    assert {name: outcome(result) for name, result in results.items()} == {"a.pdf": "ok", "b.pdf": "ok"}


def test_a_password_file_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"password_file: .* cannot be read"):
        Ingest(ReadSettings(password_file=str(tmp_path / "none")), CleanSteps())


def test_what_comes_with_a_record_stays_with_it(tmp_path: Path) -> None:
    write_pdf(tmp_path / "a.pdf", [["Text"]])
    record = {"id": "k", "path": "a.pdf", "metadata": {"client": "x"}, "priority": 4}
    (tmp_path / "list.jsonl").write_text(json.dumps(record) + '\n{"id":"gone","path":"b.pdf","metadata":{"n":1}}\n')
    results = ingest(tmp_path / "list.jsonl")
    made = results["k"]
    assert isinstance(made, CleanDocument)
    assert (made.metadata, made.priority, made.source) == ({"client": "x"}, 4, f"{tmp_path / 'list.jsonl'}:1")
    assert outcome(results["gone"]) == "not_found"


def test_large_records_are_cleaned_in_a_child(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(document: Document, settings: CleanSteps) -> CleanDocument:
        raise AssertionError("cleaned here")

    monkeypatch.setattr(ingest_module, "LARGE_CHARS", 10)
    monkeypatch.setattr("qwen_batch.clean.clean_document", refuse)
    large = Document("l", "s:1", "0" * 64, (Page(1, (Line("more than ten characters"),)),))
    (result,) = Ingest(ReadSettings(workers=1), CleanSteps()).iter_clean([large])
    assert isinstance(result, CleanDocument)
    assert result.text == "more than ten characters"


def test_a_defect_in_cleaning_costs_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(document: Document, settings: CleanSteps) -> CleanDocument:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("qwen_batch.clean.clean_document", broken)
    made = Document("d", "s:1", "ab", messages=(Message("user", "hi"),))
    (result,) = Ingest(ReadSettings(), CleanSteps()).iter_clean([made])
    assert result == Failure("d", "s:1", "clean", "cleaning_error", "cleaning gave up: ZeroDivisionError: oops", "ab")


def test_a_file_that_disappears(tmp_path: Path) -> None:
    item = FileItem("gone.pdf", tmp_path / "gone.pdf", "gone.pdf")
    (result,) = Ingest(ReadSettings(), CleanSteps()).iter_clean([item])
    assert isinstance(result, Failure)
    assert (result.error_type, result.content_sha256) == ("not_found", None)


def test_long_texts_have_more_time(tmp_path: Path) -> None:
    for name, size in (("a.txt", 9), ("b.txt", 30), ("b.CSV", 30), ("b.pdf", 30)):
        with (tmp_path / name).open("wb") as file:
            file.truncate(size * 1_000_000)
    names = ("a.txt", "b.txt", "b.CSV", "b.pdf", "gone.txt")
    seconds = [more_seconds(FileItem(name, tmp_path / name, name)) for name in names]
    assert seconds == [0, 80, 80, 0, 0]


def test_a_document_over_its_time_fails_alone(tmp_path: Path) -> None:
    (tmp_path / "slow.txt").write_text("word \n" * 600_000)
    (tmp_path / "quick.txt").write_text("quick")
    results = ingest(tmp_path, timeout_seconds=0.5)
    assert {name: outcome(result) for name, result in results.items()} == {"slow.txt": "timeout", "quick.txt": "ok"}


def test_a_document_over_its_memory_fails_alone(tmp_path: Path) -> None:
    (tmp_path / "big.txt").write_text("w\n" * 1_900_000)
    (tmp_path / "small.txt").write_text("small")
    results = ingest(tmp_path, memory_limit=300_000_000)
    assert {name: outcome(result) for name, result in results.items()} == {"big.txt": "memory", "small.txt": "ok"}


def test_items_are_pulled_as_they_are_needed(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text")
    pulled: list[int] = []

    def items() -> Iterator[FileItem]:
        for number in range(50):
            pulled.append(number)
            yield FileItem(str(number), tmp_path / "a.txt", "a.txt")

    results = Ingest(ReadSettings(workers=2), CleanSteps()).iter_clean(items())
    next(results)
    assert len(pulled) <= 4
    results.close()  # type: ignore[attr-defined]


def test_extract_and_its_report(tmp_path: Path) -> None:
    """The head goes, but for its first place, because the text goes on below it from page to page."""
    texts = [
        f"the {number} house keeps what was bought until\nit is asked for by those who had paid, of whom"
        for number in ("first", "second", "third")
    ]
    path = write_pdf(tmp_path / "a.pdf", [["Running head", "", *text.split("\n")] for text in texts])
    report = extract_report(path, extract(path, ReadSettings(), CleanSteps()))
    assert (report["status"], report["error_type"], report["num_pages"]) == ("ok", None, 3)
    plain = [text.replace("\n", " ") for text in texts]
    assert report["text"] == "Running head\n\n" + " ".join(plain)
    page = {"page_number": 2, "text": plain[1], "ocr": False, "ocr_confidence": None, "tables": []}
    assert report["pages"][1] == page
    assert report["removed"][0] == {"page_number": 2, "text": "Running head", "reason": "header"}
    assert "".join(iter_report(report)).startswith(
        f"{path}: 3 pages\nremoved: 2 x header\n\nRunning head\n\nthe first house"
    )
    flagged = "".join(iter_report({**report, "flags": ["needs_ocr", "ocr"]}))
    assert flagged.startswith(f"{path}: 3 pages\nflagged: needs_ocr, ocr\nremoved: 2 x header")


def test_a_long_text_is_shown_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("One \x1b[1m two \x07 three four five six")
    report = extract_report(tmp_path / "a.txt", extract(tmp_path / "a.txt", ReadSettings(), CleanSteps()))
    report["text"] = "One \x1b[1m two \x07 three four five six"
    whole = list(iter_report(report))
    monkeypatch.setattr("qwen_batch.reports.PIECE_CHARS", 5)
    pieces = list(iter_report(report))
    assert len(whole) == 3 < len(pieces)
    assert "".join(pieces) == "".join(whole)
    assert "One \\x1b[1m two \\x07 three four five six\n" in "".join(whole)


def test_report_of_a_failure(tmp_path: Path) -> None:
    report = extract_report(tmp_path / "no.pdf", extract(tmp_path / "no.pdf", ReadSettings(), CleanSteps()))
    assert report == {
        "source": str(tmp_path / "no.pdf"),
        "status": "failed",
        "error_type": "not_found",
        "error": f"{tmp_path / 'no.pdf'}: no such file",
        "num_pages": 0,
        **{"text": "", "pages": [], "removed": [], "warnings": [], "flags": []},
    }
    assert (
        "".join(iter_report(report))
        == f"{tmp_path / 'no.pdf'}: failed (not_found): {tmp_path / 'no.pdf'}: no such file"
    )


def test_a_failure_counts_the_pages_where_it_can(tmp_path: Path) -> None:
    path = write_pdf(tmp_path / "a.pdf", [["one"], ["two"], ["three"]])
    report = extract_report(path, extract(path, ReadSettings(max_pages=2), CleanSteps()))
    assert (report["error_type"], report["num_pages"]) == ("too_many_pages", 3)


def test_a_report_can_always_be_encoded(tmp_path: Path) -> None:
    path = Path(os.fsdecode(b"caf\xe9.pdf"))
    json.dumps(extract_report(path, extract(path, ReadSettings(), CleanSteps())), ensure_ascii=False).encode()


def test_files_come_in_their_order_however_long_each_takes(tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("A sentence of some words. " * 40_000)
    names = ["long.txt", "none.txt", *(f"{number}.txt" for number in range(12))]
    for name in names[2:]:
        (tmp_path / name).write_text(f"Text {name}.")
    results = list(extract_all([tmp_path / name for name in names], ReadSettings(workers=2), CleanSteps()))
    assert [Path(result.source).name for result in results] == names
    assert [isinstance(result, Failure) for result in results] == [name == "none.txt" for name in names]


@pytest.mark.parametrize(
    ("content", "passwords"),
    [
        (b"\xef\xbb\xbfone\r\n\r\n two \r\n", ("one", " two ")),
        ("übung\n密码".encode(), ("übung", "密码")),
        ("\ufeffübung\r\n".encode("utf-16-le"), ("übung",)),
    ],
)
def test_a_password_file_from_any_editor(tmp_path: Path, content: bytes, passwords: tuple[str, ...]) -> None:
    file = tmp_path / "passwords"
    file.write_bytes(content)
    assert passwords_of(ReadSettings(password_file=str(file))) == passwords


def test_a_password_file_that_is_none_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_bytes(b"x" * (MAX_PASSWORD_BYTES + 1))
    for path in (tmp_path / "pipe", tmp_path, Path(os.devnull)):
        with pytest.raises(UsageError, match="is not a file but a folder, a pipe or a device"):
            passwords_of(ReadSettings(password_file=str(path)))
    with pytest.raises(UsageError, match="is larger than 1 MiB"):
        passwords_of(ReadSettings(password_file=str(tmp_path / "large")))


def test_neither_torch_nor_pyarrow_is_loaded() -> None:
    code = "import sys, qwen_batch.ingest, qwen_batch.read.pdf; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", code], text=True).split()
    assert not {"torch", "pyarrow", "transformers"} & set(loaded)


def corpus() -> Path:
    return Path(os.environ.get("QWEN_BATCH_CORPUS") or Path(__file__).parents[2] / "shared" / "corpus")


@pytest.mark.corpus
@pytest.mark.skipif(not (corpus() / "MANIFEST.tsv").exists(), reason="the shared corpus is not here")
def test_hostile_and_damaged_files_end_well() -> None:
    with (corpus() / "MANIFEST.tsv").open(encoding="utf-8", newline="") as lines:
        names = [row["file"] for row in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)]
    slow = {"hostile/pages_20000.pdf", "hostile/form_xobject_self_loop.pdf"}
    folders = ("hostile/", "damaged/", "encrypted/", "scans/")
    chosen = [name for name in names if name.startswith(folders) and name not in slow]
    files = sorted({name for name in chosen if not name.endswith((".jsonl", ".docx", ".html"))})
    items = [FileItem(name, corpus() / name, name) for name in files]
    worker = Ingest(ReadSettings(workers=1, timeout_seconds=30, memory_limit=2**29, ocr="off"), CleanSteps())
    results = {result.doc_id: result for result in worker.iter_clean(items)}
    assert sorted(results) == files
    wanted = {
        "hostile/zero_byte.pdf": "empty",
        "hostile/html_named.pdf": "wrong_type",
        "hostile/truncated_half.pdf": "damaged",
        "hostile/flate_bomb_nested_filters.pdf": "crashed",
        "hostile/huge_page_count.pdf": "ok",
        "hostile/udhr_art1_gb18030.txt": "ok",
        "hostile/controls_and_bidi.txt": "ok",
        "encrypted/pypdf__r6-both-passwords.pdf": "encrypted",
        "encrypted/pypdf__r4-owner-password.pdf": "ok",
        "scans/docling__ocr_test.pdf": "needs_ocr",
        "damaged/pdfminer__zen_of_python_corrupted.pdf": "ok",
    }
    assert {name: outcome(results[name]) for name in wanted} == wanted
    assert not {outcome(result) for result in results.values()} & {"parser_error", "timeout", "cleaning_error"}


def test_a_file_that_changes_while_it_is_read_is_not_taken_for_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "growing.txt"
    path.write_text("The first half")
    task = Task(FileItem("growing.txt", path, "growing.txt"), (), 10, CleanSteps())
    read = readers._read_pages

    def read_and_grow(path: Path, kind: Kind | None, task: Task) -> Any:
        pages = read(path, kind, task)
        with path.open("a") as file:
            file.write(" and the second")
        return pages

    monkeypatch.setattr(readers, "_read_pages", read_and_grow)
    with pytest.raises(DocumentError, match="changed while it was read; the next run reads it again") as raised:
        readers.read_and_clean(task)
    failure = ingest_module._result(task, Trouble(raised.value.error_type, str(raised.value)))
    assert isinstance(failure, Failure)
    assert (failure.error_type, failure.content_sha256) == ("changed", None)


def test_a_run_that_stops_does_not_wait_for_what_is_being_read(monkeypatch: pytest.MonkeyPatch) -> None:
    class Sleeping(ingest_module.ProcessPool[Any, Any]):
        def __init__(self, target: str, *limits: Any) -> None:
            super().__init__("pool_targets:work", *limits)

        def submit(self, item: Any, more_seconds: float = 0.0) -> None:
            super().submit("sleep")

    monkeypatch.setattr(ingest_module, "ProcessPool", Sleeping)
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "read"))
    started = time.monotonic()
    items = [FileItem("a", Path("a.txt"), "a.txt")] * 3
    worker = Ingest(ReadSettings(workers=2), CleanSteps())
    assert list(worker.iter_clean(items, lambda: time.monotonic() - started > 1)) == []
    assert time.monotonic() - started < 30  # each sleeps for 60


def test_a_file_that_is_gone_when_its_turn_comes(tmp_path: Path) -> None:
    path = tmp_path / "gone.txt"
    path.write_text("Here for now")
    items = iter_inputs([str(path)])
    item = next(items)
    path.unlink()
    (failure,) = Ingest(ReadSettings(workers=1), CleanSteps()).iter_clean([item])
    assert isinstance(failure, Failure)
    message = "was there when the inputs were listed, and is gone; should it come back, the next run reads it"
    assert (failure.error_type, failure.error) == ("not_found", message)
