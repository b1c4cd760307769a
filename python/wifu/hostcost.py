"""What packets cost their first and last hosts, if a testbed says so and the plan does not."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from wifu.cells import Cell
from wifu.metrics import parts
from wifu.plan import Plan
from wifu.rows import Results, alongside, flows_of
from wifu.runner import host_profile
from wifu.stacks import KERNEL
from wifu.stamps import first as named

SENT_MS, RECEIVED_MS = 1.2, 0.6
"""What a packet takes a host of the profile `py` (WiFu in Python), in milliseconds."""


MOST = 10
"""Cells that are named."""

FREE = "datagrams of `udp` and the kernel's TCP"
"""What costs such a host nothing."""


def _free(flow: Mapping[str, Any]) -> bool:
    """Whether a flow's packets cost its hosts nothing: a kernel takes the time that it takes."""
    protocol = str(flow.get("protocol"))
    return protocol == "udp" or protocol.startswith(KERNEL)


def note(plan: Plan) -> str:
    """That hosts take their time over packets by what the set says; nothing if they do not."""
    if plan.runner != "mesh":
        return ""
    slow: set[str] = set()
    for cell, cost in zip(plan.cells, _slow(plan, plan.cells), strict=True):
        if cost and "profile" not in cell.scenario.get("host", {}):
            slow.add(str(cell.scenario.get("topology", {}).get("set", "its topology")))
    if not slow:
        return ""
    free = any(_free(f) for c in plan.cells for _, f in flows_of(c))
    return (
        f"hosts take {SENT_MS:g} ms per packet sent and {RECEIVED_MS:g} ms per packet received, "
        f"one at a time (host.profile py, by {', '.join(sorted(slow))})"
        f'{f", {FREE} none" * free}; host.profile = "off" is without'
    )


def _slow(plan: Plan, cells: Sequence[Cell]) -> list[bool]:
    """Whether hosts take their time over the packets of each cell's protocols."""
    known: dict[str, str] = {}
    out = []
    for cell in cells:
        if plan.runner != "mesh" or all(_free(f) for _, f in flows_of(cell)):
            out.append(False)
            continue
        parts_of = [cell.scenario.get(key, {}) for key in ("topology", "host")]
        key = json.dumps(parts_of, sort_keys=True, default=str)
        if key not in known:
            known[key] = _profile(cell.scenario)
        out.append(known[key] == "py")
    return out


def exempt(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    """Whether flows that are compared are of protocols whose packets cost their hosts time in some
    cells, and datagrams or the kernel's TCP, which cost none, in others.
    """
    kinds: dict[int, set[bool]] = {}
    for cell in cells:
        for n, flow in flows_of(cell):
            if parts(metric)[1] in (None, n):
                kinds.setdefault(n, set()).add(_free(flow))
    return any(len(own) > 1 for own in kinds.values()) and any(_slow(results.plan, cells))


def words(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """The same in words."""
    if not any(exempt(results, group, metric) for group in alongside(results, cells)):
        return ""
    return (
        f"Hosts take {SENT_MS:g} ms per packet sent and {RECEIVED_MS:g} ms per packet received of "
        f"WiFu's protocols (host.profile py), and {FREE}, which stand beside them, none: "
        "what they differ in is the host's time, too. There is neither colour nor bold; "
        'host.profile = "off" compares them.'
    )


def elsewhere(first: Plan, other: Plan) -> str:
    """Cells whose hosts take their time over packets on one substrate alone, as a kernel's TCP
    there takes none of it.
    """
    sides = []
    for plan in (first, other):
        slow = zip(plan.cells, _slow(plan, plan.cells), strict=True)
        sides.append({str(dict(cell.labels)): (cell.name, cost) for cell, cost in slow})
    one, two = sides
    shared = [key for key in one if key in two]
    for here, there, plan in ((one, two, first), (two, one, other)):
        apart = [here[key][0] for key in shared if here[key][1] and not there[key][1]]
        if apart:
            return (
                f"Hosts take {SENT_MS:g} ms per packet sent and {RECEIVED_MS:g} ms per packet "
                f"received (host.profile py) on {plan.substrate} alone in {named(apart, MOST)}: "
                'what differs there is the host\'s time. host.profile = "off" is without'
            )
    return ""


def _profile(scenario: object) -> str:
    try:
        return host_profile(scenario)  # type: ignore[arg-type]
    except ValueError:
        return ""  # what is wrong with the scenario is told where it is checked
