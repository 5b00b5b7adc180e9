"""How texts and files are identified: apart, since OpenSSL takes 4 ms to load, and `extract` asks for no hash."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from qwen_batch.records import Message, clean_id


def hash_file(path: Path) -> str:
    """SHA-256 of the file's bytes, in hex. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hash_id(doc_id: str) -> int:
    """64 bits of the id as its row has it, for sets of very many."""
    return short_hash(clean_id(doc_id).encode())


def short_hash(content: bytes) -> int:
    """64 bits."""
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "big")


def hash_text(text: str) -> str:
    """SHA-256 of the text's UTF-8, in hex."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def hash_messages(messages: Sequence[Message], sampling: Mapping[str, object]) -> str:
    """SHA-256 of a conversation, and of what it asks for, in one fixed JSON form."""
    content = {"messages": [[message.role, message.content] for message in messages], "sampling": dict(sampling)}
    return hash_text(json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":")))
