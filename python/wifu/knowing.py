"""What is to be said of the time until senders knew of the end, and of that until a connection
opened: flows that have none.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from wifu.asked import ASKING
from wifu.cells import Cell
from wifu.metrics import parts
from wifu.rows import Results, by_cell, carriers, flows_of, rows_of
from wifu.stamps import first
from wifu.transfers import splitters

MOST = 10
"""Flows and nodes that are named."""


OF_ONE = ("known", "connecting")
"""Metrics of flows that are one connection."""


def _split(results: Results, cells: Sequence[Cell], metric: str) -> pd.DataFrame:
    """Flows that nodes on their way split."""
    if parts(metric)[0] != "known" or "split" not in results.flows:  # of an older lab
        return pd.DataFrame()
    rows = carriers(rows_of(results, cells))
    return rows[rows["split"].eq(True)]


def early(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    """Whether senders of some flows were told before all had arrived."""
    return bool(len(_split(results, cells, metric)))


def _asking(cell: Cell) -> dict[int, bool]:
    """Whether each flow over a connection asks again and again, by its number."""
    every = flows_of(cell)
    return {n: flow.get("app") in ASKING for n, flow in every if flow.get("protocol") != "udp"}


def _datagrams(cells: Sequence[Cell], only: int | None) -> list[int]:
    every = {n for cell in cells for n, f in flows_of(cell) if f.get("protocol") == "udp"}
    return sorted(n for n in every if only in (None, n))


def others(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    """Whether flows that ask in some cells, and so have no time, do not in others."""
    if parts(metric)[0] not in OF_ONE:
        return False
    each = [_asking(cell) for cell in cells]
    return any(len({own.get(n, False) for own in each}) > 1 for n in set().union(*each))


def words(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Why some flows have no value, and which."""
    base, only = parts(metric)
    if base not in OF_ONE:
        return ""
    told = []
    asking = sorted({n for cell in cells for n, asks in _asking(cell).items() if asks})
    if asking := [n for n in asking if only in (None, n)]:
        named = first([str(n) for n in asking], MOST)
        why = "are no one transfer" if base == "known" else "may open several connections"
        told.append(
            f"Flows that ask again and again (`http`, `request`: flow {named}) {why} "
            "and have no value here; `delay` is of each request."
        )
    if base == "connecting" and (probes := _datagrams(cells, only)):
        named = first([str(n) for n in probes], MOST)
        told.append(f"Datagrams (flow {named}) open no connection and have no value here.")
    if len(rows := _split(results, cells, metric)):
        runs = rows.drop_duplicates("cell")[["cell", "run"]].itertuples(index=False)
        nodes = dict.fromkeys(n for c, run in runs for n in splitters(results.outcome(c, int(run))))
        told.append(
            f"Nodes ({first(list(nodes), MOST)}) split TCP: its sender is told before all has "
            "arrived, and never learns when it had. Flows that pass them have no value (by cell: "
            f"{by_cell(rows, cells)}), and there is neither colour nor bold."
        )
    return " ".join(told)


def untold(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """That in real time nobody tells when a sender knew."""
    del cells
    if parts(metric)[0] != "known" or results.plan.substrate == "sim":
        return ""
    return (
        "In real time nobody tells when a sender knew that all had arrived: this is when it had, "
        "as `delay` is, and the way of the last acknowledgement is not in it."
    )
