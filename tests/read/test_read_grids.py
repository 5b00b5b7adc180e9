"""Cells from rules, compared with pdfplumber's."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from qwen_batch.read.page.chars import Char
from qwen_batch.read.tables.grids import MIN_EDGE, SNAP, Rule, close_sides, rules_of
from qwen_batch.read.tables.ruled import Grid, fill_grid, find_boxes, find_grids
from qwen_batch.records import BBox


def grid(xs: list[float], ys: list[float]) -> list[BBox]:
    across = [(xs[0], y, xs[-1], y) for y in ys]
    return [*across, *((x, ys[0], x, ys[-1]) for x in xs)]


def of_pdfplumber(edges: list[BBox]) -> list[list[BBox]]:
    geometry = pytest.importorskip("pdfplumber.table")
    named = [
        {
            **dict(zip(("x0", "top", "x1", "bottom"), edge, strict=True)),
            "width": edge[2] - edge[0],
            "height": edge[3] - edge[1],
            "orientation": "h" if edge[2] - edge[0] > edge[3] - edge[1] else "v",
        }
        for edge in dict.fromkeys(edges)
    ]
    merged = geometry.merge_edges(named, SNAP, SNAP, SNAP, SNAP)
    merged = [edge for edge in merged if edge["x1"] - edge["x0"] + edge["bottom"] - edge["top"] >= MIN_EDGE]
    crossings = geometry.edges_to_intersections(merged, SNAP, SNAP)
    tables = geometry.cells_to_tables(geometry.intersections_to_cells(crossings))
    return [sorted(map(rounded, table)) for table in tables if len(table) >= 4]


def rounded(box: BBox) -> BBox:
    return tuple(round(side, 6) for side in box)  # type: ignore[return-value]


def test_a_grid_has_its_cells() -> None:
    (found,) = find_grids(rules_of(grid([10, 60, 110], [20, 40, 60])))
    assert found.bbox == (10, 20, 110, 60)
    assert found.cells == ((10, 20, 60, 40), (60, 20, 110, 40), (10, 40, 60, 60), (60, 40, 110, 60))


@pytest.mark.parametrize("seed", range(40))
def test_cells_are_those_of_pdfplumber(seed: int) -> None:
    """Grids whose rules are broken, doubled, too long, too short, missing, and strokes that belong to none."""
    chance = random.Random(seed)
    edges: list[BBox] = []
    for number in range(chance.randint(1, 3)):
        xs = sorted(chance.sample(range(30, 500, 7), chance.randint(2, 7)))
        ys = sorted(chance.sample(range(50 + 200 * number, 230 + 200 * number, 7), chance.randint(2, 8)))
        edges += [edge for edge in grid([*map(float, xs)], [*map(float, ys)]) if chance.random() < 0.9]
    for x0, top, x1, bottom in list(edges):
        kind, near = chance.random(), chance.uniform(-4, 4)
        if kind < 0.2:  # in two pieces, with a gap or without
            middle = chance.uniform(0.3, 0.7)
            edges.remove((x0, top, x1, bottom))
            x, y = x0 + middle * (x1 - x0), top + middle * (bottom - top)
            edges += [(x0, top, x, y), (x + abs(near) * (x1 > x0), y + abs(near) * (x1 == x0), x1, bottom)]
        elif kind < 0.4:  # drawn twice, a little apart
            edges.append(
                (x0 + near * (x1 == x0), top + near * (x1 > x0), x1 + near * (x1 == x0), bottom + near * (x1 > x0))
            )
        elif kind < 0.5:
            edges.append((x0, top, x0 + (x1 > x0) * 20, top + (x1 == x0) * 20))
    chance.shuffle(edges)
    horizontal = sum(edge[2] - edge[0] > edge[3] - edge[1] for edge in edges)
    wanted = of_pdfplumber(edges) if horizontal >= 3 and len(edges) - horizontal >= 2 else []
    assert [sorted(map(rounded, found.cells)) for found in find_boxes(rules_of(edges))] == wanted


def test_boxes_below_each_other_or_side_by_side_are_no_table() -> None:
    listing, strip = (
        rules_of(grid(*sides)) for sides in (([10, 110], [0, 20, 40, 60, 80]), ([0, 20, 40, 60, 80], [10, 110]))
    )
    assert [len(found.cells) for found in find_boxes(listing)] == [4]
    assert find_grids(listing) == find_grids(strip) == []


def test_sides_are_closed_where_columns_are_divided_from_rule_to_rule() -> None:
    level = [Rule(y, 50, 350) for y in (0, 20, 60, 80, 200, 240)]
    between = [Rule(150, 0, 60), Rule(150, 80, 200)]
    closed = {(rule.place, rule.start, rule.end) for rule in close_sides(between, level)}
    assert {rule for rule in closed if rule[0] == 50} == {(50, 0, 20), (50, 20, 60), (50, 60, 80), (50, 80, 200)}
    assert len(closed) == 8  # a title of 20 points belongs to the table, what follows does not


def test_rules_around_prose_stay_open() -> None:
    level = [Rule(y, 50, 350) for y in (0, 20, 60)]
    assert list(close_sides([], level)) == []
    assert list(close_sides([Rule(50, 0, 60), Rule(350, 0, 60)], level)) == []


def test_boxes_of_a_diagram_are_no_table() -> None:
    boxes = [(100 * step, 50 * step, 100 * step + 100, 50 * step + 50) for step in range(4)]  # corner to corner
    edges = [
        edge
        for x0, top, x1, bottom in boxes
        for edge in ((x0, top, x1, top), (x0, bottom, x1, bottom), (x0, top, x0, bottom), (x1, top, x1, bottom))
    ]
    words = [Char("a", x0 + 20.0, top + 20.0, x0 + 30.0, top + 30.0, 0) for x0, top, _, _ in boxes]
    assert [fill_grid(found, words) for found in find_grids(rules_of(edges))] == [None]


def test_the_lines_behind_a_plot_are_no_table() -> None:
    cells = tuple((x, y, x + 50.0, y + 20.0) for y in (0.0, 20.0, 40.0, 60.0) for x in (0.0, 50.0, 100.0, 150.0))
    plot = Grid((0.0, 0.0, 200.0, 80.0), cells)
    names = [Char(text, x + 5.0, 65.0, x + 10.0, 72.0, 0) for text, x in (("a", 0.0), ("b", 50.0), ("c", 100.0))]
    assert fill_grid(plot, names) is None
    filled = [Char("1", x + 5.0, y + 5.0, x + 10.0, y + 12.0, 0) for x, y, _, _ in cells]
    assert fill_grid(plot, filled) is not None


def test_sides_that_go_through_words_are_of_a_drawing() -> None:
    cells = tuple((x, y, x + 50.0, y + 20.0) for y in (0.0, 20.0) for x in (0.0, 50.0))
    grid = Grid((0.0, 0.0, 100.0, 40.0), cells)

    def write(text: str, x: float, y: float) -> list[Char]:
        return [Char(char, x + 6 * at, y, x + 6 * at + 5, y + 8, 0) for at, char in enumerate(text)]

    space = Char(" ", 0.0, 0.0, 0.0, 0.0, 0)
    within = [*write("Left", 5.0, 6.0), space, *write("Right", 55.0, 6.0), space, *write("1", 5.0, 26.0)]
    table = fill_grid(grid, within)
    assert table is not None
    assert table.rows == (("Left", "Right"), ("1", ""))
    assert fill_grid(grid, [*within, space, *write("Picture", 30.0, 26.0)]) is None
    assert fill_grid(grid, [*within, space, *write("Beside", 80.0, 26.0)]) is None


def test_a_grid_that_is_mostly_empty_and_cuts_words_is_no_table() -> None:
    sides = [0.0, *(300.0 + 40 * number for number in range(11))]
    cells = tuple((x, y, x1, y + 20.0) for y in range(0, 240, 20) for x, x1 in pairwise(sides))
    grid = Grid((0.0, 0.0, sides[-1], 240.0), cells)

    def write(text: str, x: float, y: float) -> list[Char]:
        return [Char(char, x + 6 * at, y, x + 6 * at + 6, y + 8, 0) for at, char in enumerate(f"{text} ")]

    names = [char for x in sides[1:-1] for char in write("Name", x + 4, 6.0)]
    labels = [char for y in range(0, 240, 20) for char in write("Mark one box here, on the left", 4.0, y + 6.0)]
    title = write("REGISTRATIONS APPLICATIONS AVAILABLE", 310.0, 146.0)
    assert fill_grid(grid, [*names, *labels]) is not None
    assert fill_grid(grid, [*names, *labels, *title]) is None
