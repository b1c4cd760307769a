"""What is drawn once for a run, where a single run's batches make the interval: it knows nothing of
what others would draw. And runs that draw nothing, of which there is one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from wifu.cells import Cell
from wifu.metrics import parts
from wifu.network import network
from wifu.rows import RATES, Results, carriers, rows_of
from wifu.stamps import first

MOST = 4
"""Cells that are named."""

SLOW = 0.1
"""Fading that takes more than this part of all batches to change is hardly more than one draw."""


def words(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Cells of one run with what it drew."""
    plan = results.plan
    if parts(metric)[0] not in ("goodput", "aggregate", "sum_rates"):
        return ""
    if plan.measure.mode != "steady" or plan.deterministic or "batch_s" not in results.flows:
        return ""
    rows = carriers(rows_of(results, cells), metric)
    rows = rows[rows["batch_s"].notna()]
    alone = rows.groupby("cell")["run"].nunique().eq(1)
    took = rows.drop_duplicates("cell").set_index("cell")["batch_s"].map(sum)
    found = {
        c.name: list(dict.fromkeys(_once(c.scenario, float(took[c.name]))))
        for c in cells
        if alone.get(c.name, False)
    }
    named = [f"{name}: {first(what)}" for name, what in found.items() if what]
    if not named:
        return ""
    return (
        "Intervals are of one run's batches, and what is drawn once for a run is the same in all "
        f"of them ({first(named, MOST)}): they say nothing of other draws. More `runs` do."
    )


def exact(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """That where nothing is random a value is of its very moments, if connections lost packets."""
    rows = results.flows
    if parts(metric)[0] not in RATES or not results.plan.deterministic:
        return ""
    if (
        "retransmissions" not in rows
        or not carriers(rows_of(results, cells), metric)["retransmissions"].gt(0).any()
    ):
        return ""
    return (
        "Nothing is random, and values are exact of these very moments: which packets a full queue "
        "loses may change with one packet of its length, or a start a millisecond later, and much "
        "with it. A `jitter` and ten runs tell how much."
    )


def _once(scenario: Mapping[str, Any], took: float) -> Iterator[str]:
    """What a run draws once, or hardly more often while so many seconds pass."""
    told = network(scenario)
    if told is None:
        return
    if told.scattered:
        yield "where nodes stand"
    if told.shadowed:
        yield "shadowing"
    if any(table.get("kind") == "waypoint" for table in scenario.get("mobility") or []):
        yield "where nodes walk"
    if any(tau > SLOW * took for _, tau in told.fading):
        yield "slow fading"
