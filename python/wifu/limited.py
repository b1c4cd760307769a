"""What senders waited for instead of their congestion control: windows and buffers that are full,
their own node's queue, an application that writes no more. Where that holds them all, protocols
that differ in what they make of losses do alike, or differ by something else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from wifu.asked import ASKING
from wifu.cells import Cell
from wifu.cutoff import OF_FINISHED
from wifu.limits import ENDS, LIMITS, column
from wifu.metrics import parts
from wifu.rows import (
    RATES,
    Results,
    alongside,
    carriers,
    flows_of,
    of_protocols,
    of_these,
    over_tcp,
    rows_of,
)
from wifu.stamps import first

MOSTLY = 0.5
"""Of more than such a share of their time, and it is told what senders waited for."""

PART = 0.1
"""A limit of so much of that time is named."""

MOST = 4
"""Cells that are named for each limit."""


def _shares(results: Results, cells: Sequence[Cell], metric: str) -> pd.DataFrame:
    """The share of their time that each limit held the senders of a metric's flows, by cell. Of
    flows that ask again and again there is nothing to send between two answers: of these only what
    held them while there was is known.
    """
    names = [column(name) for name in LIMITS]
    if parts(metric)[0] not in (*RATES, *OF_FINISHED) or "open_s" not in results.flows:
        return pd.DataFrame(columns=list(LIMITS), dtype=float)
    rows = carriers(rows_of(results, cells), metric)
    rows = rows[rows["flow_protocol"].ne("udp") & rows["open_s"].gt(0)]
    asking = {(c.name, n) for c in cells for n, f in flows_of(c) if f.get("app") in ASKING}
    asks = of_these(rows, asking)
    times = rows[[*names, "open_s"]].astype(float)
    # What hands its data to lanes has sent all at once, and waits for them.
    handed = ~over_tcp(rows, cells)
    times["limited_drain_s"] = times["limited_drain_s"].mask(handed, 0.0)
    resting = times["limited_source_s"].where(asks, 0.0)
    times["open_s"] -= resting
    times["limited_source_s"] -= resting
    sums = times.groupby(rows["cell"]).sum()
    shares = sums[names].div(sums["open_s"].where(lambda s: s > 0), axis=0).dropna()
    return shares.set_axis(list(LIMITS), axis=1)


def words(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """What held senders of compared cells that was not their congestion control. Waiting for room
    in one's own queue is told where protocols are compared: else it says that a sender keeps its
    link busy, and no more.
    """
    told: dict[str, dict[str, float]] = {}
    for group in alongside(results, cells):
        limits = LIMITS if of_protocols(group) else ENDS
        shares = _shares(results, group, metric)[list(limits)]
        held = shares[shares.sum(axis=1) > MOSTLY]
        for cell in (c.name for c in group if c.name in held.index):
            for name, share in held.loc[cell].items():
                if share > PART:
                    told.setdefault(str(name), {})[cell] = float(share)
    if not told:
        return ""
    by = max((name for name in told), key=lambda name: len(told[name]))
    order = [by, *(name for name in LIMITS if name in told and name != by)]
    said = [f"{LIMITS[name][0]} ({_named(told[name])})" for name in order]
    remedies = first([LIMITS[name][1] for name in order], len(LIMITS))
    return (
        "For most of the time that their connections were open, senders of some cells waited not "
        f"for their congestion control, but for {', and for '.join(said)}. What protocols or paths "
        "could do beyond that does not show there, and cells may be alike, or apart, for that "
        f"alone. What takes it away: {remedies}."
    )


def _named(shares: Mapping[str, float]) -> str:
    return first([f"{cell} {share:.0%}" for cell, share in shares.items()], MOST)
