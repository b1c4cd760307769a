"""Names of nodes on a map, where they cover neither each other nor what they stand beside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch

from wifu.figures import page, style
from wifu.figures.paths import Point

CROWDED = 12
"""Of more nodes names are smaller."""

LETTER, LINE = 0.6, 1.25
"""How wide and high a letter is with the room around it, by the size of its font."""

FAR = (0.0, 6.0, 13.0)
"""Points between a node and its name: beside it, or where that place is taken. A line joins them
then, unless the name is right above.
"""

NODE, ARROW, NAME = 4.0, 0.4, 9.0
"""How bad it is to cover a node, four points of an arrow, another name: a name can be read on an
arrow.
"""

SIDES = ((0, 1), (1, 0), (-1, 0), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1))
"""Where a name may stand: above its node if it can."""


class Box(NamedTuple):
    """A rectangle, in points."""

    x: float
    y: float
    wide: float
    high: float

    def over(self, other: Box) -> float:
        """How much of the smaller of two boxes the other one covers."""
        across = min(self.x + self.wide, other.x + other.wide) - max(self.x, other.x)
        up = min(self.y + self.high, other.y + other.high) - max(self.y, other.y)
        least = min(self.wide * self.high, other.wide * other.high)
        return max(0.0, across) * max(0.0, up) / least


def crowded(nodes: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a half of a narrow page has no room for the names of nodes."""
    letters = sum(len(node["name"]) for node in nodes)
    return len(nodes) > CROWDED or letters * LETTER * style.small() > 72 * page.PAPER[1] / 2


def names(axis: Axes, places: Mapping[str, Point], size: float) -> None:
    """Write the names of nodes beside them. Only when a panel has its last size."""
    points = 72 / page.root(axis).dpi
    at = {name: axis.transData.transform(place) * points for name, place in places.items()}
    letters = style.small() * (0.8 if len(places) > CROWDED else 1.0)
    mark = 9 * size + 2
    taken = [(Box(x - mark / 2, y - mark / 2, mark, mark), NODE) for x, y in at.values()]
    taken += [(box, ARROW) for box in _along(axis, points)]
    panel = axis.get_window_extent()
    inside = Box(*(v * points for v in (panel.x0, panel.y0, panel.width, panel.height)))
    for name, (x, y) in at.items():
        wide, high = (LETTER * len(name) + 0.6) * letters, LINE * letters
        found = []
        for far in FAR:
            for rank, (right, up) in enumerate(SIDES):
                aside = 0.5 * mark + 0.5 + far
                dx, dy = right * (aside + wide / 2), up * (aside + high / 2)
                box = Box(x + dx - wide / 2, y + dy - high / 2, wide, high)
                cost = 9.0 * (1.0 - box.over(inside))
                cost += sum(weight * box.over(other) for other, weight in taken)
                led = far > 0 and (rank > 0 or far > FAR[1])
                found.append((cost + 0.02 * rank + 0.2 * led + 0.002 * far, box, (dx, dy), led))
        _, box, offset, led = min(found)
        taken.append((box, NAME))
        line = {"arrowstyle": "-", "color": style.MUTED, "lw": 0.5, "shrinkA": 0.0}
        axis.annotate(
            name, places[name], xytext=offset, textcoords="offset points", ha="center",
            va="center", fontsize=letters, path_effects=style.halo(), zorder=4,
            arrowprops={**line, "shrinkB": 0.4 * mark} if led else None,
        )  # fmt: skip


def _along(axis: Axes, points: float) -> Sequence[Box]:
    """Small boxes along arrows."""
    found: dict[tuple[int, int], Box] = {}
    for patch in axis.patches:
        if not isinstance(patch, FancyArrowPatch):
            continue
        path = np.asarray(patch.get_path().vertices, dtype=float)
        path = patch.get_transform().transform(path) * points
        half = 1.0 + float(patch.get_linewidth()) / 2
        for one, two in pairwise(path):
            steps = max(2, int(np.hypot(*(two - one)) / 4))
            for share in np.linspace(0.0, 1.0, steps):
                x, y = one + share * (two - one)
                box = Box(x - half, y - half, 2 * half, 2 * half)
                # One in each square: heads have many corners.
                found.setdefault((int(x // 4), int(y // 4)), box)
    return list(found.values())
