"""Flows that the clock ended after few round trips: their goodput is of how they began, and of how
long runs are.
"""

from __future__ import annotations

from collections.abc import Sequence

from wifu.cells import Cell
from wifu.limited import MOSTLY
from wifu.limits import LIMITS, column
from wifu.metrics import parts
from wifu.rows import RATES, Results, carriers, ends, rows_of
from wifu.stamps import first

TRIPS = 200
"""In so many round trips a window that grows by a segment in each is two hundred segments large."""

MOST = 4
"""Cells that are named."""


def words(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Cells whose flows had no longer, by their smallest round trip: queues are no distance."""
    measured = results.plan.measure.mode in ("transfer", "receiver")
    if parts(metric)[0] not in RATES or not measured or "min_rtt_s" not in results.flows:
        return ""
    rows = carriers(rows_of(results, cells), metric)
    # What ends by itself takes what it takes, its beginning included.
    rows = rows[rows["finished"].eq(False) & rows["min_rtt_s"].gt(0) & rows["bytes"].gt(0)]
    # Nor has a window to grow where it is not what a sender waits for.
    if "open_s" in rows:
        held = rows[[column(name) for name in LIMITS]].astype(float).sum(axis=1)
        rows = rows[~(held > MOSTLY * rows["open_s"].astype(float))]
    lasted = ends(rows) - rows["start_s"].astype(float).fillna(0.0)
    trips = (lasted / rows["min_rtt_s"].astype(float)).groupby(rows["cell"]).mean()
    found = [f"{c.name} {trips[c.name]:.0f}" for c in cells if trips.get(c.name, TRIPS) < TRIPS]
    if not found:
        return ""
    return (
        "Flows were cut off by the clock after few round trips "
        f"({first(found, MOST)} on the mean): how a window began to grow is a large part of their "
        "goodput, which is of how long runs are. A longer `stop.time`, with a `window` at its end, "
        "tells what they come to."
    )
