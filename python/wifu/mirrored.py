"""Whether a flow's packets come back the way that others went."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

USED = 0.1
"""Such a share of what the busiest link of a flow carried one way, and a link is of its way."""


def other_way_back(outcome: Mapping[str, Any], flow: Mapping[str, Any]) -> bool | None:
    """Whether links that carry a flow's packets back are others than those that they go by; none
    where nothing went or came back, and where nobody counts it.
    """
    hops = [h for h in outcome.get("hops") or [] if h.get("flow") == flow["id"]]
    there, back = ([h for h in hops if bool(h.get("reverse")) is way] for way in (False, True))
    if not there or not back:
        return None
    ways = []
    for own in (there, back):
        busiest = max(float(h.get("packets") or 0) for h in own)
        used = [h for h in own if busiest and float(h.get("packets") or 0) >= USED * busiest]
        ways.append({frozenset((h["from"], h["to"])) for h in used})
    return ways[0] != ways[1] if all(ways) else None
