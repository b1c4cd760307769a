"""How long data waits at nodes that split TCP: in the receive buffer of one half, and in the send
buffer of the other until that sends it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wifu import values
from wifu.runner import RunResult
from wifu.values import Value

Outcome = Mapping[str, Any]
Floats = NDArray[np.float64]

HALVES = ("near.recv_q", "far.unsent", "far.recv_q", "near.unsent")
"""What waits there: of data towards who was meant, and of data towards who opened."""

INTERVAL = "10ms"
"""Between samples of what waits, where a scenario does not say it (`record.interval`)."""

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
    that came. What crossed the hop is its packets by that mean. Where data goes one way what comes
    back are acknowledgements, which are each half's own, and of a flow that is not split nothing
    waits.
    """
    split = {
        n["name"] for n in outcome.get("nodes") or [] if (n.get("split") or {}).get("accepted")
    }
    if not split:
        return outcome
    every, known = _all_flows(scenario), set(result.series_names())
    flows = {f["id"]: f for f in outcome["flows"]}
    interval, hops = _interval(scenario), []
    for hop in outcome.get("hops") or []:
        if (flow := flows.get(hop["flow"])) is None:
            continue
        node, back = hop["from"], bool(hop.get("reverse"))
        names = [f"flow.{flow['id']}.{node}.{w}" for w in (HALVES[2:] if back else HALVES[:2])]
        if node not in split or (back and flow.get("app") != "request"):
            hops.append({**hop, "splitter_s": 0.0})
        elif not all(name in known for name in names):
            hops.append({**hop, "splitter_s": 0.0} if node in every else dict(hop))
        elif (octets := _octets(flow, back)) is None:
            hops.append(dict(hop))
        else:
            area, last = _held([result.series(n) for n in names], interval)
            # Questions are counted where they leave, so what still waits is among them.
            came = octets if flow.get("app") == "request" and not back else octets + last
            each = area / came if came else 0.0
            hops.append({**hop, "splitter_s": each * float(hop.get("packets") or 0)})
    return {**outcome, "hops": hops}


def _octets(flow: Mapping[str, Any], back: bool) -> float | None:
    """Octets of a flow that left one way, if these are questions, or that arrived; none where
    nobody counted them.
    """
    if flow.get("app") == "request" and not back:
        asked = flow.get("asked")
        return None if asked is None else float(asked["bytes"])
    return float(flow.get("bytes") or 0)


def _interval(scenario: Mapping[str, Any]) -> float:
    """Seconds between two samples of a connection."""
    return values.seconds((scenario.get("record") or {}).get("interval", INTERVAL))


def _all_flows(scenario: Mapping[str, Any]) -> set[str]:
    """The splitters at which what waits is recorded, of all flows."""
    series = (scenario.get("record") or {}).get("series")
    named = set(series) if isinstance(series, list) else set()
    nodes = nodes_of(scenario)
    return {node for node in nodes if named >= {f"flow.*.{node}.{what}" for what in HALVES}}


def _held(series: Sequence[bytes], interval: float) -> tuple[float, float]:
    """Octets that waited, by how many seconds each did, and those that did at the end.

    A sample is of an interval and no more: a half is looked at while it is there, and where it
    failed, or its connection was the last, nothing waits any more, however long the run.
    """
    area = last = 0.0
    for raw in series:
        pairs: Floats = np.frombuffer(raw, dtype="<f8").reshape(-1, 2)
        if pairs.size:
            spans = np.append(np.diff(pairs[:, 0]).clip(max=interval), interval)
            area += float((pairs[:, 1] * spans).sum())
            last += float(pairs[-1, 1])
    return area, last


def waits(outcome: Outcome) -> dict[tuple[int, str, bool], float]:
    """Seconds that a packet waits on the mean, by flow, splitter, and whether it comes back."""
    found: dict[tuple[int, str, bool], float] = {}
    for hop in outcome.get("hops") or []:
        if (hop.get("splitter_s") or 0.0) > 0 and hop.get("packets"):
            key = int(hop["flow"]), str(hop["from"]), bool(hop.get("reverse"))
            found[key] = hop["splitter_s"] / hop["packets"]
    return found


def words(outcome: Outcome, scenario: Mapping[str, Any]) -> str:
    """What is told of a run beside why its attempts failed: where data waits for a slower half,
    which is longer there than on all of the way.
    """
    said = []
    asking = {f["id"] for f in outcome.get("flows") or [] if f.get("app") == "request"}
    for (flow, node, back), wait in waits(outcome).items():
        if wait < _on_hops(outcome, flow, back):
            continue
        what = ("Answers" if back else "Questions") if flow in asking else "Data"
        told = (
            f"{what} of flow {flow} waited {wait:.3g} s on the mean at {node}, which splits TCP: "
            "the half behind it is the slower one"
        )
        said.append(told + (PACED if _paced(scenario, flow, node, back) else "") + ".")
    return "".join(f" {told}" for told in said)


def _on_hops(outcome: Outcome, flow: int, back: bool) -> float:
    """Seconds that a packet takes over all hops of a flow's way, there or back."""
    every = (h for h in outcome["hops"] if h["flow"] == flow and h["packets"])
    own = [h for h in every if bool(h.get("reverse")) == back]
    parts = ("node_s", "queue_s", "contention_s", "retry_s", "air_s", "propagation_s")
    return float(sum(sum(h.get(p) or 0.0 for p in parts) / h["packets"] for h in own))


PACED = (
    " (TCP-AP makes its interval of round trips, which over few hops are mostly the receiver's "
    "timer of acknowledgements where that acknowledges every second segment: `ack_every=1` at the "
    "flow's end tells how much of it that is)"
)


def _paced(scenario: Mapping[str, Any], flow: int, node: str, back: bool) -> bool:
    """Whether the half behind a splitter is TCP-AP's as of 2011, whose receivers delay what they
    acknowledge. Behind it is the near half for what comes back.
    """
    flows = scenario.get("flow") or []
    own = str(flows[flow - 1].get("protocol", "")) if flow <= len(flows) else ""
    for rule in scenario.get("split") or []:
        if node in (rule.get("nodes") or []):
            far = None if back else rule.get("far")
            own = str(far or rule.get("near") or own)
    return own.startswith("tcp-ap11")
