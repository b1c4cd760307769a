"""The delays of datagrams while there was load.

A flow of datagrams may begin before the load, and go on after a file of which nobody knows when it
will be complete: percentiles of all its datagrams would be the lower, the sooner the load is over.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

Outcome = Mapping[str, Any]

OUTSIDE = 0.01
"""Such a share of a flow's time may be without load and its percentiles are taken as they are."""


def load_span(outcome: Outcome) -> tuple[float, float]:
    """When there was load: from the first start of a flow with connections to the last byte of any;
    nothing (inf, inf) if there is none.
    """
    if (known := outcome.get("load_span")) is not None:
        return float(known[0]), float(known[1])
    flows = [f for f in outcome["flows"] if f.get("protocol") != "udp" and f.get("bytes")]
    starts = [float(f.get("start_s") or 0.0) for f in flows]
    ends = [float(f.get("last_byte_s") or outcome["sim_seconds"]) for f in flows]
    return min(starts, default=np.inf), max(ends, default=np.inf)


def percentiles(raw: bytes, span: tuple[float, float]) -> dict[str, float]:
    """Percentiles of what left and arrived within a span, of a series `flow.N.delay`: pairs of when
    a datagram arrived and how long it was on its way. `samples` is how many they were.
    """
    rows = np.frombuffer(raw, dtype="<f8").reshape(-1, 2)
    # A nanosecond for what is rounded.
    left, arrived = rows[:, 0] - rows[:, 1] + 1e-9, rows[:, 0]
    inside = rows[(left >= span[0]) & (arrived <= span[1])][:, 1]
    if not inside.size:
        return {"samples": 0}
    shares = np.percentile(inside, (50, 95, 99))
    named = dict(zip(("p50_s", "p95_s", "p99_s"), map(float, shares), strict=True))
    return {**named, "samples": int(inside.size)}


def idle_load(outcome: Outcome) -> float:
    """From when on there was to be load that delivered nothing; inf if some did, or there was to be
    none.
    """
    if (known := outcome.get("idle_load")) is not None:
        return float(known)
    flows = [f for f in outcome["flows"] if f.get("protocol") != "udp"]
    if any(f.get("bytes") for f in flows):
        return float("inf")
    return min((float(f.get("start_s") or 0.0) for f in flows), default=float("inf"))


def lasted(flow: Mapping[str, Any], since: float) -> bool:
    """Whether a flow of datagrams went on after a moment."""
    return float(flow.get("until_s") or flow.get("last_byte_s") or np.inf) > since


def lost(outcome: Outcome, flow: Mapping[str, Any]) -> float | None:
    """How many of a flow's datagrams were lost under load, at the most: nobody writes down when one
    that is lost had left. None of a flow that met no load, or where it is not known how many did.
    """
    sent, known = flow.get("sent_bytes"), flow.get("under_load")
    if flow.get("protocol") != "udp" or not sent or known is None:
        return None
    span = load_span(outcome)
    if not (silent(outcome, flow, span) or met(flow, span, float(outcome["sim_seconds"]))):
        return None
    octets, samples = float(flow.get("bytes") or 0), (flow.get("one_way") or {}).get("samples")
    size = flow.get("datagram") or (octets / samples if octets and samples else None)
    if not size:
        return None
    inside = (flow.get("packets") or {}).get("inside") or 0
    return max(0.0, (float(sent) - octets) / float(size) - float(inside))


def met(flow: Mapping[str, Any], span: tuple[float, float], end: float) -> bool:
    """Whether a flow of datagrams was there while there was load; `end` is that of the run."""
    start, last = float(flow.get("start_s") or 0.0), float(flow.get("last_byte_s") or end)
    return start < span[1] and last > span[0]


def silent(outcome: Outcome, flow: Mapping[str, Any], span: tuple[float, float]) -> bool:
    """Whether a flow sent datagrams under load, for longer than a moment, and none arrived."""
    if flow.get("protocol") != "udp":
        return False
    start, last = float(flow.get("start_s") or 0.0), flow.get("last_byte_s")
    until = float(flow.get("until_s") or last or outcome["sim_seconds"])
    inside = min(until, span[1]) - max(start, span[0])
    if not inside > OUTSIDE * (until - start):
        return False
    known = flow.get("under_load")
    return not flow.get("bytes") or (known is not None and not known["samples"])


def under_load(outcome: Outcome, flow: Mapping[str, Any]) -> Mapping[str, float] | None:
    """Percentiles of the delays of a flow's datagrams under load; none if it met none. Empty where
    they are not known: nothing arrived under load, or it was there without load as well, and
    nobody wrote down each delay.
    """
    span = load_span(outcome)
    if silent(outcome, flow, span):
        return {}
    if not met(flow, span, float(outcome["sim_seconds"])):
        return None
    if (known := flow.get("under_load")) is not None:
        return dict(known) if known["samples"] else None
    start = float(flow.get("start_s") or 0.0)
    last = float(flow.get("last_byte_s") or outcome["sim_seconds"])
    outside = max(0.0, span[0] - start) + max(0.0, last - span[1])
    whole: Mapping[str, float] = flow["one_way"]
    return whole if outside <= OUTSIDE * (last - start) else {}


def added(outcome: Outcome, _rates: object) -> float:
    """How much later 95 % of the datagrams are under load than half of them without, on the mean of
    the flows of datagrams under load: each against those between the same two nodes that are over
    before. Nan if one has none, as a longer path is no load.
    """
    begin, end = load_span(outcome)
    told = [f for f in outcome["flows"] if f.get("one_way") or silent(outcome, f, (begin, end))]
    idle: dict[Any, list[float]] = {}
    load: list[float] = []
    for flow in told:
        if flow.get("one_way") and (flow.get("last_byte_s") or end) <= begin:
            idle.setdefault(_ends(flow), []).append(flow["one_way"]["p50_s"])
    for flow in told:
        if (under := under_load(outcome, flow)) is not None:
            before = idle.get(_ends(flow))
            without = float(np.mean(before)) if before else np.nan
            load.append(under.get("p95_s", np.nan) - without)
    return float(np.mean(load)) if load else float("nan")


def _ends(flow: Mapping[str, Any]) -> tuple[Any, Any]:
    return flow.get("from"), flow.get("to")


def begins(flow: Mapping[str, Any]) -> Any:
    """The node where a flow's data begins: of questions that are answered it is who answers."""
    return flow.get("to" if flow.get("app") == "request" else "from")


def crowded_out(outcome: Outcome, flow: Mapping[str, Any]) -> float | None:
    """How many of a flow's datagrams found the queue of their own node full while a transport there
    waited for room in it; none of a flow of no datagrams. No transport is to blame where all
    datagrams of that node are more than its links carried.
    """
    if flow.get("protocol") != "udp":
        return None
    at = flow.get("from")
    others = [f for f in outcome["flows"] if begins(f) == at and f.get("protocol") != "udp"]
    if not any((f.get("limited_s") or {}).get("queue") for f in others):
        return 0.0
    datagrams = {f["id"] for f in outcome["flows"] if f.get("protocol") == "udp"}
    hops = [h for h in outcome.get("hops") or [] if h["from"] == at]
    carried = sum(h["packets"] for h in hops)
    if sum(h["packets"] + _refused(h) for h in hops if h["flow"] in datagrams) > carried:
        return 0.0  # they do not fit into the link themselves
    return float(sum(_refused(h) for h in hops if h["flow"] == flow["id"]))


def _refused(hop: Mapping[str, Any]) -> int:
    """Packets that a full queue refused, without those that its discipline dropped."""
    return int(hop.get("queue_drops") or 0) - int(hop.get("early_drops") or 0)
