"""Links that come back at one moment: where the back-off of a sender's timer stands then decides
for how long it waits afterwards, and the next longer cut may have the other order.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import numpy as np

from wifu.cells import Cell
from wifu.metrics import parts
from wifu.rows import RATES, Results, alongside, carriers, ends, rows_of
from wifu.stamps import first

MORE = 1.005
"""From so many times as much on cells are apart."""

HALF = 0.5
"""... of what sets two cells apart, and more, is for how long senders waited for timers."""

MOST = 4
"""Cells that are named."""


def _restored(results: Results, cells: Sequence[Cell]) -> bool:
    """Whether links come back in these cells at moments that no axis of the plan changes."""
    levels = (level for axis in results.plan.axes for level in axis.levels)
    if any("event" in path for level in levels for path in level.paths):
        return False
    events = (event for cell in cells for event in cell.scenario.get("event") or [])
    return any(isinstance(event, dict) and "restore" in event for event in events)


def _waits(results: Results, cells: Sequence[Cell], metric: str) -> dict[str, float]:
    """The share of their time that senders of cells waited for timers, of those cells of which two
    are apart mostly by that.
    """
    if parts(metric)[0] not in RATES or not _restored(results, cells):
        return {}
    rows = carriers(rows_of(results, cells), metric)
    if "timeout_s" not in rows or rows["timeout_s"].isna().all():
        return {}
    lasted = ends(rows) - rows["start_s"].astype(float).fillna(0.0)
    shares = (rows["timeout_s"].astype(float) / lasted).clip(0.0, 0.99)
    waits = shares.groupby(rows["cell"]).mean()
    rates = rows["goodput_bps"].astype(float).groupby(rows["cell"]).mean()
    found = set()
    for a, b in permutations(rates.index, 2):
        if not rates[a] > MORE * rates[b] > 0:
            continue
        by = float(np.log((1 - waits[a]) / (1 - waits[b])))
        if by >= HALF * np.log(rates[a] / rates[b]):
            found |= {str(a), str(b)}
    return {name: float(waits[name]) for name in sorted(found)}


def decides(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    """Whether cells are apart mostly by for how long senders waited for timers."""
    return bool(_waits(results, cells, metric))


def words(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """The same in words."""
    found: dict[str, float] = {}
    for group in alongside(results, cells):
        found |= _waits(results, group, metric)
    if not found:
        return ""
    told = first([f"{c.name} {found[c.name]:.0%}" for c in cells if c.name in found], MOST)
    return (
        "Links come back at the same moments in all runs, and where the back-off of senders' "
        f"timers stands then decides for how long they wait (of their time: {told}), which is most "
        "of what sets these cells apart: a longer or shorter cut may have the other order. There "
        "is neither colour nor bold; cuts of several lengths (an axis of `event.N.at`) tell."
    )
