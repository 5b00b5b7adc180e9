"""One hash for a model: what was answered with which weights can be told apart, and unchanged work recognised."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from qwen_batch.errors import ModelError
from qwen_batch.model.home import home

DECIDING_FILES = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "vocab.json",
    "merges.txt",
    "added_tokens.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    "chat_template.json",
)
INDEX_FILE = "model.safetensors.index.json"
BLOCK_BYTES = 1 << 22
# A file changed a moment ago may change again without a new time stamp: its sum is not kept. Linux stamps by the
# scheduler's tick (4 ms), file servers by the second or two.
SETTLED_SECONDS = 2.5

Key = tuple[int, ...]  # size in bytes, times of change in nanoseconds, inode


def model_sha256(folder: str | Path) -> str:
    """SHA-256 (hex) over the names and contents of all files in `folder` that decide what the model answers.

    Sums of files are kept in checksums.json of the cache folder, and computed again when a file's size, times or inode
    changed. Raises ModelError when a file cannot be read.
    """
    try:
        paths = _deciding_paths(Path(folder))
        sums = _sums(paths)
    except OSError as error:
        raise ModelError(f"{folder}: the model cannot be read: {error}") from error
    lines = (f"{sums[path]}  {path.name}\n" for path in paths)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def weight_files(folder: Path) -> tuple[Path, ...]:
    """The safetensors files of a model, sorted: those that its index names, else model.safetensors, else all.

    Raises ModelError when one that the index names is missing, or the index is damaged.
    """
    index, single = folder / INDEX_FILE, folder / "model.safetensors"
    if not index.is_file():
        return (single,) if single.is_file() else tuple(sorted(folder.glob("*.safetensors")))
    try:
        names = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        paths = tuple(sorted(folder / name for name in names))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"{index}: not an index of safetensors files; fetch the model again") from error
    missing = [path.name for path in paths if not path.is_file()]
    if missing:
        raise ModelError(
            f"{folder}: {len(missing)} of {len(paths)} weight files are missing, the first is {missing[0]}"
        )
    return paths


def file_sha256(path: Path) -> str:
    """SHA-256 (hex) of a file's bytes, read block by block."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def _deciding_paths(folder: Path) -> tuple[Path, ...]:
    named = (folder / name for name in (*DECIDING_FILES, INDEX_FILE))
    return (*(path for path in named if path.is_file()), *weight_files(folder))


def _sums(paths: Iterable[Path]) -> dict[Path, str]:
    """The sum of each path, from the kept ones where they still hold. Reading overlaps with hashing over the files."""
    kept, found, fresh = _load(), {}, {}
    with ThreadPoolExecutor(max_workers=4) as pool:
        todo = {}
        for path in paths:
            real, key = path.resolve(), _key(path)
            if kept.get(str(real), (None, ""))[0] == key:
                found[path] = kept[str(real)][1]
            else:
                todo[path] = (real, key, pool.submit(file_sha256, real))
        for path, (real, key, result) in todo.items():
            found[path] = result.result()
            if _key(path) == key and _is_settled(path):
                fresh[str(real)] = (key, found[path])
    if fresh:
        _store(fresh)
    return found


def _key(path: Path) -> Key:
    stat = path.stat()
    return (stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino)


def _is_settled(path: Path) -> bool:
    stat = path.stat()
    return time.time() - max(stat.st_mtime, stat.st_ctime) > SETTLED_SECONDS


def _load() -> dict[str, tuple[Key, str]]:
    """The kept sums by real path; none when the file is missing or damaged, which costs time and nothing else."""
    try:
        data = json.loads((home() / "checksums.json").read_bytes())
        return {path: (tuple(map(int, key)), str(digest)) for path, (key, digest) in data.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _store(fresh: Mapping[str, tuple[Key, str]]) -> None:
    """Merge into the kept sums. Of two processes at once the later one wins, and the file is whole at any time."""
    sums = {path: entry for path, entry in {**_load(), **fresh}.items() if os.path.exists(path)}
    temporary = home() / f".checksums.{os.getpid()}.json"
    try:
        home().mkdir(parents=True, exist_ok=True)
        temporary.write_text(json.dumps(sums, indent=1), encoding="utf-8")
        temporary.replace(home() / "checksums.json")
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
