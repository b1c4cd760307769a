"""Requests that wait for the answer before: who waits long asks less meanwhile, so that a time
without service is one value, however many would have been asked in it.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from wifu.asked import ASKING
from wifu.cells import Cell
from wifu.cutoff import OF_FINISHED
from wifu.metrics import parts
from wifu.rows import Results, alongside, carriers, flows_of, of_these, rows_of

EVEN = 1.1
"""Up to so many times as many requests per run, and their times are of the same."""


def _asked(results: Results, cells: Sequence[Cell], metric: str) -> pd.Series[float]:
    """How many requests a run of each cell has on the mean, where a plan does not say how many."""
    base, only = parts(metric)
    if base not in OF_FINISHED or base == "known" or "requests" not in results.flows:
        return pd.Series(dtype=float)
    open_ended = {
        (c.name, n) for c in cells for n, flow in flows_of(c)
        if flow.get("app") in ASKING and "count" not in flow and only in (None, n)
    }  # fmt: skip
    rows = carriers(rows_of(results, cells), metric)
    by = rows[of_these(rows, open_ended)].groupby("cell")
    means = by["requests"].sum().astype(float) / by["run"].nunique()
    return means[means > 0]


def fewer(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    """Whether percentiles are compared of which one side has no longer ones, and asked less."""
    base, asked = parts(metric)[0], _asked(results, cells, metric)
    if not base.startswith(("delay_p", "delay_median")) or len(asked) < 2:
        return False
    by = {c.name: float(results.sample(metric, c.labels).mean()) for c in cells}
    return any(
        asked[a] * EVEN < asked[b] and by[a] <= by[b] for a in asked.index for b in asked.index
    )


def words(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """That runs of compared cells asked unlike often."""
    groups = [_asked(results, group, metric) for group in alongside(results, cells)]
    apart = [own for own in groups if len(own) > 1 and own.max() > EVEN * own.min()]
    if not apart:
        return ""
    own = max(apart, key=lambda of: float(of.max() / of.min()))
    colour = any(fewer(results, group, metric) for group in alongside(results, cells))
    return (
        f"Runs asked from {own.min():.3g} ({own.idxmin()}) to {own.max():.3g} ({own.idxmax()}) "
        "times: who waits for an answer asks nothing meanwhile, and a time without service counts "
        "once, however long. Means and percentiles are of what was asked; datagrams or a `trace` "
        "by a timetable meet such times as often as they are long."
        f"{' There is neither colour nor bold where who asked less has no longer ones.' * colour}"
    )
