"""When senders of datagrams were done. A flow that lost one never has all that was sent, and is no
slower for the time for which its run went on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wifu import values
from wifu.errors import LabError

Outcome = Mapping[str, Any]


def known(outcome: Outcome, scenario: Mapping[str, Any]) -> dict[str, Any]:
    """An outcome whose flows of datagrams with an end of their own (`bytes`, `time`, `stop_at`) say
    until when they were there (`until_s`, seconds of the run), as far as that can be told.
    """
    specs = scenario.get("flow")
    if not isinstance(specs, list) or not outcome.get("flows"):
        return dict(outcome)
    flows = []
    for flow in outcome["flows"]:
        at = int(flow["id"]) - 1
        spec = specs[at] if at < len(specs) else {}
        until = _until(outcome, flow, spec) if flow.get("protocol") == "udp" else None
        flows.append(flow if until is None else {**flow, "until_s": until})
    return {**outcome, "flows": flows}


def _until(outcome: Outcome, flow: Mapping[str, Any], spec: Mapping[str, Any]) -> float | None:
    """When the last datagram had been sent or had arrived; none if the flow went on, or that is not
    known.
    """
    start, end = float(flow.get("start_s") or 0.0), outcome.get("sim_seconds")
    try:
        ends = [values.seconds(spec["stop_at"])] if "stop_at" in spec else []
        ends += [start + values.seconds(spec["time"])] if "time" in spec else []
        ends += [start + sent] if (sent := _sending(flow, spec)) is not None else []
    except LabError:  # of a scenario that no lab wrote
        return None
    if end is None or not ends or min(ends) >= float(end):
        return None
    return min(float(end), max(min(ends), float(flow.get("last_byte_s") or 0.0)))


def _sending(flow: Mapping[str, Any], spec: Mapping[str, Any]) -> float | None:
    """How long it took until the last of so many bytes was due, at the rate that is given."""
    size = flow.get("datagram") or _payload(spec)
    if not complete(flow, spec) or "rate" not in spec:
        return None
    octets = values.octets(spec["bytes"])
    # Datagrams leave in even gaps; the first at once, and the last one may be shorter.
    return (-(-octets // int(size)) - 1) * int(size) * 8.0 / values.rate(spec["rate"])


def _payload(spec: Mapping[str, Any]) -> int:
    return int(spec.get("size", 1500)) - 28  # headers of IP and UDP


def complete(flow: Mapping[str, Any], spec: Mapping[str, Any]) -> bool:
    """Whether a flow of so many bytes has sent all of them."""
    sent = flow.get("sent_bytes")
    return "bytes" in spec and bool(sent) and float(sent or 0) >= values.octets(spec["bytes"])
