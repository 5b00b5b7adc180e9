"""Text files that are read and cleaned section by section."""

from __future__ import annotations

import pickle
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from qwen_batch import readers
from qwen_batch.errors import DocumentError
from qwen_batch.read.frames import HEADER, LongText, frame
from qwen_batch.read.items import FileItem, Task
from qwen_batch.read.text import plain as text_module
from qwen_batch.records import CleanDocument, CleanSteps

PARAGRAPH = "The Supplier shall deliver the goods to the place that is named in the order, and shall bear their risk."
GERMAN = (
    "Der Käufer hat die Ware unverzüglich nach der Ablieferung zu prüfen, soweit dies nach ordnungsgemäßem "
    "Geschäftsgang möglich ist, und, wenn sich ein Mangel zeigt, dem Verkäufer unverzüglich Anzeige zu machen. "
    "Änderungen und Ergänzungen bedürfen der Schriftform; über Öffnungszeiten ließ sich nichts Näheres hören. "
    "Für Schäden haftet er nur bei grober Fahrlässigkeit und während der gewöhnlichen Gewährfrist."
)
ODD = "Größe, 中文和标点，naïve café \U0001f600 and so on."


@pytest.fixture(autouse=True)
def _small_sections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_module, "LONG_BYTES", 9_000)
    monkeypatch.setattr(text_module, "SECTION_BYTES", 16_001)  # odd: cuts fall inside of characters


def read(path: Path) -> CleanDocument:
    return readers.read_and_clean(Task(FileItem("d", path, "d"), (), 10, CleanSteps()))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_sections_give_the_text_of_the_whole(
    tmp_path: Path, encoding: str, newline: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "\n\n".join(textwrap.fill(f"{PARAGRAPH} {ODD} Number {number}.", 60) for number in range(99))
    (tmp_path / "a.txt").write_bytes(text.replace("\n", newline).encode(encoding))
    done = read(tmp_path / "a.txt")
    monkeypatch.setattr(text_module, "LONG_BYTES", 1 << 30)
    whole = read(tmp_path / "a.txt")
    assert done == whole
    assert "the place that is named in the order" in done.text
    assert (len(done.pages), done.page_starts) == (1, (0,))


def test_the_parent_gets_the_text_of_what_was_bytes(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\n\n".join([f"{PARAGRAPH} {ODD}"] * 99), encoding="utf-8")
    task = Task(FileItem("d", tmp_path / "a.txt", "d"), (), 10, CleanSteps())
    sent = readers.read_for_parent(task)
    assert isinstance(sent, LongText)
    assert pickle.loads(frame(sent)[HEADER.size :]) == readers.read_and_clean(task)


def test_a_long_line_is_cut_between_words_and_nothing_is_lost(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("word " * 2_000)
    assert read(tmp_path / "a.txt").text.split() == ["word"] * 2_000


def test_an_encoding_that_shows_late_is_guessed_there(tmp_path: Path) -> None:
    text = "\n\n".join([PARAGRAPH] * 90 + [GERMAN] * 20)
    (tmp_path / "a.txt").write_bytes(text.encode("cp1252"))
    done = read(tmp_path / "a.txt")
    assert done.text.endswith("gewöhnlichen Gewährfrist.")
    assert done.warnings in (("encoding guessed: cp1252",), ("encoding guessed: cp1250",))  # alike for German


@pytest.mark.parametrize("end", [b" \xff end", b" \xe2\x82"])
def test_a_broken_byte_in_a_long_file_leaves_it_utf8(tmp_path: Path, end: bytes) -> None:
    (tmp_path / "a.txt").write_bytes("\n\n".join([GERMAN] * 60).encode() + end)
    done = read(tmp_path / "a.txt")
    assert done.text.count("gewöhnlichen Gewährfrist.") == 60
    assert done.warnings == (f"bytes that are not valid UTF-8, read as U+FFFD: {len(end.split()[0])}",)


def test_what_was_removed_and_said_is_kept_once(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\n\n".join([f"{PARAGRAPH}\u200b"] * 60))
    done = read(tmp_path / "a.txt")
    assert {removal.reason for removal in done.removed} == {"control_character"}
    assert "\u200b" not in done.text


@pytest.mark.parametrize(
    ("data", "error_type"),
    [(b" \n" * 9_000, "empty"), (b"\x89PNG" + bytes(range(256)) * 40, "wrong_type"), (b"\0\1\2" * 4_000, "wrong_type")],
)
def test_long_files_without_text_are_refused(tmp_path: Path, data: bytes, error_type: str) -> None:
    (tmp_path / "a.txt").write_bytes(data)
    with pytest.raises(DocumentError) as caught:
        read(tmp_path / "a.txt")
    assert caught.value.error_type == error_type


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads its memory from /proc")
def test_memory_does_not_grow_with_the_lines_of_a_file(tmp_path: Path) -> None:
    """20 MB: as one page it would take a gigabyte; in sections, the text a few times."""
    path = tmp_path / "a.txt"
    path.write_text("\n\n".join([PARAGRAPH] * 190_000))
    script = (
        "import re, sys\n"
        "from pathlib import Path\n"
        "from qwen_batch import readers\n"
        "from qwen_batch.read.items import FileItem, Task\n"
        "from qwen_batch.records import CleanSteps\n"
        "readers.read_and_clean(Task(FileItem('d', Path(sys.argv[1]), 'd'), (), 10, CleanSteps()))\n"
        r"print(re.search(r'VmHWM:\s+(\d+)', open('/proc/self/status').read())[1])"
    )
    peak_kib = int(subprocess.check_output([sys.executable, "-c", script, str(path)], text=True))
    assert peak_kib < 150_000
