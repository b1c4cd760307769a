"""Nodes that walk at random between points: they begin where a placement has them and come to be
nearer to the middle of their area than points that are uniform in it. Cells whose nodes are not as
quick differ in how far that has come.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from wifu import values
from wifu.cells import Cell
from wifu.errors import LabError
from wifu.metrics import parts
from wifu.rows import Results, alongside, flows_of
from wifu.stamps import first

LEGS = 3.0
"""After so many ways from point to point nobody knows where nodes began."""

MOST = 4
"""Cells that are named."""


def _walks(scenario: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    tables = scenario.get("mobility") or []
    return [t for t in tables if isinstance(t, Mapping) and t.get("kind") == "waypoint"]


def leg(moving: Mapping[str, Any]) -> float:
    """How long nodes of a table take from a point to the next on the mean, and stay there, in
    seconds. Points are uniform in an area, and so are speeds.
    """
    x0, y0, x1, y1 = map(float, moving["area"])
    least, most = map(float, moving["speed"])
    slowness = 1 / least if most <= least else math.log(most / least) / (most - least)
    return _apart(abs(x1 - x0), abs(y1 - y0)) * slowness + values.seconds(moving.get("pause", 0))


def _apart(a: float, b: float) -> float:
    """How far two points of a rectangle are from each other on the mean (Santalo, Integral Geometry
    and Geometric Probability, I.4.6).
    """
    if min(a, b) <= 0:
        return max(a, b) / 3
    d = math.hypot(a, b)
    square = a**3 / b**2 + b**3 / a**2 + d * (3 - a**2 / b**2 - b**2 / a**2)
    logs = b**2 / a * math.log((a + d) / b) + a**2 / b * math.log((b + d) / a)
    return (square + 2.5 * logs) / 15


def _behind(results: Results, cell: Cell, metric: str) -> float:
    """How many such ways nodes of a cell have behind them, the slowest of them, when what is
    measured begins; none where nodes stand, or of what is of the whole run.
    """
    if parts(metric)[0] == "routeless":
        return 0.0
    with suppress(LabError, KeyError, TypeError, ValueError, ZeroDivisionError):
        legs = [leg(moving) for moving in _walks(cell.scenario)]
        begin = min((values.seconds(f.get("start", 0)) for _, f in flows_of(cell)), default=0.0)
        measure = results.plan.measure
        if measure.mode == "window":
            begin = max(begin, measure.start)
        return begin / max(legs) if legs and max(legs) > 0 else 0.0
    return 0.0


def _unlike(results: Results, cells: Sequence[Cell], metric: str) -> list[Cell]:
    """Of cells whose nodes walk in other ways those in which they are still to leave where they
    began.
    """
    told = {json.dumps(_walks(cell.scenario), sort_keys=True, default=str) for cell in cells}
    if len(told) < 2:
        return []
    return [cell for cell in cells if _behind(results, cell, metric) < LEGS]


def near(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    """Whether it is so in some of these cells."""
    return bool(_unlike(results, cells, metric))


def words(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """The same in words."""
    found: dict[str, Cell] = {}
    for group in alongside(results, cells):
        found |= {cell.name: cell for cell in _unlike(results, group, metric)}
    if not found:
        return ""
    took = {}
    for name, cell in found.items():
        with suppress(LabError, KeyError, TypeError, ValueError, ZeroDivisionError):
            legs = [leg(moving) for moving in _walks(cell.scenario)]
            took[name] = f"{max(legs):.3g} s" if legs else "stand"
    return (
        "Nodes that walk at random begin where they are placed, and are nearer to the middle of "
        "their area later: cells whose nodes walk in other ways differ in how far that has come "
        "when flows begin, not only in how nodes move (from point to point: "
        f"{first([f'{name} {told}' for name, told in took.items()], MOST)}). There is neither "
        f"colour nor bold; flows that begin after {LEGS:.0f} such times, or a `window` then, tell."
    )
