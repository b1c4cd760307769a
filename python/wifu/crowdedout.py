"""Packets that a node's full queue refused while a transport of that node waited for room in it:
datagrams that begin there, and what passes. A node has a queue for each wire, and one of its radio
for all neighbours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wifu import transfers

Outcome = Mapping[str, Any]
Hop = Mapping[str, Any]

MOSTLY = 0.5
"""For such a share of its time a transport waits for room, and what passes finds the queue full by
it; else those who pass fill it themselves.
"""

DATA = 500
"""Octets in a packet on the mean, and most are no bare acknowledgements."""


def begins(flow: Mapping[str, Any]) -> set[str]:
    """The nodes where a flow's data begins: of questions that are answered that is both ends."""
    return {str(flow.get(end)) for end in ("from", "to")[: 1 + (flow.get("app") == "request")]}


def crowded_out(outcome: Outcome, flow: Mapping[str, Any]) -> float | None:
    """How many of a flow's datagrams found the queue of their own node full while a transport there
    waited for room in it; none of a flow of no datagrams. No transport is to blame where all
    datagrams of that queue are more than it let through.
    """
    if flow.get("protocol") != "udp":
        return None
    datagrams = {f["id"] for f in outcome["flows"] if f.get("protocol") == "udp"}
    found = 0
    for queue in _queues(outcome, flow.get("from")):
        refused = sum(_refused(h) for h in queue if h.get("flow") == flow["id"])
        offered = sum(h["packets"] + _refused(h) for h in queue if h.get("flow") in datagrams)
        fits = offered <= sum(h["packets"] for h in queue)
        if refused and fits and _waited_for(outcome, queue):
            found += refused
    return float(found)


def shut_out(outcome: Outcome, flow: Mapping[str, Any]) -> float | None:
    """How many of a connection's packets found the queue of a node on their way full, while a
    transport whose data begins there waited for room in it for most of its time; none of datagrams.
    """
    if flow.get("protocol") == "udp":
        return None
    own = [h for h in outcome.get("hops") or [] if h.get("flow") == flow["id"] and _refused(h) > 0]
    begin = flow.get("to" if flow.get("app") == "request" else "from")
    nodes = {str(h["from"]) for h in own} - {begin}
    return float(
        sum(
            sum(_refused(h) for h in queue if h.get("flow") == flow["id"])
            for node in sorted(nodes)
            for queue in _queues(outcome, node)
            if _waited_for(outcome, queue, MOSTLY)
        )
    )


def _queues(outcome: Outcome, node: Any) -> list[list[Hop]]:
    """What a node sent, by the queues that it took."""
    wires = {(wire["from"], wire["to"]) for wire in outcome.get("wires") or []}
    found: dict[Any, list[Hop]] = {}
    for hop in outcome.get("hops") or []:
        if hop["from"] == node:
            wire = (node, hop["to"]) in wires
            found.setdefault(hop["to"] if wire else None, []).append(hop)
    return list(found.values())


def _waited_for(outcome: Outcome, queue: Sequence[Hop], least: float = 0.0) -> bool:
    """Whether a transport waited for room in a queue, for more than the `least` share of its time.
    Of who sends the octets that count it is known; who asks, and halves of connections that a node
    splits, are blamed where half of all packets are theirs: what comes from elsewhere is refused
    itself.
    """
    flows, halves = {f["id"]: f for f in outcome["flows"]}, transfers.split(outcome)
    split, untold = transfers.splitters(outcome), 0
    for hop in queue:
        flow, back = flows.get(hop.get("flow")), bool(hop.get("reverse"))
        asks = flow is not None and flow.get("app") == "request"
        if flow is None or flow.get("protocol") == "udp" or (back and not asks):
            continue  # acknowledgements
        begin = flow.get("to" if back else "from")
        asked = float((flow.get("asked") or {}).get("bytes") or 0)
        if begin == hop["from"] and asks == back:
            limits = flow.get("limited_s") or {}
            if limits.get("queue", 0.0) > least * sum(limits.values()):
                return True
        elif begin == hop["from"] or (hop["from"] in split and hop.get("flow") in halves):
            questions = asks and not back
            if not questions or asked >= DATA * hop["packets"]:
                untold += int(hop["packets"])
    return untold > 0 and 2 * untold >= sum(hop["packets"] for hop in queue)


def _refused(hop: Hop) -> int:
    """Packets that a full queue refused, without those that its discipline dropped."""
    return int(hop.get("queue_drops") or 0) - int(hop.get("early_drops") or 0)
