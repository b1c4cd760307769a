"""Ways of flows that are not what one takes for granted: acknowledgements that come back another
way than data went, flows between the same two nodes of which one has the shorter way, and totals of
both directions of wires.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from wifu.cells import Cell
from wifu.cutoff import OF_FINISHED
from wifu.metrics import parts
from wifu.outlets import data_ends, on_air, wires_of
from wifu.rows import RATES, Results, carriers, flows_of, over_tcp, rows_of
from wifu.stamps import first

MOST = 4
"""Flows and cells that are named."""

MOSTLY = 0.5
"""In more of a cell's runs, and it is told."""

TWICE = 2
"""So many times as many hops in one run of a flow as in another."""

APART = 0.05
"""Ways are not equally long from this share of their hops on."""


def words(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """What is told of the ways of a metric's flows."""
    if parts(metric)[0] in OF_FINISHED:
        return _mixed(results, cells, metric)
    if parts(metric)[0] not in RATES:
        return ""
    said = (
        _back(results, cells, metric), _unlike(results, cells, metric), _both(cells, metric),
        _mixed(results, cells, metric),
    )  # fmt: skip
    return " ".join(filter(None, said))


def _back(results: Results, cells: Sequence[Cell], metric: str) -> str:
    rows = carriers(rows_of(results, cells), metric)
    if "other_way_back" not in rows:  # of an older lab
        return ""
    # Between the ends alone: what lanes say to each other is no way back.
    known = rows[rows["other_way_back"].notna()]
    known = known[over_tcp(known, cells)]
    shares = known["other_way_back"].eq(True).groupby([known["cell"], known["flow"]]).mean()
    often = shares[shares > MOSTLY].index
    found = [f"flow {n} in {c.name}" for c in cells for cell, n in often if cell == c.name]
    if not found:
        return ""
    return (
        f"Acknowledgements came back over other links than data went ({first(found, MOST)}): what "
        "links on one way do is not what holds up both. `results.hops()` has either way."
    )


def _known(results: Results, cells: Sequence[Cell], metric: str) -> list[tuple[str, pd.DataFrame]]:
    """The flows of a metric whose hops are known, by cell."""
    rows = carriers(rows_of(results, cells), metric)
    if "flow_hops" not in rows:  # of an older lab
        return []
    rows = rows[rows["flow_hops"].notna()]
    return [(str(cell), own) for cell, own in rows.groupby("cell", sort=False)]


def _unlike(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Flows between the same two nodes whose ways are not equally long."""
    told: list[str] = []
    for cell, own in _known(results, cells, metric):
        ends = [" and ".join(sorted(map(str, e))) for e in own[["flow_from", "flow_to"]].to_numpy()]
        for both, flows in own.groupby(ends):
            far = flows.groupby("flow")["flow_hops"].mean()
            if far.max() - far.min() > APART * far.max():
                told.append(
                    f"between {both} flow {far.idxmax()} has {far.max():.3g} hops and flow "
                    f"{far.idxmin()} has {far.min():.3g} ({cell})"
                )
    if not told:
        return ""
    return (
        f"Flows between the same nodes do not take the same way: {first(told, MOST)}. What one has "
        "more of is then of its way, not only of what it runs over, or of its direction."
    )


def _mixed(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Runs whose routes are not equally long, though they are of one cell and one flow."""
    told = []
    for cell, own in _known(results, cells, metric):
        own = own[own["goodput_bps"].notna()]
        spread = own.groupby("flow")["flow_hops"].agg(["min", "max"])
        if (spread["max"] >= TWICE * spread["min"]).any():
            by = own.groupby("flow_hops")["goodput_bps"].agg(["mean", "size"])
            shown = [f"{m / 1e6:.3g} Mb/s over {h:g} ({n:g})" for h, (m, n) in by.iterrows()]
            told.append(f"{cell}: {', '.join(shown)}")
    if not told:
        return ""
    weigh = "short" if parts(metric)[0] in RATES else "long"
    return (
        f"Routes are not equally long in all runs of a cell, and are in one mean, in which {weigh} "
        "ones weigh most (goodput of a flow by its hops when it began, and of how many: "
        f"{first(told, MOST)}). "
        + (
            "Nodes move on from there, or links are cut, and packets take other ways later."
            if any(c.scenario.get("mobility") or c.scenario.get("event") for c in cells)
            else "What a level does over long ones `results.flows` tells (`flow_hops`)."
        )
    )


def _both(cells: Sequence[Cell], metric: str) -> str:
    """Totals of flows of which some go one way over wires, and others the other."""
    if parts(metric)[0] not in ("aggregate", "sum_rates"):
        return ""
    found = [cell.name for cell in cells if _opposed(cell)]
    if not found:
        return ""
    return (
        f"Flows go both ways in {first(found, MOST)}, and a wire carries as much each way: a total "
        "may be twice what a wire carries."
    )


def _opposed(cell: Cell) -> bool:
    every = [flow for _, flow in flows_of(cell) if flow.get("protocol") != "udp"]
    ends = {data_ends(flow) for flow in every if "from" in flow and "to" in flow}
    scenario = cell.scenario
    return bool(wires_of(scenario)) and any(
        (b, a) in ends and not (on_air(scenario, a) and on_air(scenario, b)) for a, b in ends
    )
