from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from qwen_batch.errors import StoppedError
from qwen_batch.operate.signals import StopFlag

CHILD = """
import sys, time
from qwen_batch.operate.signals import StopFlag
with StopFlag() as flag:
    print("ready", flush=True)
    while flag.requested is None:
        time.sleep(0.01)
    print("asked", flush=True)
    time.sleep(60)
"""


@pytest.fixture(autouse=True)
def _not_ignored() -> Iterator[None]:
    """Under nohup SIGHUP is ignored from the start, which children inherit."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture(autouse=True)
def _keep_handlers(_not_ignored: None) -> Iterator[None]:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    yield
    assert [signal.getsignal(number) for number in numbers] == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_asks(number: signal.Signals) -> None:
    with StopFlag() as flag:
        flag.raise_if_requested()
        os.kill(os.getpid(), number)
        assert flag.requested == number
        with pytest.raises(StoppedError) as caught:
            flag.raise_if_requested()
    assert caught.value.exit_code == 128 + number
    assert str(caught.value) == f"stopped by {number.name}; run again to go on where it stopped"


@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGHUP])
def test_the_second_signal_ends_the_process_at_once(second: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", CHILD], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGTERM)
        assert child.stdout.readline() == "asked\n"
        child.send_signal(second)
        assert child.wait(timeout=30) == 128 + second


def test_what_was_ignored_stays_ignored() -> None:
    """As under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopFlag() as flag:
            os.kill(os.getpid(), signal.SIGHUP)
            assert flag.requested is None
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_other_threads_get_a_flag_that_is_never_set() -> None:
    handlers = []

    def work() -> None:
        with StopFlag() as flag:
            handlers.append(signal.getsignal(signal.SIGTERM))
            flag.raise_if_requested()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert handlers == [signal.getsignal(signal.SIGTERM)]


def test_handlers_return_after_an_error() -> None:
    with pytest.raises(KeyError), StopFlag():
        raise KeyError
