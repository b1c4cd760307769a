"""Which flows of a run are transfers, and how long they took, in seconds."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from wifu import values
from wifu.asked import ASKING
from wifu.errors import LabError


def carriers(flows: Sequence[Mapping[str, Any]]) -> list[int]:
    """The places of the flows that goodput and times of a run are of: those over connections.
    Datagrams beside them are a load or probes, whose rate is what the scenario says; alone they
    are what is measured.
    """
    over = [n for n, flow in enumerate(flows) if flow.get("protocol") != "udp"]
    return over or list(range(len(flows)))


SIZED = ("file", "trace", *ASKING)
"""Applications of which the scenario tells how much they send."""


ASKED: Mapping[str, Any] = {"request": 200, "response": "30k"}
"""Octets of a question and of its answer, of which a scenario says nothing."""

FILES: Mapping[str, Any] = {"scale": "10k", "cap": "10M"}
"""Octets of the smallest and of the largest file of `http`, likewise."""


def sized(flows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Of these flows those that end with their bytes, if there are any: how long others take, which
    end by the clock, the scenario says and not the network.
    """
    return [flow for flow in flows if flow.get("app") in SIZED] or list(flows)


def size(flow: Mapping[str, Any]) -> float:
    """Octets of each transfer of a flow as a scenario tells them, of files that are drawn on the
    mean; 0 where it does not.
    """
    app = flow.get("app")
    try:
        if app == "trace":
            return float(sum(values.octets(octets) for _, octets in flow["rows"]))
        if app == "request":
            return max(values.octets(flow.get(key, usual)) for key, usual in ASKED.items())
        if app == "http":
            return _drawn(flow)
        return values.octets(flow.get("bytes", 0))
    except (LabError, KeyError, TypeError, ValueError):
        return 0.0  # what is wrong is told where it is checked


def _drawn(flow: Mapping[str, Any]) -> float:
    """The mean of a Pareto distribution of which what is above its cap is as long as that."""
    shape = float(flow.get("shape", 1.5))
    scale, cap = (values.octets(flow.get(key, usual)) for key, usual in FILES.items())
    if not 0 < scale < cap or shape <= 0:
        return min(scale, cap)
    if shape == 1.0:
        return scale * (1.0 + math.log(cap / scale))
    return float(scale + scale * (1.0 - (scale / cap) ** (shape - 1.0)) / (shape - 1.0))


def download_delays(flow: Mapping[str, Any]) -> list[float]:
    """Delays of what a flow fetched: of each request, else of the whole transfer if it ended."""
    requests = flow.get("requests") or []
    if requests:
        return [float(r["delay_s"]) for r in requests if r.get("delay_s") is not None]
    if flow.get("finished") and flow.get("last_byte_s") is not None:
        return [float(flow["last_byte_s"]) - float(flow.get("start_s") or 0.0)]
    return []


def downloads(delays: Sequence[float]) -> dict[str, float | None]:
    """What `results.parquet` has of what a flow fetched."""
    of: dict[str, Callable[[Sequence[float]], Any]] = {
        "delay": np.mean, "delay_median": np.median,
        "delay_p95": percentile(95), "delay_p99": percentile(99),
    }  # fmt: skip
    return {f"{n}_finished_s": float(made(delays)) if delays else None for n, made in of.items()}


def known_times(flow: Mapping[str, Any]) -> list[float]:
    """How long a flow that is one transfer took until its sender knew that all had arrived; where
    that is not told, until it had.
    """
    known_s = flow.get("known_s", flow.get("last_byte_s"))
    if not flow.get("finished") or known_s is None:
        return []
    return [float(known_s) - float(flow.get("start_s") or 0.0)]


def unlearned(flow: Mapping[str, Any]) -> bool:
    """Whether all of a flow arrived and its sender never knew, where that is told."""
    return bool(flow.get("finished")) and flow.get("known_s", 0.0) is None


def split_nodes(outcome: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The nodes of a run that split a connection, as its outcome has them."""
    nodes = outcome.get("nodes") or []
    return [node for node in nodes if (node.get("split") or {}).get("accepted")]


def splitters(outcome: Mapping[str, Any]) -> list[str]:
    """What they are called."""
    return [str(node["name"]) for node in split_nodes(outcome)]


def split(outcome: Mapping[str, Any]) -> set[int]:
    """The numbers of the flows over TCP that pass a node that splits connections, and do not begin
    or end there; where nobody tells their ways those of all of them.
    """
    if not (nodes := set(splitters(outcome))):
        return set()
    passed: dict[int, set[str]] = {}
    for hop in outcome.get("hops") or []:
        if hop.get("flow") is None:  # it is not told whose it is
            continue
        passed.setdefault(int(hop["flow"]), set()).update((str(hop["from"]), str(hop["to"])))
    return {
        int(flow["id"])
        for flow in outcome["flows"]
        if of_tcp(str(flow.get("protocol")))
        and (passed.get(int(flow["id"]), nodes) - {flow.get("from"), flow.get("to")}) & nodes
    }


@lru_cache(maxsize=4096)
def of_tcp(protocol: str, compositions: tuple[str, ...] = ()) -> bool:
    """Whether a protocol sends TCP's segments, as nodes split them alone; one of which nobody here
    knows may.
    """
    from wifu import _native

    if protocol == "udp":
        return False
    try:
        told = _native.describe(protocol, list(compositions))
        return bool(json.loads(told)["wire"] == "tcp")
    except ValueError:
        return True


def learned(outcome: Mapping[str, Any], flow: Mapping[str, Any]) -> bool:
    """Whether a flow is one transfer of which its sender is told when all has arrived: no request
    after the other, and no node on its way that answers for the destination.
    """
    return flow.get("app") not in ASKING and int(flow["id"]) not in split(outcome)


def columns(outcome: Mapping[str, Any], flow: Mapping[str, Any]) -> dict[str, bool]:
    """What `results.parquet` has of it."""
    halved = int(flow["id"]) in split(outcome)
    return {"unlearned": unlearned(flow) and not halved, "split": halved}


def known(outcome: Mapping[str, Any], rates: Any) -> float:
    """The mean of these times over the transfers of a run, of those that have one."""
    own = [outcome["flows"][n] for n in carriers(outcome["flows"])]
    own = sized([flow for flow in own if learned(outcome, flow)])
    times = [t for flow in own for t in known_times(flow)]
    return float(np.mean(times)) if times else float("nan")


def opening(outcome: Mapping[str, Any], flow: Mapping[str, Any]) -> float | None:
    """How long a flow's connection took to open; none if it did not within its run, of datagrams,
    and of flows that ask again and again, which may open several.
    """
    at, end = flow.get("connected_s"), outcome.get("sim_seconds")
    if at is None or flow.get("protocol") == "udp" or flow.get("app") in ASKING:
        return None
    if end is not None and at > end:  # on hosts, where runs end by the clock
        return None
    return max(0.0, float(at) - float(flow.get("start_s") or 0.0))


def connecting(outcome: Mapping[str, Any], rates: Any) -> float:
    """The mean of these times over the flows of a run that have one."""
    every = [opening(outcome, flow) for flow in outcome["flows"]]
    times = [took for took in every if took is not None]
    return float(np.mean(times)) if times else float("nan")


def percentile(share: int) -> Callable[[Sequence[float]], Any]:
    """What is above so many percent of some times."""
    return lambda times: np.percentile(times, share)


def delay(statistic: Callable[[list[float]], Any]) -> Callable[[Mapping[str, Any], Any], float]:
    """A statistic of what the transfers of a run took, requests each by itself."""

    def compute(outcome: Mapping[str, Any], rates: Any) -> float:
        flows = outcome["flows"]
        own = sized([flows[n] for n in carriers(flows)])
        delays = [d for flow in own for d in download_delays(flow)]
        return float(statistic(delays)) if delays else float("nan")

    return compute
