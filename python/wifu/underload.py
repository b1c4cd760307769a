"""The delays of datagrams while there was load.

A flow of datagrams may begin before the load, and go on after a file of which nobody knows when it
will be complete: percentiles of all its datagrams would be the lower, the sooner the load is over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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


def one_way(which: str) -> Callable[[Outcome, Any], float]:
    """Mean over the flows of datagrams that met load, of what was sent under it; without any load
    over all of them. What a flow alone has that met none is its own. Nan beside a load that
    delivered nothing: that is no delay under it.
    """

    def compute(outcome: Outcome, rates: Any) -> float:
        span = load_span(outcome)
        told = [f for f in outcome["flows"] if f.get("one_way") or silent(outcome, f, span)]
        load = [found for f in told if (found := under_load(outcome, f)) is not None]
        since = idle_load(outcome)
        # A load that was to start after the run's own end is none; one that the run did not wait
        # for was to be met.
        end = float(outcome["sim_seconds"])
        never = np.isfinite(since) and since >= end and outcome.get("end") == "done"
        alone = ({} if never or lasted(f, since) else f["one_way"] for f in told)
        known = [p.get(which, np.nan) for p in load or alone]
        return float(np.mean(known)) if known else float("nan")

    return compute
