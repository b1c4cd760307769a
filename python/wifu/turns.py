"""Shares over whole runs of flows that stand still by turns; and means of files whose sizes have no
bound to speak of.
"""

from __future__ import annotations

from collections.abc import Sequence

from wifu.cells import Cell
from wifu.cutoff import OF_FINISHED
from wifu.metrics import parts
from wifu.rows import RATES, Results, carriers, flows_of, rows_of
from wifu.stamps import first

STILL = 0.1
"""For more than such a share of their time flows wait for timeouts, and it is told."""

SHARED = ("jain", "unfairness", "lowest", "weakest", "utility", "starved")
"""Metrics of how flows share, over all of a run."""

HEAVY = 2.0
"""Sizes of a Pareto distribution with a lesser shape have no variance but by their greatest."""

FEW = 100
"""With so many runs and more the mean is near to normal for all that."""

MOST = 4
"""Cells that are named."""


def turns(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Where flows that share waited for timeouts meanwhile."""
    if parts(metric)[0] not in SHARED or "timeout_s" not in results.flows:
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


def tails(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Where means are of files whose sizes are heavy-tailed."""
    base, only = parts(metric)
    if base not in (*RATES, *OF_FINISHED) or base == "delay_median":
        return ""
    rows = rows_of(results, cells)
    runs = rows.groupby("cell")["run"].nunique()
    found = {
        c.name: float(flow.get("shape", 1.5))
        for c in cells
        for n, flow in flows_of(c)
        if flow.get("app") == "http" and only in (None, n) and runs.get(c.name, FEW) < FEW
        and float(flow.get("shape", 1.5)) < HEAVY
    }  # fmt: skip
    if not found:
        return ""
    return (
        f"Sizes of files are heavy-tailed (`http`, shape {min(found.values()):g}): the few large "
        "ones decide means, most samples have too few of them, and intervals hold the true mean "
        "less often than 95 %, where they miss it mostly below it. More runs, a higher `count` or "
        "`delay_median` tell more."
    )
