"""Engines in processes of their own: found or refused, asked, and what happens when one fails."""

from __future__ import annotations

import ast
import sys
import textwrap
import time
from pathlib import Path

import pytest

from qwen_batch.bench.child import Child, EngineFailedError
from qwen_batch.bench.engines import ADAPTERS, KINDS, find_engines, find_variants
from qwen_batch.bench.workload import BenchRequest
from qwen_batch.errors import UsageError

REQUESTS = [BenchRequest((1, 2, 3), 2), BenchRequest((4,), 1)]
ADAPTER = """
    import os, sys, time

    class Engine:
        def describe(self):
            print("chatter that must not reach the answers")
            return "echo"

        def prepare(self):
            self.prepared = True

        def run(self, prompts, output_tokens):
            assert self.prepared
            {run}
            return [[prompt[0]] * count for prompt, count in zip(prompts, output_tokens)]

        def counters(self):
            return {{"num_steps": 3}}

    def load(options):
        {load}
        return Engine()
"""


def start(tmp_path: Path, run: str = "pass", load: str = "pass") -> Child:
    adapter = tmp_path / "echo.py"
    adapter.write_text(textwrap.dedent(ADAPTER).format(run=run, load=load))
    return Child("echo", sys.executable, adapter, 1)


def test_an_engine_answers_and_is_measured(tmp_path: Path) -> None:
    with start(tmp_path, run="held = bytearray(50_000_000); time.sleep(0.05)") as child:
        assert child.load({}) == "echo"
        timing = child.run(REQUESTS)
    assert timing.tokens == ((1, 1), (4,))
    assert timing.counters == {"num_steps": 3}
    assert timing.seconds >= 0.05
    assert 50_000_000 < timing.peak_bytes < 500_000_000
    assert 0.0 <= timing.others_share <= 1.01


def test_threads_and_offline_reach_the_engine(tmp_path: Path) -> None:
    with start(tmp_path, load='sys.exit() if os.environ["OMP_NUM_THREADS"] != "1" else None') as child:
        assert child.load({}) == "echo"


def test_what_goes_wrong_is_said_with_the_engines_name(tmp_path: Path) -> None:
    with start(tmp_path, run='raise ValueError("no memory for this")') as child:
        child.load({})
        with pytest.raises(EngineFailedError, match="echo: ValueError: no memory for this"):
            child.run(REQUESTS)


def test_a_process_that_dies_leaves_its_last_words(tmp_path: Path) -> None:
    with (
        start(tmp_path, load='print("out of blocks", file=sys.stderr, flush=True); os._exit(3)') as child,
        pytest.raises(EngineFailedError, match=r"echo: its process ended: (?s:.*)out of blocks"),
    ):
        child.load({})


def test_answers_of_another_length_are_refused(tmp_path: Path) -> None:
    with start(tmp_path, run="return [[1], [1]]") as child:
        child.load({})
        with pytest.raises(EngineFailedError, match="not as long as they were forced to be"):
            child.run(REQUESTS)


def test_closing_ends_what_the_engine_started(tmp_path: Path) -> None:
    script = "import subprocess; self.p = subprocess.Popen(['sleep', '600']); return [[self.p.pid] * 2, [1]]"
    with start(tmp_path, run=script) as child:
        child.load({})
        pid = child.run(REQUESTS).tokens[0][0]
    deadline = time.monotonic() + 20
    while is_running(pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_unknown_engines_are_refused_with_the_list() -> None:
    with pytest.raises(UsageError) as error:
        find_engines(["hf-lop"], {}, {})
    assert str(error.value) == (
        "engine 'hf-lop' is unknown (did you mean hf-loop?); known: "
        "qwen-batch, hf-loop, hf-batch, hf-continuous, vllm, openvino, llama-cpp"
    )


def test_what_an_engine_lacks_is_said_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"openvino: .* has no openvino_genai; pip install openvino-genai .*--path open"
    ):
        find_engines(["openvino"], {"openvino": sys.executable}, {})
    with pytest.raises(UsageError, match=r"vllm: /nowhere/python has no vllm; pip install vllm"):
        find_engines(["vllm"], {"vllm": "/nowhere/python"}, {})
    with pytest.raises(UsageError, match=r"llama-cpp: /nowhere/x is no program; build or fetch llama\.cpp"):
        find_engines(["llama-cpp"], {"llama-cpp": "/nowhere/x"}, {})
    with pytest.raises(
        UsageError, match=r"its own form of the model is needed; give a file that llama\.cpp's `convert"
    ):
        find_engines(["llama-cpp"], {"llama-cpp": sys.executable}, {})


def test_named_places_add_their_engines_to_the_default_ones(tmp_path: Path) -> None:
    model = tmp_path / "model.gguf"
    model.touch()
    found = find_engines([], {"llama-cpp": sys.executable}, {"llama-cpp": str(model)})
    assert [engine.name for engine in found] == ["qwen-batch", "hf-loop", "hf-batch", "llama-cpp"]
    assert found[-1].model == str(model)
    assert [engine.name for engine in find_engines(["hf-batch", "hf-batch"], {}, {})] == ["hf-batch"]


def test_our_engine_with_other_settings() -> None:
    (variant,) = find_variants(["small:max_num_seqs=4,block_size=32"])
    assert variant.name == "qwen-batch:small"
    assert variant.kind.settings == {"max_num_seqs": "4", "block_size": "32"}
    for wrong in ("small", "small:", ":x=1", "small:x", "small:x=1,"):
        with pytest.raises(UsageError, match="write --variant NAME:KEY=VALUE,KEY=VALUE"):
            find_variants([wrong])


@pytest.mark.parametrize("name", ["vllm", "openvino", "llama-cpp"])
def test_engines_of_other_environments_need_nothing_of_ours(name: str) -> None:
    own = {KINDS[name].package, "vllm", "openvino", "openvino_genai", "numpy"} - {None}
    for path in (ADAPTERS / KINDS[name].adapter, ADAPTERS.with_name("worker.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for imported in names:
                top = imported.split(".")[0]
                assert top in sys.stdlib_module_names or top in own, f"{path.name} imports {imported}"


SERVER = """\
#!{python}
import json, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.answer({{}})

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert asked["ignore_eos"] and asked["samplers"] == ["top_k"] and asked["top_k"] == 1
        self.answer({{"tokens": asked["prompt"][:1] * asked["n_predict"]}})

    def answer(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass

if "--version" in sys.argv:
    print("version: 1 (stand-in)")
else:
    port = int(sys.argv[sys.argv.index("--port") + 1])
    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""


def test_llama_cpp_is_asked_through_its_server(tmp_path: Path) -> None:
    program = tmp_path / "llama-server"
    program.write_text(SERVER.format(python=sys.executable))
    program.chmod(0o755)
    options = {"program": str(program), "model": "model.gguf", "threads": 1, "max_model_len": 100}
    with Child("llama-cpp", sys.executable, ADAPTERS / "llama_cpp_engine.py", 1) as child:
        assert child.load(options) == "llama-server version: 1 (stand-in)"
        timing = child.run(REQUESTS)
        assert timing.tokens == ((1, 1), (4,))


def test_why_llama_cpp_does_not_start_is_told(tmp_path: Path) -> None:
    program = tmp_path / "llama-server"
    program.write_text("#!/bin/sh\necho 'invalid magic characters in README.md' >&2\nexit 1\n")
    program.chmod(0o755)
    options = {"program": str(program), "model": "README.md", "threads": 1, "max_model_len": 100}
    with (
        Child("llama-cpp", sys.executable, ADAPTERS / "llama_cpp_engine.py", 1) as child,
        pytest.raises(EngineFailedError, match=r"ended with exit code 1: invalid magic characters in README\.md"),
    ):
        child.load(options)
