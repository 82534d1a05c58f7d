"""Labels beside the points of a plot, where there is room for them."""

import math
from typing import Any, NamedTuple

from matplotlib.transforms import Bbox

__all__ = ["Label", "place_labels"]

DIRECTIONS = [math.pi * k / 8 for k in (2, 6, -2, -6, 0, 8, 4, -4, 1, 7, -1, -7, 3, 5, -3, -5)]
RADII = (9, 15, 22, 30, 40)  # points
NEAR = 15


class Label(NamedTuple):
    x: float
    y: float
    text: str
    colour: str


def place_labels(panel: Any, labels: list[Label]) -> None:
    """Write each label near its point where it meets no point, line, label or border; a line leads to a distant one."""
    figure = panel.figure
    renderer = figure.canvas.get_renderer()
    per_point = figure.dpi / 72
    centres = panel.transData.transform([label[:2] for label in labels]) if labels else []
    taken = [Bbox.from_bounds(x - 5 * per_point, y - 5 * per_point, *(2 * [10 * per_point])) for x, y in centres]
    frame = panel.get_window_extent(renderer)
    lines = [line for line in panel.get_lines() if line.get_linestyle() != "None"]
    paths = [line.get_path().transformed(line.get_transform()) for line in lines]
    for x, y, text, colour in labels:
        note = panel.annotate(text, (x, y), xytext=(0, 0), textcoords="offset points", fontsize=8, zorder=4)
        note.set(ha="center", va="center", color=colour)
        best, least = (0.0, 0.0), math.inf
        for radius, angle in ((radius, angle) for radius in RADII for angle in DIRECTIONS):
            place = (1.3 * radius * math.cos(angle), radius * math.sin(angle))
            note.set_position(place)
            box = note.get_window_extent(renderer).padded(1.5 * per_point)
            outside = not (frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0 and box.y1 <= frame.y1)
            cost = sum(box.overlaps(other) for other in taken) + 2 * outside
            cost += sum(path.intersects_bbox(box, filled=False) for path in paths)
            if cost < least:
                best, least = place, cost
            if cost == 0:
                break
        note.set_position(best)
        taken.append(note.get_window_extent(renderer).padded(per_point))
        if math.hypot(*best) > 1.3 * NEAR:
            arrow = {"arrowstyle": "-", "color": "0.6", "linewidth": 0.6, "shrinkB": 3}
            panel.annotate("", (x, y), xytext=best, textcoords="offset points", arrowprops=arrow, zorder=2)
