"""Queues of radios that are varied where something else holds what waits.

A packet waits in a radio's queue only when the driver's ring behind it is full. By default a ring
holds 200: shorter queues are of little account there, and of none where a window fits into it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wifu.network import network
from wifu.plan import Plan
from wifu.stacks import stacks
from wifu.stamps import first

SHORTEST = 8
"""Packets that an emulated driver's ring holds at the least, be the model's shorter."""

SAYING = ("topology", "radio", "host")
"""Tables of a scenario that say which queues there are."""

TIMED = ("atp", "tp-alpha")
"""Protocols that nodes tell how long packets wait for the driver, and all of `atp-*`."""


def warnings(plan: Plan) -> list[str]:
    """What is to be said of a plan whose cells have other queues."""
    if plan.runner != "mesh":
        return []
    return [*_measured(plan), *_queues(plan), *filter(None, [short(plan)])]


def short(plan: Plan) -> str:
    """That the rings of a plan are shorter than those of emulated drivers can be; else nothing."""
    if plan.substrate != "emu":
        return ""
    rings = {ring for cell in plan.cells for _, ring in buffers(cell.scenario)}
    below = sorted(ring for ring in rings if ring < SHORTEST)
    if not below:
        return ""
    return (
        f"An emulated driver's ring holds {SHORTEST // 2} to {SHORTEST} packets where the plan's "
        f"has {below[0]}"
        + (f" to {below[-1]}" if len(below) > 1 else "")
        + ": of short queues more packets wait there than simulated, and longer."
    )


def _measured(plan: Plan) -> list[str]:
    """Rings of several lengths below protocols that are paced by how long packets are in them."""
    found: dict[str, set[int]] = {}
    for cell in plan.cells:
        shortest = min((ring for _, ring in buffers(cell.scenario)), default=None)
        for each in stacks(plan.runner, cell):
            name = each.words.partition(",")[0] if each is not None else ""
            if shortest is not None and (name in TIMED or name.startswith("atp-")):
                found.setdefault(name, set()).add(shortest)
    apart = {name: lengths for name, lengths in found.items() if len(lengths) > 1}
    if not apart:
        return []
    least = min(min(lengths) for lengths in apart.values())
    most = max(max(lengths) for lengths in apart.values())
    return [
        f"{first(list(apart))} sends by the delay of nodes, which counts from the driver's ring "
        f"on: with rings of {least} to {most} packets it sees unlike parts of what waits, and "
        "differs by that, too."
    ]


def _queues(plan: Plan) -> list[str]:
    """Queues of several lengths in front of rings that hold what waits."""
    asked = [{k: c.scenario[k] for k in SAYING if k in c.scenario} for c in plan.cells]
    if not any("queue" in text or "'radio'" in text for text in map(str, asked)):
        return []
    by_ring: dict[int, set[int]] = {}
    said: set[str] = set()
    radios = False
    for about in asked:
        pairs = _buffers(about)
        for queue, ring in pairs or ():
            by_ring.setdefault(ring, set()).add(queue)
        radios |= pairs is None or bool(pairs)  # what is wrong is told where it is checked
        given = about.get("radio", {})
        said |= {f"radio.{key}" for key in given} if isinstance(given, dict) else set()
    if not radios and said:
        changes = "changes" if len(said) == 1 else "change"
        own = ": wires have their own" if said == {"radio.queue"} else ""
        return [f"{first(sorted(said))} {changes} nothing here, where no node has a radio{own}."]
    return [
        _words(min(queues), max(queues), ring)
        for ring, queues in by_ring.items()
        if len(queues) > 1 and ring >= min(queues)
    ]


def buffers(scenario: Mapping[str, Any]) -> tuple[tuple[int, int], ...]:
    """The queues of the radios of a scenario, with the rings behind them, each pair once."""
    return _buffers(scenario) or ()


def _buffers(scenario: Mapping[str, Any]) -> tuple[tuple[int, int], ...] | None:
    """The same; none if the scenario is wrong."""
    told = network(scenario)
    return (
        None
        if told is None
        else tuple(dict.fromkeys((node.queue, node.ring) for node in told.radios))
    )


def _words(least: int, most: int, ring: int) -> str:
    return (
        f"Queues of radios are {least} to {most} packets long here, in front of a driver's ring "
        f"that holds {ring}: {least + ring} to {most + ring} packets wait before one is lost. What "
        "fits into the ring meets no queue, and is the same whatever that is: radio.ring = 2 "
        "leaves the work to radio.queue."
    )
