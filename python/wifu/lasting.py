"""Flows that had more to send when their run ended. It ends when all that comes to an end by itself
is over, which is sooner in one cell than in another, so that their rates are of unlike times.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from wifu import faults
from wifu.cells import Cell
from wifu.metrics import parts
from wifu.rows import RATES, Results, alongside, by_cell, carriers, rows_of
from wifu.values import seconds

PART = 0.5
"""Of runs that are over in less than such a part of their `stop.time` it is told."""

OVER = ("rtt_p", "srtt", "loss", "mac_", "passive_loss", "delay")
"""What metrics begin with that are of the whole time of flows."""

EVEN = 1.1
"""Up to so many times as long, and rates over the times of runs are compared."""


def limits(cells: Sequence[Cell]) -> dict[str, float]:
    """The ends of runs, of those cells that have no other one than a time."""
    stops = {c.name: c.scenario.get("stop") for c in cells}
    plain = {n: s["time"] for n, s in stops.items() if isinstance(s, dict) and set(s) == {"time"}}
    return {name: seconds(at) for name, at in plain.items()}


def _unfinished(results: Results, cells: Sequence[Cell], metric: str) -> pd.DataFrame:
    """The flows of a metric that is a rate by the time of runs, or of all that happened in it, and
    among them (`more`) those that had more to send.
    """
    rows, base = carriers(rows_of(results, cells), metric), parts(metric)[0]
    by_time = base in RATES and results.plan.measure.mode in ("transfer", "receiver")
    if not (by_time or base.startswith(OVER)):
        rows = rows[:0]
    more = rows["finished"].eq(False) & (rows["bytes"] > 0)
    if base.startswith("delay"):  # a file that was cut off counts with its time so far
        more &= rows["requests"] > 0
    return rows.assign(more=more & (rows["fault"].isna() if "fault" in rows else True))


def early(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Runs that ended long before their `stop.time`, and flows that had more to send then."""
    if parts(metric)[0] not in RATES:
        return ""
    rows = _unfinished(results, cells, metric)
    ends = rows["cell"].map(limits(cells)).astype(float)
    found = rows[rows["more"] & (rows["sim_seconds"] < PART * ends)]
    if found.empty:
        return ""
    return (
        f"{len(found)} of {len(rows)} flows had more to send when their run was over in less than "
        f"half of its `stop.time`, at {faults.spread(found['sim_seconds'])} of "
        f"{faults.spread(ends[found.index])}, as every flow that has an end was over: their "
        "numbers are of so much time, by cell ("
        f"{by_cell(found, cells)}). A flow with `time` that lasts as long keeps runs going."
    )


def _means(results: Results, cells: Sequence[Cell], metric: str) -> pd.Series[float]:
    """For how long runs lasted on the mean whose flows had more to send, by cell."""
    rows = _unfinished(results, cells, metric)
    return rows[rows["more"]].groupby("cell")["sim_seconds"].mean()


def _apart(means: pd.Series[float]) -> float:
    return float(means.max() / means.min()) if len(means) > 1 and means.min() > 0 else 1.0


def _by_counts(cells: Sequence[Cell], metric: str) -> bool:
    """Whether all that flows delivered ends a run, so that rates are of as many bytes; of times,
    whether a number of requests does, which are then as many.
    """
    key = "requests" if parts(metric)[0].startswith("delay") else "packets"
    stops = [c.scenario.get("stop") for c in cells]
    return any(key in stop for stop in stops if isinstance(stop, dict))


def unlike(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    """Whether runs of some cells ended long before those of others, as a flow beside was over."""
    if _by_counts(cells, metric):
        return False
    return _apart(_means(results, cells, metric)) > EVEN


def words(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Runs of compared cells that lasted unlike long, and what came of it."""
    means = _means(results, cells, metric)
    rows = [row for row in alongside(results, cells) if not _by_counts(row, metric)]
    every = [means[[c.name for c in row if c.name in means]] for row in rows]
    worst = max(every, key=_apart, default=means[:0])
    if _apart(worst) <= EVEN:
        return ""
    return (
        "Flows that had more to send are measured until their run ends, and runs of compared cells "
        f"lasted between {worst.min():.3g} s ({worst.idxmin()}) and {worst.max():.3g} s "
        f"({worst.idxmax()}) on the mean: in the shorter ones their start weighs more. A flow with "
        "`time` that outlasts the others keeps runs alike. There is neither colour nor bold where "
        f"that is more than {EVEN - 1:.0%} apart."
    )
