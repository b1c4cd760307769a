"""Connections that failed, of flows that do nothing more then."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from wifu import stops
from wifu.cells import Cell
from wifu.metrics import unstarted
from wifu.rows import Results, carriers, flows_of, rows_of

GOING_ON = ("http",)
"""Applications that open another connection after one that failed."""


def dead(results: Results, cells: Sequence[Cell], metric: str = "") -> pd.DataFrame:
    """Flows over connections that a metric is of whose connection failed before they were done."""
    rows = carriers(rows_of(results, cells), metric)
    if "fault" not in rows:
        return rows[:0]
    rows = rows[rows["fault"].notna() & rows["finished"].eq(False)]
    ended = {(c.name, n) for c in cells for n in _single(c)}
    keys = zip(rows["cell"], rows["flow"], strict=True)
    return rows[np.asarray([(cell, int(flow)) in ended for cell, flow in keys], dtype=bool)]


def _single(cell: Cell) -> list[int]:
    """The numbers of a cell's flows that are over when their connection is."""
    return [n for n, flow in flows_of(cell) if flow.get("app") not in GOING_ON]


def early(results: Results, cells: Sequence[Cell], metric: str = "") -> pd.DataFrame:
    """Those of them whose run ended before its `stop.time`, as nothing else was under way. Who
    delivered nothing has a goodput of 0 by any time.
    """
    rows = dead(results, cells, metric)
    rows = rows[rows["bytes"] > 0]
    limits = rows["cell"].map(stops.limits(cells)).astype(float)
    return rows[rows["sim_seconds"] < stops.WHOLE * limits]


def unconnected(results: Results, cells: Sequence[Cell], metric: str = "") -> pd.DataFrame:
    """Flows over connections, to start before the end, that never connected as far as is known:
    the simulator always tells it, and clients in real time have no time of it, and a start.
    """
    rows = carriers(rows_of(results, cells), metric)
    if results.plan.runner != "mesh" or "connected_s" not in rows:
        return rows[:0]
    rows = rows[rows["flow_protocol"].ne("udp") & rows["connected_s"].isna()]
    rows = rows[rows["bytes"].eq(0) & ~unstarted(rows["start_s"].fillna(0.0), rows["sim_seconds"])]
    if results.plan.substrate == "sim":
        return rows
    return rows[rows["fault"].notna() | rows["start_s"].notna()]


def spread(times: Sequence[float] | pd.Series[float]) -> str:
    """From the least to the greatest of some times in seconds, in words."""
    least, most = f"{min(times):.3g} s", f"{max(times):.3g} s"
    return least if least == most else f"{least} to {most}"


def named(rows: pd.DataFrame) -> str:
    """What made them fail, such as `TimedOut`."""
    return ", ".join(sorted({str(fault) for fault in rows["fault"]}))


def failed(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Runs that ended with what failed, so that goodput is by how soon it did."""
    if results.plan.measure.mode == "window" or not len(found := early(results, cells, metric)):
        return ""
    at, every = spread(found["sim_seconds"]), len(carriers(rows_of(results, cells), metric))
    return (
        f"{len(found)} of {every} connections failed ({named(found)}), and their run ended when "
        f"nothing else was under way (at {at}): their goodput is by how soon they gave up. There "
        "is neither colour nor bold."
    )
