"""Delays in queues that still grow when runs end: they are of how long runs are."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from wifu import limits, stops
from wifu.asked import ASKING
from wifu.cells import Cell
from wifu.cutoff import OF_FINISHED
from wifu.early import Early
from wifu.metrics import of_datagrams, parts
from wifu.rows import (
    RATES,
    Results,
    alongside,
    composed,
    flows_of,
    going,
    of_protocols,
    of_these,
    rows_of,
)
from wifu.stacks import stack
from wifu.stamps import first

INSIDE = 0.01
"""Of more of its datagrams than this share, which wait when a run ends, it is told."""

GROWN = 1.5
"""So many times as long what waits at the end would take to be sent, as half of all had waited: a
queue that grows evenly has twice that, one that does not grow once.
"""

LATER, NEARLY, FILLED = 1.1, 0.98, 2.0
"""The smoothed round trip at the end is so many times the median, the 95th percentile and the
smallest one at least, where a queue grows.
"""

MOSTLY = 0.5
"""In more of a cell's flows and runs."""

MOST = 4
"""Cells that are named."""


LOSS_BASED = ("tahoe", "reno", "newreno", "cubic", "westwood")
"""Windows that grow as long as nothing is lost."""

UNLIMITED = {"", "peer-window", "nagle"}
"""Gates besides which no other limits a window, or paces."""

HELD = 0.5
"""For less than such a share of its time something else held a sender."""

COUNTED = ("retransmissions", "timeouts", "fast_retransmits", "loss")
"""Metrics of what is lost, or repaired."""

OF_TRIPS = (*RATES, "srtt", *COUNTED)
"""Metrics of connections that a full queue changes, beside percentiles of round trips."""

NEEDED = {"packets_inside", "until_s"}
"""Columns that results of an older lab lack."""


def datagrams(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Cells whose datagrams waited in such queues."""
    if not of_datagrams(metric) or not set(results.flows) >= NEEDED:
        return ""
    rows, only = rows_of(results, cells), parts(metric)[1]
    own = rows if only is None else rows[rows["flow"] == only]
    if not (found := _named(_waiting(own[own["flow_protocol"].eq("udp")]), cells)):
        return ""
    return (
        f"Datagrams waited in queues that still grew when runs ended ({found}): more was sent than "
        "the way carries, and such delays are of how long a run is and of how much a queue holds, "
        "not of the path. A lower `rate`, or goodput and losses, tell what it carries."
    )


def connections(results: Results, cells: Sequence[Cell], metric: str) -> Early | None:
    """Cells whose connections had not filled their queue yet, where a metric is of what it does to
    them, or to what waits beside them.
    """
    base, only = parts(metric)
    # Delays beside a load are of what the load does.
    beside = of_datagrams(metric) or base in OF_FINISHED
    known = set(results.flows) >= NEEDED
    if not known or not (base in OF_TRIPS or base.startswith("rtt_p") or beside):
        return None
    if datagrams(results, cells, metric):
        return None
    # Of rates it matters where what protocols make of losses is compared.
    if base in RATES and not any(map(of_protocols, alongside(results, cells))):
        return None
    rows = rows_of(results, cells)
    over = rows if beside or only is None else rows[rows["flow"] == only]
    asking = {(c.name, n) for c in cells for n, flow in flows_of(c) if flow.get("app") in ASKING}
    over = over[over["flow_protocol"].ne("udp") & ~of_these(over, asking)]
    over = over[going(over, cells)]
    grows = _longest(over, cells)
    if not (found := _named(grows, cells)):
        return None
    what = "delays" if beside else "these counts" if base in COUNTED else "round trips"
    return Early(
        f"In most runs connections lost nothing yet, and filled a queue all the time ({found}): "
        f"what a full queue does is not in {'goodput' if base in RATES else what}.",
        (*stops.longer(over[over["cell"].isin(_often(grows))], cells), "a shorter queue"),
    )


def _named(grows: pd.DataFrame, cells: Sequence[Cell]) -> str:
    """The cells in most of whose flows it is so."""
    often = _often(grows)
    return first([c.name for c in cells if c.name in often], MOST)


def _often(grows: pd.DataFrame) -> set[str]:
    shares = grows.groupby("cell")["grows"].mean()
    return {str(name) for name, share in shares.items() if share > MOSTLY}


def _waiting(rows: pd.DataFrame) -> pd.DataFrame:
    """Datagrams: whether what waits at the end takes much longer to be sent than half of them had
    waited.
    """
    known = rows[["packets_inside", "packets_sent", "one_way_p50_s", "until_s"]].astype(float)
    share = known["packets_inside"] / known["packets_sent"].where(lambda sent: sent > 0)
    until = known["until_s"].clip(upper=rows["sim_seconds"]).fillna(rows["sim_seconds"])
    waits = share * (until - rows["start_s"].astype(float).fillna(0.0))
    grows = (share > INSIDE) & (waits > GROWN * known["one_way_p50_s"])
    return pd.DataFrame({"cell": rows["cell"], "grows": grows})[share.notna()]


def _longest(rows: pd.DataFrame, cells: Sequence[Cell]) -> pd.DataFrame:
    """Connections: whether the last round trips are the longest, and far above the path's."""
    if "rtt_p95_s" not in rows:
        return pd.DataFrame({"cell": [], "grows": []})
    known = rows[["srtt_s", "min_rtt_s", "rtt_p50_s", "rtt_p95_s"]].astype(float)
    last = known["srtt_s"]
    grows = (last > LATER * known["rtt_p50_s"]) & (last > NEARLY * known["rtt_p95_s"])
    grows |= _by_window(rows, cells)
    grows &= last > FILLED * known["min_rtt_s"]
    grows &= rows["retransmissions"].eq(0)
    return pd.DataFrame({"cell": rows["cell"], "grows": grows})[known.notna().all(axis=1)]


def _by_window(rows: pd.DataFrame, cells: Sequence[Cell]) -> pd.Series[bool]:
    """Connections that wait for a window which grows until something is lost, however slowly."""
    if "open_s" not in rows:  # of an older lab
        return pd.Series(False, rows.index)
    held = rows[[limits.column(name) for name in limits.LIMITS]].astype(float).sum(axis=1)
    by_loss = [_grows_until_loss(*protocol) for protocol in composed(rows, cells)]
    return pd.Series(by_loss, rows.index, dtype=bool) & (held < HELD * rows["open_s"].astype(float))


def _grows_until_loss(protocol: str, compositions: tuple[str, ...]) -> bool:
    """Whether a protocol's window is one of those."""
    found = stack(protocol, compositions)
    if found is None or found.parts.get("congestion") not in LOSS_BASED:
        return False
    return set(found.parts.get("gates", "").split(", ")) <= UNLIMITED
