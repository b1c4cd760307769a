"""Flows that waited when their run ended, or the window, and had for long: their goodput is of when
that was.
"""

from __future__ import annotations

from collections.abc import Sequence

from wifu import stops
from wifu.cells import Cell
from wifu.demand import PACED
from wifu.early import Early
from wifu.metrics import parts
from wifu.rows import RATES, Results, carriers, flows_of, of_these, rows_of
from wifu.stamps import first

LONG = 0.1
"""For more than such a part of its time nothing arrived of a flow until the end."""

PART = 0.5
"""... and so much of that as it waited for timeouts at the least: it may have more to wait."""

OFTEN = 0.2
"""Of more of a cell's flows and runs than this share it is told."""

MOST = 4
"""Cells that are named."""


def waiting(results: Results, cells: Sequence[Cell], metric: str) -> Early | None:
    """Cells of which it is so, with for how long."""
    measure = results.plan.measure
    window = measure.mode == "window"
    if parts(metric)[0] not in RATES or measure.mode == "steady":
        return None
    rows = carriers(rows_of(results, cells), metric)
    # Who pauses is silent of itself.
    paced = {(c.name, n) for c in cells for n, flow in flows_of(c) if flow.get("app") in PACED}
    rows = rows[~of_these(rows, paced)]
    rows = rows[rows["flow_protocol"].ne("udp") & rows["bytes"].gt(0) & rows["last_byte_s"].notna()]
    if "timeout_s" not in rows or rows.empty:
        return None
    last, begin = rows["last_byte_s"].astype(float), rows["start_s"].astype(float).fillna(0.0)
    end = rows["sim_seconds"].astype(float)
    waits = rows["finished"].eq(False) & (rows["timeout_s"].astype(float) > PART * (end - last))
    if window:
        begin, end = begin.clip(lower=measure.start), end.clip(upper=measure.end)
    silent = end - last.clip(lower=begin)
    waits &= (end > begin) & (silent > LONG * (end - begin))
    by = waits.groupby(rows["cell"]).mean()
    longest = silent.where(waits).groupby(rows["cell"]).max()
    found = [
        f"{c.name} {by[c.name]:.0%}, up to {longest[c.name]:.3g} s"
        for c in cells
        if by.get(c.name, 0.0) > OFTEN
    ]
    if not found:
        return None
    what, those = ("the window", "windows") if window else ("their run", "runs")
    ways = ("a longer window",) if window else stops.longer(rows[waits], cells)
    return Early(
        f"Flows waited for timeouts when {what} ended, and nothing of them had arrived for more "
        f"than a tenth of their time (of flows: {first(found, MOST)}): how much of such a wait is "
        f"in goodput is by when {those} end.",
        ways,
    )
