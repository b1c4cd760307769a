"""What is lost on the way: of whole flows, and hop by hop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from wifu.errors import MissingError

Outcome = Mapping[str, Any]

TIMES = ("splitter_s", "node_s", "queue_s", "contention_s", "retry_s", "air_s", "propagation_s")
"""Where packets' time goes at a hop: sums over them."""


def per_frame(part: str) -> Callable[[Mapping[str, Any], Any], float]:
    """What nodes count, by the frames for one receiver: those to all are never tried again."""

    def compute(outcome: Mapping[str, Any], rates: Any) -> float:
        nodes, links = outcome.get("nodes") or [], outcome.get("links") or []
        told = links if links and all("frames" in link for link in links) else nodes
        total = sum(each.get("frames") or 0 for each in told)
        return sum(n.get(part) or 0 for n in nodes) / total if total else float("nan")

    return compute


LEAST_FRAMES = 20
"""Of fewer frames a link has no shares of its own."""


def by_link(outcome: Mapping[str, Any]) -> dict[str, float | None]:
    """The mean over links of what `per_frame` is of all frames together, as columns of
    `runs.parquet`: a link counts as much as another one, however much it carried.
    """
    every = [n for n in outcome.get("links") or [] if n.get("failed") is not None]
    links = [n for n in every if (n.get("frames") or 0) >= LEAST_FRAMES]
    failed = [each["failed"] / each["frames"] for each in links]
    tried = [each.get("tries") or each.get("attempts") or 0 for each in links]
    retries = [
        max(0, n - each["frames"]) / each["frames"] for n, each in zip(tried, links, strict=True)
    ]
    means = {"mac_loss_by_link": failed, "mac_retries_by_link": retries}
    return {n: sum(own) / len(own) if own else None for n, own in means.items()}


def passive_loss(handed: int, heard: int) -> float:
    """Passive-ACK loss: the share of packets handed on of which the node before heard no attempt.

    `heard` counts packets, not attempts; nan if nothing was handed on.
    """
    return 1.0 - heard / handed if handed else float("nan")


def packet_loss(outcome: Outcome) -> float:
    """Share of the flows' packets, both directions, that were lost anywhere below transport: of
    what the ends sent and of the copies that nodes on the way made, without what was under way at
    the end.
    """
    known = [f["packets"] for f in outcome["flows"] if f.get("packets")]
    over = sum(p["sent"] + p.get("copies", 0) - p["inside"] for p in known)
    return 1.0 - sum(p["delivered"] for p in known) / over if over else float("nan")


def mean_passive(outcome: Outcome) -> float:
    """Mean over the hops of all flows, towards the receiver, of their passive-ACK loss."""
    losses = [_unheard(outcome, way) for way in _ways(outcome, reverse=False)]
    known = [v for way in losses for v in way if v == v]
    return float(np.mean(known)) if known else float("nan")


def hop_rows(outcome: Outcome) -> list[dict[str, Any]]:
    """The hops of an outcome, each with what was lost there.

    `node_s` (in lanes, handlers and the host of node i before its link had them; not told before
    1.2), `queue_s`, `contention_s`, `retry_s`, `air_s` and `propagation_s` are sums over the
    packets that crossed the hop; `queue_per_packet_s` and the like are means of one of them, nan
    where none crossed it. `splitter_s` is how long they waited before at node i where that splits
    TCP (`[[split]]`); nan if it is not recorded (`wifu.holding`).

    `packet_loss` at hop i: the share of the packets that node i sent that node i+1 never got, after
    all attempts. What its queue kept was not sent: `queue_drops` is how many packets of this flow
    that of node i refused as it was full (a radio's ring, a wire's queue), or its discipline
    dropped (`early_drops` are those, where there were any). Outcomes of a simulator before 1.1 do
    not tell it: there `queue_drops` is what node i's radio refused, of all flows, what wires'
    queues and disciplines dropped is in `packet_loss`; nan where it is not counted. `lane_drops`
    are those that node i's lanes did not take before, as they were full: not in `packet_loss`
    either; nan where the simulator, before 1.2, did not tell it though the node has lanes.

    `passive_loss` at hop i: of the packets that node i+1 handed on, the share of which node i heard
    no attempt; nan at the last hop, and where the simulator did not count it.
    """
    rows = []
    nodes = outcome.get("nodes") or []
    drops = {node["name"]: node.get("queue_drops") for node in nodes}
    split = {n["name"] for n in nodes if (n.get("split") or {}).get("accepted")}
    untold = set() if _tells_lanes(outcome) else {n["name"] for n in nodes if n.get("lanes")}
    for reverse in (False, True):
        for way in _ways(outcome, reverse):
            try:
                unheard = _unheard(outcome, way)
            except MissingError:
                unheard = [float("nan")] * len(way)
            for hop, passive in zip(way, unheard, strict=True):
                tried = (hop.get("packets") or 0) + (hop.get("lost") or 0)
                lost = (hop.get("lost") or 0) / tried if tried else float("nan")
                told = {"packet_loss": lost, "passive_loss": passive}
                refused = hop.get("queue_drops", drops.get(hop["from"]))
                told["queue_drops"] = float("nan") if refused is None else float(refused)
                silent = float("nan") if hop["from"] in untold else 0.0
                told["lane_drops"] = float(hop.get("lane_drops", silent))
                whole = {"splitter_s": float("nan") if hop["from"] in split else 0.0, **hop}
                rows.append({**whole, **told, **_per_packet(whole)})
    return sorted(rows, key=lambda hop: (hop["flow"], hop["reverse"], hop["hop"]))


def _tells_lanes(outcome: Outcome) -> bool:
    """Whether the hops of an outcome tell what lanes dropped."""
    first, _, second = str(outcome.get("schema", "1.0")).partition(".")
    return (int(first), int(second or 0)) >= (1, 2)


def _per_packet(hop: Mapping[str, Any]) -> dict[str, float]:
    """The times at a hop by the packets that crossed it."""
    packets = hop.get("packets") or float("nan")
    return {
        name.removesuffix("_s") + "_per_packet_s": hop[name] / packets
        for name in TIMES
        if name in hop
    }


def _ways(outcome: Outcome, reverse: bool) -> list[list[Mapping[str, Any]]]:
    """The hops of each flow in one direction, in order; of a hop that several routes had its links
    one after the other.
    """
    ways: dict[int, list[Mapping[str, Any]]] = {}
    for hop in outcome.get("hops") or []:
        if bool(hop["reverse"]) == reverse:
            ways.setdefault(hop["flow"], []).append(hop)
    return [sorted(way, key=lambda hop: int(hop["hop"])) for way in ways.values()]


def _unheard(outcome: Outcome, way: Sequence[Mapping[str, Any]]) -> list[float]:
    """For each hop of a way its passive-ACK loss, nan where nothing was handed on behind it.

    What node i overhears of i+1 is counted whomever it was for, so what i+1 handed to anyone but i
    is what it is a share of; in a chain that is what it handed to i+2.
    """
    links = {(link["from"], link["to"]): link for link in outcome.get("links") or []}
    behind = {(int(hop["hop"]), hop["from"]) for hop in way}
    losses = []
    for hop in way:
        upstream, node = hop["from"], hop["to"]
        if (int(hop["hop"]) + 1, node) not in behind:
            losses.append(float("nan"))
            continue
        on = sum(link["frames"] for (a, b), link in links.items() if a == node and b != upstream)
        losses.append(passive_loss(on, _overheard(links.get((node, upstream)))))
    return losses


def _overheard(link: Mapping[str, Any] | None) -> int:
    if link is None:
        return 0
    if "overheard_frames" not in link:
        raise MissingError(
            f"passive_loss needs overheard_frames, which link {link['from']}-{link['to']} lacks: "
            "these runs are of an older simulator; `make python`, and run them again"
        )
    return int(link["overheard_frames"])
