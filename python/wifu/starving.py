"""Flows that starve: the step that log utility has there, and totals that do not tell of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from wifu.cells import Cell
from wifu.even import STARVED_BPS, STARVED_UTILITY_BPS
from wifu.metrics import parts
from wifu.pooled import apart, greatest
from wifu.rows import Results, alongside, by_cell, carriers, rows_of

NEAR = 2.0
"""Rates within so many times of the one below which a flow starves are near to it."""

TOTALS = {"aggregate": "a total", "sum_rates": "a sum", "goodput": "a mean over flows"}
"""Metrics of several flows together."""


def floored(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Flows that starve, or nearly do, whose utility is not the logarithm of their rate."""
    if parts(metric)[0] != "utility":
        return ""
    rows = carriers(rows_of(results, cells), metric)
    rates = rows["goodput_bps"].astype(float)
    starved = rows[rates < STARVED_BPS]
    near = rows[(rates > STARVED_BPS / NEAR) & (rates < STARVED_BPS * NEAR)]
    step = np.log10(STARVED_BPS / STARVED_UTILITY_BPS)
    rule = (
        f"below {STARVED_BPS / 1e3:g} kb/s a flow counts as {STARVED_UTILITY_BPS:g} b/s, whatever "
        f"it had, so that the log utility has a step of {step:.1f} there"
    )
    told = []
    if len(starved):
        told.append(f"{len(starved)} of {len(rows)} flows starved (by cell: "
                    f"{by_cell(starved, cells)}): {rule}.")  # fmt: skip
    if len(near):
        told.append(
            f"{len(near)} of {len(rows)} flows had {STARVED_BPS / NEAR:g} to "
            f"{STARVED_BPS * NEAR:g} b/s: on which side they are decides"
            + (" that step." if told else f", as {rule}.")
        )
    return " ".join(told)


def _shares(results: Results, cells: Sequence[Cell]) -> pd.Series[float]:
    """The share of flows that starve beside others, by cell."""
    rows = carriers(rows_of(results, cells))
    beside = rows.groupby(["cell", "run"])["flow"].transform("size") > 1
    starved = rows["goodput_bps"].astype(float) < STARVED_BPS
    return starved[beside].groupby(rows["cell"]).mean()


def _unlike(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """That flows share unlike, though none of them starves by what starving is here."""
    found = [_greatest(results, group) for group in alongside(results, cells)]
    most = max(found, key=lambda of: of.max() - of.min() if len(of) else 0.0, default=None)
    if most is None or not apart(most):
        return ""
    return (
        f"Flows share unlike: the one with most has {most.max():.0%} of the bytes in "
        f"{most.idxmax()} and {most.min():.0%} in {most.idxmin()}. {TOTALS[metric].capitalize()} "
        "does not tell who got it; `lowest`, `weakest` and `jain` do."
    )


def _greatest(results: Results, cells: Sequence[Cell]) -> pd.Series[float]:
    rows = carriers(rows_of(results, cells))
    return greatest(rows, rows["bytes"].astype(float))


def unseen(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """That levels of which totals are compared starve unlike many flows: who has the greater total
    may have it at a flow's cost.
    """
    if metric not in TOTALS:
        return ""
    groups = [g for g in alongside(results, cells) if _shares(results, g).nunique() > 1]
    if not groups:
        return _unlike(results, cells, metric)
    names = {cell.name for group in groups for cell in group}
    unlike = [cell for cell in cells if cell.name in names]
    rows = carriers(rows_of(results, unlike))
    starved = rows[rows["goodput_bps"].astype(float) < STARVED_BPS]
    return (
        f"{len(starved)} of {len(rows)} flows starved, below {STARVED_BPS / 1e3:g} kb/s (by cell: "
        f"{by_cell(starved, unlike)}): {TOTALS[metric]} does not tell who got it, and may be no "
        f"less for it; `starved`, `lowest` and `jain` do. {_unlike(results, cells, metric)}"
    ).rstrip()
