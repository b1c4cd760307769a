"""Numbers of which one cell says something else than another, though both are called alike: what a
flow had at its end, and events that stand beside others.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from wifu import lastsent
from wifu.cells import Cell
from wifu.cutoff import OF_FINISHED
from wifu.metrics import column, parts
from wifu.rows import RATES, Results, alongside, by_cell, carriers, ends, flows_of, rows_of

APART = 0.05
"""In so much more of one cell's runs a flow finished, and values at the end are not compared."""

EVEN = 1.1
"""Up to so many times as many timeouts, and recoveries beside them are compared."""


def _ends(results: Results, cells: Sequence[Cell], metric: str) -> pd.DataFrame:
    """In which share of a cell's runs each flow that has a value at the end finished: a row for
    each flow, a column for each cell.
    """
    if parts(metric)[0] != "srtt" or "flow" not in results.flows:
        return pd.DataFrame()
    rows = carriers(rows_of(results, cells), metric)
    if (name := column("srtt")) not in rows or "finished" not in rows:
        return pd.DataFrame()
    rows = rows[rows[name].notna() & rows["finished"].notna()]
    return rows["finished"].eq(True).groupby([rows["flow"], rows["cell"]]).mean().unstack("cell")


def otherwise_ended(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    """Whether a flow finished in some cells and was cut off in others, of its value at the end."""
    shares = _ends(results, cells, metric)
    return bool(shares.size and ((shares.max(axis=1) - shares.min(axis=1)) > APART).any())


def ended(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Values at the end of flows that finished, and of others in the middle of what they did."""
    shares = _ends(results, cells, metric)
    told = ""
    for row in alongside(results, cells):
        own = shares[[c.name for c in row if c.name in shares]]
        if own.shape[1] < 2:
            continue
        apart = own.max(axis=1) - own.min(axis=1)
        if not told and apart.max() > APART:
            found = own.loc[apart.idxmax()]
            told = (
                f"flow {int(apart.idxmax())} finished in {found.max():.0%} of the runs of "
                f"{found.idxmax()} and {found.min():.0%} of those of {found.idxmin()}"
            )
    if not told:
        return ""
    return (
        f"The smoothed round-trip time is the last one that a flow had, and {told}: of a flow that "
        "was cut off it is under way, of one that finished after its last segments, and these are "
        "not of the same queues. There is neither colour nor bold; `rtt_p50` is of all samples."
    )


def _timeouts(results: Results, cells: Sequence[Cell], metric: str) -> pd.Series[float]:
    """How many timeouts a run of each cell has on the mean, of a metric of recoveries without."""
    if parts(metric)[0] != "fast_retransmits" or "flow" not in results.flows:
        return pd.Series(dtype=float)
    rows = carriers(rows_of(results, cells), metric)
    if "timeouts" not in rows:
        return pd.Series(dtype=float)
    rows = rows[rows["timeouts"].notna()]
    by = rows.groupby("cell")
    return by["timeouts"].sum().astype(float) / by["run"].nunique()


def timed_out(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    """Whether cells whose recoveries are compared had timeouts in their place."""
    means = _timeouts(results, cells, metric)
    return bool(len(means) > 1 and means.max() > EVEN * means.min())


def untimed(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    """Whether recoveries are of cells of which some tell timeouts, and others have none to tell."""
    if parts(metric)[0] != "fast_retransmits" or "flow" not in results.flows:
        return False
    rows = carriers(rows_of(results, cells), metric)
    name = column("fast_retransmits")
    if "timeouts" not in rows or name not in rows:
        return False
    rows = rows[rows[name].notna()]
    return bool(rows["timeouts"].notna().groupby(rows["cell"]).any().nunique() > 1)


def timerless(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Recoveries of protocols without timeouts, beside those of others that have them."""
    if not any(untimed(results, row, metric) for row in alongside(results, cells)):
        return ""
    return (
        "Recoveries are counted that need no timeout, and some of the compared protocols have no "
        "timeouts, or tell of none: all that they repair is counted here, and with the others what "
        "their timers leave. There is neither colour nor bold."
    )


def recovered(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Recoveries of which one cell has fewer, as it waits for timeouts instead."""
    apart = [row for row in alongside(results, cells) if timed_out(results, row, metric)]
    if not apart:
        return ""
    every = [_timeouts(results, row, metric) for row in apart]
    means = max(every, key=lambda own: float(own.max() - own.min()))
    return (
        f"Recoveries are counted that need no timeout, and compared cells have from "
        f"{means.min():.3g} ({means.idxmin()}) to {means.max():.3g} ({means.idxmax()}) timeouts "
        "per run: who waits for a timer has fewer recoveries, and is no better for it. There is "
        f"neither colour nor bold where timeouts are more than {EVEN - 1:.0%} apart."
    )


def _unfinished(results: Results, cells: Sequence[Cell], metric: str) -> pd.DataFrame:
    """Flows of datagrams that a metric is of, were to send so many bytes and sent them, of which
    some were lost.
    """
    rows = carriers(rows_of(results, cells), metric)
    if not all(name in rows for name in ("finished", "sent_bytes")):
        return rows[:0]
    rows = rows[rows["flow_protocol"].eq("udp") & rows["finished"].eq(False)]
    specs = {(c.name, n): flow for c in cells for n, flow in flows_of(c)}
    keys = zip(rows["cell"], rows["flow"], rows["sent_bytes"], strict=True)
    done = [
        lastsent.complete({"sent_bytes": None if sent != sent else sent}, specs.get((cell, n), {}))
        for cell, n, sent in keys
    ]
    return rows[np.asarray(done, dtype=bool)]


def unsent(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Goodput of datagrams by the whole time of a run, as nobody says when the last was sent."""
    if parts(metric)[0] not in RATES or results.plan.measure.mode not in ("transfer", "receiver"):
        return ""
    rows = _unfinished(results, cells, metric)
    without = {(c.name, n) for c in cells for n, flow in flows_of(c) if "rate" not in flow}
    keys = zip(rows["cell"], rows["flow"], strict=True)
    found = rows[np.asarray([key in without for key in keys], dtype=bool)]
    found = found[ends(found) >= found["sim_seconds"]]
    if found.empty:
        return ""
    return (
        f"{len(found)} flows of datagrams had sent all of their bytes and lost some of them (by "
        f"cell: {by_cell(found, cells)}). When the last one was sent is not known without a "
        "`rate`: their goodput is by the time to the end of their run, and there is neither colour "
        "nor bold."
    )


def survivors(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Download times of datagrams, of the runs in which none of them was lost."""
    if parts(metric)[0] not in OF_FINISHED:
        return ""
    lost = _unfinished(results, cells, metric)
    if lost.empty:
        return ""
    whole = carriers(rows_of(results, cells), metric)
    whole = whole[whole["flow_protocol"].eq("udp") & whole["finished"].eq(True)]
    named = by_cell(whole, cells) or "none"
    return (
        f"Of files of datagrams the time is known where none was lost: {len(whole)} of "
        f"{len(whole) + len(lost)} (by cell: {named}), which need not have been like the others."
    )
