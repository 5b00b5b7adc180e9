"""The frame in which a recognised page is read: scans come turned by quarters, and a few degrees askew.

Each line is read level whatever its slope, so only places are at stake: order, margins and rows are found in a frame in
which the lines run level, from left to right.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from qwen_batch.records import BBox

LONG = 8.0  # times as long as high: the slope of shorter lines is not to be trusted
MIN_SLOPE = math.radians(0.4)  # less moves the end of a line by half of its height, and nothing is gained
MAX_SLOPE = math.radians(20.0)

Corners = Sequence[Sequence[float]]  # (4, 2): clockwise from the top left, in pixels


class Frame(NamedTuple):
    """How a picture is put straight: turned clockwise by quarters, then by an angle about its middle."""

    width: float  # pixels, of the picture as it came
    height: float
    quarters: int  # 0 to 3
    slope: float  # radians by which lines fall to the right, after the quarters

    def place(self, corners: Corners) -> BBox:
        """Left, top, right and bottom of a line in the frame."""
        points = [self._turned(float(x), float(y)) for x, y in corners]
        if abs(self.slope) < MIN_SLOPE:
            (x0, x1), (top, bottom) = ((min(axis), max(axis)) for axis in zip(*points, strict=True))
            return x0, top, x1, bottom
        x, y = (sum(axis) / 4 for axis in zip(*points, strict=True))
        sides = math.dist(points[0], points[1]), math.dist(points[1], points[2])
        is_wide = self.quarters % 2 == 0  # corners are counted from the picture's top left
        wide, high = sides if is_wide else sides[::-1]
        width, height = (self.width, self.height)[:: -1 if self.quarters % 2 else 1]
        x, y = x - width / 2, y - height / 2
        cos, sin = math.cos(self.slope), math.sin(self.slope)
        x, y = x * cos + y * sin + width / 2, y * cos - x * sin + height / 2
        return x - wide / 2, y - high / 2, x + wide / 2, y + high / 2

    def _turned(self, x: float, y: float) -> tuple[float, float]:
        if self.quarters == 1:
            return self.height - y, x
        if self.quarters == 2:
            return self.width - x, self.height - y
        if self.quarters == 3:
            return y, self.width - x
        return x, y


def find_frame(boxes: Sequence[Corners], quarters: int, width: float, height: float) -> Frame:
    """The frame of a picture whose lines run level, or nearly so, once it is turned by quarters."""
    slopes: list[float] = []
    for box in boxes:
        (x0, y0), (x1, y1), (x2, y2) = ((float(x), float(y)) for x, y in box[:3])
        along, across = (x1 - x0, y1 - y0), (x2 - x1, y2 - y1)
        if quarters % 2:  # their long sides run down
            along, across = (across[1], -across[0]), along
        if math.hypot(*along) >= LONG * math.hypot(*across):
            slopes.append(math.atan2(along[1], along[0]))
    slope = sorted(slopes)[len(slopes) // 2] if slopes else 0.0
    return Frame(width, height, quarters, slope if MIN_SLOPE <= abs(slope) <= MAX_SLOPE else 0.0)
