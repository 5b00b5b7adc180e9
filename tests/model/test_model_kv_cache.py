"""KV memory: stored where the slots say, and no memory taken before it is used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from qwen_batch.model.config import read_config
from qwen_batch.model.kv_cache import KVCache, gather_blocks

CPU = torch.device("cpu")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("block_size", [1, 3, 16])
def test_what_is_stored_is_gathered(tiny_qwen3: Path, dtype: torch.dtype, block_size: int) -> None:
    config = read_config(tiny_qwen3)
    cache = KVCache.allocate(config, 10, block_size, dtype, CPU)
    blocks = torch.tensor([[7, 2], [9, 0]])
    slots = torch.tensor([7 * block_size, 2 * block_size + block_size - 1, 0])
    keys, values = torch.randn(2, 3, config.num_kv_heads, config.head_dim).to(dtype)
    cache.store(1, slots, keys, values)
    for stored, layers in ((keys, cache.keys), (values, cache.values)):
        picked = gather_blocks(layers[1], blocks)
        assert picked.shape == (2, 2, block_size, config.num_kv_heads, config.head_dim)
        assert torch.equal(picked[0, 0, 0], stored[0])
        assert torch.equal(picked[0, 1, -1], stored[1])
        assert torch.equal(picked[1, 1, 0], stored[2])
        assert not layers[0].any()


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read as Linux counts it")
def test_memory_is_taken_when_it_is_used(tiny_qwen3: Path) -> None:
    script = (
        "import resource, sys, torch, pathlib\n"
        "from qwen_batch.model.config import read_config\n"
        "from qwen_batch.model.kv_cache import KVCache\n"
        "config = read_config(pathlib.Path(sys.argv[1]))\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "cache = KVCache.allocate(config, 50_000, 16, torch.float32, torch.device('cpu'))\n"
        "print(sum(t.nbytes for t in cache.keys), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    output = subprocess.check_output([sys.executable, "-c", script, str(tiny_qwen3)])
    num_bytes, grown_kib = map(int, output.split())
    assert num_bytes > 500e6
    assert grown_kib < 50_000
