"""The queue by which a node sends to another, as far as a scenario tells before it is run: that of
a wire, or that of its radio, which is one for all neighbours.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

from wifu.cells import listed_flows
from wifu.flows import layer_of
from wifu.plan import Plan
from wifu.rings import buffers
from wifu.stamps import first
from wifu.toml import laid_over

WIRE = 1000
"""Packets that wait in front of a wire that says nothing of it (`[[wire]]`)."""

PLACING = ("chain", "matrix", "placement", "set")
"""Keys of a topology by which its nodes hear each other."""

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
    topology = topology_of(scenario)
    wires = _wires(json.dumps(topology, sort_keys=True, default=str))
    own = wires.get(node, {})
    if on_air(topology, node):
        return None if own else _of_radio(scenario, topology, node)
    air = {n for n in {*wires, *_named(topology)} if on_air(topology, n)}
    ways = [b for b in own if to in _beyond(wires, air, b, node)]
    return Outlet(node, ways[0], own[ways[0]]) if len(ways) == 1 else None


def passes(scenario: Scenario, ends: tuple[str, str], node: str) -> bool:
    """Whether what goes between two ends may pass a node: over wires if no way leads around it."""
    topology = topology_of(scenario)
    wires = _wires(json.dumps(topology, sort_keys=True, default=str))
    around = not on_air(topology, node) and ends[1] in _beyond(wires, set(), ends[0], node)
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


def wires_of(topology: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The wires of a topology: its list, or those of its words, which that replaces."""
    return topology.get("wire") or _of_words(str(topology.get("words", "")))


@lru_cache(maxsize=4096)
def _wires(topology: str) -> Wires:
    """The other ends of each node's wires."""
    found: dict[str, dict[str, int]] = {}
    for wire in wires_of(json.loads(topology)):
        a, b, queue = str(wire.get("a")), str(wire.get("b")), int(wire.get("queue", WIRE))
        found.setdefault(a, {})[b] = found.setdefault(b, {})[a] = queue
    return found


def _of_words(words: str) -> list[dict[str, Any]]:
    shape, *rest = [w.strip() for w in words.split(",")]
    keys = dict(w.split("=", 1) for w in rest if "=" in w)
    if "wire" not in keys:
        return []
    sizes = [int(w) for w in rest if w.isdigit()]
    nodes = [f"n{k}" for k in range(1, 1 + (sizes[0] if shape == "linear" and sizes else 2))]
    own: dict[str, Any] = {key: keys[key] for key in ("queue", "variation", "loss") if key in keys}
    own["rate"] = keys["wire"]
    return [{"a": a, "b": b, **own} for a, b in pairwise(nodes)]


def _named(topology: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {str(node.get("name")): node for node in topology.get("node") or []}


def on_air(topology: Mapping[str, Any], node: str) -> bool:
    """Whether a node has a radio that something hears: of one without a place nobody knows how
    loud it is.
    """
    own = _named(topology).get(node, {})
    shaped = "words" in topology and not _of_words(str(topology["words"]))
    linked = any(node in (e.get("from"), e.get("to")) for e in topology.get("link") or [])
    placed = "position" in own or any(key in topology for key in PLACING)
    return not own.get("wired_only") and (shaped or linked or placed)


def _of_radio(scenario: Scenario, topology: Mapping[str, Any], node: str) -> Outlet | None:
    """The queue of a node's radio: the usual one, but for what the node says itself."""
    bare = [{k: v for k, v in n.items() if k != "radio"} for n in _named(topology).values()]
    pairs = buffers({**scenario, "topology": {**topology, "node": bare}})
    own = _named(topology).get(node, {}).get("radio") or {}
    if not pairs:
        return None  # what is wrong is told where it is checked
    queue, ring = pairs[0]
    return Outlet(node, "", int(own.get("queue", queue)), int(own.get("ring", ring)))


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
    found: dict[tuple[int, str], set[int]] = {}
    for cell in plan.cells:
        flows = list(listed_flows(cell.scenario))
        for n, flow in flows:
            node, to = data_ends(flow)
            at = outlet(cell.scenario, node, to)
            plain = flow.get("protocol") != "udp" and discipline(cell.scenario, node) is None
            # What comes from elsewhere may fill a queue.
            alone = all(node in data_ends(other) for _, other in flows)
            near = at is not None and (at.toward or _neighbours(cell.scenario, (node, to)))
            if at is not None and near and plain and alone:
                found.setdefault((n, node), set()).add(at.queue)
    own = [f"flow {n} at {at}" for (n, at), lengths in found.items() if len(lengths) > 1]
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


def _neighbours(scenario: Scenario, both: tuple[str, str]) -> bool:
    """Whether both ends of a flow stand beside each other in a chain of radios."""
    words = str(topology_of(scenario).get("words", "")).partition(",")[0].strip()
    ends = [end.removeprefix("n") for end in both]
    if words != "linear" or not all(end.isdigit() for end in ends):
        return False
    return abs(int(ends[0]) - int(ends[1])) == 1


def _disciplines(plan: Plan) -> list[str]:
    """Disciplines that are compared with queues that drop what finds them full."""
    kinds: dict[tuple[int, str], set[str | None]] = {}
    for cell in plan.cells:
        for n, flow in listed_flows(cell.scenario):
            if flow.get("protocol") != "udp":
                at = str(flow.get("from"))
                kinds.setdefault((n, at), set()).add(discipline(cell.scenario, at))
    found = [f"flow {n} at {at}" for (n, at), own in kinds.items() if None in own and len(own) > 1]
    if not found:
        return []
    return [
        "a transport waits for room in the queue of its own node, which loses nothing by being "
        f"full ({first(found, 4)}), while a discipline drops and marks there: what a router's full "
        "queue does is seen where the narrow link is a hop further on."
    ]
