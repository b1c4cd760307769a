"""Requests that the end of a run cut off, of which an outcome lists only those that ended."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

ASKING = ("http", "request")
"""Applications whose delays are of requests, one after the other."""

PAUSES = 3.0
"""So many of the longest pauses that a flow made, and it makes none any more."""


def under_way(
    outcome: Mapping[str, Any], flow: Mapping[str, Any], scenario: Mapping[str, Any]
) -> tuple[int, int]:
    """How many requests of a flow were under way when the run ended (0 or 1), and how many of these
    had taken longer by then than its others on the mean: their delays would make the mean greater.
    Those beyond `stop.requests` of the scenario count for nothing.
    """
    took, mean = _took(outcome, flow, scenario)
    return int(took is not None), int(took is not None and took > mean)


def late(
    outcome: Mapping[str, Any], flow: Mapping[str, Any], scenario: Mapping[str, Any]
) -> float | None:
    """How many seconds the request had taken at the least that was under way when the run ended,
    if that was longer than others of its flow on the mean.
    """
    took, mean = _took(outcome, flow, scenario)
    return took if took is not None and took > mean else None


def _took(
    outcome: Mapping[str, Any], flow: Mapping[str, Any], scenario: Mapping[str, Any]
) -> tuple[float | None, float]:
    """How long the request that was under way had taken, if one was, and the mean of the others."""
    if flow.get("app") not in ASKING or flow.get("finished"):
        return None, 0.0
    every = flow.get("requests") or []
    done = [r for r in every if r.get("delay_s") is not None]
    end, begin = float(outcome["sim_seconds"]), float(flow.get("start_s") or 0.0)
    wanted = scenario.get("stop", {}).get("requests")
    if end <= begin or (wanted is not None and len(done) >= wanted):
        return None, 0.0
    over = [float(r["start_s"]) + float(r["delay_s"]) for r in done]
    pauses = [float(b["start_s"]) - a for a, (_, b) in zip(over, pairwise(done), strict=False)]
    longest = max([0.0, *pauses])
    silent = end - (over[-1] if over else begin)
    if "under_way_s" in flow:  # by the simulator; others do not tell
        begun = flow["under_way_s"] is not None
        took = end - float(flow["under_way_s"]) if begun else 0.0
    elif len(every) > len(done):
        begun, took = True, end - float(every[-1]["start_s"])
    else:
        begun = _begun(flow, done, silent, longest, kept=_kept(flow, scenario))
        # When it began is not told: after a pause, so at the least so long ago.
        took = silent - longest
    mean = float(np.mean([r["delay_s"] for r in done])) if done else 0.0
    return (took if begun else None), mean


def octets(flow: Mapping[str, Any]) -> float | None:
    """The octets of the requests of a flow that ended, on the mean, if all of them tell; `bytes` of
    a flow are those of requests as well that it does not list: beyond `stop.requests`, or cut off.
    """
    done = [r for r in flow.get("requests") or [] if r.get("delay_s") is not None]
    told = [float(r["bytes"]) for r in done if r.get("bytes") is not None]
    return float(np.mean(told)) if told and len(told) == len(done) else None


def failed(flow: Mapping[str, Any]) -> int:
    """How many requests of a flow failed with their connection, and are not asked for again."""
    return len(flow.get("requests_failed") or [])


def _kept(flow: Mapping[str, Any], scenario: Mapping[str, Any]) -> bool:
    """Whether all files of a flow go over one connection."""
    flows = scenario.get("flow") or []
    spec = flows[int(flow["id"]) - 1] if int(flow.get("id", 0)) in range(1, len(flows) + 1) else {}
    return bool(spec.get("persistent"))


def _begun(
    flow: Mapping[str, Any], done: list[Any], silent: float, longest: float, *, kept: bool
) -> bool:
    """Whether a request was under way, and not a pause. `kept`: all are over one connection."""
    if flow["app"] == "http" and not kept and flow.get("connections") is not None:
        return int(flow["connections"]) > len(done)
    came = float(flow.get("bytes") or 0) - sum(float(r.get("bytes") or 0) for r in done)
    return came > 0 or silent > PAUSES * longest
