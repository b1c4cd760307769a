"""Flows over wires on which nothing is random: their packets keep step at a full queue.

Packets of one size arrive at a bottleneck whenever one leaves it, or a fraction of that later, and
which flow finds the last place is decided by that fraction: phase effects (Floyd and Jacobson,
"On Traffic Phase Effects in Packet-Switched Gateways", 1992). Replicates do not tell: when flows
start changes nothing of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wifu import values
from wifu.cells import Cell, listed_flows
from wifu.errors import LabError
from wifu.metrics import parts
from wifu.outlets import on_air, topology_of, wires_of
from wifu.plan import Plan
from wifu.rows import RATES, SHARES, Results
from wifu.stamps import first

RANDOM = ("http", "onoff", "trace")
"""Applications whose packets are in step with nothing."""

Scenario = Mapping[str, Any]


def in_step(scenario: Scenario) -> bool:
    """Whether several flows over connections cross wires alone, and nothing there is random."""
    topology, flows = topology_of(scenario), [flow for _, flow in listed_flows(scenario)]
    wires = wires_of(topology)
    names = {str(wire.get(end)) for wire in wires for end in ("a", "b")}
    if not wires or any(on_air(topology, node) for node in names):
        return False
    if any(_some(wire.get(key)) for wire in wires for key in ("variation", "loss")):
        return False
    if isinstance((scenario.get("host") or {}).get("queue"), dict):
        return False  # a discipline drops by its own clock
    carried = [flow for flow in flows if flow.get("protocol") != "udp"]
    return len(carried) > 1 and not any(flow.get("app") in RANDOM for flow in flows)


def _some(value: object) -> bool:
    """Whether a time or a share is more than none."""
    try:
        return bool(value) and values.seconds(str(value).rstrip("%")) > 0
    except LabError:
        return True  # what is wrong is told where it is checked


def warnings(plan: Plan) -> list[str]:
    """The same in words, of a plan's cells."""
    if plan.runner != "mesh" or plan.substrate != "sim":
        return []
    found = [cell.name for cell in plan.cells if in_step(cell.scenario)]
    if not found:
        return []
    which = "" if len(found) == len(plan.cells) else f" in {first(found, 4)}"
    return [
        f"nothing on the way is random{which}: wires without variation, and nobody but flows over "
        "connections. Their packets keep step at a full queue, and a fraction of a packet's time "
        "decides which flow loses (phase effects: Floyd and Jacobson 1992), run for run alike: how "
        "flows share says little of protocols. A `variation` of the wires before the bottleneck, "
        "of as long as that takes for some packets, or a little random traffic breaks it."
    ]


def decided(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    """Whether such a step decides what a metric is of in some of these cells: what flows have of
    what they share.
    """
    base, only = parts(metric)
    shared = base in SHARES if only is None else base in (*SHARES, *RATES)
    if not shared or base == "sum_rates" or results.plan.substrate != "sim":
        return False
    return results.plan.runner == "mesh" and any(in_step(cell.scenario) for cell in cells)


def words(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """The same in words."""
    found = [cell for cell in cells if decided(results, [cell], metric)]
    if not found:
        return ""
    return (
        "Nothing on the way of these flows is random, and they keep step at a full queue: how they "
        "share is decided by a fraction of a packet's time (phase effects), alike in all runs, of "
        "which intervals know nothing. There is neither colour nor bold; a `variation` of the "
        "wires, or a little random traffic, breaks the step."
    )
