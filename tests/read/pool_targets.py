"""What the children of the pool tests run."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from qwen_batch.errors import DocumentError


def work(task: object) -> object:
    match task:
        case "hang":
            while True:
                pass
        case "sleep":
            time.sleep(60)
        case "abort":
            print("native assertion failed", file=sys.stderr, flush=True)
            os.abort()
        case "exit":
            os._exit(7)
        case "memory":
            return bytearray(8 << 30)
        case "error":
            raise ValueError("no such thing")
        case "refuse":
            raise DocumentError("encrypted", "give a password")
        case "print":
            print("noise")
            os.write(1, b"more noise")
            return sys.stdin.read()
        case "large":  # more than a pipe holds
            return b"x" * 3_000_000
        case "pid":
            return os.getpid()
        case "grandchild":
            return subprocess.Popen(["sleep", "60"]).pid
        case "session":
            return os.getsid(0) == os.getpid()
        case "files":
            return len(os.listdir("/proc/self/fd")) - 1  # one lists them
    return ("done", task)
