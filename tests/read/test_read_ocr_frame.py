"""Scans that lie on their side, on their head or askew are put straight before their lines are ordered."""

from __future__ import annotations

import math

import pytest

from qwen_batch.read.ocr.frame import find_frame

WIDTH, HEIGHT = 1000.0, 1400.0
LINES = [(100.0, 100.0 + 40 * number, 900.0, 130.0 + 40 * number) for number in range(8)]


def corners(box: tuple[float, float, float, float], degrees: float, quarters: int) -> list[tuple[float, float]]:
    """Of a line on a page that is turned by degrees and then counterclockwise by quarters, from the top left."""
    x0, top, x1, bottom = box
    slope = math.radians(degrees)
    points = []
    for x, y in ((x0, top), (x1, top), (x1, bottom), (x0, bottom)):
        dx, dy = x - WIDTH / 2, y - HEIGHT / 2
        x, y = dx * math.cos(slope) - dy * math.sin(slope), dx * math.sin(slope) + dy * math.cos(slope)
        x, y = x + WIDTH / 2, y + HEIGHT / 2
        width, height = WIDTH, HEIGHT
        for _ in range(quarters):
            x, y, width, height = y, width - x, height, width
        points.append((x, y))
    return points[quarters:] + points[:quarters]


@pytest.mark.parametrize("degrees", [0, 2, -2, 5, -5])
@pytest.mark.parametrize("quarters", [0, 1, 2, 3])
def test_lines_come_to_lie_where_they_were(degrees: float, quarters: int) -> None:
    boxes = [corners(line, degrees, quarters) for line in LINES]
    size = (HEIGHT, WIDTH) if quarters % 2 else (WIDTH, HEIGHT)
    frame = find_frame(boxes, quarters, *size)
    for line, box in zip(LINES, boxes, strict=True):
        assert frame.place(box) == pytest.approx(line, abs=0.01)


def test_short_lines_and_steep_ones_turn_nothing() -> None:
    short = corners((100, 100, 160, 130), 5, 0)
    assert find_frame([short], 0, WIDTH, HEIGHT).slope == 0
    assert find_frame([corners(LINES[0], 30, 0)], 0, WIDTH, HEIGHT).slope == 0
    assert find_frame([], 0, WIDTH, HEIGHT).slope == 0
