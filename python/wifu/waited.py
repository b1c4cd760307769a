"""Round trips that have in them how long a receiver held its acknowledgement back: the last segment
of a small window waits for the next window, or for a timer, which is no delay of the path.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import pandas as pd

from wifu.cells import Cell
from wifu.metrics import parts
from wifu.rows import Results, alongside, carriers, over_tcp, rows_of
from wifu.stacks import KERNEL, stacks

APART = 0.05
"""Up to such a share of a round-trip time may the waits that are in it be apart."""

PART = 0.2
"""... and such a part of what round trips are apart."""

WEIGHT = 1 / 8
"""What one sample counts in a smoothed time (RFC 6298 2.3)."""


def _column(metric: str) -> tuple[str, str, float] | None:
    """Where a metric of round trips stands by flow, where the waits that are in it do, and what
    they count for.
    """
    base, _ = parts(metric)
    if base == "srtt":
        return "srtt_s", "ack_delay_p95_s", WEIGHT
    name, _, share = base.rpartition("_p")
    return (f"rtt_p{share}_s", f"ack_delay_p{share}_s", 1.0) if name == "rtt" else None


def _rows(results: Results, cells: Sequence[Cell], metric: str) -> pd.DataFrame:
    """The flows of TCP that a metric is of."""
    rows = carriers(rows_of(results, cells), metric)
    return rows[over_tcp(rows, cells)]


def _waits(results: Results, cells: Sequence[Cell], metric: str) -> pd.Series[float]:
    """What of round-trip times these waits are in each cell, in seconds, where that is known and
    too far apart to compare them.
    """
    none = pd.Series(dtype=float)
    if (of := _column(metric)) is None or not all(n in results.flows for n in of[:2]):
        return none
    trip, wait, weight = of
    rows = _rows(results, cells, metric)
    usual = "ack_delay_p50_s"
    names = list(dict.fromkeys([trip, wait, usual]))
    known = rows[["cell", *names]].astype(dict.fromkeys(names, float)).dropna()
    means = known.groupby("cell")[names].mean()
    # A smoothed time has the usual wait in it, and that of a late one by its weight.
    waits = means[usual] + (means[wait] - means[usual]) * weight
    trips = means[trip]
    told = [
        (a, b)
        for a, b in combinations(list(waits.index), 2)
        if abs(waits[a] - waits[b])
        > max(APART * min(trips[a], trips[b]), PART * abs(trips[a] - trips[b]))
    ]
    if not told:
        return none
    one, two = max(told, key=lambda pair: abs(waits[pair[0]] - waits[pair[1]]))
    return waits[[one, two]]


def unlike(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    """Whether receivers held acknowledgements back so differently that it tells in what is
    compared.
    """
    return len(_waits(results, cells, metric)) > 0


def words(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """The same in words; and where nobody tells how long they were held back, that they may be."""
    every = [_waits(results, group, metric) for group in alongside(results, cells)]
    found = max(every, key=lambda of: of.max() - of.min() if len(of) else 0.0, default=None)
    if found is None or not len(found):
        return _untold(results, cells, metric)
    base = parts(metric)[0]
    share = "about" if base == "srtt" else f"for {base.rpartition('_p')[2]} % at most"
    return (
        "A receiver holds an acknowledgement back until a further segment comes or a timer ends, "
        "and that wait is in the round trip: "
        f"{share} {_ms(found.min())} in "
        f"{found.idxmin()} and {_ms(found.max())} in {found.idxmax()}. Small windows have "
        "more of it. It is no delay of the path, and there is neither colour nor bold; probes of "
        "datagrams compare (`one_way_p*`), or flows with `ack_every=1`."
    )


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.{0 if seconds >= 0.01 else 1}f} ms"


def _untold(results: Results, cells: Sequence[Cell], metric: str) -> str:
    plan = results.plan
    if _column(metric) is None or plan.runner != "mesh" or plan.substrate == "sim":
        return ""
    rows, only = _rows(results, cells, metric), parts(metric)[1]
    if not len(rows) or ("ack_delay_p50_s" in rows and rows["ack_delay_p50_s"].notna().any()):
        return ""
    delays = {
        stack.values.get("ack.ack_delay")
        for cell in cells
        for n, stack in enumerate(stacks("mesh", cell), 1)
        if stack is not None and only in (None, n) and stack.wire == "tcp"
        and stack.values.get("ack.ack_every") not in (None, "1")
    }  # fmt: skip
    if rows["flow_protocol"].astype(str).str.startswith(KERNEL).any():
        delays.add("the kernel's own")
    if not delays:
        return ""
    return (
        "A receiver holds an acknowledgement back until a further segment comes or a timer ends "
        f"(ack_delay {', '.join(sorted(filter(None, delays)))}), and that wait is in the round "
        "trip, of small windows more than of large ones; nobody tells here how long it was."
    )
