"""Links that come back at one moment, as they were cut or a node walked away: where the back-off of
a sender's timer stands then decides for how long it waits, and the next longer cut may have the
other order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from wifu.cells import Cell
from wifu.cutoff import OF_FINISHED
from wifu.metrics import parts
from wifu.rows import (
    RATES,
    Results,
    ahead,
    alongside,
    carriers,
    ends,
    flows_of,
    of_these,
    rows_of,
)
from wifu.stamps import first

MORE = 1.005
"""From so many times as much on cells are apart."""

HALF = 0.5
"""... of what sets two cells apart, and more, is for how long senders waited for timers."""

MOSTLY = 0.99
"""No sender waits for more than that."""

MOST = 4
"""Cells that are named."""


WALKING = frozenset(("a node", "a trace"))
"""In place of a link those of nodes that move along a trace."""


def _back(scenario: Mapping[str, Any]) -> dict[frozenset[str], tuple[str, ...]]:
    """When links come back, by the two nodes of each; and where nodes are at which time, if a trace
    says so.
    """
    found: dict[frozenset[str], list[str]] = {}
    for moving in scenario.get("mobility") or []:
        if isinstance(moving, dict) and (rows := moving.get("rows")):
            found.setdefault(WALKING, []).append(str(rows))
    for event in scenario.get("event") or []:
        if isinstance(event, dict) and isinstance(ends := event.get("restore"), list):
            found.setdefault(frozenset(map(str, ends)), []).append(str(event.get("at")))
    return {link: tuple(times) for link, times in found.items()}


def _once(results: Results) -> bool:
    """Whether links that come back in cells of a plan do so at the same moments in all of these."""
    every = [back for cell in results.plan.cells if (back := _back(cell.scenario))]
    return bool(every) and all(back == every[0] for back in every)


def _crossing(results: Results, cell: Cell) -> set[int]:
    """Flows whose packets pass a link that comes back."""
    back = _back(cell.scenario)
    if not back:
        return set()
    runs = results.runs
    run = runs.loc[runs["cell"].eq(cell.name) & runs["status"].eq("ok"), "run"].min()
    if WALKING in back:  # any link may be one that comes and goes
        return {n for n, _ in flows_of(cell)}
    hops = results.outcome(cell, int(run)).get("hops") or []
    return {int(h["flow"]) for h in hops if frozenset((str(h["from"]), str(h["to"]))) in back}


def _waits(results: Results, cells: Sequence[Cell], metric: str) -> dict[str, float]:
    """The share of their time that senders of cells waited for timers, of those cells of which two
    are apart mostly by that.
    """
    base = parts(metric)[0]
    if base not in (*RATES, *OF_FINISHED) or not _once(results):
        return {}
    cut = {(c.name, n) for c in cells for n in _crossing(results, c)}
    rows = carriers(rows_of(results, cells), metric)
    rows = rows[of_these(rows, cut)]
    if "timeout_s" not in rows or rows["timeout_s"].isna().all():
        return {}
    if "asked_timeout_s" in rows:  # what is lost may be a question as well as its answer
        asked = rows["asked_timeout_s"].astype(float).fillna(0.0)
        rows = rows.assign(timeout_s=rows["timeout_s"].astype(float) + asked)
    if base in OF_FINISHED:
        waits, rates = _by_transfers(results, cells, metric, rows)
    else:
        lasted = ends(rows) - rows["start_s"].astype(float).fillna(0.0)
        shares = (rows["timeout_s"].astype(float) / lasted).clip(0.0, MOSTLY)
        waits = shares.groupby(rows["cell"]).mean()
        rates = rows["goodput_bps"].astype(float).groupby(rows["cell"]).mean()
    found = set()
    for a, b in ahead(rates[rates > 0], MORE):
        by = float(np.log((1 - waits[a]) / (1 - waits[b])))
        if by >= HALF * np.log(rates[a] / rates[b]):
            found |= {a, b}
    return {name: float(waits[name]) for name in sorted(found)}


def _by_transfers(
    results: Results, cells: Sequence[Cell], metric: str, rows: pd.DataFrame
) -> tuple[pd.Series[float], pd.Series[float]]:
    """The share of the time of transfers for which their senders waited for timers, by cell, and
    how many such transfers there are in a second.
    """
    means = pd.Series(
        {c.name: float(results.sample(metric, c.labels).mean()) for c in cells}, dtype=float
    )
    by = rows.assign(count=rows["requests"].astype(float).clip(lower=1.0)).groupby("cell")
    count, runs = by["count"].sum(), by["run"].nunique()
    # A percentile of many knows nothing of the few that a cut meets.
    if parts(metric)[0] not in ("delay", "known"):
        count = count[count <= by.size()]
    means = means[[name for name in means.index if name in count.index]].dropna()
    total = means * count / runs
    waits = (by["timeout_s"].sum().astype(float) / runs / total).clip(0.0, MOSTLY)
    return waits[means.index], 1 / means


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
        "Links come back at the same moments in all runs, and where the back-off of senders' "
        f"timers stands then decides for how long they wait (of their time: {told}), which is most "
        "of what sets these cells apart: a longer or shorter cut may have the other order. There "
        "is neither colour nor bold; cuts of several lengths (an axis of `event.N.at`, or of "
        "traces) tell."
    )
