"""A folder of Parquet part files in which every id has one row, and a part is replaced as a whole or not at all.

While rows come in, none moves to another part (compact.py says when one does). A new row goes to the last part while
that has room, else to a new one; a row for an id that is already there takes the old one's place. Either way the part
is written beside itself under a name that begins with a dot, which table readers take for no data, and renamed over
itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from qwen_batch.errors import OutputError
from qwen_batch.write.disk import Disk, output_errors, write_durably
from qwen_batch.write.schema import OPTIONAL_COLUMNS, Columns, rows_to_table

_PART = re.compile(r"part-(\d{6,})\.parquet")
_TEMPORARY = re.compile(r"\.part-\d{6,}\.parquet\.tmp")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a row stands, and which row it is."""

    part: str  # file name
    stamp: int  # when the row was made, microseconds since 1970; 0 in a table without such a column


class PartFolder:
    """The part files of one table. `scan`, then `repair`, then `write`. Every method raises OutputError."""

    def __init__(
        self,
        folder: Path,
        schema: pa.Schema,
        *,
        id_column: str,
        stamp_column: str | None,
        part_rows: int,
        disk: Disk,
    ) -> None:
        self.folder = folder
        self.schema = schema
        self.places: dict[str, Place] = {}
        self.other_schema: list[str] = []  # parts whose columns are not those of `schema`
        self.duplicates: dict[str, set[int]] = {}  # part -> rows whose id has a newer row elsewhere
        self._num_rows: dict[str, int] = {}  # by part, in the order of their numbers
        self._id_column = id_column
        self._stamp_column = stamp_column
        self._part_rows = part_rows
        self._disk = disk

    def scan(self) -> None:
        """Create the folder, remove what a killed run left behind, and learn which rows there are."""
        with output_errors(self.folder):
            self._disk.make_folder(self.folder)
            names = sorted(path.name for path in self.folder.iterdir())
            foreign = [name for name in names if not _PART.fullmatch(name) and name[0] not in "._"]
            if foreign:
                shown = ", ".join(foreign[:5]) + (f" and {len(foreign) - 5} more" if len(foreign) > 5 else "")
                raise OutputError(
                    f"{self.folder}: holds files that are not ours: {shown}; move them away, "
                    "or choose another folder with --output"
                )
            for name in filter(_TEMPORARY.fullmatch, names):
                self._disk.remove(self.folder / name)
            self._disk.remove_folder(shadow_of(self.folder))
        rows: dict[str, int] = {}
        for part in list_parts(self.folder):
            self._scan_part(part, rows)

    def repair(self) -> None:
        """Give every part the schema, take out duplicates, and leave at least one part, so that the table reads."""
        for part in sorted({*self.other_schema, *self.duplicates}):
            table = read_part(self.folder / part)
            dropped = self.duplicates.get(part, set())
            table = table.take(pa.array([row for row in range(len(table)) if row not in dropped], pa.int64()))
            self._write_table(part, _conform(table, self.schema, self.folder / part))
        self.other_schema, self.duplicates = [], {}
        if not self._num_rows:
            self._write_table(part_name(0), self.schema.empty_table())

    def write(self, rows: Sequence[Columns]) -> Iterator[tuple[str, list[str]]]:
        """Write rows with different ids; yields each part and the ids in it once they are on the medium."""
        for part, members in self._assign(rows).items():
            new = rows_to_table(members, self.schema)
            self._write_table(part, self._merge(part, new))
            ids: list[str] = new[self._id_column].to_pylist()
            stamps = _stamps(new, self._stamp_column)
            self.places.update({id_: Place(part, stamp) for id_, stamp in zip(ids, stamps, strict=True)})
            yield part, ids

    def drop(self, ids: Iterable[str]) -> None:
        """Take the rows of these ids out, part by part."""
        by_part: dict[str, set[str]] = {}
        for id_ in ids:
            by_part.setdefault(self.places[id_].part, set()).add(id_)
        for part, dropped in by_part.items():
            table = read_part(self.folder / part)
            kept = [row for row, id_ in enumerate(table[self._id_column].to_pylist()) if id_ not in dropped]
            self._write_table(part, table.take(pa.array(kept, pa.int64())))
            for id_ in dropped:
                del self.places[id_]

    @property
    def num_rows(self) -> Mapping[str, int]:
        """Rows of each part, in the order of their numbers."""
        return self._num_rows

    def rescan(self) -> None:
        """Learn again which rows there are, after the parts were changed by other means."""
        self.places.clear()
        self._num_rows.clear()
        self.scan()

    def _scan_part(self, part: str, rows: dict[str, int]) -> None:
        """Add the part's rows to `places`; `rows` says at which row of its part each id stands."""
        path = self.folder / part
        schema = read_part_schema(path)
        columns = [self._id_column, *([self._stamp_column] if self._stamp_column else [])]
        if not set(columns) <= set(schema.names):
            raise OutputError(
                f"{path}: is not a part of this table (no column {self._id_column}); move it away and run again"
            )
        if not schema.equals(self.schema):
            self.other_schema.append(part)
        table = read_part(path, columns)
        self._num_rows[part] = len(table)
        stamps = _stamps(table, self._stamp_column)
        for row, (id_, stamp) in enumerate(zip(table[self._id_column].to_pylist(), stamps, strict=True)):
            old = self.places.get(id_)
            if old is not None and old.stamp > stamp:
                self.duplicates.setdefault(part, set()).add(row)
                continue
            if old is not None:
                self.duplicates.setdefault(old.part, set()).add(rows[id_])
            self.places[id_] = Place(part, stamp)
            rows[id_] = row

    def _assign(self, rows: Iterable[Columns]) -> dict[str, list[Columns]]:
        last = next(reversed(self._num_rows))
        room = self._part_rows - self._num_rows[last]
        plan: dict[str, list[Columns]] = {}
        for row in rows:
            place = self.places.get(row[self._id_column])
            if place is None:
                if room <= 0:
                    last, room = part_name(part_number(last) + 1), self._part_rows
                room -= 1
            plan.setdefault(place.part if place else last, []).append(row)
        return plan

    def _merge(self, part: str, new: pa.Table) -> pa.Table:
        """The part's table with the new rows, each in the place of its id's old row or at the end."""
        if part not in self._num_rows:
            return new
        old = read_part(self.folder / part)
        unplaced = {id_: len(old) + row for row, id_ in enumerate(new[self._id_column].to_pylist())}
        order = [unplaced.pop(id_, row) for row, id_ in enumerate(old[self._id_column].to_pylist())]
        return pa.concat_tables([old, new]).take(pa.array([*order, *unplaced.values()], pa.int64()))

    def _write_table(self, part: str, table: pa.Table) -> None:
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, compression="zstd")
        with output_errors(self.folder / part):
            write_durably(self._disk, self.folder / part, [memoryview(sink.getvalue())])
        self._num_rows[part] = len(table)


def list_parts(folder: Path) -> list[str]:
    """Names of the part files in a folder, in the order of their numbers."""
    names = [path.name for path in folder.iterdir() if _PART.fullmatch(path.name)]
    return sorted(names, key=part_number)


def read_part(path: Path, columns: list[str] | None = None) -> pa.Table:
    """The rows of one part file, without guessing columns from the names of its folders."""
    return _open_part(path, lambda file: file.read(columns=columns))


def read_part_schema(path: Path) -> pa.Schema:
    """The columns of one part file."""
    return _open_part(path, lambda file: file.schema_arrow)


def _open_part(path: Path, read: Callable[[pq.ParquetFile], Any]) -> Any:
    try:
        with pq.ParquetFile(path) as file:
            return read(file)
    except PermissionError as error:
        raise OutputError(f"{path}: may not be read; check its permissions") from error
    except FileNotFoundError as error:
        raise OutputError(
            f"{path}: is gone: somebody has moved or removed it meanwhile; run again: rows that the journal has are "
            "written again"
        ) from error
    except (OSError, pa.ArrowException) as error:
        raise OutputError(
            f"{path}: is damaged, or no Parquet file; move it away and run again: rows that the journal has "
            "are written again, others are computed again"
        ) from error


def shadow_of(folder: Path) -> Path:
    """Where the compacted form of a folder is built."""
    return folder.with_name(f".{folder.name}.compacting")


def part_name(number: int) -> str:
    """`part-000007.parquet`."""
    return f"part-{number:06d}.parquet"


def part_number(part: str) -> int:
    """The number in a part's name."""
    return int(part.removeprefix("part-").removesuffix(".parquet"))


def _stamps(table: pa.Table, column: str | None) -> list[int]:
    return table[column].cast(pa.int64()).to_pylist() if column else [0] * len(table)


def _conform(table: pa.Table, schema: pa.Schema, path: Path) -> pa.Table:
    """The table with the columns of `schema`: one that it lacks is empty, an optional one too many is left out."""
    unknown = sorted(set(table.column_names) - set(schema.names) - OPTIONAL_COLUMNS)
    if unknown:
        raise _other_table(path, f"it has the columns {', '.join(unknown)}")
    return pa.Table.from_arrays([_conform_column(table, field, path) for field in schema], schema=schema)


def _conform_column(table: pa.Table, field: pa.Field, path: Path) -> pa.Array | pa.ChunkedArray:
    known = field.name in table.column_names
    column = table[field.name] if known else pa.nulls(len(table), field.type)
    if column.null_count and not field.nullable:
        raise _other_table(path, f"it lacks values of {field.name}")
    try:
        return column.cast(field.type)
    except pa.ArrowException as error:
        raise _other_table(path, f"its {field.name} is {column.type}, not {field.type}") from error


def _other_table(path: Path, why: str) -> OutputError:
    return OutputError(
        f"{path}: belongs to a table of another form ({why}); choose another folder with --output, "
        "or move this one away"
    )
