"""Reading: from files, folders and JSON lines to documents as they were written."""

from __future__ import annotations

from qwen_batch.read.inputs import iter_inputs
from qwen_batch.read.items import FileItem, Item, hash_file
from qwen_batch.read.jsonl import iter_records

__all__ = ["FileItem", "Item", "hash_file", "iter_inputs", "iter_records"]
