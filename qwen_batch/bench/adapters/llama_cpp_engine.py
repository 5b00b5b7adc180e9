"""llama.cpp: its own server on a local port, asked by as many threads as it has slots, with token ids in and out."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

SLOTS = 16
START_SECONDS = 120.0


class LlamaCppEngine:
    """Continuous batching over the slots, each with room for the longest request."""

    def __init__(self, options: dict[str, Any]) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        threads, room = str(options["threads"]), -(-options["max_model_len"] // 256) * 256
        self._program = options["program"]
        flags = {
            "--model": options["model"],
            "--host": "127.0.0.1",
            "--port": str(self._port),
            "--threads": threads,
            "--threads-batch": threads,
            "--parallel": str(SLOTS),
            "--ctx-size": str(room * SLOTS),
            "--threads-http": str(SLOTS + 2),
        }
        words = [word for flag in flags.items() for word in flag]
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  lives as long as the server
        self._process = subprocess.Popen([self._program, *words], stdout=subprocess.DEVNULL, stderr=self._log)
        self._wait_until_ready()

    def describe(self) -> str:
        done = subprocess.run([self._program, "--version"], capture_output=True, text=True, check=False)
        lines = (done.stderr + done.stdout).strip().splitlines()
        return next((f"llama-server {line}" for line in lines if line.startswith("version")), "llama-server")

    def run(self, prompts: list[list[int]], output_tokens: list[int]) -> list[list[int]]:
        with ThreadPoolExecutor(SLOTS) as pool:
            return list(pool.map(self._complete, prompts, output_tokens))

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(timeout=30)

    def _complete(self, prompt: list[int], count: int) -> list[int]:
        body = {
            "prompt": prompt,
            "n_predict": count,
            "samplers": ["top_k"],
            "top_k": 1,
            "temperature": 0.0,
            "ignore_eos": True,
            "cache_prompt": True,
            "return_tokens": True,
        }
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=3600)
        connection.request("POST", "/completion", json.dumps(body), {"Content-Type": "application/json"})
        answer = json.loads(connection.getresponse().read())
        connection.close()
        if "tokens" not in answer:
            raise RuntimeError(f"llama-server: {answer}"[:500])
        return list(answer["tokens"])

    def _last_words(self) -> str:
        self._log.seek(0)
        return self._log.read().decode("utf-8", "replace").strip()[-500:] or "it said nothing"

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise RuntimeError(
                    f"llama-server ended with exit code {self._process.returncode}: {self._last_words()}"
                )
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=5)
                connection.request("GET", "/health")
                if connection.getresponse().status == 200:
                    return
            except OSError:
                pass
            time.sleep(0.05)
        raise RuntimeError(f"llama-server was not ready after {START_SECONDS:.0f} s")


def load(options: dict[str, Any]) -> LlamaCppEngine:
    return LlamaCppEngine(options)
