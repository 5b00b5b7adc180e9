"""Models on Hugging Face: fetched into its own cache, and found there again without a network."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from huggingface_hub import constants, scan_cache_dir, snapshot_download
from huggingface_hub.errors import (
    CacheNotFound,
    GatedRepoError,
    HFValidationError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from qwen_batch.errors import ModelError
from qwen_batch.model.checksums import weight_files
from qwen_batch.model.demo import UNREACHABLE

WANTED = (
    "config.json",
    "generation_config.json",
    "tokenizer*",
    "vocab.json",
    "merges.txt",
    "added_tokens.json",
    "special_tokens_map.json",
    "chat_template*",
    "*.safetensors",
    "model.safetensors.index.json",
)
UNWANTED = ("*/*", "consolidated*")  # other formats of the same weights, in folders or in the makers' own naming


def find_cached(name: str, revision: str | None) -> Path | None:
    """Folder of a model that is whole in the cache; asks no server, so a branch stays where it was fetched."""
    try:
        folder = Path(_download(name, revision, local_files_only=True))
    except LocalEntryNotFoundError as error:
        # Files that other programs left out may be all that is missing.
        partial = getattr(error, "snapshot_path", None)
        folder = Path(partial) if partial else Path()
    except HFValidationError:
        return None
    return folder if _is_whole(folder) else None


def fetch(name: str, revision: str | None, report: Callable[[str], None]) -> Path:
    """Fetch what is missing of a model, and return its folder. Raises ModelError saying what to do."""
    report(f"{name}: fetching from Hugging Face into {constants.HF_HUB_CACHE}")
    try:
        return Path(_download(name, revision, local_files_only=False))
    except Exception as error:  # the hub raises its HTTP library's errors too, and that library differs by version
        raise ModelError(f"{name}: {_explain(name, revision, error)}") from error


def list_cached() -> tuple[tuple[str, Path, int], ...]:
    """Name, folder and size in bytes of each model in the cache that has a configuration and safetensors."""
    try:
        cache = scan_cache_dir()
    except CacheNotFound:
        return ()
    found = []
    for repo in cache.repos:
        if repo.repo_type != "model" or not repo.revisions:
            continue
        # The revision that `main` points to, else the newest.
        latest = max(repo.revisions, key=lambda revision: ("main" in revision.refs, revision.last_modified))
        if _is_whole(latest.snapshot_path):
            found.append((repo.repo_id, latest.snapshot_path, latest.size_on_disk))
    return tuple(sorted(found))


def _download(name: str, revision: str | None, *, local_files_only: bool) -> str:
    return snapshot_download(
        name,
        revision=revision,
        allow_patterns=list(WANTED),
        ignore_patterns=list(UNWANTED),
        local_files_only=local_files_only,
    )


def _is_whole(folder: Path) -> bool:
    try:
        return (folder / "config.json").is_file() and bool(weight_files(folder))
    except ModelError:
        return False


def _explain(name: str, revision: str | None, error: Exception) -> str:
    if isinstance(error, GatedRepoError):
        return f"this model is gated; accept its terms on its page ({constants.ENDPOINT}/{name}) and set HF_TOKEN"
    if isinstance(error, RevisionNotFoundError):
        return f"it has no revision {revision!r}; name one of its branches, tags or commits"
    if isinstance(error, RepositoryNotFoundError):
        return "no such model on Hugging Face; check the spelling, and set HF_TOKEN if it is private"
    if isinstance(error, HFValidationError):
        return "neither a folder nor a Hugging Face id such as Qwen/Qwen3-0.6B"
    if constants.HF_HUB_OFFLINE and isinstance(error, OfflineModeIsEnabled | LocalEntryNotFoundError):
        return (
            f"{UNREACHABLE}: it is not in the cache and HF_HUB_OFFLINE is set; unset it, or run "
            f"`qwen-batch model pull {name}` where there is a network and copy {constants.HF_HUB_CACHE}"
        )
    if isinstance(error, LocalEntryNotFoundError | ConnectionError | TimeoutError) or _is_transport_error(error):
        return f"{UNREACHABLE}: Hugging Face does not answer; check the network, or name a folder that holds the model"
    return f"{UNREACHABLE}: {type(error).__name__}: {error}"


def _is_transport_error(error: Exception) -> bool:
    """Whether the HTTP library (httpx, httpx2 or requests, by hub version) could not reach the server."""
    return any(kind.__name__ in {"TransportError", "RequestException"} for kind in type(error).__mro__)
