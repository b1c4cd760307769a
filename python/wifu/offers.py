"""What the node of a flow of datagrams took of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def own_full(outcome: Mapping[str, Any], flow: Mapping[str, Any]) -> float | None:
    """How many of a flow's datagrams the full queue of the node where they begin refused; none of
    connections, and where it is not counted.
    """
    own = [
        h for h in outcome.get("hops") or []
        if h.get("flow") == flow["id"] and h["from"] == flow.get("from") and not h.get("reverse")
    ]  # fmt: skip
    if flow.get("protocol") != "udp" or any(h.get("queue_drops") is None for h in own):
        return None
    return float(sum(int(h["queue_drops"]) - int(h.get("early_drops") or 0) for h in own))
