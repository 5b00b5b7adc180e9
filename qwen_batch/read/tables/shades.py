"""Filled boxes among the rules of tables: the sides of a shaded row or cell part as rules do, those of text do not.

Word processors shade a cell, and each line of text in it once more, a little within the sides of the cell.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from qwen_batch.read.tables.grids import SNAP, rules_of
from qwen_batch.read.tables.marks import Marks
from qwen_batch.read.tables.ruled import find_boxes
from qwen_batch.records import BBox


def table_edges(marks: Marks) -> Sequence[BBox]:
    """The strokes of a page and the sides of its shades, without those of shades that stand apart from the sides of a
    cell which the strokes alone close."""
    if not marks.shades:
        return marks.edges
    cells = [cell for grid in find_boxes(rules_of(marks.edges)) for cell in grid.cells]
    shades = [shade for shade in marks.shades if not any(_is_of_text(shade, cell) for cell in cells)]
    return [*marks.edges, *(side for shade in shades for side in _sides(shade))]


def _is_of_text(shade: BBox, cell: BBox) -> bool:
    left, right = shade[0] - cell[0], cell[2] - shade[2]
    is_inside = min(left, right, shade[1] - cell[1], cell[3] - shade[3]) >= -SNAP
    return is_inside and max(left, right) > SNAP


def _sides(box: BBox) -> Iterator[BBox]:
    x0, top, x1, bottom = box
    yield x0, top, x1, top
    yield x0, bottom, x1, bottom
    yield x0, top, x0, bottom
    yield x1, top, x1, bottom
