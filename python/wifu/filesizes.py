"""How large files and answers are: what is smaller takes less time."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from wifu.asked import ASKING
from wifu.cells import Cell
from wifu.metrics import parts
from wifu.rows import Results, carriers, compared, flows_of, rows_of

SIZED = ("file", *ASKING)
"""Applications of which the scenario tells how large each transfer is."""

ALIKE = 1.1
"""Up to so many times as many octets in a transfer, and times are compared."""


def sizes(results: Results, cells: Sequence[Cell], metric: str) -> pd.Series[float]:
    """Octets of the files and answers that came to an end on the mean, by cell, of a metric of how
    long these took; of others nothing.
    """
    none = pd.Series(dtype=float)
    if not (parts(metric)[0] + "_").startswith("delay_") or "flow" not in results.flows:
        return none
    rows = carriers(rows_of(results, cells), metric)
    sized = {(c.name, n) for c in cells for n, flow in flows_of(c) if flow.get("app") in SIZED}
    keys = zip(rows["cell"], rows["flow"], strict=True)
    own = pd.Series([(cell, int(flow)) in sized for cell, flow in keys], rows.index, dtype=bool)
    rows = rows[own & rows["delay_finished_s"].notna()]
    count = rows["requests"].astype(float).fillna(1.0).clip(lower=1.0)
    by = rows["cell"]
    return (rows["bytes"].astype(float).groupby(by).sum() / count.groupby(by).sum()).dropna()


def unlike(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    """Whether files of some cells are larger than those of others, where their times are told."""
    found = sizes(results, cells, metric)
    return bool(len(found) > 1 and found.max() > ALIKE * found.min())


def words(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Times of files that are not of one size."""
    worst = pd.Series(dtype=float)
    for group in compared(results, cells):
        if not unlike(results, group, metric):
            continue
        found = sizes(results, group, metric)
        if worst.empty or found.max() / found.min() > worst.max() / worst.min():
            worst = found
    if worst.empty:
        return ""
    return (
        f"Files of compared cells have {worst.min() / 1e3:.4g} ({worst.idxmin()}) to "
        f"{worst.max() / 1e3:.4g} kB ({worst.idxmax()}) on the mean of those that came to an end: "
        "what is smaller takes less time. There is neither colour nor bold where they are more "
        f"than {ALIKE - 1:.0%} apart; `goodput` is by the byte."
    )
