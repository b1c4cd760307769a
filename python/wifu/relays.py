"""Relays of real hosts: which pass a flow on, and which of them do not serve what it brings."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from wifu.errors import RunError
from wifu.flows import Flow, Scenario
from wifu.places import Place


def left_out(scenario: Scenario) -> list[str]:
    """Relays that are to serve nothing (`host.unserved`): their kernels pass packets on."""
    return list(scenario.get("host", {}).get("unserved", []))


def check(scenario: Scenario, flows: Sequence[Flow], hosts: Collection[str] | None = None) -> None:
    """ValueError if one of them is an end, whose daemon has to serve, or none of the `hosts`."""
    for at, name in enumerate(left_out(scenario)):
        where = f"host.unserved[{at}]"
        if hosts is not None and name not in hosts:
            raise ValueError(f"{where}: live.hosts has no {name}")
        for flow in flows:
            if name in (flow.source, flow.target):
                raise ValueError(
                    f"{where}: {name} is an end of flow {flow.id}: on sim only, for here its "
                    "daemon is what serves"
                )


def between(places: Mapping[str, Place], source: str, target: str) -> list[str]:
    """Hosts that pass on what one sends another, as their kernels route now, in order; those before
    the first that is none of ours, or has no route.
    """
    names = {place.address: name for name, place in places.items()}
    found: list[str] = []
    here = source
    while True:
        try:
            words = ("ip", "-j", "route", "get", places[target].address)
            told = json.loads(places[here].run(*words))[0]
        except (RunError, ValueError, LookupError):
            return found
        via = names.get(told.get("gateway", ""))
        if via is None or via in (source, target, *found):
            return found
        found.append(via)
        here = via


def idle(places: Mapping[str, Place], flow: Flow, daemons: Mapping[str, Any]) -> list[str]:
    """Relays of a flow's routes, there and back, that served nothing: no daemon counted there, or
    one that passed nothing on.
    """
    there = between(places, flow.source, flow.target)
    back = between(places, flow.target, flow.source)
    both = dict.fromkeys([*there, *back])
    return [n for n in both if not daemons.get(n, {}).get("packets", {}).get("forwarded")]


def unpassed(flows: Sequence[Flow], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """What is to be said of flows that nothing came of, over relays that do not serve them: where
    nodes wait for what the next one says, as Hop's do, packets do not pass such a relay.
    """
    told = []
    for flow, row in zip(flows, rows, strict=True):
        if row.get("unserved") and not row.get("bytes"):
            at = ", ".join(row.get("unserved_at", [])) or "a node"
            verb = "do" if len(row.get("unserved_at", [])) > 1 else "does"
            name = flow.protocol.split(",")[0]
            told.append(
                f"flow {flow.id}: nothing was delivered, and {at} on its way {verb} not serve "
                f"{name}"
            )
    return told
