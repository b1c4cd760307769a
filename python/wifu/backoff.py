"""Links that come back at one moment, as they were cut or a node walked away: where the back-off of
a sender's timer stands then decides for how long it waits, and the next longer cut may have the
other order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from wifu.cells import Cell
from wifu.cutoff import OF_FINISHED, by_the_clock
from wifu.metrics import parts
from wifu.returns import crossing, returns
from wifu.rows import (
    RATES,
    SHARES,
    Results,
    ahead,
    alongside,
    carriers,
    ends,
    of_these,
    rows_of,
)
from wifu.stamps import first

MORE = 1.005
"""From so many times as much on cells are apart."""

HALF = 0.5
"""... of what sets two cells apart, and more, is for how long senders waited for timers."""

AT_MOST = 0.99
"""No sender waits for more than that."""

MOST = 4
"""Cells that are named."""


class Apart(NamedTuple):
    """Of cells what they come to, where more is better, the same without waits for timers, and the
    share of their time that these are.
    """

    rates: pd.Series[float]
    without: pd.Series[float]
    waits: pd.Series[float]


def _once(results: Results) -> bool:
    """Whether what comes back in cells of a plan goes and comes at the same moments in all."""
    every = [back for cell in results.plan.cells if (back := returns(cell.scenario))]
    return bool(every) and all(back == every[0] for back in every)


def _waits(results: Results, cells: Sequence[Cell], metric: str) -> dict[str, float]:
    """The share of their time that senders of cells waited for timers, of those cells of which two
    are apart mostly by that.
    """
    base = parts(metric)[0]
    if base not in (*RATES, *OF_FINISHED) or not _once(results):
        return {}
    # Beside a cell without any the cut itself is what is compared.
    crossed = {cell.name: flows for cell in cells if (flows := crossing(results, cell))}
    cells = [cell for cell in cells if cell.name in crossed]
    rows = carriers(rows_of(results, cells), metric)
    if "timeout_s" not in rows or rows["timeout_s"].isna().all():
        return {}
    cut = {(name, n) for name, flows in crossed.items() for n in flows}
    waited = rows["timeout_s"].astype(float).fillna(0.0)
    if "asked_timeout_s" in rows:  # what is lost may be a question as well as its answer
        waited += rows["asked_timeout_s"].astype(float).fillna(0.0)
    rows = rows.assign(cut=of_these(rows, cut))
    rows = rows.assign(waited=waited.where(rows["cut"], 0.0))
    of = _of_transfers if base in OF_FINISHED else _of_rates
    apart = of(results, cells, metric, rows)
    if apart is None:
        return {}
    found = set()
    for a, b in ahead(apart.rates[apart.rates > 0], MORE):
        ratio = np.log(apart.rates[a] / apart.rates[b])
        rest = np.log(apart.without[a] / apart.without[b])
        if ratio - rest >= HALF * ratio:
            found |= {a, b}
    return {name: float(apart.waits[name]) for name in sorted(found)}


def _inside(results: Results) -> bool:
    """Whether all that comes back does so in the part of runs that is measured."""
    measure = results.plan.measure
    times = [at for cell in results.plan.cells for at in returns(cell.scenario).times]
    return measure.mode != "window" or all(measure.start <= at <= measure.end for at in times)


def _of_rates(
    results: Results, cells: Sequence[Cell], metric: str, rows: pd.DataFrame
) -> Apart | None:
    """Of rates: what flows have in the time in which they do not wait."""
    measure = results.plan.measure
    if measure.mode == "steady" or not _inside(results):
        return None
    lasted = ends(rows) - rows["start_s"].astype(float).fillna(0.0)
    if measure.mode == "window":
        lasted = lasted.clip(upper=measure.end - measure.start)
    if parts(metric)[0] in SHARES:  # which are of what each flow has
        rows, lasted = rows[rows["cut"]], lasted[rows["cut"]]
    shares = (rows["waited"] / lasted).clip(0.0, AT_MOST)
    octets = rows["goodput_bps"].astype(float)
    runs = rows.groupby("cell")["run"].nunique()
    rates = octets.groupby(rows["cell"]).sum() / runs
    without = (octets / (1 - shares)).groupby(rows["cell"]).sum() / runs
    waits = shares[rows["cut"]].groupby(rows["cell"]).mean()
    return Apart(rates, without, waits.reindex(rates.index, fill_value=0.0))


def _of_transfers(
    results: Results, cells: Sequence[Cell], metric: str, rows: pd.DataFrame
) -> Apart | None:
    """Of times: how many transfers there are in a second."""
    rows = rows[~rows["flow"].isin(by_the_clock(cells, metric))]
    count = rows["requests"].astype(float).clip(lower=1.0)
    # A percentile knows nothing of the few that a cut meets.
    if parts(metric)[0] not in ("delay", "known"):
        crossed = rows["cut"].groupby(rows["cell"]).mean()
        if not (count.eq(1.0).all() and crossed.gt(HALF).all()):
            return None
    means = pd.Series(
        {c.name: float(results.sample(metric, c.labels).mean()) for c in cells}, dtype=float
    ).dropna()
    took = (means * count.groupby(rows["cell"]).sum()).dropna()
    waits = (rows["waited"].groupby(rows["cell"]).sum() / took).dropna().clip(0.0, AT_MOST)
    rates = 1 / means[waits.index]
    return Apart(rates, rates / (1 - waits), waits)


def decides(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    """Whether cells are apart mostly by for how long senders waited for timers."""
    return bool(_waits(results, cells, metric))


def words(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """The same in words."""
    found: dict[str, float] = {}
    for group in alongside(results, cells):
        found |= _waits(results, group, metric)
    if not found:
        return ""
    told = first([f"{c.name} {found[c.name]:.0%}" for c in cells if c.name in found], MOST)
    return (
        "Links or nodes come back at the same moments in all runs, and where the back-off of "
        f"senders' timers stands then decides for how long they wait (of their time: {told}), "
        "which is most of what sets these cells apart: a longer or shorter cut may have the other "
        "order. There is neither colour nor bold; cuts of several lengths (an axis of "
        "`event.N.at`, or of traces) tell."
    )
