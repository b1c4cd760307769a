"""What is drawn once for a run, where a single run's batches make the interval: it knows nothing of
what others would draw. And runs that draw nothing, of which there is one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from wifu import values
from wifu.cells import Cell
from wifu.errors import LabError
from wifu.metrics import parts
from wifu.outlets import topology_of
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
    topology = topology_of(scenario)
    propagation = _table(scenario, topology, "propagation")
    random = str(topology.get("words", "")).startswith("random,")
    if random or _table({}, topology, "placement").get("kind") == "uniform":
        yield "where nodes stand"
    if any(propagation.get(key) for key in ("shadowing_db", "asymmetry_db")):
        yield "shadowing"
    if any(table.get("kind") == "waypoint" for table in scenario.get("mobility") or []):
        yield "where nodes walk"
    fading = _table(scenario, topology, "fading")
    with suppress(LabError):
        if fading.get("sigma_db") and values.seconds(fading.get("tau", "1s")) > SLOW * took:
            yield "slow fading"


def _table(scenario: Mapping[str, Any], topology: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """A table of the scenario's own, laid over that of its topology."""
    given = (topology.get(key), scenario.get(key))
    return {k: v for table in given if isinstance(table, Mapping) for k, v in table.items()}
