"""How large files and answers are: what is smaller takes less time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from wifu.asked import ASKING
from wifu.cells import Cell
from wifu.metrics import parts
from wifu.rows import Results, alongside, carriers, flows_of, rows_of
from wifu.transfers import SIZED

ALIKE = 1.1
"""Up to so many times as many octets in a transfer, and times are compared."""


def sizes(results: Results, cells: Sequence[Cell], metric: str) -> pd.DataFrame:
    """Octets of the files and answers that came to an end on the mean, by cell, of a metric of how
    long these took, or files until their senders knew; of others nothing. Where requests do not
    tell theirs, an answer that was cut off has some of the flow's too, how many nobody tells: means
    are between `low` and `high`. With `stop.requests` the flow's are of more than the requests that
    count: nothing is known then.
    """
    none = pd.DataFrame({"low": [], "high": []}, dtype=float)
    knows = parts(metric)[0] == "known"
    timed = knows or (parts(metric)[0] + "_").startswith("delay_")
    if not timed or "flow" not in results.flows:
        return none
    rows = carriers(rows_of(results, cells), metric)
    if not all(name in rows for name in ("requests", "delay_finished_s")):  # of an older lab
        return none
    apps = {(c.name, n): flow.get("app") for c in cells for n, flow in flows_of(c)}
    keys = zip(rows["cell"], rows["flow"], strict=True)
    app = pd.Series([apps.get((cell, int(flow))) for cell, flow in keys], rows.index, dtype=object)
    rows = rows[app.isin(SIZED) & ~(app.isin(ASKING) & knows) & rows["delay_finished_s"].notna()]
    count = rows["requests"].astype(float).fillna(1.0).clip(lower=1.0)
    asking = app[rows.index].isin(ASKING)
    mean = rows.get("requests_bytes", pd.Series(np.nan, rows.index)).astype(float)
    limited = {c.name for c in cells if "requests" in c.scenario.get("stop", {})}
    unknown = asking & mean.isna() & rows["cell"].isin(limited)
    cut = (asking & mean.isna() & ~rows["finished"].eq(True)).astype(float)
    octets, by = (mean * count).fillna(rows["bytes"].astype(float)), rows["cell"]
    octets, count, cut, by = (part[~unknown] for part in (octets, count, cut, by))
    sums = octets.groupby(by).sum()
    most = (count + cut).groupby(by).sum()
    return pd.DataFrame({"low": sums / most, "high": sums / count.groupby(by).sum()}).dropna()


def _apart(found: pd.DataFrame) -> float:
    """How many times as large as the smallest the largest are, at the least."""
    return float(found["low"].max() / found["high"].min()) if len(found) > 1 else 1.0


def unlike(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    """Whether files of some cells are larger than those of others, where their times are told."""
    return _apart(sizes(results, cells, metric)) > ALIKE


def words(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Times of files that are not of one size."""
    every = [sizes(results, group, metric) for group in alongside(results, cells)]
    every = [found for found in every if _apart(found) > ALIKE]
    if not every:
        return ""
    worst = max(every, key=_apart)
    small, large = worst["high"], worst["low"]
    return (
        f"Files, or answers, of compared cells have {small.min() / 1e3:.4g} ({small.idxmin()}) to "
        f"{large.max() / 1e3:.4g} kB ({large.idxmax()}) on the mean of those that came to an end: "
        "what is smaller takes less time. There is neither colour nor bold where they are more "
        f"than {ALIKE - 1:.0%} apart; `goodput` is by the byte."
    )
