"""Queues of radios that are varied where something else holds what waits.

A packet waits in a radio's queue only when the driver's ring behind it is full. By default a ring
holds 200: shorter queues are of little account there, and of none where a window fits into it.
"""

from __future__ import annotations

import json
from functools import lru_cache

from wifu.cells import Cell
from wifu.plan import Plan
from wifu.runner import split


def warnings(plan: Plan) -> list[str]:
    """What is to be said of a plan whose cells have other queues."""
    if plan.runner != "mesh":
        return []
    asked: list[str] = []
    for cell in plan.cells:
        asked.append(_about(cell))
    if not any("queue" in about for about in asked):
        return []
    asked = list(dict.fromkeys(asked))
    by_ring: dict[int, set[int]] = {}
    said: set[int] = set()
    radios = False
    for about in asked:
        for queue, ring in (pairs := _buffers(about)) or ():
            by_ring.setdefault(ring, set()).add(queue)
        radios |= pairs is None or bool(pairs)  # what is wrong is told where it is checked
        given = json.loads(about).get("radio", {}).get("queue")
        said |= {given} if type(given) is int else set()
    if not radios and said:
        return [
            "radio.queue changes nothing here, where no node has a radio: wires have their own."
        ]
    return [
        _words(min(queues), max(queues), ring)
        for ring, queues in by_ring.items()
        if len(queues) > 1 and ring >= min(queues)
    ]


def buffers(cell: Cell) -> tuple[tuple[int, int], ...]:
    """The queues of the radios of a cell, with the rings behind them."""
    return _buffers(_about(cell)) or ()


def _about(cell: Cell) -> str:
    """What says of a cell which queues there are."""
    scenario, _ = split(cell.scenario)
    own = {key: scenario[key] for key in ("topology", "radio", "host") if key in scenario}
    return json.dumps(own, sort_keys=True, default=str)


def _words(least: int, most: int, ring: int) -> str:
    return (
        f"Queues of radios are {least} to {most} packets long here, in front of a driver's ring "
        f"that holds {ring}: {least + ring} to {most + ring} packets wait before one is lost. What "
        "fits into the ring meets no queue, and is the same whatever that is: radio.ring = 2 "
        "leaves the work to radio.queue."
    )


@lru_cache(maxsize=4096)
def _buffers(about: str) -> tuple[tuple[int, int], ...] | None:
    """The queues of the radios of a scenario, with the rings behind them; none if it is wrong."""
    from wifu import _native

    flow = {"from": "n1", "to": "n2", "protocol": "udp"}
    try:
        told = json.loads(_native.buffers(json.dumps({**json.loads(about), "flow": [flow]})))
    except ValueError:
        return None
    return tuple((each["queue"], each["ring"]) for each in told)
