"""How long data waits at nodes that split TCP: in the receive buffer of one half, and in the send
buffer of the other until that sends it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wifu.runner import RunResult
from wifu.values import Value

Outcome = Mapping[str, Any]
Floats = NDArray[np.float64]

HALVES = ("near.recv_q", "far.unsent", "far.recv_q", "near.unsent")
"""What waits there: of data towards who was meant, and of data towards who opened."""

TOLD = 1e-4
"""Seconds from which on a wait is told."""


def nodes_of(scenario: Mapping[str, Any]) -> list[str]:
    """The nodes that a scenario has split connections."""
    rules = scenario.get("split") or []
    rules = [rule for rule in rules if isinstance(rule, Mapping)] if isinstance(rules, list) else []
    return [str(name) for rule in rules for name in rule.get("nodes") or []]


def recorded(series: Value, scenario: Mapping[str, Any]) -> Value:
    """Series that are recorded, and what tells how long splitters hold what they have."""
    names = [f"flow.*.{node}.{what}" for node in nodes_of(scenario) for what in HALVES]
    if not names:
        return series
    given = series if isinstance(series, list) else ["all"] * (series is True)
    return [*given, *(name for name in names if name not in given)]


def told(outcome: dict[str, Any], result: RunResult, scenario: Mapping[str, Any]) -> dict[str, Any]:
    """An outcome whose hops have `splitter_s`: how long the packets that crossed them waited before
    at a splitter, all together, where the scenario has that recorded.

    Octets wait alike long, by Little's law: what waits, over the time of the run, by the octets
    that came. What crossed the hop is its packets by that mean. Acknowledgements are each half's
    own, and of a flow that is not split nothing waits.
    """
    split = {
        n["name"] for n in outcome.get("nodes") or [] if (n.get("split") or {}).get("accepted")
    }
    if not split:
        return outcome
    every, known = _all_flows(scenario), set(result.series_names())
    flows = {f["id"]: f for f in outcome["flows"]}
    end, hops = float(outcome["sim_seconds"]), []
    for hop in outcome.get("hops") or []:
        if (flow := flows.get(hop["flow"])) is None:
            continue
        node, back = hop["from"], bool(hop.get("reverse"))
        names = [f"flow.{flow['id']}.{node}.{w}" for w in (HALVES[2:] if back else HALVES[:2])]
        if node not in split or (flow.get("app") == "request") != back:
            hops.append({**hop, "splitter_s": 0.0})
        elif all(name in known for name in names):
            each = _wait([result.series(n) for n in names], float(flow.get("bytes") or 0), end)
            hops.append({**hop, "splitter_s": each * float(hop.get("packets") or 0)})
        else:
            hops.append({**hop, "splitter_s": 0.0} if node in every else dict(hop))
    return {**outcome, "hops": hops}


def _all_flows(scenario: Mapping[str, Any]) -> set[str]:
    """The splitters at which what waits is recorded, of all flows."""
    series = (scenario.get("record") or {}).get("series")
    named = set(series) if isinstance(series, list) else set()
    nodes = nodes_of(scenario)
    return {node for node in nodes if named >= {f"flow.*.{node}.{what}" for what in HALVES}}


def _wait(series: Sequence[bytes], octets: float, end: float) -> float:
    """Seconds that an octet waits on the mean, of which so many came out at the other end."""
    area = last = 0.0
    for raw in series:
        pairs: Floats = np.frombuffer(raw, dtype="<f8").reshape(-1, 2)
        if pairs.size:
            spans = np.diff(np.append(pairs[:, 0], max(end, float(pairs[-1, 0]))))
            area += float((pairs[:, 1] * spans).sum())
            last += float(pairs[-1, 1])
    return area / (octets + last) if octets + last else 0.0


def waits(outcome: Outcome) -> dict[tuple[int, str], float]:
    """Seconds that a packet waits on the mean, by flow and splitter."""
    found: dict[tuple[int, str], float] = {}
    for hop in outcome.get("hops") or []:
        if (hop.get("splitter_s") or 0.0) > 0 and hop.get("packets"):
            found[int(hop["flow"]), str(hop["from"])] = hop["splitter_s"] / hop["packets"]
    return found


def words(outcome: Outcome, scenario: Mapping[str, Any]) -> str:
    """What is told of a run beside why its attempts failed: where data waits for a slower half,
    which is longer there than on all of the way.
    """
    said = []
    for (flow, node), wait in waits(outcome).items():
        if wait < _on_hops(outcome, flow):
            continue
        told = (
            f"Data of flow {flow} waited {wait:.3g} s on the mean at {node}, which splits TCP: "
            "the half behind it is the slower one"
        )
        said.append(told + (PACED if _paced(scenario, flow, node) else "") + ".")
    return "".join(f" {told}" for told in said)


def _on_hops(outcome: Outcome, flow: int) -> float:
    """Seconds that a packet takes over all hops of a flow's way, there."""
    own = [h for h in outcome["hops"] if h["flow"] == flow and not h.get("reverse")]
    parts = ("node_s", "queue_s", "contention_s", "retry_s", "air_s", "propagation_s")
    spans = (sum(h.get(p) or 0.0 for p in parts) / h["packets"] for h in own if h["packets"])
    return float(sum(spans))


PACED = (
    " (TCP-AP makes its interval of round trips, which over few hops are mostly the receiver's "
    "timer of acknowledgements where that acknowledges every second segment: `ack_every=1` at the "
    "flow's end tells how much of it that is)"
)


def _paced(scenario: Mapping[str, Any], flow: int, node: str) -> bool:
    """Whether the half behind a splitter is TCP-AP's as of 2011, whose receivers delay what they
    acknowledge.
    """
    flows = scenario.get("flow") or []
    own = str(flows[flow - 1].get("protocol", "")) if flow <= len(flows) else ""
    for rule in scenario.get("split") or []:
        if node in (rule.get("nodes") or []):
            own = str(rule.get("far") or rule.get("near") or own)
    return own.startswith("tcp-ap11")
