"""What is better where less was carried: round trips and answers are quicker, as who sends less
meets shorter queues and fewer frames, what one flow meets is less, and shares are more even where
all have less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import pandas as pd

from wifu.cells import Cell
from wifu.cutoff import OF_FINISHED
from wifu.metrics import column, metric_of, parts
from wifu.rows import (
    Results,
    ahead,
    alongside,
    carriers,
    flows_of,
    going,
    of_protocols,
    of_these,
    protocols,
    rows_of,
)
from wifu.transfers import SIZED

EVEN = 1.1
"""Up to so many times as much carried, and cells are compared."""

EVENNESS = ("jain", "unfairness", "weakest")
"""Metrics of how even shares are, whatever they are of."""

OF_FRAMES = ("mac_retries", "mac_loss", "withdrawals")
"""Metrics of frames that meet others on the air."""

FARES = ("loss", "connecting", "goodput", "retransmissions", "timeouts")
"""Metrics of a flow alone, by which it fares the better the less there is beside it."""


class Less(NamedTuple):
    """Of two cells the better one carried so many times less than the other."""

    times: float
    better: str
    other: str


Found = Callable[[Results, Sequence[Cell], str], Iterable[Less]]


def good(results: Results, cells: Sequence[Cell], metric: str) -> pd.Series[float]:
    """The mean of a metric in each cell, where more is better."""
    sign = 1.0 if metric_of(metric).better == "more" else -1.0
    means = {c.name: results.sample(metric, c.labels).mean() for c in cells}
    return sign * pd.Series(means, dtype=float)


def _less(good: pd.Series[float], rows: pd.DataFrame) -> list[Less]:
    """All pairs of cells of which that with more `good` carried more than a tenth less."""
    by = rows.groupby("cell")
    rates = (by["goodput_bps"].sum() / by["run"].nunique()).astype(float)
    return [
        Less(float(rates[b] / rates[a]), a, b)
        for a, b in ahead(good[good.index.isin(rates.index)])
        if 0 < rates[a] * EVEN < rates[b]
    ]


def _trips(results: Results, cells: Sequence[Cell], metric: str) -> Iterable[Less]:
    """Cells with shorter round trips."""
    base = parts(metric)[0]
    if base != "srtt" and not base.startswith("rtt_p"):
        return []
    every = rows_of(results, cells)
    if not {column(base), "goodput_bps"} <= set(every):
        return []
    rows = carriers(every, metric)
    rows = rows[rows[column(base)].notna() & rows["flow_protocol"].ne("udp")]
    trips = rows.groupby("cell")[column(base)].mean().astype(float)
    # A flow waits in the queues of all.
    return _less(-trips, carriers(every))


def _answers(results: Results, cells: Sequence[Cell], metric: str) -> Iterable[Less]:
    """Cells whose answers are quicker beside flows that go on: these are the load."""
    base, only = parts(metric)
    asking = {(c.name, n) for c in cells for n, flow in flows_of(c) if flow.get("app") in SIZED}
    # The goodput of a file alone is its size by its time.
    times = base in OF_FINISHED or (base == "goodput" and only is not None)
    if not times or only not in {None, *(n for _, n in asking)}:
        return []
    rows = rows_of(results, cells)
    # What is on the way, or a file that is quicker, may have made the load less.
    kinds = protocols(rows, cells).groupby(rows["flow"]).nunique()
    changed = rows["flow"].map(kinds).gt(1) & rows["flow"].ne(only or 0)
    # Of a flow alone what has another protocol in some of these cells is the load, asking or not.
    load = rows[(~of_these(rows, asking) & going(rows, cells)) | (changed & (only is not None))]
    load = load[load["flow_protocol"].ne("udp")]
    if not changed[load.index].any():
        return []
    return _less(good(results, cells, metric), load)


def _beside(results: Results, cells: Sequence[Cell], metric: str) -> Iterable[Less]:
    """Cells in which a flow of one protocol fares better beside others whose load is less."""
    base, only = parts(metric)
    if only is None or base not in FARES or not of_protocols(cells):
        return []
    rows = rows_of(results, cells)
    own = rows[rows["flow"] == only]
    kinds = set(protocols(own, cells))
    # Of what goes on it is told that others lack what it has.
    going_on = kinds != {"udp"} and bool(going(own, cells).any())
    if len(kinds) != 1 or (base == "goodput" and going_on):
        return []
    load = rows[(rows["flow"] != only) & rows["flow_protocol"].ne("udp")]
    return _less(good(results, cells, metric), load)


def _frames(results: Results, cells: Sequence[Cell], metric: str) -> Iterable[Less]:
    """Cells whose frames fail less, where protocols are all that differs on the air."""
    if parts(metric)[0] not in OF_FRAMES or not of_protocols(cells):
        return []
    return _less(good(results, cells, metric), rows_of(results, cells))


def _shares(results: Results, cells: Sequence[Cell], metric: str) -> Iterable[Less]:
    """Cells that are more even, where no flow has more."""
    if parts(metric)[0] not in EVENNESS:
        return []
    rows = carriers(rows_of(results, cells), metric)
    rates = rows.groupby(["cell", "flow"])["goodput_bps"].mean().astype(float).unstack()
    pairs = _less(good(results, cells, metric), rows)
    return [p for p in pairs if bool((rates.loc[p.better] <= rates.loc[p.other]).all())]


def lighter(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    """Whether a cell with shorter round trips carried more than a tenth less."""
    return any(_trips(results, cells, metric))


def loaded(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    """Whether answers are quicker, or a flow of one protocol fares better, beside a load that
    carried more than a tenth less.
    """
    return any((*_answers(results, cells, metric), *_beside(results, cells, metric)))


def quieter(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    """Whether frames fail less beside a protocol that carried more than a tenth less."""
    return any(_frames(results, cells, metric))


def poorer(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    """Whether shares are more even where every flow has less, and all more than a tenth."""
    return any(_shares(results, cells, metric))


def words(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """The same in words."""
    for found, told in WORDS:
        groups = alongside(results, cells)
        if pairs := [pair for group in groups for pair in found(results, group, metric)]:
            return told.format(**max(pairs)._asdict())
    return ""


BOTH = (
    "There is neither colour nor bold where it is more than a tenth less; a `tradeoff` shows both."
)

WORDS: Sequence[tuple[Found, str]] = (
    (
        _trips,
        "Round trips are shorter in {better} than in {other}, whose flows carried {times:.3g} "
        "times as much in the same time: who sends less meets shorter queues, and is no better for "
        f"it. {BOTH}",
    ),
    (
        _answers,
        "Answers are quicker in {better} than in {other}, where the load beside them carried "
        "{times:.3g} times as much: a load that sends less leaves shorter queues, and is no better "
        f"for it. {BOTH}",
    ),
    (
        _beside,
        "The flow is of one protocol, and fares better in {better} than in {other}, where those "
        "beside it carried {times:.3g} times as much: that is what it meets, and no merit of its "
        f"own. {BOTH}",
    ),
    (
        _frames,
        "Fewer frames fail in {better} than in {other}, whose flows carried {times:.3g} times as "
        "much in the same time: who sends less has fewer frames on the air to meet, and is no "
        f"better for it. {BOTH}",
    ),
    (
        _shares,
        "Shares are more even in {better} than in {other}, where no flow has less and all together "
        "carried {times:.3g} times as much: nobody has anything of that. There is neither colour "
        "nor bold where that is more than a tenth less.",
    ),
)
"""What is told of each."""
