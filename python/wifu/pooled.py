"""Numbers over all flows of a run, where these had other parts in it in some cells: who is shut out
sends little, and counts for little, whatever it loses; who is slow asks seldom.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from wifu.asked import ASKING
from wifu.cells import Cell
from wifu.cutoff import STATISTICS
from wifu.metrics import ALONE, parts
from wifu.rows import Results, carriers, compared, flows_of, rows_of

PACKETS = (
    "loss", "passive_loss", "mac_loss", "mac_retries", "retransmissions", "timeouts",
    "fast_retransmits",
)  # fmt: skip
"""Metrics that count what became of the packets of all flows together."""

DOWNLOADS = tuple(name for name in STATISTICS if name.startswith("delay"))
"""Metrics of the downloads of all flows together."""

APART = 0.1
"""Up to so much of what runs carried may the greatest part of it, which one flow has, be apart."""


def _weights(rows: pd.DataFrame, metric: str, cells: Sequence[Cell]) -> pd.Series[float] | None:
    """What each flow counts in a metric; nothing of metrics that count flows alike."""
    base, only = parts(metric)
    if only is not None:
        return None
    if base in PACKETS:
        return rows["bytes"].astype(float)
    if base in DOWNLOADS and "requests" in rows:
        asks = any(flow.get("app") in ASKING for cell in cells for _, flow in flows_of(cell))
        return rows["requests"].astype(float) if asks else None
    return None


def _greatest(results: Results, cells: Sequence[Cell], metric: str) -> pd.Series[float]:
    """Which part the flow that counts most has in each cell, on the mean; of several flows."""
    rows = carriers(rows_of(results, cells), metric)
    weights = _weights(rows, metric, cells)
    if weights is None:
        return pd.Series(dtype=float)
    runs = weights.dropna().groupby([rows["cell"], rows["run"]]).agg(["max", "sum", "size"])
    runs = runs[(runs["size"] > 1) & (runs["sum"] > 0)]
    return (runs["max"] / runs["sum"]).groupby("cell").mean()


def _apart(found: pd.Series[float]) -> bool:
    return len(found) > 1 and bool(found.max() - found.min() > APART)


def unlike(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    """Whether flows have other parts in what is counted together in some of these cells."""
    return _apart(_greatest(results, cells, metric))


def words(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """The same in words, of the cells that are most apart."""
    every = [_greatest(results, group, metric) for group in compared(results, cells)]
    found = max(every, key=lambda of: of.max() - of.min() if len(of) else 0.0, default=None)
    if found is None or not _apart(found):
        return ""
    base = parts(metric)[0]
    what, of, who = (
        (
            "Downloads of all flows are",
            "downloads",
            "Who is slow asks seldom and counts for little.",
        )
        if base in DOWNLOADS
        else (
            "What became of the packets of all flows is",
            "bytes",
            "Who is shut out sends little and counts for little, whatever it loses.",
        )
    )
    alone = f"`{base}@N`" if base in ALONE else "`loss@N`"
    return (
        f"{what} counted together, and flows have unlike parts in it: the one with most has "
        f"{found.max():.0%} of the {of} in {found.idxmax()} and {found.min():.0%} in "
        f"{found.idxmin()}. {who} There is neither colour nor bold; {alone} is of a flow alone."
    )
