"""Connections that pass a node whose own transport keeps its queue full: that one waits for room
and loses nothing, they lose what finds the queue full, and what each gets is by where it begins.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from wifu.cells import Cell
from wifu.cutoff import OF_FINISHED
from wifu.metrics import parts
from wifu.rows import RATES, Results, alongside, carriers, rows_of
from wifu.stamps import first

MOST = 4
"""Flows and cells that are named."""

TOLD = 0.005
"""Of more of a flow's packets than this share: it takes few losses to hold TCP up."""

SPOILED = (*RATES, *OF_FINISHED, "loss", "retransmissions", "timeouts", "timeout_share")
"""Metrics of which it is told."""


def _shares(results: Results, cells: Sequence[Cell], metric: str) -> pd.Series[float]:
    """Which share of a flow's packets was refused so, by cell and flow."""
    none = pd.Series(dtype=float)
    if parts(metric)[0] not in SPOILED or "shut_out" not in results.flows:
        return none
    rows = carriers(rows_of(results, cells), metric)
    rows = rows[rows["shut_out"].notna()]
    names = ["shut_out", "packets_sent"]
    sums = rows.groupby(["cell", "flow"], sort=False)[names].sum().astype(float)
    shares = (sums["shut_out"] / sums["packets_sent"].where(lambda n: n > 0)).dropna()
    return shares[shares > TOLD]


def shut(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    """Whether it is so in some of these cells."""
    return bool(len(_shares(results, cells, metric)))


def words(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """The same in words."""
    shares = _shares(results, cells, metric)
    if not len(shares):
        return ""
    told = first([f"flow {n} in {cell} {s:.1%}" for (cell, n), s in shares.items()], MOST)
    colour = any(shut(results, group, metric) for group in alongside(results, cells))
    return (
        "Connections lost packets to the full queue of a node that they pass, where a transport "
        "begins that waited for room in it and loses nothing there (of all that they sent: "
        f"{told}): who begins at a relay shuts out those who pass it, whatever both run over. "
        "Let flows begin beside each other, or at nodes of their own."
        f"{' There is neither colour nor bold.' if colour else ''}"
    )
