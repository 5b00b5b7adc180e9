"""Everything that is chosen for speed alone, in one place: whoever has a card tunes here.

Nothing here was measured on a card. Tiles are the largest that spill no register and fit the shared memory of sm_80 to
sm_100 (`python -m qwen_batch.bench.kernels`); the other numbers are sums on paper. `python -m qwen_batch.bench.tune`
times other tiles of attention on the card at hand, and prints rows for this table.
"""

from __future__ import annotations

import torch

from qwen_batch.kernels.launch import Config, next_power_of_2

# (kernel, bytes of a value, head_dims, BLOCK_M rows of queries, BLOCK_N keys, warps, stages, stages where shared memory
# is large). A tile's keys are found through the block table, whose loads take stages of their own: only from five on
# are keys and values still under way while the tile before is computed, which takes up to 130 KB. `window`: its mask
# takes registers. Rows of a tile may not depend on the window: tiles are planned once for all layers.
_ATTENTION = (
    ("attention_prefill", 2, (16, 32), 128, 32, 8, 2, 2),
    ("attention_prefill", 2, (64,), 128, 64, 8, 3, 5),
    ("attention_prefill", 2, (80, 96, 128), 128, 64, 8, 2, 5),
    ("attention_prefill window", 2, (16, 32, 80, 96, 128), 128, 32, 8, 2, 2),
    ("attention_prefill window", 2, (64,), 128, 32, 8, 3, 3),
    # A third stage spills 8 bytes a thread on sm_100 where rows are padded to a power of two.
    ("attention_prefill", 4, (16, 32, 64, 128), 32, 16, 8, 3, 3),
    ("attention_prefill", 4, (80, 96), 32, 16, 8, 2, 2),
    ("attention_prefill window", 4, (16, 32, 64, 128), 32, 16, 8, 3, 3),
    ("attention_prefill window", 4, (80, 96), 32, 16, 8, 2, 2),
    # 16 rows are the fewest that the matrix units take, and the most query heads that may share a KV head.
    ("attention_decode", 2, (16, 32), 16, 32, 4, 2, 2),
    ("attention_decode", 2, (64, 80, 96, 128), 16, 64, 4, 3, 5),
    ("attention_decode", 4, (16, 32, 64, 80, 96, 128), 16, 16, 8, 2, 2),
    # A second stage spills 8 bytes a thread on sm_100 with head_dim 16, which test models have.
    ("attention_prefix", 2, (16,), 64, 32, 4, 1, 1),
    ("attention_prefix", 2, (32,), 64, 32, 4, 2, 2),
    ("attention_prefix", 2, (64, 80, 96, 128), 64, 32, 4, 3, 5),
    ("attention_prefix", 4, (16, 32, 64, 80, 96, 128), 16, 16, 4, 2, 2),
)
# What "large" is. Five stages of prompts would fit sm_80, too, where they spill 48 bytes a thread.
_LARGE_BYTES = {"attention_prefill": 200 * 1024, "attention_decode": 160 * 1024, "attention_prefix": 160 * 1024}
ATTENTION = {
    (kernel, head_dim, itemsize): Config(
        {"BLOCK_M": rows, "BLOCK_N": keys}, num_warps, num_stages, None, deep_stages, _LARGE_BYTES[kernel.split()[0]]
    )
    for kernel, itemsize, head_dims, rows, keys, num_warps, num_stages, deep_stages in _ATTENTION
    for head_dim in head_dims
}
MERGE = Config({"BLOCK_PARTS": 16}, num_warps=4, num_stages=1)  # parts that are added at once: most merges have fewer
QK_NORM_ROPE_STORE = Config({"BLOCK_HEADS": 16}, num_warps=4, num_stages=1)  # 16 heads of 128: 16 elements a thread
SILU_MUL = Config({"BLOCK": 1024}, num_warps=4, num_stages=1)  # 8 elements a thread: one 16-byte access in bf16
# 4 scores a thread: one 16-byte access. Without the bound ptxas aims for 32 or 40 registers and spills 8 to 16 bytes.
SAMPLE = Config({"BLOCK": 2048}, num_warps=16, num_stages=1, max_registers=64)
ROW_BLOCKS = (1024, 2048, 4096, 8192, 16_384)  # widths of tiles that hold a whole row

MIN_KEYS_PER_SPLIT = 256  # of a context that is divided among programs
PROGRAMS_PER_PROCESSOR = 2  # that divided contexts aim for
MAX_SPLITS = 64
# A prefix is read once for all when so many sequences share it and it has so many tokens: below that, the second pass
# and its merge cost more than they save.
MIN_BRANCHES = 4
MIN_PREFIX_TOKENS = 256
# Splits of shared prefixes in a graph, which must not depend on their number: parts of 256 sequences of Qwen3-32B then
# take 75 MB.
GRAPH_PREFIX_SPLITS = 8


def attention(kernel: str, head_dim: int, dtype: torch.dtype) -> Config:
    """The tiles of an attention kernel."""
    return ATTENTION[kernel, head_dim, dtype.itemsize]


def row(width: int) -> Config:
    """For kernels that keep a row in registers: at most 32 elements a thread and array, so that three arrays do."""
    block = max(ROW_BLOCKS[0], next_power_of_2(width))
    # The widest would spill 8 bytes on sm_89 to run twice at once; 512 threads of 128 registers are one of them.
    bound = 128 if block == ROW_BLOCKS[-1] else None
    return Config({"BLOCK": block}, num_warps=min(16, block // 512), num_stages=1, max_registers=bound)
