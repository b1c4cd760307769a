"""Steady goodput with what a batch that is left out held back: bytes that waited behind a hole in
it come with the batches that count, and the time that they waited does not.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from wifu import faults
from wifu.cells import Cell
from wifu.metrics import parts
from wifu.rows import RATES, Results, carriers, rows_of
from wifu.stamps import first

LONG = 5.0
"""So many times as long as those that count took on the mean, and what is left out is told."""

AT_ONCE = 0.2
"""Batches came behind a hole if they took less than this share of the mean. After a slow start,
which takes long as well, they take no less than others.
"""

ABOVE = 1.5
"""So many times as much as all bytes by all of the time, and steady goodput is told."""

MOST = 10
"""Runs that are named."""


def _runs(results: Results, cells: Sequence[Cell], metric: str) -> pd.DataFrame:
    """How long the batches took that are left out and those that count, in seconds, and the bytes
    of all flows in these and in all of the run, by cell and run.
    """
    rows = rows_of(results, cells)
    columns = ["left", "count", "took", "kept", "whole", "next"]
    wanted = parts(metric)[0] in RATES and results.plan.measure.mode == "steady"
    if not wanted or "left_out_until_s" not in rows:  # of an older lab
        return pd.DataFrame(columns=columns)
    begin = rows["start_s"].fillna(0.0).groupby([rows["cell"], rows["run"]]).min()
    rows = carriers(rows, metric)
    rows = rows[rows["batch_s"].notna() & rows["left_out_until_s"].notna()]
    by = rows.assign(
        count=rows["batch_s"].map(len),
        took=rows["batch_s"].map(sum),
        next=rows["batch_s"].map(lambda took: took[0] if len(took) else 0.0),
        kept=rows["batch_bytes"].map(sum),
    ).groupby(["cell", "run"])
    found = by.agg(
        until=("left_out_until_s", "first"),
        count=("count", "first"),
        took=("took", "first"),
        kept=("kept", "sum"),
        whole=("bytes", "sum"),
        next=("next", "first"),
    ).astype(float)
    found = found[found["took"] > 0]
    return found.assign(left=found["until"] - begin.reindex(found.index))[columns]


def _far(results: Results, cells: Sequence[Cell], metric: str) -> pd.DataFrame:
    """Those of which the batches left out took far longer than the others, or whose steady goodput
    is far above that of all of their time, if the first batch that counts came at once: a hole in
    what counts is in its time.
    """
    found = _runs(results, cells, metric)
    mean = found["took"] / found["count"]
    long = found["left"] > LONG * results.plan.measure.discard * mean
    steady, whole = found["kept"] / found["took"], found["whole"] / (found["left"] + found["took"])
    found = found.assign(steady=8 * steady, by_all=8 * whole)
    above = found["steady"] > ABOVE * found["by_all"]
    return found[(long | above) & (found["next"] < AT_ONCE * mean)]


def held(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    """Whether batches that count came with those left out, which took far longer, in some runs."""
    return bool(len(_far(results, cells, metric)))


def words(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """The same in words, with the runs."""
    found = _far(results, cells, metric)
    if found.empty:
        return ""
    every = len(_runs(results, cells, metric))
    named = [
        f"{cell} run {run}: {row['steady'] / 1e6:.3g} Mb/s in steady state, "
        f"{row['by_all'] / 1e6:.3g} Mb/s by all of its time"
        for (cell, run), row in found.sort_values("steady", ascending=False).iterrows()
    ]
    return (
        f"In {len(found)} of {every} runs the batches that are left out took "
        f"{faults.spread(found['left'])}, far longer than those that count, which took "
        f"{faults.spread(found['took'] / found['count'])} on the mean, and the first of these came "
        "at once: bytes that "
        "waited behind a hole come with the batches that count, and the time that they waited does "
        "not, so that goodput may be above "
        f"what the path carries ({first(named, MOST)}). There is neither colour nor bold; "
        'larger batches (`stop.batch`), or `measure = "transfer"`, tell more.'
    )
