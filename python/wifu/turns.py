"""Shares over whole runs of flows that stand still by turns."""

from __future__ import annotations

from collections.abc import Sequence

from wifu.cells import Cell
from wifu.metrics import parts
from wifu.rows import Results, carriers, rows_of
from wifu.stamps import first

STILL = 0.1
"""For more than such a share of their time flows wait for timeouts, and it is told."""

SHARED = ("jain", "unfairness", "lowest", "weakest", "utility", "starved")
"""Metrics of how flows share, over all of a run."""

MOST = 4
"""Cells that are named."""


def words(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Where flows that share waited for timeouts meanwhile."""
    whole = results.plan.measure.mode in ("transfer", "receiver")
    if not whole or parts(metric)[0] not in SHARED or "timeout_s" not in results.flows:
        return ""
    rows = carriers(rows_of(results, cells), metric)
    many = rows.groupby(["cell", "run"])["flow"].transform("size") > 1
    rows = rows[many & rows["timeout_s"].notna() & rows["sim_seconds"].gt(0)]
    lasted = rows["sim_seconds"] - rows["start_s"].astype(float).fillna(0.0)
    sums = rows.assign(lasted=lasted).groupby("cell")[["timeout_s", "lasted"]].sum().astype(float)
    shares = sums["timeout_s"] / sums["lasted"].where(lambda s: s > 0)
    found = [f"{c.name} {shares[c.name]:.0%}" for c in cells if shares.get(c.name, 0.0) > STILL]
    if not found:
        return ""
    return (
        "Shares are over whole runs, and flows waited for timeouts meanwhile "
        f"({first(found, MOST)} of their time): over seconds they are less even, as flows stand "
        "still by turns. `timeseries` of `delivered` shows it."
    )
