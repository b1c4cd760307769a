"""Steady state that is none: goodput that rises or falls from batch to batch in all runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from wifu import stats
from wifu.cells import Cell
from wifu.metrics import parts
from wifu.rows import Results, carriers, rows_of
from wifu.stamps import first

MOST = 10
"""Cells that are named."""

RUNS = 3
"""Of so many runs on it is seen whether all do the same."""

BATCHES = 5
"""Of so many batches on there is a line through them."""

RISE = 0.2
"""So much of its mean, and from the first batch to the last goodput rises or falls. Those of the
TCP-AP paper's plans do by 0.1 at the most.
"""

LEVEL = 0.01
"""The least certainty that it is not by chance: of runs whose lines have no slope on the mean one
in a hundred cells is below it, and few of these rise by `RISE`.
"""


def _rise(flows: pd.DataFrame) -> float:
    """By what share of its mean the goodput of all these flows together rises over the batches, by
    the least squares line of each run; nan if that may be chance or says nothing.
    """
    found = []
    for _, own in flows.groupby("run"):
        times = np.asarray(own["batch_s"].iloc[0], dtype=float)
        if times.size < BATCHES or not times.all():
            continue
        rates = sum(np.asarray(b, dtype=float) for b in own["batch_bytes"]) / times
        at = np.arange(times.size) - (times.size - 1) / 2
        mean = float(np.mean(rates))
        if mean > 0:
            found.append(float(rates @ at / (at @ at)) * (times.size - 1) / mean)
    if len(found) < RUNS:
        return float("nan")
    interval = stats.mean_interval(found, 1 - LEVEL)
    certain = not interval.known or interval.low > 0 or interval.high < 0
    return interval.estimate if certain else float("nan")


def ramp(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Batches that are no steady state, as the later ones are quicker, or slower."""
    if parts(metric)[0] not in ("goodput", "aggregate", "sum_rates"):
        return ""
    if results.plan.measure.mode != "steady" or "batch_s" not in results.flows:
        return ""
    rows = carriers(rows_of(results, cells), metric)
    found = []
    for name, own in rows[rows["batch_s"].notna()].groupby("cell", sort=False):
        if abs(rise := _rise(own)) > RISE:
            found.append(f"{name} {rise:+.0%}")
    if not found:
        return ""
    return (
        "This is no steady state: from the first batch that counts to the last one goodput rises, "
        f"or falls, in all runs alike, by so much of its mean: {first(found, MOST)}. It is of how "
        "flows begin; leave out more batches (`measure.discard`) and take longer runs "
        "(`stop.packets`)."
    )
