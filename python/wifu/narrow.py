"""Radios that are compared behind a wire that is full: what they carry is what the wire does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wifu.cells import Cell
from wifu.metrics import parts
from wifu.network import network
from wifu.outlets import topology_of, wires_of
from wifu.rows import RATES, Results, alongside
from wifu.stamps import first

FULL = 0.93
"""From such a share of its rate on that a wire carried, it was what held flows up."""

MOST = 4
"""Cells that are named."""


def columns(outcome: Mapping[str, Any], scenario: Mapping[str, Any]) -> dict[str, float]:
    """What the table of runs has of wires: the greatest share of its rate that one carried while
    there were flows.
    """
    wires = outcome.get("wires") or []
    if not wires:
        return {}
    rates: dict[frozenset[str], tuple[float, float]] = {}
    for wire in wires_of(scenario):
        rates[frozenset((wire.a, wire.b))] = wire.rate, wire.overhead
    flows = outcome.get("flows") or []
    last = max((f.get("last_byte_s") or 0.0 for f in flows), default=0.0)
    took = last - min((f.get("start_s") or 0.0 for f in flows), default=0.0)
    shares = [
        8.0 * (wire["bytes"] + overhead * wire["packets"]) / (rate * took)
        for wire in wires
        for rate, overhead in [rates.get(frozenset((wire["from"], wire["to"])), (0.0, 0.0))]
        if rate > 0 and took > 0
    ]
    return {"fullest_wire": max(shares)} if shares else {}


def words(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Cells that differ by radios alone, and in which a wire was full."""
    runs = results.runs
    if parts(metric)[0] not in RATES or "fullest_wire" not in runs:
        return ""
    full = runs[runs["status"].eq("ok")].groupby("cell")["fullest_wire"].mean()
    found: dict[str, float] = {}
    for group in alongside(results, cells):
        own = {c.name: float(full.get(c.name, 0.0)) for c in group}
        if _of_radios(group) and min(own.values(), default=0.0) > FULL:
            found |= own
    if not found:
        return ""
    told = first([f"{cell} {min(share, 1.0):.0%}" for cell, share in found.items()], MOST)
    return (
        f"A wire was full in all compared cells ({told} of its rate), and these differ by their "
        "radios alone: what radios could carry beyond it is not seen."
    )


OTHERS = ("interferer", "transport", "host", "set")
"""Tables and names of a topology that are of more than its nodes, radios and wires."""


def _of_radios(cells: Sequence[Cell]) -> bool:
    """Whether cells are the same but for their radios."""
    return len(cells) > 1 and len({_rest(cell.scenario) for cell in cells}) == 1


def _rest(scenario: Mapping[str, Any]) -> str:
    """A scenario without its radios: where which nodes stand, wires, and what else is said."""
    told, given = network(scenario), topology_of(scenario)
    nodes = [(node.name, node.place, node.radio) for node in told.nodes] if told else []
    others = {k: v for k, v in scenario.items() if k not in ("radio", "topology")}
    return str([others, [given.get(key) for key in OTHERS], nodes, told and told.wires])
