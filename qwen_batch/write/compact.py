"""Many small parts -> few large ones, by changing the whole folder in one step.

    results/ ──link the large parts, merge the small ones──▶ .results.compacting/ ──exchange──▶ results/

Rows cannot move between two files of one folder without a moment in which a reader sees them twice or not at all. So
the new folder is built beside the old one and the two change places (Linux renameat2, RENAME_EXCHANGE); where the
system cannot do that, small parts stay as they are. Merged parts have names that were never used: a reader who listed
the folder just before is told that a file is gone, and finds no row twice. A stop before the exchange leaves the old
table, a stop after it the new one; `scan` removes the other folder and the journal learns the new places.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from qwen_batch.write.disk import Disk
from qwen_batch.write.parts import part_name, part_number, read_part, shadow_of

TARGET_ROWS = 10_000  # of a merged part: some 10 MB, what one replaced row costs to write
MIN_SMALL_PARTS = 16  # fewer are not worth a pass over them


def compact(folder: Path, num_rows: Mapping[str, int], disk: Disk, target_rows: int = TARGET_ROWS) -> bool:
    """Merge the parts that have fewer rows; False when nothing was changed. Raises OSError.

    num_rows: rows of every part of the folder.
    """
    small = [part for part, count in num_rows.items() if count < target_rows]
    if len(small) < MIN_SMALL_PARTS:
        return False
    shadow = shadow_of(folder)
    disk.remove_folder(shadow)
    disk.make_folder(shadow)
    for part in num_rows.keys() - set(small):
        disk.link(folder / part, shadow / part)
    number = max(map(part_number, num_rows)) + 1
    for offset, group in enumerate(_groups(small, num_rows, target_rows)):
        _merge([folder / part for part in group], shadow / part_name(number + offset), disk)
    disk.sync_folder(shadow)
    exchanged = disk.exchange(shadow, folder)
    disk.sync_folder(folder.parent)
    disk.remove_folder(shadow)
    return exchanged


def _groups(parts: list[str], num_rows: Mapping[str, int], target_rows: int) -> Iterator[list[str]]:
    group: list[str] = []
    for part in parts:
        if group and sum(num_rows[member] for member in group) + num_rows[part] > target_rows:
            yield group
            group = []
        group.append(part)
    yield group


def _merge(sources: list[Path], target: Path, disk: Disk) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.concat_tables([read_part(source) for source in sources]), sink, compression="zstd")
    disk.write(target, [memoryview(sink.getvalue())])
    disk.sync(target)
