"""Options, markers and the fixtures that more than one room's tests share."""

from __future__ import annotations

import os

# Read at import by huggingface_hub, tokenizers and transformers, hence before anything else is imported.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
# Read at import by triton: kernels run in its interpreter, on CPU tensors. What needs machine code starts a process.
os.environ["TRITON_INTERPRET"] = "1"
# Read when torch is loaded; qwen_batch.engine sets it too, but here torch is there before.
os.environ["GOMP_SPINCOUNT"] = "10000"

import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import settings
from tiny_models import make_tiny_model

from qwen_batch.cli import main
from qwen_batch.errors import ModelError
from qwen_batch.model import registry

# Tiny models gain nothing from a second thread, and lose much when the cores are busy.
torch.set_num_threads(1)

# The same examples every time, nothing left on disk, and no time limit that a busy machine would break.
settings.register_profile("repeatable", derandomize=True, database=None, deadline=None)
settings.load_profile("repeatable")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="also run the tests marked slow")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    reasons = {}
    if not config.getoption("--slow"):
        reasons["slow"] = "slow; run with --slow"
    if not torch.cuda.is_available():
        reasons["gpu"] = "no CUDA device here"
    for item in items:
        for marker, reason in reasons.items():
            if marker in item.keywords:
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(autouse=True)
def _logger_as_it_was() -> Iterator[None]:
    """A run through the command line sets the logger up, and would take later tests' messages from them."""
    logger = logging.getLogger("qwen_batch")
    handlers, level, propagate = logger.handlers[:], logger.level, logger.propagate
    yield
    logger.handlers[:], logger.propagate = handlers, propagate
    logger.setLevel(level)


@pytest.fixture
def run_cli(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """The command line, in this process: takes its arguments, gives its exit code."""

    def run(*arguments: object) -> int:
        monkeypatch.setattr(sys, "argv", ["qwen-batch", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0)

    return run


@pytest.fixture(scope="session")
def corpus() -> Path:
    """Folder of the shared document corpus: QWEN_BATCH_CORPUS, or shared/corpus beside the checkout."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "corpus"
    folder = Path(os.environ.get("QWEN_BATCH_CORPUS", beside))
    if not folder.is_dir():
        pytest.skip(f"no corpus at {folder}; set QWEN_BATCH_CORPUS to its folder")
    return folder


@pytest.fixture(scope="session")
def tiny_qwen3(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """QK-norm, head_dim apart from hidden size, untied embeddings, several safetensors files."""
    folder = tmp_path_factory.mktemp("tiny") / "qwen3"
    return make_tiny_model(folder, "qwen3", tie_word_embeddings=False, sharded=True)


@pytest.fixture(scope="session")
def tiny_qwen2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Biases on query, key and value."""
    return make_tiny_model(tmp_path_factory.mktemp("tiny") / "qwen2", "qwen2", tie_word_embeddings=False)


@pytest.fixture(scope="session")
def tiny_llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tied embeddings."""
    return make_tiny_model(tmp_path_factory.mktemp("tiny") / "llama", "llama", tie_word_embeddings=True)


@pytest.fixture(scope="session")
def demo_model() -> Path:
    """Folder of the model `demo`, fetched once into the user's cache."""
    try:
        return registry.pull("demo", None, lambda line: None)
    except ModelError as error:
        if registry.UNREACHABLE in str(error):
            pytest.skip(f"the demo model is not here and cannot be fetched: {error}")
        raise
