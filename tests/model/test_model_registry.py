"""Names of models -> folders, and the hash of a model."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from huggingface_hub import constants, errors
from huggingface_hub.errors import HfHubHTTPError

from qwen_batch.errors import ModelError
from qwen_batch.model import checksums, demo, hub, registry

HF_ID = "Someone/Model-1B"


def silent(line: str) -> None:
    pass


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    monkeypatch.setenv("QWEN_BATCH_HOME", str(home))
    return home


@pytest.fixture
def model(tmp_path: Path, tiny_qwen3: Path) -> Path:
    """A copy of a model that a test may damage."""
    return shutil.copytree(tiny_qwen3, tmp_path / "model")


def fake_snapshots(monkeypatch: pytest.MonkeyPatch, local: Path | Exception, remote: Path | Exception) -> list[bool]:
    """Let snapshot_download return or raise; returns the list of its `local_files_only` arguments."""
    calls: list[bool] = []

    def snapshot_download(name: str, *, local_files_only: bool, **options: object) -> str:
        assert name == HF_ID
        calls.append(local_files_only)
        outcome = local if local_files_only else remote
        if isinstance(outcome, Exception):
            raise outcome
        return str(outcome)

    monkeypatch.setattr(hub, "snapshot_download", snapshot_download)
    return calls


def http_error(kind: type[HfHubHTTPError], status: int = 404) -> HfHubHTTPError:
    response = SimpleNamespace(headers={}, request=None, status_code=status)
    return kind("what the server said", response=response)


NOT_CACHED = errors.LocalEntryNotFoundError("not in the cache")


# --- folders


def test_a_folder_is_itself(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = registry.resolve_model(str(model), report=silent)
    assert found == registry.ModelFiles(str(model), model)
    monkeypatch.chdir(model.parent)
    assert registry.resolve_model("model", report=silent).folder == model
    assert registry.pull("./model", None, silent) == model


@pytest.mark.parametrize("name", ["./nowhere", "/nowhere/at/all", "~/nowhere-at-all", "a/b/c"])
def test_a_folder_that_is_not_there(name: str) -> None:
    with pytest.raises(ModelError) as caught:
        registry.resolve_model(name, report=silent)
    assert str(caught.value) == (
        f"{name}: no such folder; name a folder with config.json, a Hugging Face id, or `demo`"
    )


def test_a_folder_without_a_config(model: Path) -> None:
    (model / "config.json").unlink()
    with pytest.raises(ModelError) as caught:
        registry.resolve_model(str(model), report=silent)
    assert str(caught.value) == f"{model}: there is no config.json in {model}; name the folder that holds it"


def test_a_folder_with_pickled_weights(model: Path) -> None:
    for file in model.glob("model*"):
        file.unlink()
    (model / "pytorch_model.bin").write_bytes(b"\x80")
    with pytest.raises(ModelError) as caught:
        registry.resolve_model(str(model), report=silent)
    assert str(caught.value) == (
        f"{model}: there are no safetensors in {model}; pickled weights (.bin, .pt) are not loaded because they can "
        "run code, so convert them once with save_pretrained of transformers"
    )


def test_gguf_files_are_named(tmp_path: Path) -> None:
    file = tmp_path / "model.Q4_0.gguf"
    file.write_bytes(b"GGUF")
    for name in (str(file), str(tmp_path)):
        with pytest.raises(ModelError) as caught:
            registry.resolve_model(name, report=silent)
        assert str(caught.value) == (
            f"{name}: GGUF files are not loaded; name the model's original form, with safetensors"
        )


def test_a_file_is_no_folder(model: Path) -> None:
    file = model / "config.json"
    with pytest.raises(ModelError) as caught:
        registry.resolve_model(str(file), report=silent)
    assert str(caught.value) == f"{file}: this is a file; name the folder that holds config.json and the safetensors"


def test_a_missing_shard(model: Path) -> None:
    next(model.glob("model-00002*")).unlink()
    with pytest.raises(ModelError, match=r"1 of 8 weight files are missing, the first is model-00002-of-00008"):
        registry.resolve_model(str(model), report=silent)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"weight_map": 3}', '{"weight_map": {"a": 3}}'])
def test_a_damaged_index(model: Path, text: str) -> None:
    (model / checksums.INDEX_FILE).write_text(text)
    with pytest.raises(ModelError, match="not an index of safetensors files; fetch the model again"):
        registry.resolve_model(str(model), report=silent)


# --- Hugging Face


def test_a_cached_model_needs_no_network(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = fake_snapshots(monkeypatch, local=model, remote=AssertionError("asked the network"))
    assert registry.resolve_model(HF_ID, report=pytest.fail) == registry.ModelFiles(HF_ID, model)
    assert calls == [True]


def test_a_missing_model_is_fetched_and_said(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls, lines = fake_snapshots(monkeypatch, local=NOT_CACHED, remote=model), []
    assert registry.resolve_model(HF_ID, "main", report=lines.append).folder == model
    assert calls == [True, False]
    assert lines == [f"{HF_ID}: fetching from Hugging Face into {constants.HF_HUB_CACHE}"]


def test_a_half_fetched_model_is_fetched_again(model: Path, tiny_llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    next(model.glob("model-00002*")).unlink()
    calls = fake_snapshots(monkeypatch, local=model, remote=tiny_llama)
    assert registry.resolve_model(HF_ID, report=silent).folder == tiny_llama
    assert calls == [True, False]


def test_files_that_we_do_not_need_may_be_missing(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    incomplete = errors.LocalEntryNotFoundError("files are missing")
    incomplete.snapshot_path = str(model)
    fake_snapshots(monkeypatch, local=incomplete, remote=AssertionError("asked the network"))
    assert registry.resolve_model(HF_ID, report=silent).folder == model


def test_pull_asks_for_what_is_new(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = fake_snapshots(monkeypatch, local=AssertionError("looked in the cache"), remote=model)
    assert registry.pull(HF_ID, None, silent) == model
    assert calls == [False]


def test_only_what_we_load_is_fetched(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub.utils import filter_repo_objects

    wanted = ["config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "merges.txt"]
    wanted += ["model-00001-of-00002.safetensors", "model.safetensors.index.json", "chat_template.jinja"]
    other = ["pytorch_model.bin", "model.onnx", "onnx/model.onnx", "README.md", "modeling_custom.py", "model.gguf"]
    other += ["original/model.safetensors", "consolidated.safetensors", "rust_model.ot", "flax_model.msgpack"]
    patterns = {"allow_patterns": list(hub.WANTED), "ignore_patterns": list(hub.UNWANTED)}
    assert list(filter_repo_objects(wanted + other, **patterns)) == wanted


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            http_error(errors.RepositoryNotFoundError),
            "no such model on Hugging Face; check the spelling, and set HF_TOKEN if it is private",
        ),
        (
            http_error(errors.GatedRepoError, 403),
            f"this model is gated; accept its terms on its page ({constants.ENDPOINT}/{HF_ID}) and set HF_TOKEN",
        ),
        (
            http_error(errors.RevisionNotFoundError),
            "it has no revision 'v2'; name one of its branches, tags or commits",
        ),
        (errors.HFValidationError("bad"), "neither a folder nor a Hugging Face id such as Qwen/Qwen3-0.6B"),
        (
            errors.LocalEntryNotFoundError("no connection"),
            "cannot be fetched: Hugging Face does not answer; check the network, or name a folder that holds the model",
        ),
        (http_error(HfHubHTTPError, 500), "cannot be fetched: HfHubHTTPError: what the server said"),
        (OSError(28, "No space left on device"), "cannot be fetched: OSError: [Errno 28] No space left on device"),
    ],
)
def test_what_to_do_when_fetching_fails(error: Exception, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    fake_snapshots(monkeypatch, local=NOT_CACHED, remote=error)
    with pytest.raises(ModelError) as caught:
        registry.resolve_model(HF_ID, "v2", report=silent)
    assert str(caught.value) == f"{HF_ID}: {message}"


def test_a_transport_error_of_the_http_library(monkeypatch: pytest.MonkeyPatch) -> None:
    transport = type("TransportError", (Exception,), {})
    proxy = type("ProxyError", (transport,), {})
    fake_snapshots(monkeypatch, local=NOT_CACHED, remote=proxy("the proxy refused"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    with pytest.raises(ModelError, match="cannot be fetched: Hugging Face does not answer"):
        registry.resolve_model(HF_ID, report=silent)


def test_offline_and_not_cached(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # The library itself, which the tests run with HF_HUB_OFFLINE set, and an empty cache.
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    with pytest.raises(ModelError) as caught:
        registry.resolve_model(HF_ID, report=silent)
    assert str(caught.value) == (
        f"{HF_ID}: cannot be fetched: it is not in the cache and HF_HUB_OFFLINE is set; unset it, or run "
        f"`qwen-batch model pull {HF_ID}` where there is a network and copy {tmp_path / 'hub'}"
    )


@pytest.mark.parametrize("name", ["not a name", "a--b", ""])
def test_a_name_that_is_no_id(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match=r"neither a folder nor a Hugging Face id such as Qwen/Qwen3-0\.6B"):
        registry.resolve_model(name, report=silent)


@pytest.fixture
def hub_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: Path) -> Path:
    """A cache in Hugging Face's own form that holds one model."""
    repo = tmp_path / "hub" / "models--Someone--Model-1B"
    (repo / "refs").mkdir(parents=True)
    (repo / "refs" / "main").write_text("0" * 40)
    (repo / "blobs").mkdir()
    snapshot = repo / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    for file in model.iterdir():
        shutil.copy(file, repo / "blobs" / file.name)
        (snapshot / file.name).symlink_to(repo / "blobs" / file.name)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    # The scan takes its default from where it was imported to.
    scan = hub.scan_cache_dir
    monkeypatch.setattr(hub, "scan_cache_dir", lambda: scan(tmp_path / "hub"))
    return snapshot


def test_a_real_cache_is_read_offline(hub_cache: Path) -> None:
    assert registry.resolve_model(HF_ID, report=silent).folder == hub_cache


def test_the_models_of_a_real_cache_are_listed(hub_cache: Path) -> None:
    num_bytes = sum(file.stat().st_size for file in hub_cache.iterdir())
    assert registry.list_models() == (registry.ModelInfo(HF_ID, hub_cache, num_bytes, "huggingface"),)
    (hub_cache / "config.json").unlink()
    assert registry.list_models() == ()


def test_no_cache_at_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    scan = hub.scan_cache_dir
    monkeypatch.setattr(hub, "scan_cache_dir", lambda: scan(tmp_path / "nowhere"))
    assert registry.list_models() == ()


def test_the_demo_is_listed_when_it_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "list_cached", tuple)
    folder = demo.demo_folder()
    folder.mkdir(parents=True)
    for name in demo.FILES:
        assert registry.list_models() == ()
        (folder / name).write_text("{}")
    assert registry.list_models() == (registry.ModelInfo("demo", folder, 2 * len(demo.FILES), "demo"),)


# --- the home


def test_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert registry.home() == tmp_path / "home"
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("QWEN_BATCH_HOME", "~/elsewhere")
    assert registry.home() == tmp_path / "elsewhere"
    for value in ("", None):
        if value is None:
            monkeypatch.delenv("QWEN_BATCH_HOME")
        else:
            monkeypatch.setenv("QWEN_BATCH_HOME", value)
        assert registry.home() == tmp_path / ".cache" / "qwen-batch"


# --- the hash of a model


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files that were really read for their sums, in the order of reading."""
    names: list[str] = []
    original = checksums.file_sha256

    def file_sha256(path: Path) -> str:
        names.append(path.name)
        return original(path)

    monkeypatch.setattr(checksums, "file_sha256", file_sha256)
    monkeypatch.setattr(checksums, "SETTLED_SECONDS", -1)  # the tests' files are new
    return names


@pytest.mark.parametrize(
    "name",
    [
        "config.json",
        "generation_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "model-00008-of-00008.safetensors",
    ],
)
def test_every_deciding_file_counts(model: Path, name: str) -> None:
    before = registry.model_sha256(model)
    data = (model / name).read_bytes()
    (model / name).write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert registry.model_sha256(model) != before
    (model / name).write_bytes(data)
    assert registry.model_sha256(model) == before


def test_only_deciding_files_count(model: Path, tmp_path: Path) -> None:
    before = registry.model_sha256(model)
    assert len(before) == 64
    (model / "README.md").write_text("read me")
    (model / "pytorch_model.bin").write_bytes(b"pickled")
    assert registry.model_sha256(str(model)) == before
    assert registry.model_sha256(model.rename(tmp_path / "renamed")) == before
    (tmp_path / "renamed" / "chat_template.jinja").write_text("{{ messages }}")
    assert registry.model_sha256(tmp_path / "renamed") != before


def test_sums_are_kept_until_a_file_changes(model: Path, hashed: list[str]) -> None:
    first = registry.model_sha256(model)
    assert len(hashed) == 5 + 8  # configurations, tokenizer and index; weights
    assert registry.model_sha256(model) == first
    assert len(hashed) == 5 + 8
    (model / "config.json").write_text("{}")
    assert registry.model_sha256(model) != first
    assert hashed[5 + 8 :] == ["config.json"]


def test_the_same_size_and_time_do_not_hide_a_change(model: Path, hashed: list[str]) -> None:
    first = registry.model_sha256(model)
    file = model / "config.json"
    stat = file.stat()
    file.write_text(file.read_text().replace("64", "65"))
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert file.stat().st_size == stat.st_size
    assert registry.model_sha256(model) != first


def test_sums_of_new_files_are_not_kept(model: Path, own_home: Path) -> None:
    registry.model_sha256(model)  # the next write to one of them may leave its time stamp as it is
    assert not (own_home / "checksums.json").exists()


def test_sums_of_vanished_files_are_dropped(model: Path, tiny_llama: Path, own_home: Path, hashed: list[str]) -> None:
    registry.model_sha256(model)
    assert len(json.loads((own_home / "checksums.json").read_text())) == 13
    shutil.rmtree(model)
    registry.model_sha256(tiny_llama)
    kept = json.loads((own_home / "checksums.json").read_text())
    assert {Path(path).parent for path in kept} == {tiny_llama}


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a": 3}', '{"a": [["x"], 3]}', "\ufffd"])
def test_damaged_sums_cost_only_time(model: Path, own_home: Path, hashed: list[str], text: str) -> None:
    expected = registry.model_sha256(model)
    (own_home / "checksums.json").write_text(text)
    assert registry.model_sha256(model) == expected
    assert len(hashed) == 2 * 13
    assert registry.model_sha256(model) == expected
    assert len(hashed) == 2 * 13


def test_an_unwritable_home_costs_only_time(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = registry.model_sha256(model)
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("QWEN_BATCH_HOME", str(tmp_path / "file"))
    assert registry.model_sha256(model) == expected


def test_no_model_to_hash(tmp_path: Path, model: Path) -> None:
    (model / "config.json").unlink()
    (model / "config.json").symlink_to(model)
    next(model.glob("model-00002*")).unlink()
    with pytest.raises(ModelError, match="weight files are missing"):
        registry.model_sha256(model)


def test_several_processes_at_once(model: Path, own_home: Path) -> None:
    code = (
        "from qwen_batch.model import checksums\n"
        "checksums.SETTLED_SECONDS = -1\n"
        f"print(checksums.model_sha256({str(model)!r}))"
    )
    runs = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    answers = {run.communicate(timeout=60)[0] for run in runs}
    assert answers == {registry.model_sha256(model) + "\n"}
    assert [file.name for file in own_home.iterdir()] == ["checksums.json"]
    assert len(json.loads((own_home / "checksums.json").read_text())) == 13


def test_hashing_and_finding_import_nothing_heavy() -> None:
    code = (
        "import sys, qwen_batch.model.registry, qwen_batch.model.checksums\n"
        "print([name for name in ('torch', 'transformers', 'tokenizers', 'pyarrow', 'gguf') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"
