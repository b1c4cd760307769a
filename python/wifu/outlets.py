"""The queue by which a node sends to another, as far as a scenario tells before it is run: that of
a wire, or that of its radio, which is one for all neighbours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wifu.cells import Cell, listed_flows
from wifu.flows import layer_of
from wifu.network import Wire, network, routes
from wifu.plan import Plan
from wifu.stamps import first
from wifu.toml import laid_over

Scenario = Mapping[str, Any]
Wires = Mapping[str, Mapping[str, int]]
"""By node the other ends of its wires, each with the packets that wait in front of it."""


@dataclass(frozen=True)
class Outlet:
    """A queue of a node."""

    node: str
    toward: str
    """The other end of its wire; empty if it is the radio's."""
    queue: int
    """Packets that it holds."""
    ring: int = 0
    """Packets in the driver behind it."""

    @property
    def holds(self) -> int:
        """Packets that wait before one is lost."""
        return self.queue + self.ring


def outlet(scenario: Scenario, node: str, to: str) -> Outlet | None:
    """The queue of a node that takes what it sends to another; none where several may."""
    wires = _wires(scenario)
    own = wires.get(node, {})
    if on_air(scenario, node):
        return None if own else _of_radio(scenario, node)
    ways = [b for b in own if to in _beyond(wires, _air(scenario), b, node)]
    return Outlet(node, ways[0], own[ways[0]]) if len(ways) == 1 else None


def passes(scenario: Scenario, ends: tuple[str, str], node: str) -> bool:
    """Whether what goes between two ends may pass a node: over wires if no way leads around it."""
    around = not on_air(scenario, node) and ends[1] in _beyond(
        _wires(scenario), set(), ends[0], node
    )
    return node not in ends and not around


def discipline(scenario: Scenario, node: str) -> str | None:
    """What kind of discipline a node's queues have, which drops before they are full; if any."""
    queue = (scenario.get("host") or {}).get("queue")
    if not isinstance(queue, dict) or node not in queue.get("nodes", [node]):
        return None
    return str(queue.get("kind"))


def topology_of(scenario: Scenario) -> dict[str, Any]:
    """What a scenario and the file that it names say of nodes and wires."""
    given = dict(scenario.get("topology") or {})
    file = given.pop("file", None)
    try:
        return laid_over(layer_of(file), given) if file else given
    except ValueError:
        return given  # what is wrong is told where it is checked


def wires_of(scenario: Scenario) -> tuple[Wire, ...]:
    """The wires of a scenario."""
    told = network(scenario)
    return told.wires if told else ()


def _wires(scenario: Scenario) -> Wires:
    """The other ends of each node's wires."""
    found: dict[str, dict[str, int]] = {}
    for wire in wires_of(scenario):
        for one, other in ((wire.a, wire.b), (wire.b, wire.a)):
            found.setdefault(one, {})[other] = wire.queue
    return found


def on_air(scenario: Scenario, node: str) -> bool:
    """Whether a node has a radio that something hears: of one without a place nobody knows how
    loud it is.
    """
    told = network(scenario)
    own = told.node(node) if told else None
    return own is not None and own.heard


def _air(scenario: Scenario) -> set[str]:
    """The nodes of which that is so."""
    told = network(scenario)
    return {node.name for node in told.heard} if told else set()


def _of_radio(scenario: Scenario, node: str) -> Outlet | None:
    """The queue of a node's radio."""
    told = network(scenario)
    own = told.node(node) if told else None
    return Outlet(node, "", own.queue, own.ring) if own else None


def _beyond(wires: Wires, air: set[str], begin: str, without: str) -> set[str]:
    """The nodes that are reached from one without another, radios (`air`) one from all others."""
    found, left = {begin}, [begin]
    while left:
        node = left.pop()
        near = {*wires.get(node, {}), *(air if node in air else ())} - {without} - found
        found |= near
        left += near
    return found


def warnings(plan: Plan) -> list[str]:
    """Disciplines or lengths of queues that are compared at nodes where transports wait for room
    in them.
    """
    if plan.runner != "mesh" or plan.substrate != "sim":
        return []
    return [*_disciplines(plan), *_lengths(plan)]


def _lengths(plan: Plan) -> list[str]:
    """Lengths of queues that are compared at nodes where transports wait for room instead, in front
    of what may be the narrowest link of the way.
    """
    found: dict[tuple[int, str], dict[int, list[Cell]]] = {}
    for cell in plan.cells:
        flows = list(listed_flows(cell.scenario))
        for n, flow in flows:
            node, to = data_ends(flow)
            at = outlet(cell.scenario, node, to)
            plain = flow.get("protocol") != "udp" and discipline(cell.scenario, node) is None
            # What comes from elsewhere may fill a queue.
            alone = all(node in data_ends(other) for _, other in flows)
            if at is not None and plain and alone:
                found.setdefault((n, node), {}).setdefault(at.queue, []).append(cell)
    own = [
        f"flow {n} at {at}"
        for (n, at), lengths in found.items()
        if len(lengths) > 1
        and sum(any(_next_to(cell, n) for cell in cells) for cells in lengths.values()) > 1
    ]
    if not own:
        return []
    return [
        "queues of several lengths are compared at the node where the data begins "
        f"({first(own, 4)}): a transport waits for room there and loses nothing, however short "
        "the queue is. What the length of a router's queue does is seen where the narrow link is a "
        "hop further on."
    ]


def data_ends(flow: Mapping[str, Any]) -> tuple[str, str]:
    """Where the data of a flow begins and ends: of questions and answers, the answers."""
    begin, end = str(flow.get("from")), str(flow.get("to"))
    return (end, begin) if flow.get("app") == "request" else (begin, end)


def _next_to(cell: Cell, n: int) -> bool:
    """Whether the queue where a flow's data begins is that of the link to what may be the narrowest
    one: of a wire, or of the radio from which it is one hop to the end, in all runs.
    """
    scenario = cell.scenario
    node, to = data_ends(dict(listed_flows(scenario))[n])
    at, told = outlet(scenario, node, to), network(scenario)
    if at is None or told is None or at.toward:
        return at is not None
    if told.scattered or told.shadowed or scenario.get("mobility"):
        return False
    (way,) = routes(scenario, [(node, to)])
    return len(way) == len((node, to))


def _disciplines(plan: Plan) -> list[str]:
    """Disciplines that are compared with queues that drop what finds them full."""
    kinds: dict[tuple[int, str], set[str | None]] = {}
    for cell in plan.cells:
        for n, flow in listed_flows(cell.scenario):
            if flow.get("protocol") != "udp":
                at, _ = data_ends(flow)
                kinds.setdefault((n, at), set()).add(discipline(cell.scenario, at))
    found = [f"flow {n} at {at}" for (n, at), own in kinds.items() if None in own and len(own) > 1]
    if not found:
        return []
    return [
        "a transport waits for room in the queue of its own node, which loses nothing by being "
        f"full ({first(found, 4)}), while a discipline drops and marks there: what a router's full "
        "queue does is seen where the narrow link is a hop further on."
    ]
