"""Datagrams as a plan offers them: rates that are the plan's own, since all arrived, and losses
that are of the sender's own queue, since more was offered than its first link takes.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from wifu.cells import Cell
from wifu.demand import PACED
from wifu.metrics import parts
from wifu.rows import Results, carriers, flows_of, of_these, rows_of
from wifu.stamps import first

ALL = 0.99
"""From such a share of what was sent on, all that was offered arrived."""

OWN = 0.5
"""Of more of what was lost than this share, and it is told where it was lost."""

TOLD = 0.01
"""Of more of a cell's packets."""

MOST = 4
"""Cells that are named."""

RATES = ("goodput", "aggregate", "sum_rates", "lowest")


def words(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """What is told below goodput, and below losses."""
    base = parts(metric)[0]
    if base in RATES:
        return _arrived(results, cells, metric)
    return _refused(results, cells, metric) if base == "loss" else ""


def _datagrams(results: Results, cells: Sequence[Cell], metric: str) -> pd.DataFrame:
    rated = {
        (c.name, n)
        for c in cells
        for n, flow in flows_of(c)
        if "rate" in flow and flow.get("app") not in PACED
    }
    rows = carriers(rows_of(results, cells), metric)
    return rows[of_these(rows, rated) & rows["flow_protocol"].eq("udp")]


def _arrived(results: Results, cells: Sequence[Cell], metric: str) -> str:
    if "sent_bytes" not in results.flows:  # of an older lab
        return ""
    rows = _datagrams(results, cells, metric)
    sums = rows.groupby("cell")[["bytes", "sent_bytes"]].sum(min_count=1).astype(float)
    shares = sums["bytes"] / sums["sent_bytes"].where(lambda sent: sent > 0)
    found = [c.name for c in cells if shares.get(c.name, 0.0) >= ALL]
    if not found:
        return ""
    return (
        f"All that was offered arrived in {first(found, MOST)}: goodput is the plan's `rate` "
        "there, and not what the way carries, of which a higher one tells."
    )


def _refused(results: Results, cells: Sequence[Cell], metric: str) -> str:
    if "own_full" not in results.flows:  # of an older lab
        return ""
    rows, only = rows_of(results, cells), parts(metric)[1]
    rows = rows if only is None else rows[rows["flow"] == only]
    names = ["own_full", "packets_sent", "packets_delivered", "packets_inside"]
    sums = rows.groupby("cell")[names].sum().astype(float)
    # What a transport of the same node shut out is told beside it.
    sums["own_full"] -= rows["crowded_out"].astype(float).groupby(rows["cell"]).sum()
    lost = sums["packets_sent"] - sums["packets_delivered"] - sums["packets_inside"]
    told = [
        f"{c.name} {sums['own_full'][c.name] / lost[c.name]:.0%}"
        for c in cells
        if c.name in sums.index
        and lost[c.name] > TOLD * sums["packets_sent"][c.name]
        and sums["own_full"][c.name] > OWN * lost[c.name]
    ]
    if not told:
        return ""
    return (
        "Most of what is lost was refused by the full queue of the node where it begins "
        f"({first(told, MOST)}): more was offered than the first link takes, and nothing of that "
        "part was lost on the way. A lower `rate` tells what links lose."
    )
