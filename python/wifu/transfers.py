"""Which flows of a run are transfers, and how long they took, in seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def carriers(flows: Sequence[Mapping[str, Any]]) -> list[int]:
    """The places of the flows that goodput and times of a run are of: those over connections.
    Datagrams beside them are a load or probes, whose rate is what the scenario says; alone they
    are what is measured.
    """
    over = [n for n, flow in enumerate(flows) if flow.get("protocol") != "udp"]
    return over or list(range(len(flows)))


def download_delays(flow: Mapping[str, Any]) -> list[float]:
    """Delays of what a flow fetched: of each request, else of the whole transfer if it ended."""
    requests = flow.get("requests") or []
    if requests:
        return [float(r["delay_s"]) for r in requests if r.get("delay_s") is not None]
    if flow.get("finished") and flow.get("last_byte_s") is not None:
        return [float(flow["last_byte_s"]) - float(flow.get("start_s") or 0.0)]
    return []


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


def known(outcome: Mapping[str, Any], rates: Any) -> float:
    """The mean of these times over the transfers of a run."""
    flows = outcome["flows"]
    times = [t for n in carriers(flows) for t in known_times(flows[n])]
    return float(np.mean(times)) if times else float("nan")
