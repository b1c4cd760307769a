"""Shares over whole runs, or windows, of flows that stand still by turns."""

from __future__ import annotations

from collections.abc import Sequence

from wifu.cells import Cell
from wifu.metrics import parts
from wifu.rows import Results, carriers, rows_of
from wifu.stamps import first

STILL = 0.1
"""For more than such a share of their time flows wait for timeouts, and it is told."""

MOSTLY = 0.5
"""A window has so much of their time, or more: what they waited is told of all of it."""

SHARED = ("jain", "unfairness", "lowest", "weakest", "utility", "starved")
"""Metrics of how flows share, over all of that time."""

MOST = 4
"""Cells that are named."""


def words(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Where flows that share waited for timeouts meanwhile."""
    measure = results.plan.measure
    whole = measure.mode != "steady"
    if not whole or parts(metric)[0] not in SHARED or "timeout_s" not in results.flows:
        return ""
    rows = carriers(rows_of(results, cells), metric)
    many = rows.groupby(["cell", "run"])["flow"].transform("size") > 1
    rows = rows[many & rows["timeout_s"].notna() & rows["sim_seconds"].gt(0)]
    begin, end = rows["start_s"].astype(float).fillna(0.0), rows["sim_seconds"].astype(float)
    lasted = end - begin
    window = measure.mode == "window"
    if window:
        inside = end.clip(upper=measure.end) - begin.clip(lower=measure.start)
        rows, lasted = rows[inside >= MOSTLY * lasted], lasted[inside >= MOSTLY * lasted]
    sums = rows.assign(lasted=lasted).groupby("cell")[["timeout_s", "lasted"]].sum().astype(float)
    shares = sums["timeout_s"] / sums["lasted"].where(lambda s: s > 0)
    found = [f"{c.name} {shares[c.name]:.0%}" for c in cells if shares.get(c.name, 0.0) > STILL]
    if not found:
        return ""
    return (
        f"Shares are over {'the window' if window else 'whole runs'}, and flows waited for "
        f"timeouts {'in runs' if window else 'meanwhile'} "
        f"({first(found, MOST)} of their time): over seconds they are less even, as flows stand "
        "still by turns. `timeseries` of `delivered` shows it."
    )
