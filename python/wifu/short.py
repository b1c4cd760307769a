"""Flows that were cut off after few round trips: their goodput is of how they began, and of how
long runs are.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from wifu import stops
from wifu.cells import Cell
from wifu.demand import PACED
from wifu.early import Early
from wifu.happenings import happening
from wifu.limited import MOSTLY
from wifu.limits import LIMITS, column
from wifu.metrics import parts
from wifu.rows import (
    RATES,
    SHARES,
    Results,
    alongside,
    carriers,
    composed,
    ends,
    flows_of,
    going,
    of_these,
    over_tcp,
    rows_of,
)
from wifu.stacks import stack
from wifu.stamps import first
from wifu.values import seconds

TRIPS = 200
"""In so many round trips a window that grows by a segment in each is two hundred segments large."""

FULL, SHARED = 50, 100
"""Of the usual ones, with what waits in queues, so many are few; to share twice as many are."""

EVEN = 0.03
"""What is in the second half by no more than that another rate did not grow to speak of."""

OF_LOSSES = ("loss", "retransmissions", "fast_retransmits", "timeouts")
"""Metrics of what is lost, and of what it takes to repair that."""

EARLY = 30.0
"""Epochs in which ATP's rate, which it changes once in each, is near to what it comes to."""

BEGINNING, LOST = 0.25, 10
"""Packets of a cell, so many at least, were lost before such a part of their flows' time was over,
on the mean: evenly lost that is half of it.
"""

MOST = 4
"""Cells that are named."""


def shared(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    """Whether a metric is of how flows share: of one alone it is what those that go on beside it
    leave, if it goes on as well.
    """
    base, only = parts(metric)
    if base != "goodput" or only is None:
        return base in SHARES
    rows = carriers(rows_of(results, cells))
    own = rows.loc[going(rows, cells), "flow"].eq(only)
    return bool(own.any() and not own.all())


def _growing(results: Results, cells: Sequence[Cell], metric: str) -> pd.DataFrame:
    """Flows whose windows may not have grown to what they come to."""
    rows = carriers(rows_of(results, cells))
    if parts(metric)[0] not in RATES or results.plan.measure.mode == "steady":
        return rows[:0]
    if "min_rtt_s" not in rows:
        return rows[:0]
    # What one flow has depends on how far those beside it have come.
    rows = _beside(rows, parts(metric)[1])
    # What ends by itself takes what it takes, its beginning included.
    rows = rows[going(rows, cells) & rows["min_rtt_s"].gt(0) & rows["bytes"].gt(0)]
    rows = rows[over_tcp(rows, cells)]  # lanes have no window
    # Who pauses, or opens anew for each file, has no window that grows all the time.
    paced = {(c.name, n) for c in cells for n, flow in flows_of(c) if flow.get("app") in PACED}
    return rows[~of_these(rows, paced)]


def _trips(results: Results, cells: Sequence[Cell], metric: str) -> pd.Series[float]:
    """How many round trips the flow of each cell had that had fewest of them until it was
    cut off, or before a window began: of its smallest ones, or of its usual ones, if these are few.
    """
    none, measure = pd.Series(dtype=float), results.plan.measure
    rows = _growing(results, cells, metric)
    end = ends(rows) if measure.mode != "window" else measure.start
    lasted = (end - rows["start_s"].astype(float).fillna(0.0)).clip(lower=0.0)
    if lasted.empty:
        return none
    # Nor has a window to grow to the path's size where it is not what a sender waits for.
    names = {"rtt_p50_s": lasted, "min_rtt_s": lasted[~_held(rows)]}
    usual = SHARED if shared(results, cells, metric) else FULL
    every = {
        most: (of / rows[name].astype(float)).groupby([rows["cell"], rows["flow"]]).mean()
        for name, most in (("min_rtt_s", TRIPS), ("rtt_p50_s", usual))
        if name in rows and len(of := names[name])
    }
    if not every:
        return none
    fewest = {most: own.groupby("cell").min() for most, own in every.items()}
    found = [own[own < most] for most, own in fewest.items()]
    return pd.concat(found).groupby(level=0).min()


def _even(results: Results, cells: Sequence[Cell], metric: str) -> set[str]:
    """Cells whose flows had as much in the second half of their time as on the mean of it all."""
    if shared(results, cells, metric) or results.plan.measure.mode == "window":
        return set()
    rows = _growing(results, cells, metric)
    if "late_bytes" not in rows or rows.empty:
        return set()
    by = rows.groupby(rows["cell"].astype(str))
    half = 2 * by["late_bytes"].sum(min_count=1).astype(float) / by["bytes"].sum().astype(float)
    return set(half.index[(half - 1).abs() <= EVEN])


def _beside(rows: pd.DataFrame, only: int | None) -> pd.DataFrame:
    """All flows; if one is named, it and those that were there for half of its time or more."""
    if only is None:
        return rows
    lasted = ends(rows) - rows["start_s"].astype(float).fillna(0.0)
    own = rows["cell"].map(lasted[rows["flow"] == only].groupby(rows["cell"]).mean())
    return rows[rows["flow"].eq(only) | (lasted >= own / 2)]


def _held(rows: pd.DataFrame) -> pd.Series[bool]:
    """Whether senders waited for something else than their window for most of their time."""
    if "open_s" not in rows:  # of an older lab
        return pd.Series(False, rows.index)
    held = rows[[column(name) for name in LIMITS]].astype(float).sum(axis=1)
    return held > MOSTLY * rows["open_s"].astype(float)


def learning(results: Results, cells: Sequence[Cell], metric: str) -> Early | None:
    """Flows that change their rate once in an epoch, and had few of these until the clock ended
    them.
    """
    if parts(metric)[0] not in RATES or results.plan.measure.mode == "steady":
        return None
    rows = carriers(rows_of(results, cells), metric)
    epochs = pd.Series([_epoch(*of) for of in composed(rows, cells)], rows.index, dtype=float)
    rows = rows[epochs.gt(0) & going(rows, cells)]
    lasted = ends(rows) - rows["start_s"].astype(float).fillna(0.0)
    by = (lasted / epochs[rows.index]).groupby(rows["cell"]).mean()
    found = [f"{c.name} {by[c.name]:.3g}" for c in cells if by.get(c.name, EARLY) < EARLY]
    if not found:
        return None
    return Early(
        "ATP changes its rate once in an epoch, of which its flows had few "
        f"({first(found, MOST)}): that is how they begin, which may be above or below what they "
        "come to.",
        stops.longer(rows[rows["cell"].isin(by[by < EARLY].index)], cells),
    )


def _epoch(protocol: str, compositions: tuple[str, ...]) -> float:
    """How many seconds an epoch of a protocol of rates has; nan for others."""
    found = stack(protocol, compositions)
    told = found.values.get("manager.epoch") if found is not None else None
    return seconds(str(told).replace(" ", "")) if told is not None else float("nan")


def _losing(results: Results, cells: Sequence[Cell], metric: str) -> pd.DataFrame:
    """Flows that lost packets and could have gone on, until then or beyond a count of packets."""
    # What is lost at a cut says nothing of a beginning.
    cells = [cell for cell in cells if not happening(cell)]
    rows = carriers(rows_of(results, cells), metric)
    lost = rows["lost_s"].astype(float).gt(0)
    more = going(rows, cells) | stops.counted(rows, cells)
    return rows[rows["flow_protocol"].ne("udp") & more & lost]


def _lost(results: Results, cells: Sequence[Cell], metric: str) -> pd.Series[float]:
    """After which part of the time of flows that go on their packets were lost, on the mean, where
    most were early in it.
    """
    names = ["packets_sent", "packets_copies", "packets_delivered", "packets_inside"]
    if parts(metric)[0] not in OF_LOSSES or not {"lost_s", *names} <= set(results.flows):
        return pd.Series(dtype=float)
    rows = _losing(results, cells, metric)
    sent, copies, arrived, inside = (rows[name].astype(float) for name in names)
    lost, start = sent + copies - arrived - inside, rows["start_s"].astype(float).fillna(0.0)
    part = (rows["lost_s"].astype(float) - start) / (ends(rows) - start)
    sums = pd.DataFrame({"part": part * lost, "lost": lost}).groupby(rows["cell"]).sum()
    means = (sums["part"] / sums["lost"])[sums["lost"] >= LOST]
    return means[means < BEGINNING]


def at_first(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    """Whether the most losses of these cells are of how flows began: longer runs have fewer."""
    if not len(early := _lost(results, cells, metric)):
        return False
    means = pd.Series({c.name: float(results.sample(metric, c.labels).mean()) for c in cells})
    return bool(means.notna().any()) and means.idxmax() in early.index


def losses(results: Results, cells: Sequence[Cell], metric: str) -> Early | None:
    """The same in words."""
    early = _lost(results, cells, metric)
    found = [f"{c.name} {early[c.name]:.0%}" for c in cells if c.name in early.index]
    if not found:
        return None
    rows = _losing(results, cells, metric)
    return Early(
        "Most of what was lost was lost as flows began (on the mean after such a part of their "
        f"time: {first(found, MOST)}).",
        stops.longer(rows[rows["cell"].isin(early.index)], cells),
        colourless=any(at_first(results, group, metric) for group in alongside(results, cells)),
    )


def unsettled(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    """Whether shares are compared of flows of which one had too few round trips to have its own."""
    return shared(results, cells, metric) and bool(len(_trips(results, cells, metric)))


def _later(longer: tuple[str, ...]) -> tuple[str, ...]:
    """The same, with what leaves the beginning out."""
    if longer[-1] == stops.LONGER["packets"]:
        rest = ' and `stop.batch`, with `measure = "steady"`'
    else:
        rest = ", with a `window` at its end"
    return (*longer[:-1], longer[-1] + rest)


def few(results: Results, cells: Sequence[Cell], metric: str) -> Early | None:
    """Cells whose flows had no longer."""
    trips = _trips(results, cells, metric)
    # Where the second half had as much as the first it was no large part.
    trips = trips[~trips.index.isin(_even(results, cells, metric))]
    found = [f"{c.name} {trips[c.name]:.0f}" for c in cells if c.name in trips.index]
    if not found:
        return None
    what = "had few round trips before the window began"
    longer: tuple[str, ...] = ("a window that begins later",)
    if results.plan.measure.mode != "window":
        rows = _growing(results, cells, metric)
        rows = rows[rows["cell"].isin(trips.index)]
        what = f"were cut off {stops.cut(rows, cells)} after few round trips"
        longer = _later(stops.longer(rows, cells))
    return Early(
        f"Flows {what} ({first(found, MOST)}, of the flow that had fewest): how a window began to "
        "grow is a large part of their goodput.",
        longer,
        any(unsettled(results, group, metric) for group in alongside(results, cells)),
    )
