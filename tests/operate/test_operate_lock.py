from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from qwen_batch.errors import LockHeldError, OutputError
from qwen_batch.operate.lock import OutputLock

HOLDER = """
import sys
from pathlib import Path
from qwen_batch.operate.lock import OutputLock
with OutputLock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""

HOLDER_WITH_A_CHILD = """
import os, sys, time
from pathlib import Path
from qwen_batch.operate.lock import OutputLock
with OutputLock(Path(sys.argv[1])):
    child = os.fork()
    if child == 0:
        print(os.getpid(), flush=True)
        time.sleep(60)
        os._exit(0)
    os.waitpid(child, 0)
"""


def start(code: str, folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", code, str(folder)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def read_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_another_process_is_kept_out_until_the_first_ends(tmp_path: Path) -> None:
    with start(HOLDER, tmp_path) as holder:
        assert read_line(holder) == "held"
        content = json.loads((tmp_path / ".journal" / "lock").read_text())
        assert content["pid"] == holder.pid
        with pytest.raises(LockHeldError) as caught, OutputLock(tmp_path):
            pytest.fail("two runs hold one lock")
        assert caught.value.exit_code == 75
        assert str(caught.value) == (
            f"{tmp_path}: another run works here (process {holder.pid} on {content['host']}, "
            f"since {content['started_at']}); wait for it, or end it, and run again"
        )
        holder.communicate("")
        assert holder.returncode == 0
        with OutputLock(tmp_path):
            assert json.loads((tmp_path / ".journal" / "lock").read_text())["pid"] == os.getpid()


def test_the_lock_dies_with_its_process(tmp_path: Path) -> None:
    with start(HOLDER, tmp_path) as holder:
        assert read_line(holder) == "held"
        holder.kill()
        holder.wait(timeout=30)
    with OutputLock(tmp_path):
        pass


def test_a_forked_child_does_not_keep_the_lock_of_its_dead_parent(tmp_path: Path) -> None:
    with start(HOLDER_WITH_A_CHILD, tmp_path) as holder:
        child = int(read_line(holder))
        try:
            holder.kill()
            holder.wait(timeout=30)
            os.kill(child, 0)  # it still lives
            with OutputLock(tmp_path):
                pass
        finally:
            os.kill(child, signal.SIGKILL)
            time.sleep(0.05)


def test_one_process_cannot_hold_it_twice_and_may_take_it_again(tmp_path: Path) -> None:
    with OutputLock(tmp_path), pytest.raises(LockHeldError), OutputLock(tmp_path):
        pass
    with OutputLock(tmp_path):
        pass


def test_a_holder_that_has_not_signed_yet(tmp_path: Path) -> None:
    with OutputLock(tmp_path):
        (tmp_path / ".journal" / "lock").write_bytes(b"")
        with pytest.raises(LockHeldError, match="it has only just begun"), OutputLock(tmp_path):
            pass


def test_a_disk_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(*_: Any) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with (
        pytest.raises(OutputError, match="cannot be locked: No locks available; choose a folder"),
        OutputLock(tmp_path),
    ):
        pass


def test_a_folder_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    with pytest.raises(OutputError, match="cannot be locked"), OutputLock(tmp_path / "out"):
        pass
