"""What packets cost their first and last hosts, if a testbed says so and the plan does not."""

from __future__ import annotations

import json

from wifu.plan import Plan
from wifu.runner import host_profile

SENT_MS, RECEIVED_MS = 1.2, 0.6
"""What a packet takes a host of the profile `py` (WiFu in Python), in milliseconds."""


def note(plan: Plan) -> str:
    """That hosts take their time over packets by what the set says; nothing if they do not."""
    if plan.runner != "mesh":
        return ""
    sets: dict[str, str] = {}
    slow: set[str] = set()
    for cell in plan.cells:
        host, topology = (cell.scenario.get(key, {}) for key in ("host", "topology"))
        flows = [f for f in cell.scenario.get("flow", []) if f.get("protocol") != "udp"]
        if not flows or "profile" in host:
            continue
        key = json.dumps([topology, host], sort_keys=True, default=str)
        if key not in sets:
            sets[key] = _profile(cell.scenario)
        if sets[key] == "py":
            slow.add(str(topology.get("set", "its topology")))
    if not slow:
        return ""
    return (
        f"hosts take {SENT_MS:g} ms per packet sent and {RECEIVED_MS:g} ms per packet received, "
        f'one at a time (host.profile py, by {", ".join(sorted(slow))}); host.profile = "off" is '
        "without"
    )


def _profile(scenario: object) -> str:
    try:
        return host_profile(scenario)  # type: ignore[arg-type]
    except ValueError:
        return ""  # what is wrong with the scenario is told where it is checked
